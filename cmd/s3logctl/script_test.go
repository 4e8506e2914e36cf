package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore/faultstore"
	"github.com/s3log/s3log/backend/objstore/filestore"
	"github.com/s3log/s3log/manifest"
)

// TestScripts runs testdata/*.txtar. Beside testscript's own commands there are
//
//	status N PROGRAM ARG…     runs a program, which must exit with N
//	fields FILE NAME…         every line is a JSON object with exactly these members, in order
//	value FILE PATH TEXT      the JSON at a dotted path of the last line
//	snapshot DIR              remembers names, contents and times of what is in a directory
//	unchanged DIR             compares with that
//	forge FILE OLD NEW        replaces text in a manifest and makes its sum right again
//	hold DIR LOG              appends one event to a log without releasing it
//	unknown DIR LOG HOW       appends an event, or begins the log, without learning the outcome; HOW
//	                          is landed or lost. TOKEN settles it
//	chop FILE N               removes the last N bytes
//	entries DIR NAME…         a directory has exactly these entries
//	damage DIR                changes one byte of every file in a directory
//
// FILE may be stdout or stderr.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("ODD", "a\tb \u202ec \u009b")
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv(storeVariable, filepath.Join(e.WorkDir, "store"))
			e.Values[snapshotsKey{}] = map[string]string{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":    cmdStatus,
			"fields":    cmdFields,
			"value":     cmdValue,
			"snapshot":  cmdSnapshot,
			"unchanged": cmdUnchanged,
			"forge":     cmdForge,
			"hold":      cmdHold,
			"unknown":   cmdUnknown,
			"chop":      cmdChop,
			"entries":   cmdEntries,
			"damage":    cmdDamage,
		},
	})
}

func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N PROGRAM ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func cmdFields(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: fields FILE NAME…")
	}
	lines := strings.Split(strings.TrimSuffix(ts.ReadFile(args[0]), "\n"), "\n")
	for _, line := range lines {
		names, err := memberNames(line)
		ts.Check(err)
		if got, want := strings.Join(names, " "), strings.Join(args[1:], " "); got != want {
			ts.Fatalf("members are\n%s\nwant\n%s", got, want)
		}
	}
}

// memberNames are the names of an object's members, in order.
func memberNames(line string) (names []string, err error) {
	dec := json.NewDecoder(strings.NewReader(line))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("not a JSON object: %s", line)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		names = append(names, name.(string))
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
	}
	_, err = dec.Token()
	return names, err
}

func cmdValue(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: [!] value FILE PATH TEXT")
	}
	lines := strings.Split(strings.TrimSuffix(ts.ReadFile(args[0]), "\n"), "\n")
	var v any
	dec := json.NewDecoder(strings.NewReader(lines[len(lines)-1]))
	dec.UseNumber()
	ts.Check(dec.Decode(&v))
	for name := range strings.SplitSeq(args[1], ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[name]
		case []any:
			i, err := strconv.Atoi(name)
			ts.Check(err)
			v = x[i]
		default:
			ts.Fatalf("%s: nothing is below %v", args[1], v)
		}
	}
	text, err := json.Marshal(v)
	ts.Check(err)
	got := strings.Trim(string(text), `"`)
	if (got == args[2]) == neg {
		ts.Fatalf("%s is %s", args[1], got)
	}
}

// snapshotsKey is for the script's hashes by directory.
type snapshotsKey struct{}

func cmdSnapshot(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: snapshot DIR")
	}
	sum, err := treeSum(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Value(snapshotsKey{}).(map[string]string)[args[0]] = sum
}

func cmdUnchanged(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] unchanged DIR")
	}
	sum, err := treeSum(ts.MkAbs(args[0]))
	ts.Check(err)
	if same := ts.Value(snapshotsKey{}).(map[string]string)[args[0]] == sum; same == neg {
		ts.Fatalf("same is %v", same)
	}
}

