package report

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

var (
	//go:embed page.tmpl
	pageText string
	//go:embed page.css
	pageStyle string
	//go:embed page.js
	pageScript string
)

// pageTemplate is parsed when the first report is made: most uses of the command
// make none.
//
// cat is the command that prints events of the log.
func pageTemplate(cat string) (*template.Template, error) {
	return template.New("page").Funcs(template.FuncMap{
		"vis":    visible,
		"plain":  plain,
		"size":   bytesText[int64],
		"num":    number[int64],
		"time":   timeText,
		"dur":    duration,
		"events": func(n int64) string { return counted(n, "event") },
		"count":  counted[int],
		"thing":  func(n int64, word string) string { return thing(n, word) },
		"group":  grouped,
		"cat":    func() string { return cat },
		"short":  func(h segment.Hash) string { return h.String()[:16] + "…" },
	}).Parse(pageText)
}

// hashOf is how a content security policy names what it lets run.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// page is what the template shows.
type page struct {
	Policy string
	Style  template.CSS
	Script template.JS
	Data   pageData

	Info     *backend.Info
	Title    string // of the session
	Header   string
	Owner    string
	Lease    string
	Models   []string
	Raw      int64 // bytes of the events that were read
	Stored   int64 // bytes of the objects
	Made     string
	Software string
	Store    string

	Checked  backend.Report
	OK       bool
	Did      []string // what the verification checked
	Not      []string // what it did not
	Root     string   // SIZE:ROOT as of Info; what the manifest says, and proved if OK
	Grown    int64    // events that came while the report was made
	Unread   int64    // events of Info
	Readable int64    // the others
	Doubtful int64    // of these, in objects that are not what the manifest means; 0 where that is not known
	Shell    string   // the id, for a command line
	Verdicts []verdict
	Unused   []string

	Lineage    []ancestor
	Lifecycles []lifecycle
	Types      []*typeStat
	Charts     []chart
	Paid       bool
	Usage      usage

	Blocks  []*block
	Turns   int64
	Left    bool  // blocks were put together, or items left out
	NoText  bool  // events are without their text
	RowsEnd int64 // seq from which on events are left out; -1: none
	Parts   []part
}

// pageData is what the script needs beside the events.
type pageData struct {
	Log   string   `json:"log"`
	Next  int64    `json:"next"`
	Types []string `json:"types"`
	Full  int64    `json:"full"`
	Cat   string   `json:"cat"` // the command that prints events
}

// MarshalJSON escapes what would be invisible in the page's source, too.
func (d pageData) MarshalJSON() ([]byte, error) {
	type plain pageData
	text, err := json.Marshal(plain(d))
	if err != nil {
		return nil, err
	}
	escaped := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case !invisible(r):
			escaped = utf8.AppendRune(escaped, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			escaped = fmt.Appendf(escaped, `\u%04x\u%04x`, high, low)
		default:
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		}
	}
	return escaped, nil
}

func newPage(info *backend.Info, checked backend.Report, t *timeline, lineage []ancestor, opt Options) (*page, error) {
	p := &page{
		Policy: "default-src 'none'; base-uri 'none'; form-action 'none'; style-src " + hashOf(pageStyle) + "; script-src " + hashOf(pageScript) +
			"; require-trusted-types-for 'script'; trusted-types report",
		Style: template.CSS(pageStyle), Script: template.JS(pageScript), // ours
		Data: pageData{Log: info.Log, Next: info.Next, Types: t.rows.types, Full: t.rows.full},
		Info: info, Title: t.title, Header: string(info.Header), Models: t.models, Raw: t.bytes, Stored: info.Bytes,
		Made: timeText(opt.Now.UnixMilli()), Software: opt.Software, Store: opt.Store,
		Checked: checked, OK: checked.OK() && t.damage == nil, Grown: max(0, checked.Size-info.Next),
		Unread: t.unread, Readable: info.Next - t.unread, Shell: words.Shell(info.Log),
		Root:    backend.Point{Size: info.Next, Root: info.Content.Tree.Root}.String(),
		Lineage: lineage, Lifecycles: lifecycles(info, t), Paid: t.paid, Usage: t.usage,
		Blocks: t.blocks, RowsEnd: t.rows.full, Parts: t.rows.parts,
		NoText: t.rows.size >= opt.Limits.Events,
	}
	p.Data.Cat = "s3logctl cat " + p.Shell
	if !p.OK {
		p.Data.Cat += " --salvage"
	}
	if p.Grown == 0 {
		p.Doubtful = max(0, p.Readable-checked.Events)
	}
	for _, s := range info.Segments {
		p.Stored += s.Bytes
	}
	for _, c := range checked.Checked {
		if rest, not := strings.CutPrefix(c, "not "); not {
			p.Not = append(p.Not, rest)
		} else if rest, neither := strings.CutPrefix(c, "neither "); neither {
			p.Not = append(p.Not, rest)
		} else {
			p.Did = append(p.Did, c)
		}
	}
	if o := info.Owner; o != nil {
		p.Owner = "writer " + o.Writer
		if o.Label != "" {
			p.Owner += " (" + o.Label + ")"
		}
		p.Owner += map[bool]string{true: ", released", false: ", not released"}[o.Released]
	}
	p.Lease = info.LeaseState
	if info.Lease != nil {
		p.Lease += ", until " + timeText(info.Lease.Until)
	}
	p.Verdicts, p.Unused = t.verdicts()
	for _, s := range t.types {
		p.Types = append(p.Types, s)
	}
	slices.SortFunc(p.Types, func(a, b *typeStat) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Type, b.Type)) })
	for _, b := range t.blocks {
		if b.Kind == blockTurn {
			p.Turns++
		}
		p.Left = p.Left || b.Kind == blockRest || b.Left > 0
	}
	p.Charts = charts(t)
	return p, nil
}

