package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

func newInfoCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "info LOG",
		Short: "Look at one log",
		Long: `Show what the manifest of a log says: state, size, boundary, open turn, owner
and history, lease, and the Merkle root as SIZE:ROOT. This is one GET, for a log
of any length.`,
		Example:           `  s3logctl info demo --output json | jq -r .root`,
		Args:              logArgs,
		ValidArgsFunction: g.completeLog(false),
		RunE:              func(cmd *cobra.Command, args []string) error { return runInfo(cmd.Context(), g, args[0]) },
	}
}

func runInfo(ctx context.Context, g *globals, id string) error {
	r, err := g.reader(ctx)
	if err != nil {
		return err
	}
	info, err := r.Info(ctx, id)
	if err != nil {
		return err
	}
	g.print(newInfoReport(info), func(w io.Writer) { g.infoText(w, info) })
	return nil
}

// infoReport is info in JSON. Times are ms since the Unix epoch.
type infoReport struct {
	Log        string           `json:"log"`
	UID        string           `json:"uid"`
	State      string           `json:"state"`
	Revision   int64            `json:"revision"`
	Generation int64            `json:"generation"`
	Epoch      uint32           `json:"epoch"`
	Next       int64            `json:"next"`
	LastTime   *int64           `json:"lastTime"`
	Activity   *int64           `json:"activity"`
	Segments   int              `json:"segments"` // sealed ones
	Tail       int64            `json:"tail"`     // events in the manifest itself
	Bytes      infoBytes        `json:"bytes"`
	Boundary   *infoBoundary    `json:"boundary"`
	Turn       *infoTurn        `json:"turn"`
	Origin     *infoOrigin      `json:"origin"`
	Lifecycle  *infoLifecycle   `json:"lifecycle"`
	Owner      *infoOwner       `json:"owner"`
	History    []infoGeneration `json:"history"`
	Lease      infoLease        `json:"lease"`
	Types      []infoType       `json:"types"`
	Header     json.RawMessage  `json:"header"`
	Root       *string          `json:"root"` // null for a deleted log
}

type infoBytes struct {
	Manifest int64 `json:"manifest"` // the object
	Tail     int64 `json:"tail"`     // in it, compressed
	Segments int64 `json:"segments"` // the objects
	Raw      int64 `json:"raw"`      // lines in segments, inflated
}

type infoBoundary struct {
	Seq  int64 `json:"seq"`
	Time int64 `json:"time"`
}

type infoTurn struct {
	Turn  int64      `json:"turn"`
	Step  *int64     `json:"step"`
	Calls []infoCall `json:"calls"` // without a result
	More  bool       `json:"more"`  // there are calls that the manifest does not show
}

type infoCall struct {
	CallID string `json:"callId"`
	Step   int64  `json:"step"`
	Seq    *int64 `json:"seq"` // of the tool/call; null if it was only requested
}

type infoOrigin struct {
	Kind      string      `json:"kind"`
	Inherited int64       `json:"inherited"`
	Parent    *infoParent `json:"parent"`
}

type infoParent struct {
	Log  string `json:"log"`
	UID  string `json:"uid"`
	UpTo int64  `json:"upTo"`
	Root string `json:"root"`
}

type infoLifecycle struct {
	Kind      string `json:"kind"`
	Inherited int64  `json:"inherited"`
	Closers   int64  `json:"closers"`
	First     int64  `json:"first"`
	At        int64  `json:"at"`
}

type infoOwner struct {
	Writer     string `json:"writer"`
	Generation int64  `json:"generation"`
	Label      string `json:"label"`
	Released   bool   `json:"released"`
}

type infoGeneration struct {
	Generation int64  `json:"generation"`
	Writer     string `json:"writer"`
	Kind       string `json:"kind"`
	First      int64  `json:"first"`
	At         int64  `json:"at"`
}

type infoLease struct {
	State string `json:"state"` // none, held, expired
	Until *int64 `json:"until,omitempty"`
}

type infoType struct {
	Type  string `json:"type"` // "" counts all beyond the 256th type together
	Count int64  `json:"count"`
	First int64  `json:"first"`
	Last  int64  `json:"last"`
}

