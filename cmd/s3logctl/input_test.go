package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sort"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/segment"
)

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// flagNames are the names of all flags of a command and those below it.
func flagNames(root *cobra.Command) []string {
	seen := map[string]bool{}
	add := func(f *pflag.Flag) { seen[f.Name] = true }
	root.PersistentFlags().VisitAll(add)
	for _, cmd := range root.Commands() {
		cmd.Flags().VisitAll(add)
	}
	delete(seen, "help")
	var names []string
	for name := range seen {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func allLines(r io.Reader) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		in := newLineReader(r, "f")
		for {
			line, err := in.next()
			if !yield(fmt.Sprintf("%d:%s", line.line, line.text), err) || err != nil {
				return
			}
		}
	}
}

func TestLineReader(t *testing.T) {
	const bom = "\xef\xbb\xbf"
	long := strings.Repeat("x", 3*outputBuffer)
	for _, test := range []struct {
		name, in string
		want     []string
	}{
		{"empty", "", nil},
		{"blank", "\n \r\n\t\n", nil},
		{"lines", "a\nb\n", []string{"1:a", "2:b"}},
		{"last without end", "a\nb", []string{"1:a", "2:b"}},
		{"white space", " a \r\n\n\tb\t", []string{"1:a", "3:b"}},
		{"mark", bom + "a\n" + bom + "b", []string{"1:a", "2:" + bom + "b"}},
		{"mark alone", bom + "\na", []string{"2:a"}},
		{"long", long + "\n" + long + long + "\nb", []string{"1:" + long, "2:" + long + long, "3:b"}},
		{"NUL", "\x00\n", []string{"1:\x00"}},
	} {
		for _, read := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.HalfReader, iotest.DataErrReader} {
			var got []string
			for line, err := range allLines(read(strings.NewReader(test.in))) {
				if err != nil {
					if err != io.EOF {
						t.Errorf("%s: %v", test.name, err)
					}
					break
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", test.name, diff)
			}
		}
	}
}

// What a failing reader has given of a line is not taken for the line.
func TestLineReaderFails(t *testing.T) {
	broken := errors.New("broken")
	var got []string
	for line, err := range allLines(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken))) {
		if err != nil {
			if !errors.Is(err, broken) || !strings.Contains(err.Error(), "reading f") {
				t.Error(err)
			}
			break
		}
		got = append(got, line)
	}
	if diff := cmp.Diff([]string{"1:a"}, got); diff != "" {
		t.Error(diff)
	}
	for _, err := range allLines(strings.NewReader(strings.Repeat("x", maxInputLine+1))) {
		if !errors.Is(err, backend.ErrTooLarge) || !strings.Contains(err.Error(), "f, line 1") {
			t.Error(err)
		}
		break
	}
}

// One append has a bound, and says what else there is.
func TestAppendTooMuch(t *testing.T) {
	c := newCLI(t)
	line := `{"type":"note","data":"` + strings.Repeat("x", 8<<20) + "\"}\n"
	r := c.want(exitUsage, strings.Repeat(line, backend.MaxAppend/len(line)+1), "append", "log", "--create")
	if !strings.Contains(r.stderr, "--stream") || !strings.Contains(r.stderr, "import") {
		t.Error(r.stderr)
	}
	c.want(exitUsage, `{"type":"note","data":"`+strings.Repeat("x", segment.DefaultMaxEvent)+`"}`, "append", "log", "--create")
	// As a stream it goes in.
	got := fromJSON[receipt](t, c.must(strings.Repeat(line, 5), "append", "log", "--create", "--stream", "--output", "json"))
	if got.Count != 5 {
		t.Errorf("%+v", got)
	}
}

func TestLineQueue(t *testing.T) {
	t.Run("waits while it is full", func(t *testing.T) {
		line := strings.Repeat("x", 1<<20) + "\n"
		q := newLineQueue()
		go q.fill(newLineReader(strings.NewReader(strings.Repeat(line, 40)), "f"))
		n := 0
		for {
			time.Sleep(time.Millisecond)
			q.mu.Lock()
			size := q.size
			q.mu.Unlock()
			if size > maxQueued+len(line) {
				t.Fatalf("%d bytes wait", size)
			}
			lines, end := q.take(t.Context())
			n += len(lines)
			if end != nil {
				if end != io.EOF || n != 40 {
					t.Errorf("%d lines, then %v", n, end)
				}
				return
			}
		}
	})
	t.Run("ends with the context", func(t *testing.T) {
		in, out := io.Pipe()
		defer out.Close()
		q := newLineQueue()
		go q.fill(newLineReader(in, "f"))
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := out.Write([]byte("a\nb\npart")); err != nil {
			t.Fatal(err)
		}
		var got []eventLine
		for len(got) < 2 {
			lines, end := q.take(ctx)
			if end != nil {
				t.Fatal(end)
			}
			got = append(got, lines...)
		}
		cancel()
		if lines, end := q.take(ctx); len(lines) != 0 || end != context.Canceled {
			t.Errorf("%v, %v", lines, end)
		}
	})
}
