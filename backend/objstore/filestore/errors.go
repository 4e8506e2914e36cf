package filestore

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/s3log/s3log/backend/objstore"
)

// storeError makes the error of a call from that of the operating system. What
// no rule here knows is of the class otherwise: that is for the caller to say,
// who knows whether anything can have been written by then.
func storeError(op, key string, err, otherwise error) error {
	e := &objstore.Error{Op: op, Key: key, Class: otherwise, Err: err}
	switch {
	case err == nil:
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Class = objstore.ErrUndecided
	case errors.Is(err, syscall.EROFS):
		e.Class, e.Hint = objstore.ErrDenied, "the file system is mounted read-only; reading works"
	case errors.Is(err, fs.ErrPermission):
		e.Class, e.Hint = objstore.ErrDenied, "check the owner and the permissions of the store's directory and of what is in it"
	case errors.Is(err, errRemoved):
		e.Class, e.Hint = objstore.ErrRefused, "somebody has removed it, or something above it, while it was in use: put it back and open the store anew"
	case errors.Is(err, errors.ErrUnsupported):
		e.Class, e.Hint = objstore.ErrUnsupported, "the file system cannot lock files; use a local one"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Class, e.Hint = objstore.ErrRejected, "the disk or the quota is full; nothing was changed: free some space and do it again"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		e.Hint = "too many files are open; raise the limit (ulimit -n), or open less at a time"
	case errors.Is(err, syscall.EXDEV):
		e.Class, e.Hint = objstore.ErrRefused, "a directory of the store is on another file system than "+private
	case errors.Is(err, syscall.ENAMETOOLONG):
		e.Class = objstore.ErrRejected
	case op == "Put" || op == "Copy" || op == "Delete":
		if errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist) {
			e.Class, e.Hint = objstore.ErrRejected, "a file of the store is where the key needs a directory, or the other way round"
		}
	case absent(err):
		e.Class, e.Err = objstore.ErrNotExist, nil
	}
	return e
}

// absent reports whether err says that a file is not there.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
