package filestore

import "golang.org/x/sys/windows"

// diskOf is how many bytes a user may still write below dir, and the kind of the
// file system if that is not a local one.
func diskOf(dir string) (free int64, kind string, err error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, "", err
	}
	var available uint64
	if err := windows.GetDiskFreeSpaceEx(path, &available, nil, nil); err != nil {
		return 0, "", err
	}
	return int64(available), "", nil
}
