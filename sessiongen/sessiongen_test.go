package sessiongen

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/s3log/s3log/segment"
	"github.com/s3log/s3log/sessionfile"
)

// each calls do with every event of a session. Lines are valid during the call.
func each(t testing.TB, opt Options, do func(e segment.Event)) *Generator {
	t.Helper()
	g := New(opt)
	for seq := int64(0); ; seq++ {
		line, ok := g.Next()
		if !ok {
			return g
		}
		e, err := segment.ParseEvent(line, segment.Limits{})
		if err != nil {
			t.Fatalf("event %d: %v\n%.300s", seq, err, line)
		}
		if e.Seq != seq {
			t.Fatalf("event %d has seq %d", seq, e.Seq)
		}
		do(e)
	}
}

func session(opt Options) []byte {
	g := New(opt)
	out := append(g.Header(), '\n')
	for {
		line, ok := g.Next()
		if !ok {
			return out
		}
		out = append(append(out, line...), '\n')
	}
}

var profiles = []Profile{Stream, Agent}

func TestEqualOptionsGiveEqualBytes(t *testing.T) {
	for _, profile := range profiles {
		opt := Options{Seed: 7, Events: 3000, Profile: profile}
		one := session(opt)
		if !bytes.Equal(one, session(opt)) {
			t.Errorf("%s: differs from run to run", profile)
		}
		opt.Seed++
		if bytes.Equal(one, session(opt)) {
			t.Errorf("%s: the seed changes nothing", profile)
		}
	}
	// Generators share nothing.
	a, b := New(Options{Seed: 7}), New(Options{Seed: 7})
	for {
		x, okX := a.Next()
		New(Options{Seed: 9}).Next()
		y, okY := b.Next()
		if !bytes.Equal(x, y) || okX != okY {
			t.Fatalf("%s\n%s", x, y)
		}
		if !okX {
			break
		}
	}
}

// A longer session begins like a shorter one, up to the shorter one's ending.
func TestLongerSessionsBeginAlike(t *testing.T) {
	short, long := session(Options{Seed: 3, Events: 2000}), session(Options{Seed: 3, Events: 9000})
	same := 0
	for same < len(short) && short[same] == long[same] {
		same++
	}
	if same < len(short)*8/10 {
		t.Errorf("only %d of %d bytes are the same", same, len(short))
	}
}

func TestHeader(t *testing.T) {
	h := New(Options{Seed: 1, ID: "a\"<b\xff", Start: 5}).Header()
	const want = `{"type":"session","version":0,"id":"a\"<b�","createdAt":5,"cwd":"/home/dev/workspace","delegationDepth":0}`
	if string(h) != want {
		t.Errorf("header is %s, want %s", h, want)
	}
	if err := sessionfile.CheckHeader(New(Options{Seed: 1}).Header()); err != nil {
		t.Error(err)
	}
	if a, b := New(Options{Seed: 1}).Header(), New(Options{Seed: 2}).Header(); bytes.Equal(a, b) {
		t.Error("two sessions have the same id")
	}
}

// The number of events is exact, whatever it is.
func TestExactNumberOfEvents(t *testing.T) {
	for _, profile := range profiles {
		for open := range OpenCompaction<<1 - 1 {
			for n := int64(1); n < 500; n += 1 + n/20 {
				count := int64(0)
				each(t, Options{Seed: uint64(n), Events: n, Profile: profile, OpenAtEnd: open}, func(segment.Event) { count++ })
				if count != n {
					t.Fatalf("%s, open %d: %d events, want %d", profile, open, count, n)
				}
			}
		}
	}
}

func TestTurns(t *testing.T) {
	for _, profile := range profiles {
		for open := range OpenCompaction<<1 - 1 {
			for _, turns := range []int{0, 1, 2, 9} {
				want := max(turns, 1)
				g := each(t, Options{Seed: 5, Turns: turns, Profile: profile, OpenAtEnd: open}, func(segment.Event) {})
				if g.turn != int64(want) {
					t.Errorf("%s, open %d: %d turns, want %d", profile, open, g.turn, want)
				}
			}
		}
	}
}

// The plan of a unit says exactly how many events it has.
func TestPlansCountTheirEvents(t *testing.T) {
	for _, profile := range profiles {
		g := New(Options{Seed: 11, Profile: profile})
		for range 5000 {
			u := g.plan()
			g.unit, g.ends = g.unit[:0], g.ends[:0]
			g.write(&u)
			if got := int64(len(g.ends)); got != u.events() {
				t.Fatalf("%s: %d events, planned %d: %+v", profile, got, u.events(), u)
			}
		}
	}
}