func newInfoReport(in backend.Info) infoReport {
	out := infoReport{
		Log: in.Log, UID: in.UID, State: string(in.State),
		Revision: in.Revision, Generation: in.Generation, Epoch: in.Epoch, Next: in.Next,
		LastTime: in.Content.LastTime, Activity: in.Content.Activity,
		Segments: len(in.Segments), Tail: in.Tail,
		Bytes:   infoBytes{Manifest: in.Bytes, Tail: in.TailBytes},
		History: []infoGeneration{}, Types: []infoType{},
		Lease:  newLease(in.LeaseState, in.Lease),
		Owner:  newOwner(in.Owner),
		Header: in.Header,
		Root:   rootText(in),
	}
	for _, s := range in.Segments {
		out.Bytes.Segments += s.Bytes
		out.Bytes.Raw += s.Raw
	}
	if b := in.Content.Boundary; b != nil {
		out.Boundary = &infoBoundary{b.Seq, b.Time}
	}
	if t := in.Content.Turn; t != nil {
		out.Turn = &infoTurn{Turn: t.Turn, Step: t.Step, Calls: []infoCall{}, More: t.More}
		for _, c := range t.Calls {
			out.Turn.Calls = append(out.Turn.Calls, infoCall{c.ID, c.Step, c.Seq})
		}
	}
	if o := in.Origin; o != nil {
		out.Origin = &infoOrigin{Kind: o.Kind, Inherited: o.Inherited}
		if p := o.Parent; p != nil {
			out.Origin.Parent = &infoParent{p.Log, p.UID, p.UpTo, p.Root.String()}
		}
	}
	if l := in.Lifecycle; l != nil {
		out.Lifecycle = &infoLifecycle{l.Kind, l.Inherited, l.Closers, l.First, l.At}
	}
	for _, h := range in.History {
		out.History = append(out.History, infoGeneration{h.Generation, h.Writer, h.Kind, h.First, h.At})
	}
	for _, t := range in.Content.Types.Entries {
		out.Types = append(out.Types, infoType{t.Type, t.Count, t.First, t.Last})
	}
	if t := in.Content.Types.Overflow; t != nil {
		out.Types = append(out.Types, infoType{"", t.Count, t.First, t.Last})
	}
	return out
}

func newOwner(o *manifest.Owner) *infoOwner {
	if o == nil {
		return nil
	}
	return &infoOwner{o.Writer, o.Generation, o.Label, o.Released}
}

func newLease(state string, l *manifest.Lease) infoLease {
	if l == nil {
		return infoLease{State: state}
	}
	return infoLease{State: state, Until: &l.Until}
}

// rootText is SIZE:ROOT, what `verify --since` takes; nil for a deleted log,
// whose events are gone.
func rootText(in backend.Info) *string {
	if in.State != manifest.StateOpen {
		return nil
	}
	root := fmt.Sprintf("%d:%s", in.Content.Tree.Size, in.Content.Tree.Root)
	return &root
}

// infoText says the same in words, and what it means.
func (g *globals) infoText(out io.Writer, in backend.Info) {
	width := g.textWidth()
	line, flush := fittedLines(out, width)
	defer func() {
		flush()
		fmt.Fprintln(out)
		for _, sentence := range infoWords(in) {
			for i, l := range wrapped("- "+sentence, max(width-len("  "), 0)) {
				if i > 0 {
					l = "  " + l
				}
				fmt.Fprintln(out, l)
			}
		}
	}()
	line("log", "%s", quote(in.Log))
	line("uid", "%s", in.UID)
	line("state", "%s, revision %d, generation %d, epoch %d", in.State, in.Revision, in.Generation, in.Epoch)
	if in.Next > 0 {
		line("events", "%d, seq 0 to %d", in.Next, in.Next-1)
	} else {
		line("events", "none")
	}
	if root := rootText(in); root != nil {
		contentText(line, in)
		line("root", "%s", *root)
	}
	ownerText(line, in)
	for _, h := range in.History {
		line(fmt.Sprintf("generation %d", h.Generation), "%s by writer %s from seq %d on, %s", h.Kind, h.Writer, h.First, timeText(h.At))
	}
}

