package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/backend/objstore/s3store"
)

// storeVariable names the environment's store.
const storeVariable = "S3LOG_STORE"

// location is where a store is: in a directory, or else on S3.
type location struct {
	dir      string
	s3       s3store.Config
	embedded bool // nobody named it
}

// locate finds the store by flag, environment or default.
func (g *globals) locate() (location, error) {
	text := g.store
	if text == "" {
		text = g.getenv(storeVariable)
	}
	if text != "" {
		return parseLocation(text)
	}
	dir, err := dataDir(runtime.GOOS, g.getenv)
	return location{dir: dir, embedded: true}, err
}

// parseLocation reads a store URL, or the path of a directory. A path must look
// like one, so that the name of a bucket is never taken for a directory.
func parseLocation(text string) (location, error) {
	scheme, _, isURL := strings.Cut(text, "://")
	switch {
	case isURL && scheme == "s3":
		c, err := s3store.ParseURL(text)
		if err != nil {
			return location{}, usagef("%w", err)
		}
		return location{s3: c}, nil
	case isURL && scheme == "file":
		dir, err := filePath(text)
		return location{dir: dir}, err
	case isURL:
		return location{}, withHint(usagef("store %q: unknown kind of URL", text), "stores are s3://bucket/prefix, file:///dir, ./dir or /dir")
	case looksLikePath(text):
		return location{dir: filepath.Clean(text)}, nil
	}
	if strings.HasPrefix(text, "~") {
		return location{}, withHint(usagef("store %q: a shell replaces ~ only where a word begins with it", text), "write $HOME, or --store ~/dir with a space")
	}
	return location{}, withHint(usagef("store %q is neither a URL nor a path", text),
		fmt.Sprintf("write s3://%s for a bucket, or ./%s for a directory", text, text))
}

func looksLikePath(text string) bool {
	if text == "." || text == ".." || filepath.IsAbs(text) {
		return true
	}
	for _, start := range []string{"/", "./", "../", `.\`, `..\`} {
		if strings.HasPrefix(text, start) && (start[len(start)-1] == '/' || runtime.GOOS == "windows") {
			return true
		}
	}
	return false
}

// filePath is the directory of a file URL.
func filePath(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", usagef("store URL: %w", err)
	case u.Host != "" && u.Host != "localhost":
		return "", withHint(usagef("store %q: %q is taken for a host", text, u.Host), "an absolute path follows three slashes: file:///dir")
	case u.RawQuery != "" || u.Fragment != "":
		return "", withHint(usagef("store %q: a directory has no parameters", text), "write ? as %3F and # as %23")
	case u.Path == "":
		return "", usagef("store %q names no directory", text)
	}
	path := u.Path
	if runtime.GOOS == "windows" {
		path = strings.TrimPrefix(path, "/") // file:///C:/dir
	}
	return filepath.Clean(filepath.FromSlash(path)), nil
}

// dataDir is where the embedded store of a user is.
func dataDir(goos string, getenv func(string) string) (string, error) {
	const name = "s3log"
	home := getenv("HOME")
	switch goos {
	case "windows":
		if dir := getenv("LocalAppData"); dir != "" {
			return filepath.Join(dir, name), nil
		}
	case "darwin":
		if home != "" {
			return filepath.Join(home, "Library", "Application Support", name), nil
		}
	default:
		// The specification of the variable: what is not absolute is ignored.
		if dir := getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
			return filepath.Join(dir, name), nil
		}
		if home != "" {
			return filepath.Join(home, ".local", "share", name), nil
		}
	}
	return "", withHint(usagef("no store is named, and this user has no home directory for the embedded one"), "name one with --store or S3LOG_STORE")
}

// String is the store as it can be given to --store again, without credentials.
func (l location) String() string {
	if l.dir != "" {
		return filestore.URL(l.dir)
	}
	return l.s3.String()
}

// noStore is a directory that is not there. It has no logs, either.
type noStore struct{ error }

func (noStore) Is(target error) bool { return target == backend.ErrNotFound }

// noDirectory says that the directory of a store is not there, by its whole path:
// a relative one depends on where the command runs.
func noDirectory(at location) error {
	dir := at.dir
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	err := noStore{fmt.Errorf("there is no store: the directory %s does not exist", quote(dir))}
	return withHint(err, "`s3logctl import` and `s3logctl append --create` begin a store there; --store names another one")
}

// openS3 opens a bucket. What goes wrong by then is a matter of the configuration.
func openS3(ctx context.Context, c s3store.Config) (objstore.Store, error) {
	store, err := s3store.Open(ctx, c)
	switch {
	case errors.Is(err, s3store.ErrNoRegion):
		return nil, withHint(fmt.Errorf("bucket %s: %w", quote(c.Bucket), s3store.ErrNoRegion),
			"put region=… into the store's URL, or set AWS_REGION or a profile that has one; for a server that is not AWS, endpoint=…")
	case err != nil:
		return nil, reworded{err, strings.TrimPrefix(err.Error(), "s3store: ")}
	}
	return store, nil
}

// reworded is an error with a text of its own.
type reworded struct {
	error
	text string
}

func (r reworded) Error() string { return r.text }
func (r reworded) Unwrap() error { return r.error }

// openStore opens the store at a place. Only S3 loads an AWS configuration.
func openStore(ctx context.Context, at location, use use) (objstore.Store, error) {
	if at.dir == "" {
		return openS3(ctx, at.s3)
	}
	info, err := os.Stat(at.dir)
	switch {
	case err == nil && !info.IsDir():
		return nil, fmt.Errorf("a store is a directory, and %s is none", quote(at.dir))
	case use != useCreate && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)):
		return nil, noDirectory(at)
	}
	return filestore.Open(at.dir, filestore.Options{ReadOnly: use == useRead})
}
