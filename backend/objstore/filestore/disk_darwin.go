package filestore

import "syscall"

// mntLocal is MNT_LOCAL of mount(2).
const mntLocal = 0x1000

// diskOf is how many bytes a user may still write below dir, and the kind of the
// file system if that is not a local one.
func diskOf(dir string) (free int64, kind string, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, "", err
	}
	if st.Flags&mntLocal == 0 {
		kind = "not a local one"
	}
	return int64(st.Bavail) * int64(st.Bsize), kind, nil
}