type lineFunc func(name, format string, args ...any)

// fittedLines writes lines of a name and what there is to say about it, in a width;
// 0 leaves them as long as they are.
func fittedLines(out io.Writer, width int) (line lineFunc, flush func()) {
	type said struct{ name, text string }
	var all []said
	names := 0
	line = func(name, format string, args ...any) {
		all = append(all, said{name, oneLine(fmt.Sprintf(format, args...))})
		names = max(names, columns(name))
	}
	return line, func() {
		for _, s := range all {
			room := 0
			if width > 0 {
				room = max(width-names-len(columnGap), fittedLast)
			}
			for i, l := range wrapped(s.text, room) {
				name := s.name
				if i > 0 {
					name = ""
				}
				fmt.Fprintf(out, "%-*s%s%s\n", names, name, columnGap, l)
			}
		}
	}
}

func contentText(line lineFunc, in backend.Info) {
	c := in.Content
	if c.LastTime != nil {
		line("last event", "%s", timeText(*c.LastTime))
	}
	if c.Activity != nil {
		line("activity", "%s", timeText(*c.Activity))
	} else {
		line("activity", "unknown")
	}
	var size, raw int64
	for _, s := range in.Segments {
		size, raw = size+s.Bytes, raw+s.Raw
	}
	line("stored", "%s of %s (%s inflated); manifest of %s with %s in its tail",
		words.Count(len(in.Segments), "segment"), bytesText(size), bytesText(raw), bytesText(in.Bytes), events(in.Tail))
	if o := in.Origin; o != nil {
		from := ""
		if p := o.Parent; p != nil {
			from = fmt.Sprintf(" of %s (uid %s), its first %s", quote(p.Log), p.UID, events(p.UpTo))
		}
		line("origin", "%s%s, born with %s", o.Kind, from, events(o.Inherited))
	}
	if l := in.Lifecycle; l != nil {
		line("lifecycle", "%s since %s, own events from seq %d on, %s", l.Kind, timeText(l.At), l.First, words.Count(l.Closers, "closer"))
	}
	if b := c.Boundary; b != nil {
		line("boundary", "seq %d, %s", b.Seq, timeText(b.Time))
	} else {
		line("boundary", "none")
	}
	line("turn", "%s", turnText(c.Turn))
	if n := len(c.Types.Entries); n > 0 {
		line("types", "%s", typesText(c.Types))
	}
}

func turnText(t *segment.Turn) string {
	if t == nil {
		return "none is open"
	}
	text := fmt.Sprintf("%d is open", t.Turn)
	if t.Step != nil {
		text += fmt.Sprintf(", in step %d", *t.Step)
	}
	for _, c := range t.Calls {
		if c.Seq != nil {
			text += fmt.Sprintf("; call %s of step %d (seq %d) has no result", quote(c.ID), c.Step, *c.Seq)
		} else {
			text += fmt.Sprintf("; call %s of step %d was not started", quote(c.ID), c.Step)
		}
	}
	if t.More {
		text += "; there are more calls than the manifest shows"
	}
	return text
}

func typesText(t segment.Types) string {
	parts := make([]string, 0, len(t.Entries)+1)
	for _, e := range t.Entries {
		parts = append(parts, fmt.Sprintf("%s %d", quote(e.Type), e.Count))
	}
	if t.Overflow != nil {
		parts = append(parts, fmt.Sprintf("others %d", t.Overflow.Count))
	}
	return strings.Join(parts, ", ")
}

func ownerText(line lineFunc, in backend.Info) {
	if in.Owner != nil {
		line("owner", "%s", ownerWords(in.Owner))
	}
	if in.Lease == nil {
		line("lease", "none")
		return
	}
	line("lease", "%s, until %s", in.LeaseState, timeText(in.Lease.Until))
}

func ownerWords(o *manifest.Owner) string {
	label, released := "", "not released"
	if o.Label != "" {
		label = " (" + quote(o.Label) + ")"
	}
	if o.Released {
		released = "released"
	}
	return fmt.Sprintf("writer %s%s, %s", o.Writer, label, released)
}
