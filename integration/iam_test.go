package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/check"
	"github.com/s3log/s3log/backend/objstore/memstore"
	"github.com/s3log/s3log/internal/faultproxy"
	"github.com/s3log/s3log/localstack"
	"github.com/s3log/s3log/manifest"
)

// The policies of docs/iam, as policies of a bucket.

type policy struct {
	Version   string
	Statement []statement
}

type statement struct {
	Sid, Effect      string
	Principal        map[string]string
	Action, Resource []string
	Condition        map[string]map[string]string `json:",omitempty"`
}

const policyDir = "../docs/iam"

// fill puts names in the place of the placeholders.
func fill(text, bucket, principal, id string) string {
	return strings.NewReplacer("BUCKET", bucket, "PREFIX", "logs", "PRINCIPAL", principal, "LOG", manifest.EscapeID(id)).Replace(text)
}

// readPolicy reads a policy of docs/iam and fills it in.
func readPolicy(t testing.TB, name, bucket, principal, id string) (p policy) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(policyDir, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(fill(string(text), bucket, principal, id)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return p
}

func (p policy) String() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // of strings
	}
	return string(text)
}

// lists reports whether the policy lets one know that a key is absent: the
// condition on a prefix is about requests that list.
func (p policy) lists() bool {
	return slices.ContainsFunc(p.Statement, func(s statement) bool {
		return slices.Contains(s.Action, "s3:ListBucket") && len(s.Condition) == 0
	})
}

// single are the rights of a policy, one action on one resource each.
func (p policy) single() (rights []statement) {
	for _, s := range p.Statement {
		for _, action := range s.Action {
			for _, resource := range s.Resource {
				one := s
				one.Action, one.Resource = []string{action}, []string{resource}
				rights = append(rights, one)
			}
		}
	}
	return rights
}

// user makes a user of the server.
func (r *rig) user(t testing.TB) localstack.Identity {
	t.Helper()
	id, ok := r.User(t)
	if !ok {
		t.Fatalf("%s has no users to give rights to: unset %s", r.Endpoint, localstack.EnvEndpoint)
	}
	return id
}

// give makes a policy the one of the bucket. Whoever may not list it is told by
// the proxy that an absent key is denied, as AWS says it.
func (r *rig) give(t testing.TB, p policy) {
	t.Helper()
	r.SetPolicy(t, r.bucket, p.String())
	r.proxy.Reset()
	if !p.lists() {
		r.proxy.Add(faultproxy.Rule{Times: -1, Fault: faultproxy.DenyAbsent()})
	}
}

// as opens the bucket through the proxy with a user's keys.
func (r *rig) as(t testing.TB, id localstack.Identity) objstore.Store {
	t.Helper()
	return openS3(t, r.proxy.URL, r.bucket, id.AccessKey, id.SecretKey)
}

// Each policy allows what it is for, and nothing in it can be left out: without
// any one action on any one resource something is denied.
func TestPoliciesAreMinimal(t *testing.T) {
	const id = "a/log"
	for name, do := range map[string]func(t *testing.T, r *rig, store objstore.Store) error{
		"auditor-of-one-log": func(t *testing.T, _ *rig, store objstore.Store) error { return audit(t, store, id) },
		"auditor":            auditAll,
		"writer":             writeAll,
		"collector":          collectAll,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			grown(t, r.direct, id)
			grown(t, r.direct, "other")
			who := r.user(t)
			p := readPolicy(t, name, r.bucket, who.AccessKey, id)
			r.give(t, p)
			if err := do(t, r, r.as(t, who)); err != nil {
				t.Fatalf("with the whole policy: %v", err)
			}
			rights := p.single()
			for i, right := range rights {
				some := policy{Version: p.Version, Statement: slices.Delete(slices.Clone(rights), i, i+1)}
				if len(some.Statement) == 0 {
					t.Fatal("a policy of one right needs no such test")
				}
				r.give(t, some)
				if err := do(t, r, r.as(t, who)); !errors.Is(err, backend.ErrDenied) {
					t.Errorf("without %s on %s: %v", right.Action[0], right.Resource[0], err)
				}
			}
			t.Logf("%d rights, each of them needed", len(rights))
			r.proxy.Reset()
		})
	}
}

// audit does everything that an auditor may do with one log.
func audit(t *testing.T, store objstore.Store, id string) error {
	reader := backend.NewReader(store, quick)
	pair := backend.Pair{Open: "compaction/start", Close: "compaction/end"}
	_, ierr := reader.Info(t.Context(), id)
	_, cerr := reader.Check(t.Context(), id, pair, backend.CheckOptions{Verify: true})
	_, rerr := read(t, store, id, 0)
	rep, verr := reader.Verify(t.Context(), id, backend.VerifyOptions{})
	if verr == nil && !rep.OK() {
		verr = fmt.Errorf("%+v", rep.Findings)
	}
	var ferr error
	for _, err := range reader.Follow(t.Context(), id, 0) {
		ferr = err
		break
	}
	return errors.Join(ierr, cerr, rerr, verr, ferr)
}

