package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/check"
	"github.com/s3log/s3log/manifest"
)

func newDoctorCommand(g *globals) *cobra.Command {
	var rounds int
	var id string
	var need []string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what a store and these credentials can do",
		Long: `Try what s3log needs of a store, and say what came of it: whether it answers, in
which region, how fast and by which clock; whether conditional writes are
obeyed, also when many come at a time; what these credentials may do; and which
settings of a bucket would remove logs, or keep what should go.

It writes below probe/ alone, removes that again if it may, and works with
credentials that may only read. The last lines are what the store and the
credentials can do together and, where it is worth something, the profile to put
into the store's URL, with which no process has to try the store again.

Exit code 8: writing here is not safe. 7: these credentials may do nothing, or
not what --need names. 1: the store does not answer, whether writing is safe or
what is needed is permitted could not be found out, or something else is wrong.
Without --need, credentials that may only read are as good as any others.`,
		Example: `  s3logctl doctor --store 's3://bucket/logs?endpoint=http://127.0.0.1:9000'
  s3logctl doctor --need append    # before a writer is deployed
  s3logctl doctor --output json | jq '.findings[] | select(.status != "ok")'`,
		Args: exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rounds < 1 {
				return usagef("--rounds %d: at least one", rounds)
			}
			if id != "" {
				if err := checkLog(id); err != nil {
					return err
				}
			}
			for _, name := range need {
				if !slices.Contains(check.NeedNames(), name) {
					return usagef("--need %s: it is one of %s", quote(name), strings.Join(check.NeedNames(), ", "))
				}
			}
			return runDoctor(cmd.Context(), g, rounds, id, need)
		},
	}
	f := cmd.Flags()
	f.IntVar(&rounds, "rounds", 25, "how many `races` of each kind are held, of 16 writers each")
	f.StringVar(&id, "log", "", "`id` of a log that is there, for credentials that may read and not list")
	f.StringSliceVar(&need, "need", nil, "fail unless one can do `this` here: read, append, list or collect; several with commas")
	return cmd
}