// Last is the seq of the log's last event.
func (p *page) Last() int64 { return p.Info.Next - 1 }

// Took is how long a turn took, as its events say.
func (b *block) Took() string { return duration(b.End - b.Start) }

// Began is when a block began, to the second.
func (b *block) Began() string {
	text := timeText(b.Start)
	if i := strings.LastIndexByte(text, '.'); i > 0 {
		return text[:i]
	}
	return text
}

// TypeList is which events are in a block that is no turn.
func (b *block) TypeList() string {
	var list []string
	for _, typ := range slices.SortedFunc(maps.Keys(b.types), func(x, y string) int {
		return cmp.Or(cmp.Compare(b.types[y], b.types[x]), cmp.Compare(x, y))
	}) {
		if n := b.types[typ]; n > 1 {
			typ += " ×" + number(n)
		}
		list = append(list, typ)
	}
	if more := len(list) - mostTypes; more > 0 {
		list = append(list[:mostTypes], fmt.Sprintf("%d more types", more))
	}
	return strings.Join(list, ", ")
}

// mostTypes is how many types a line names.
const mostTypes = 5

// Offset is when an item came, as its event says.
func (i *item) Offset() string {
	if i.At < 0 {
		return duration(i.At)
	}
	return "+" + duration(i.At)
}

func (p *page) write(w io.Writer) error {
	tmpl, err := pageTemplate(p.Data.Cat)
	if err != nil {
		return fmt.Errorf("the report's template: %w", err)
	}
	out := bufio.NewWriterSize(w, 64<<10)
	if err := tmpl.Execute(out, p); err != nil {
		return err
	}
	return out.Flush()
}

// lifecycle is a part of a log between two boundaries.
type lifecycle struct {
	First, Last int64 // seqs; the boundary that ends it is the last
	How         string
	Closers     int64
	Begun       *int64 // time of the boundary before it
	Generations []manifest.Takeover
}

// lifecycles splits a log at its boundaries.
func lifecycles(info *backend.Info, t *timeline) (list []lifecycle) {
	how, first := info.Origin.Kind, int64(0)
	if info.Origin.Inherited > 0 {
		how = "inherited by the " + how
	}
	var begun *int64
	add := func(last int64) {
		l := lifecycle{First: first, Last: last, How: how, Begun: begun}
		for _, g := range info.History {
			if g.First >= first && (g.First <= last || last == info.Next-1) {
				l.Generations = append(l.Generations, g)
			}
		}
		list = append(list, l)
	}
	for i, b := range t.bounds {
		if b.Seq >= first {
			add(b.Seq)
		}
		first, how, begun = b.Seq+1, "behind a boundary", &t.bounds[i].Time
		if first < info.Origin.Inherited {
			how = "inherited, " + how
		}
	}
	if l := info.Lifecycle; l != nil && len(t.bounds) > 0 {
		how = l.Kind
	}
	add(info.Next - 1)
	if l := info.Lifecycle; l != nil {
		list[len(list)-1].Closers = l.Closers
	}
	return list
}