// auditAll finds all logs by itself.
func auditAll(t *testing.T, _ *rig, store objstore.Store) error {
	n := 0
	for e, err := range backend.NewReader(store, quick).List(t.Context(), backend.ListOptions{}) {
		if err = errors.Join(err, e.Err); err == nil {
			err = audit(t, store, e.Log)
		}
		if err != nil {
			return err
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d logs are listed", n)
	}
	return nil
}

// tries numbers logs, since what a test tried before is there already.
var tries int

// writeAll does everything that a writer does, on a store of which nothing is
// known.
func writeAll(t *testing.T, r *rig, store objstore.Store) error {
	if err := prove(t, r, store); err != nil {
		return err
	}
	tries++
	id, child := fmt.Sprint("written-", tries), fmt.Sprint("child-", tries)
	b := backend.New(store, foreground)
	if _, err := b.Import(t.Context(), id, each([][]byte{note(0)}), backend.ImportOptions{}); err != nil {
		return err
	}
	l, err := b.Adopt(t.Context(), id, backend.AdoptOptions{})
	if err != nil {
		return err
	}
	for i := range 4 { // the next one merges
		if _, err := l.Append(t.Context(), notes(t, 300*i, 300), backend.AppendOptions{}); err != nil {
			return err
		}
	}
	if _, err := l.Append(t.Context(), [][]byte{note(1)}, backend.AppendOptions{Last: true}); err != nil {
		return err
	}
	if _, _, err := b.Resume(t.Context(), id, backend.ResumeOptions{Release: true}); err != nil {
		return err
	}
	if _, _, err := b.Fork(t.Context(), id, child, backend.ForkOptions{Release: true}); err != nil {
		return err
	}
	_, _, err = b.Replay(t.Context(), child+"-replayed", each([][]byte{note(0)}), backend.ReplayOptions{Release: true})
	return errors.Join(err, audit(t, store, child), repairs(t, r, b, id))
}

// repairs copies a log, lets somebody with other rights damage its segments and then
// remove them, and has them put back from the copy.
func repairs(t *testing.T, r *rig, b *backend.Backend, id string) error {
	t.Helper()
	kept := memstore.New(t)
	if _, err := backend.New(kept, quick).Copy(t.Context(), b.Reader, id, backend.CopyOptions{}); err != nil {
		return err
	}
	segments := kept.Snapshot(manifest.SegmentPrefix(id))
	for _, remove := range []bool{false, true} {
		for key := range segments {
			info, err := r.direct.Head(t.Context(), key)
			if err == nil && remove {
				err = r.direct.Delete(t.Context(), key)
			} else if err == nil {
				_, err = r.direct.Put(t.Context(), key, []byte("damaged"), objstore.IfVersion(info.Version), objstore.PutOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		rep, err := b.Copy(t.Context(), backend.NewReader(kept, quick), id, backend.CopyOptions{Verify: true})
		if err != nil {
			return err
		}
		for _, m := range rep.Repairs {
			if m.Err != nil {
				return m.Err
			}
		}
		if len(rep.Repairs) == 0 || len(rep.Repairs) != len(segments) || !rep.Verified.OK() {
			t.Errorf("%+v", rep)
		}
	}
	return nil
}

// prove makes the store proof where replies to writes do not tell the version,
// so that it must be asked for.
func prove(t *testing.T, r *rig, store objstore.Store) error {
	t.Helper()
	r.proxy.Take()
	_, err := check.Prove(t.Context(), blind{store})
	if err != nil {
		return err
	}
	for _, e := range r.proxy.Take().Of(faultproxy.Delete, "/probe/") {
		if e.Status == 403 {
			return denied("Delete", e.Key) // a courtesy that is not an error
		}
	}
	return nil
}

// The page beside the policies names every one of them and every statement; each
// is valid as it is, and with its lines of principals removed.
func TestPoliciesAreDescribed(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(policyDir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(policyDir, "*.json"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if !bytes.Contains(page, []byte("("+name+".json)")) {
			t.Errorf("README.md has no link to %s", file)
		}
		p := readPolicy(t, name, "bucket", "user", "a/log")
		for _, s := range p.Statement {
			if !bytes.Contains(page, []byte("`"+s.Sid+"`")) {
				t.Errorf("%s: README.md does not say what %s is needed for", file, s.Sid)
			}
			if s.Effect != "Allow" || s.Principal["AWS"] != "user" || len(s.Principal) != 1 {
				t.Errorf("%s: %+v", file, s)
			}
		}
		if left := regexp.MustCompile(`\b[A-Z]{3,}\b`).FindString(strings.ReplaceAll(p.String(), "AWS", "")); left != "" {
			t.Errorf("%s: %s is left", file, left)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var identity policy
		if err := json.Unmarshal(regexp.MustCompile(`(?m)^.*"Principal".*\n`).ReplaceAll(text, nil), &identity); err != nil {
			t.Errorf("%s without principals: %v", file, err)
		}
		if len(identity.Statement) != len(p.Statement) || identity.Statement[0].Principal != nil {
			t.Errorf("%s without principals: %+v", file, identity)
		}
	}
}

// blind is a store whose replies to writes do not tell the version.
type blind struct{ objstore.Store }

func (s blind) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	info, err := s.Store.Put(ctx, key, body, cond, opt)
	info.Version = objstore.Version{}
	return info, err
}