func TestTimes(t *testing.T) {
	var last, back, deltas, gaps int64
	previous := ""
	each(t, Options{Seed: 1, Events: 200_000, Start: 1000, MeanDelta: 20 * time.Millisecond}, func(e segment.Event) {
		if e.Seq == 0 {
			last = e.Time
		}
		gap := e.Time - last
		if gap < 0 {
			back++
		}
		if gap < -10 {
			t.Errorf("seq %d: the clock goes back by %d ms", e.Seq, -gap)
		}
		if e.Type == "assistant/chunk" && previous == e.Type {
			deltas++
			gaps += gap
		}
		last, previous = e.Time, e.Type
	})
	if mean := float64(gaps) / float64(deltas); mean < 15 || mean > 25 {
		t.Errorf("the mean time between deltas is %.1f ms", mean)
	}
	if back == 0 || back > 2000 {
		t.Errorf("the clock goes back %d times", back)
	}
}

// Sizes and proportions follow those measured on real sessions.
func TestStreamDistribution(t *testing.T) {
	const n = 200_000
	sizes := map[string][]int{}
	total := 0
	each(t, Options{Seed: 2, Events: n}, func(e segment.Event) {
		sizes[e.Type] = append(sizes[e.Type], len(e.Line))
		total += len(e.Line) + 1
	})
	between(t, "mean event", float64(total)/n, 190, 208)
	chunks := sizes["assistant/chunk"]
	between(t, "share of chunks", 100*float64(len(chunks))/n, 79, 84)
	between(t, "median chunk", quantile(chunks, 0.5), 138, 160)
	for typ, want := range map[string][3]float64{ // events per 10,000, and the bounds of the median size
		"user/message":      {70, 300, 700},
		"assistant/message": {280, 400, 800},
		"tool/call":         {270, 180, 320},
		"tool/result":       {270, 400, 800},
		"step/start":        {280, 70, 95},
		"step/end":          {280, 70, 95},
		"turn/start":        {70, 60, 90},
		"turn/end":          {70, 80, 120},
	} {
		got := sizes[typ]
		between(t, typ+" per 10,000", float64(len(got))*10_000/n, want[0]*0.75, want[0]*1.3)
		between(t, typ+" median size", quantile(got, 0.5), want[1], want[2])
	}
	for _, typ := range []string{"request/header", "request/context", "session/title", "llm/retry", "llm/retry-started", "approval/asked",
		"approval/decided", "hook/invoked", "hook/result", "todo/write", "command/run", "command/done", "agent/inbox/spliced",
		"compaction/start", "compaction/summary", "compaction/end"} {
		if len(sizes[typ]) == 0 {
			t.Errorf("no %s among %d events", typ, n)
		}
	}
}

func TestAgentDistribution(t *testing.T) {
	const n = 40_000
	var sizes []int
	total, huge := 0, 0
	each(t, Options{Seed: 2, Events: n, Profile: Agent}, func(e segment.Event) {
		sizes = append(sizes, len(e.Line))
		total += len(e.Line) + 1
		if len(e.Line) >= 50_000 {
			huge++
		}
		if e.Type == "assistant/chunk" {
			t.Fatalf("seq %d is a chunk", e.Seq)
		}
	})
	between(t, "median event", quantile(sizes, 0.5), 700, 1300)
	between(t, "90th percentile", quantile(sizes, 0.9), 3500, 8000)
	between(t, "99th percentile", quantile(sizes, 0.99), 40_000, 75_000)
	between(t, "greatest event", quantile(sizes, 1), 150_000, 230_000)
	between(t, "mean event", float64(total)/n, 2000, 4500)
	between(t, "percent of 50 KB and more", 100*float64(huge)/n, 0.7, 1.4)
}

// Text shrinks about as much as that of real sessions.
func TestCompressibility(t *testing.T) {
	for profile, want := range map[Profile][4]float64{
		Stream: {4.8, 5.8, 8.8, 10.6},
		Agent:  {4.5, 7, 6, 9},
	} {
		small, large := newShrinker(t), newShrinker(t)
		events := int64(60_000)
		if profile == Agent {
			events = 4000
		}
		each(t, Options{Seed: 4, Events: events, Profile: profile}, func(e segment.Event) {
			small.add(e.Line)
			large.add(e.Line)
			if e.Seq%25 == 24 {
				small.frame()
			}
			if len(large.text) >= 256<<10 {
				large.frame()
			}
		})
		between(t, string(profile)+": frames of 25 events", small.ratio(), want[0], want[1])
		between(t, string(profile)+": frames of 256 KiB", large.ratio(), want[2], want[3])
	}
}