func runDoctor(ctx context.Context, g *globals, rounds int, id string, need []string) error {
	at, err := g.locate()
	if err != nil {
		return err
	}
	if at.embedded {
		g.embeddedNotice(at)
	}
	opt := check.Options{Rounds: rounds}
	if opt.Profile, err = check.ParseProfile(at.s3.Profile); err != nil {
		return usageError{err}
	}
	if at.dir == "" {
		at.s3.Profile = check.Profile{Conditional: true}.String() // what is to be tried here is not to be refused
	}
	store, err := g.openAt(ctx, at, useWrite)
	if err != nil {
		return err
	}
	if id != "" {
		if opt.Present, err = g.presentKeys(ctx, store, id); err != nil {
			return err
		}
	}
	if !g.asJSON() {
		opt.Each = func(f check.Finding) {
			findingText(g.out, g.textWidth(), f)
			_ = g.out.Flush() // its error comes again
		}
	}
	report := check.Examine(ctx, store, opt)
	if report.Profile.Raced && !report.ProfileUseless {
		at.s3.Profile = report.Profile.String()
	} else {
		at.s3.Profile = ""
	}
	g.print(newDoctorReport(report, at), func(w io.Writer) { doctorText(w, report, at) })
	if opt.Profile.Conditional && errors.Is(report.Err(), objstore.ErrUnsupported) {
		g.notice("the store's URL says profile=%s, which is not so: without it, no process writes there", opt.Profile)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return report.Need(need...)
}

// presentKeys are keys of the objects of a log, as far as they can be known.
func (g *globals) presentKeys(ctx context.Context, store objstore.Store, id string) ([]string, error) {
	keys := []string{manifest.Key(id)}
	info, err := backend.NewReader(store, g.options(nil)).Info(ctx, id)
	switch {
	case errors.Is(err, backend.ErrNotFound):
		return nil, err
	case err == nil && len(info.Segments) > 0:
		keys = append(keys, manifest.SegmentKey(id, info.Segments[0].Name))
	}
	return keys, nil // why it cannot be read will be found out
}

// findingText writes one finding, and on lines of their own what it means and
// what to do.
func findingText(w io.Writer, width int, f check.Finding) {
	const names, arrow = 22, "→ "
	room := 0
	if width > 0 {
		room = max(width-names-columns(arrow), fittedLast)
	}
	begin := fmt.Sprintf("%-8s %-12s ", f.Status, f.Name)
	for _, line := range wrapped(oneLine(f.Seen), room) {
		fmt.Fprintf(w, "%-*s%s\n", names, begin, line)
		begin = ""
	}
	for _, more := range []string{f.Means, f.Do} {
		if more == "" {
			continue
		}
		begin = arrow
		for _, line := range wrapped(oneLine(more), room) {
			fmt.Fprintf(w, "%*s%s%s\n", names, "", begin, line)
			begin = "  "
		}
	}
}

// doctorText writes the last lines of a report.
func doctorText(w io.Writer, r *check.Report, at location) {
	fmt.Fprintf(w, "\n")
	if r.Store != "" {
		fmt.Fprintf(w, "%s\n", oneLine(r.Store))
	}
	fmt.Fprintf(w, "%s\n", r.Summary())
	if at.dir == "" && at.s3.Profile != "" {
		fmt.Fprintf(w, "profile=%s (nobody has to try this store again: --store '%s')\n", at.s3.Profile, oneLine(at.s3.String()))
	}
}

// doctorReport is doctor in JSON.
type doctorReport struct {
	Store    string          `json:"store"`
	Can      doctorCan       `json:"can"`
	Summary  string          `json:"summary"`
	Profile  *string         `json:"profile"` // null where there is none, or none is needed
	Latency  doctorLatencies `json:"latency"`
	Findings []doctorFinding `json:"findings"`
	Left     []string        `json:"left"` // keys of probes that are still there
}

type doctorCan struct { // null: not known
	Read    *bool `json:"read"`
	Append  *bool `json:"append"`
	List    *bool `json:"list"`
	Collect *bool `json:"collect"`
}

type doctorLatencies struct {
	Put *doctorLatency `json:"put"`
	Get *doctorLatency `json:"get"`
}

type doctorLatency struct {
	Requests int     `json:"requests"`
	Median   float64 `json:"median"` // ms
	P99      float64 `json:"p99"`    // ms
}

type doctorFinding struct {
	Name   string       `json:"name"`
	Status check.Status `json:"status"`
	Seen   string       `json:"seen"`
	Means  string       `json:"means"`
	Do     string       `json:"do"`
	Unsafe bool         `json:"unsafe"`
}

func newDoctorReport(r *check.Report, at location) doctorReport {
	rep := doctorReport{
		Store: r.Store, Summary: r.Summary(), Left: r.Left, Findings: []doctorFinding{},
		Can:     doctorCan{answer(r.Can.Read), answer(r.Can.Append), answer(r.Can.List), answer(r.Can.Collect)},
		Latency: doctorLatencies{latency(r.Put), latency(r.Get)},
	}
	if rep.Left == nil {
		rep.Left = []string{}
	}
	if at.dir == "" && at.s3.Profile != "" {
		rep.Profile = &at.s3.Profile
	}
	for _, f := range r.Findings {
		rep.Findings = append(rep.Findings, doctorFinding{f.Name, f.Status, f.Seen, f.Means, f.Do, f.Unsafe})
	}
	return rep
}

func answer(a check.Answer) *bool {
	if a == check.NotKnown {
		return nil
	}
	yes := a == check.Yes
	return &yes
}

func latency(l check.Latency) *doctorLatency {
	if l.Requests == 0 {
		return nil
	}
	ms := func(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / float64(time.Millisecond) }
	return &doctorLatency{l.Requests, ms(l.Median), ms(l.P99)}
}