// treeSum covers names, modes, contents and modification times.
func treeSum(dir string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %v %v\n", path, info.Mode(), info.ModTime().UnixNano())
		if d.Type().IsRegular() {
			body, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(h, "%d %x\n", len(body), sha256.Sum256(body))
		}
		return nil
	})
	return fmt.Sprintf("%x", h.Sum(nil)), err
}

func cmdForge(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: forge FILE OLD NEW")
	}
	file := ts.MkAbs(args[0])
	body, err := os.ReadFile(file)
	ts.Check(err)
	forged, err := forge(body, args[1], args[2])
	ts.Check(err)
	ts.Check(os.WriteFile(file, forged, 0o600))
}

// forge replaces text in a manifest whose sum is then right.
func forge(body []byte, old, new string) ([]byte, error) {
	at := bytes.LastIndex(body, []byte(`,"sum":"`))
	if at < 0 || !bytes.Contains(body[:at], []byte(old)) {
		return nil, fmt.Errorf("%q is not in the manifest %s", old, body)
	}
	content := bytes.Replace(body[:at:at], []byte(old), []byte(new), 1)
	return fmt.Appendf(content, `,"sum":"%08x"}`+"\n", crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli))), nil
}

func cmdHold(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: hold DIR LOG")
	}
	ts.Check(hold(context.Background(), ts.MkAbs(args[0]), args[1]))
}

// hold appends an event as a writer that is not done.
func hold(ctx context.Context, dir, id string) error {
	store, err := filestore.Open(dir, filestore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	b := backend.New(store, backend.Options{Label: "agent-7", Foreground: true})
	log, err := b.Create(id, backend.CreateOptions{OrAdopt: true})
	if err != nil {
		return err
	}
	_, err = log.Append(ctx, [][]byte{[]byte(`{"type":"note","data":"held"}`)}, backend.AppendOptions{})
	return err
}

func cmdUnknown(ts *testscript.TestScript, neg bool, args []string) {
	faults := map[string]faultstore.Fault{"landed": faultstore.LostReply(), "lost": faultstore.Unavailable()}
	if neg || len(args) != 3 {
		ts.Fatalf("usage: unknown DIR LOG landed|lost")
	}
	fault, ok := faults[args[2]]
	if !ok {
		ts.Fatalf("unknown: HOW is landed or lost")
	}
	store, err := filestore.Open(ts.MkAbs(args[0]), filestore.Options{})
	ts.Check(err)
	defer store.Close()
	faulty := faultstore.New(store, faultstore.Rule{Match: faultstore.Op("Put"), Fault: fault})
	b := backend.New(faulty, backend.Options{Foreground: true, CommitTimeout: 200 * time.Millisecond, MinBackoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond})
	log, err := b.Create(args[1], backend.CreateOptions{})
	ts.Check(err)
	if there, ierr := b.Info(context.Background(), args[1]); ierr == nil && there.State == manifest.StateOpen {
		log, err = b.Adopt(context.Background(), args[1], backend.AdoptOptions{})
		ts.Check(err)
	}
	_, err = log.Append(context.Background(), [][]byte{[]byte(`{"type":"note","data":"in question"}`)}, backend.AppendOptions{Last: true})
	token := backend.Token(err)
	if token == "" {
		ts.Fatalf("the outcome is known: %v", err)
	}
	ts.Setenv("TOKEN", token)
}

func cmdChop(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: chop FILE N")
	}
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	file := ts.MkAbs(args[0])
	info, err := os.Stat(file)
	ts.Check(err)
	ts.Check(os.Truncate(file, info.Size()-n))
}

func cmdEntries(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: entries DIR NAME…")
	}
	list, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	if got, want := strings.Join(names, " "), strings.Join(args[1:], " "); got != want {
		ts.Fatalf("%s has %s, want %s", args[0], got, want)
	}
}

func cmdDamage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: damage DIR")
	}
	files, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), "*"))
	ts.Check(err)
	if len(files) == 0 {
		ts.Fatalf("%s has no files", args[0])
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		ts.Check(err)
		body[len(body)/3] ^= 0x10
		ts.Check(os.WriteFile(file, body, 0o600))
	}
}
