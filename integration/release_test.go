package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// release is what has to hold of .goreleaser.yaml.
type release struct {
	Version int
	Builds  []struct {
		Main, Binary        string
		Env, Flags, Ldflags []string
		Goos, Goarch        []string
		ModTimestamp        string `yaml:"mod_timestamp"`
	}
	Archives []struct {
		Files []struct {
			Src  string
			Info struct{ Mtime string }
		}
	}
	Checksum struct{ Algorithm string }
}

// A release is built as `.ci/run release` checks it: the same flags, the same
// systems, nothing linked that is not in the binary, and no time but that of the
// commit; with a licence and checksums.
func TestReleaseIsWhatIsChecked(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join("..", ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	var r release
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&r); err != nil {
		t.Fatal(err)
	}
	if r.Version != 2 || len(r.Builds) != 1 || len(r.Archives) != 1 || r.Checksum.Algorithm != "sha256" {
		t.Fatalf("%+v", r)
	}
	b := r.Builds[0]
	if b.Main != "./cmd/s3logctl" || b.Binary != "s3logctl" || !slices.Equal(b.Env, []string{"CGO_ENABLED=0"}) || b.ModTimestamp != "{{ .CommitTimestamp }}" {
		t.Errorf("%+v", b)
	}
	flags := strings.Join(b.Flags, " ") + ` -ldflags "` + strings.Join(b.Ldflags, " ") + `"`
	for name, want := range map[string]string{
		"release_flags":    flags,
		"release_systems":  strings.Join(b.Goos, " "),
		"release_machines": strings.Join(b.Goarch, " "),
	} {
		m := regexp.MustCompile(name + `=\(([^)]*)\)`).FindSubmatch(script)
		if m == nil || string(m[1]) != want {
			t.Errorf("%s of .ci/run is %q, and of .goreleaser.yaml %q", name, m, want)
		}
	}
	var files []string
	for _, f := range r.Archives[0].Files {
		files = append(files, filepath.Base(f.Src))
		if f.Info.Mtime != "{{ .CommitDate }}" {
			t.Errorf("%s has the time %q: no two archives would be the same", f.Src, f.Info.Mtime)
		}
	}
	for _, want := range []string{"LICENSE", "THIRD-PARTY-LICENSES.txt", "CHANGELOG.md"} {
		if !slices.Contains(files, want) {
			t.Errorf("no %s goes with the binaries", want)
		}
	}
}

// TestChangelog: versions follow each other, newest first, each with what has
// changed; at most the first one is without a date.
func TestChangelog(t *testing.T) {
	text := documents(t)[filepath.Join("..", "CHANGELOG.md")]
	heading := regexp.MustCompile(`^(\d+)\.(\d+)\.(\d+) - (\d{4}-\d{2}-\d{2}|not released)$`)
	parts := strings.Split(text, "\n## ")
	if len(parts) < 2 {
		t.Fatal("no versions")
	}
	last := ""
	for i, part := range parts[1:] {
		title, body, _ := strings.Cut(part, "\n")
		m := heading.FindStringSubmatch(title)
		if m == nil || m[4] == "not released" && i > 0 {
			t.Errorf("%q is no version with a date", title)
			continue
		}
		number := strings.Join(m[1:4], ".")
		if last != "" && compareVersions(number, last) >= 0 {
			t.Errorf("%s stands below %s", number, last)
		}
		last = number
		if !strings.Contains(body, "\n- ") {
			t.Errorf("nothing has changed in %s", number)
		}
	}
	if last != "0.1.0" {
		t.Errorf("the first version is %s", last)
	}
}

func compareVersions(a, b string) int {
	pad := func(v string) (parts []string) {
		for n := range strings.SplitSeq(v, ".") {
			parts = append(parts, strings.Repeat("0", 9-len(n))+n)
		}
		return parts
	}
	return slices.Compare(pad(a), pad(b))
}
