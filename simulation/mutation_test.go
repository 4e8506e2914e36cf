package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutant is the code with one rule broken.
type mutant struct {
	rule  string // what is not so any more
	file  string // from the module's root
	edits []edit
	seeds int    // within so many schedules it is noticed
	as    string // classes of what is noticed
	first bool   // played also where there is no time for all

	// Where a rule is kept in two places, the other one.
	alsoIn string
	also   []edit
}

// edit replaces a text that is in the file exactly once.
type edit struct{ old, new string }

// mutated are the files with the rule broken, by their names from the module's
// root.
func (m *mutant) mutated(root string) (map[string]string, error) {
	files := map[string]string{}
	for i, e := range slices.Concat(m.edits, m.also) {
		name := m.file
		if i >= len(m.edits) {
			name = m.alsoIn
		}
		if _, begun := files[name]; !begun {
			text, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				return nil, err
			}
			files[name] = string(text)
		}
		if n := strings.Count(files[name], e.old); n != 1 {
			return nil, fmt.Errorf("%s holds %d times, and must hold once, the text\n%s\nLook how it says %q now, and break that", name, n, e.old, m.rule)
		}
		files[name] = strings.Replace(files[name], e.old, e.new, 1)
	}
	return files, nil
}

// TestMutants builds this very package with one rule of the code broken after the
// other, and demands that the schedules notice. What they cannot notice they do
// not check.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	all := os.Getenv("CI") == "true" || os.Getenv("S3LOG_LONG") != ""
	one := os.Getenv("S3LOG_MUTANT") // a part of the rule's text
	for i := range mutants {
		m := &mutants[i]
		files, err := m.mutated(root)
		if err != nil {
			t.Error(err)
			continue
		}
		if one != "" && !strings.Contains(m.rule, one) || one == "" && !all && !m.first || raceDetector || testing.Short() {
			continue // its text was found
		}
		t.Run(m.rule, func(t *testing.T) {
			t.Parallel()
			m.play(t, root, files)
		})
	}
}

// patience is how long the schedules of a mutant may take: for most some seconds
// of one processor, for the rarest a minute, and others are played beside them.
const patience = 10 * time.Minute

// noticed is how a failing schedule is reported.
var noticed = regexp.MustCompile(`seed (\d+): ([A-Z]+): (.*)`)

func (m *mutant) play(t *testing.T, root string, files map[string]string) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	replace := map[string]string{}
	for name, text := range files {
		replace[filepath.Join(root, name)] = write(strings.ReplaceAll(name, "/", "_"), []byte(text))
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "simulation.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", write("overlay.json", overlay), "-o", binary, "./simulation")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the mutant cannot be built: %v\n%s", err, out)
	}
	limit := time.Now().Add(patience)
	if end, ok := t.Deadline(); ok && end.Add(-10*time.Second).Before(limit) {
		limit = end.Add(-10 * time.Second) // so that it can still be said
	}
	began := time.Now()
	ctx, cancel := context.WithDeadline(t.Context(), limit)
	defer cancel()
	run := exec.CommandContext(ctx, binary, "-test.run", "^TestSchedules$")
	run.Dir = filepath.Join(root, "simulation")
	run.Env = append(os.Environ(), fmt.Sprintf("S3LOG_SEEDS=1+%d", m.seeds), "S3LOG_SHRINK=no")
	out, err := run.CombinedOutput()
	found := noticed.FindStringSubmatch(string(out))
	switch exit := (*exec.ExitError)(nil); {
	case ctx.Err() != nil:
		t.Errorf("%d schedules have not been played after %v, and those that were do not notice that %q does not hold any more: either the machine is too busy, or a schedule does not end:\n%.3000s",
			m.seeds, time.Since(began).Round(time.Second), m.rule, out)
	case err == nil:
		t.Errorf("%d schedules do not notice that %q does not hold any more", m.seeds, m.rule)
	case !errors.As(err, &exit) || found == nil:
		t.Errorf("the schedules of the mutant end with %v, and without a report:\n%.3000s", err, out)
	case !slices.Contains(strings.Fields(m.as), found[2]):
		t.Errorf("noticed as %s, not as %s: %s", found[2], m.as, found[3])
	default:
		t.Logf("%s: seed %s of %d, after %v: %s: %.200s", m.rule, found[1], m.seeds, time.Since(began).Round(time.Second), found[2], found[3])
	}
}
