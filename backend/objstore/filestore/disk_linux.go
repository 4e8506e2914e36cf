package filestore

import "syscall"

// remote are file systems whose files are somebody else's, by their numbers in
// statfs(2).
var remote = map[uint32]string{
	0x6969: "NFS", 0xff534d42: "CIFS", 0xfe534d42: "SMB", 0x517b: "SMB", 0x01021997: "9P",
	0x65735546: "FUSE", 0x00c36400: "Ceph", 0x5346414f: "AFS", 0x0bd00bd0: "Lustre", 0x47504653: "GPFS",
}

// diskOf is how many bytes a user may still write below dir, and the kind of the
// file system if that is not a local one.
func diskOf(dir string) (free int64, kind string, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, "", err
	}
	return int64(st.Bavail) * int64(st.Bsize), remote[uint32(st.Type)], nil //nolint:unconvert // other types on other machines
}
