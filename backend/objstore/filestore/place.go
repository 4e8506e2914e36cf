package filestore

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/check"
)

var _ check.Describer = (*Store)(nil)

// littleSpace is when a disk counts as nearly full.
const littleSpace = 100 << 20

// Describe implements check.Describer: the directory, the file system that it is
// on, and whether that does what the store needs. It writes below scope.Probe
// and .s3log/tmp alone.
func (s *Store) Describe(ctx context.Context, scope check.Scope) check.Description {
	desc := check.Description{
		Name: URL(s.root.Name()), Trusted: true, Markers: check.No, DeletesAsWrites: true,
		Nowhere: objstore.NewVersion(strings.Repeat("0", 64)),
	}
	desc.Findings = []check.Finding{
		s.describeDirectory(), s.describeDisk(),
		{Name: check.NameClock, Status: check.Skipped, Seen: "files have the time of this machine"},
		{Name: check.NameMetadata, Status: check.OK, Seen: "files have none; lists ask the manifests themselves"},
	}
	if scope.Write {
		desc.Findings = append(desc.Findings, s.describeSync(), s.describeCase(ctx, scope))
	}
	return desc
}

// URL is the file URL of a directory, also of one that is not there: absolute, and
// with escapes where the path has characters that mean something in a URL.
func URL(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	path := filepath.ToSlash(dir)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/dir
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

func (s *Store) describeDirectory() check.Finding {
	f := check.Finding{Name: "directory", Status: check.OK}
	info, err := s.root.Stat(".")
	if err != nil {
		f.Status, f.Seen, f.Err = check.Failed, err.Error(), err
		return f
	}
	f.Seen = info.Mode().String()
	if info.Mode().Perm()&0o007 != 0 {
		f.Seen += "; other users of this machine may look into it"
	}
	if _, err := s.root.Stat(private); err != nil {
		f.Seen += "; nothing was written yet"
	}
	return f
}

func (s *Store) describeDisk() check.Finding {
	f := check.Finding{Name: "disk", Status: check.OK}
	free, kind, err := diskOf(s.root.Name())
	if err != nil {
		f.Status, f.Seen = check.Unknown, err.Error()
		return f
	}
	f.Seen = fmt.Sprintf("%d MiB are free", free>>20)
	if free < littleSpace {
		f.Status, f.Means, f.Do = check.Warning, "an append that does not fit is refused, and changes nothing", "make room"
	}
	if kind != "" {
		f.Status = check.Warning
		f.Seen += "; the file system is " + kind
		f.Means = "locks and syncs may mean less there than on a local disk; two machines must not share a store"
		f.Do = "keep the store on a local file system, or use an S3 server"
	}
	return f
}

// describeSync writes a file and waits for it and for its directory.
func (s *Store) describeSync() check.Finding {
	f := check.Finding{Name: "sync", Status: check.OK}
	begin := time.Now()
	name, _, err := s.temp(func(file *os.File) error {
		_, err := file.WriteString("s3log store check\n")
		return err
	})
	if err == nil {
		err = s.root.Remove(name)
	}
	var dir *os.File
	if err == nil {
		dir, err = s.root.Open(tmpDir)
	}
	if err == nil {
		err = s.sync(dir)
		dir.Close()
	}
	switch {
	case err != nil:
		f.Status, f.Seen, f.Err = check.Failed, err.Error(), err
		f.Means = "what is acknowledged might not survive a power failure"
	case s.opt.NoSync:
		f.Status, f.Seen = check.Skipped, "not asked for"
	default:
		f.Seen = fmt.Sprintf("a file and its directory reach the disk within %v", time.Since(begin).Round(10*time.Microsecond))
	}
	return f
}

// describeCase writes a file and looks for it under a name in capitals.
func (s *Store) describeCase(ctx context.Context, scope check.Scope) check.Finding {
	f := check.Finding{Name: "case", Status: check.OK, Seen: "names that differ in case alone are different"}
	key := scope.Probe + "a"
	if _, err := s.Put(ctx, key, []byte("s3log store check\n"), objstore.IfAbsent(), objstore.PutOptions{}); err != nil {
		f.Status, f.Seen, f.Err = check.Unknown, err.Error(), err
		return f
	}
	scope.Wrote(key)
	dir, base := filepath.Split(filepath.FromSlash(key))
	if _, err := s.root.Lstat(dir + strings.ToUpper(base)); err == nil {
		f.Status, f.Seen = check.Warning, "names that differ in case alone are one"
		f.Means = "of two logs whose ids differ in case alone only the first one can be there; the other is an error, not a mixture"
	} else if !os.IsNotExist(err) {
		f.Status, f.Seen, f.Err = check.Unknown, err.Error(), err
	}
	return f
}