type shrinker struct {
	enc     *zstd.Encoder
	text    []byte
	raw, in int
}

func newShrinker(t *testing.T) *shrinker {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	return &shrinker{enc: enc}
}

func (s *shrinker) add(line []byte) { s.text = append(append(s.text, line...), '\n') }

func (s *shrinker) frame() {
	s.raw += len(s.text)
	s.in += len(s.enc.EncodeAll(s.text, nil))
	s.text = s.text[:0]
}

func (s *shrinker) ratio() float64 { return float64(s.raw) / float64(s.in) }

func between(t *testing.T, what string, got, low, high float64) {
	t.Helper()
	t.Logf("%s: %.2f", what, got)
	if got < low || got > high {
		t.Errorf("%s is %.2f, want %.2f to %.2f", what, got, low, high)
	}
}

func quantile(sizes []int, q float64) float64 {
	if len(sizes) == 0 {
		return 0
	}
	slices.Sort(sizes)
	return float64(sizes[int(q*float64(len(sizes)-1))])
}

// Streams can be packed, and come back as they were.
func TestStreamsPack(t *testing.T) {
	for _, profile := range profiles {
		events := int64(20_000)
		if profile == Agent {
			events = 2000
		}
		g := New(Options{Seed: 8, Events: events, Profile: profile})
		var plain, packed bytes.Buffer
		wPlain, errPlain := sessionfile.NewWriter(&plain, sessionfile.WriterOptions{})
		wPacked, errPacked := sessionfile.NewWriter(&packed, sessionfile.WriterOptions{Pack: true})
		if err := errors.Join(errPlain, errPacked, wPlain.WriteHeader(g.Header()), wPacked.WriteHeader(g.Header())); err != nil {
			t.Fatal(err)
		}
		var lines []string
		for line, ok := g.Next(); ok; line, ok = g.Next() {
			lines = append(lines, string(line))
			if err := errors.Join(wPlain.WriteEvent(line), wPacked.WriteEvent(line)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(wPlain.Close(), wPacked.Close()); err != nil {
			t.Fatal(err)
		}
		ratio := float64(packed.Len()) / float64(plain.Len())
		t.Logf("%s: packing leaves %.0f %% of the bytes, %d of %d lines", profile, 100*ratio, bytes.Count(packed.Bytes(), []byte{'\n'}), len(lines)+1)
		if profile == Stream && ratio > 0.6 {
			t.Errorf("packing leaves %.2f of the bytes", ratio)
		}
		r, err := sessionfile.NewReader(&packed, sessionfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line, err := range r.Events() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(line.Bytes))
		}
		if !cmp.Equal(lines, got) {
			t.Errorf("%s: lines changed", profile)
		}
	}
}

// A million events of about 250 MB need no more memory than a thousand.
func TestMemoryIsConstant(t *testing.T) {
	g := New(Options{Seed: 6, Events: 1 << 62})
	var size int64
	const n = 1_300_000
	for range n {
		line, ok := g.Next()
		if !ok {
			t.Fatal("the session ended")
		}
		size += int64(len(line)) + 1
	}
	held := cap(g.unit) + 8*cap(g.ends) + 8*cap(g.surface) + cap(g.content) + cap(g.prompt) + cap(g.system)
	for i := range maxCalls {
		held += cap(g.callArgs[i]) + cap(g.callIDs[i])
	}
	t.Logf("%d events have %.1f MB; %d bytes are held", n, float64(size)/1e6, held)
	between(t, "MB of 1.3 million events", float64(size)/1e6, 235, 275)
	if held > 8<<20 {
		t.Errorf("%d bytes are held", held)
	}
}

func BenchmarkNext(b *testing.B) {
	for _, profile := range profiles {
		b.Run(string(profile), func(b *testing.B) {
			b.ReportAllocs()
			g := New(Options{Seed: 1, Events: 1 << 62, Profile: profile})
			n := 0
			for b.Loop() {
				line, _ := g.Next()
				n += len(line)
			}
			b.SetBytes(int64(n / b.N))
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func ExampleGenerator() {
	g := New(Options{Seed: 1, Events: 3})
	fmt.Println(len(g.Header()) > 0)
	for line, ok := g.Next(); ok; line, ok = g.Next() {
		fmt.Printf("%.40s\n", line)
	}
	// Output:
	// true
	// {"type":"todo/write","seq":0,"time":1767
	// {"type":"todo/write","seq":1,"time":1767
	// {"type":"todo/write","seq":2,"time":1767
}
