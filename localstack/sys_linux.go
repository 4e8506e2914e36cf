package localstack

import "syscall"

// tryXattr reports whether a directory can have extended attributes.
func tryXattr(dir string) error { return syscall.Setxattr(dir, "user.s3log", []byte("1"), 0) }
