package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/internal/words"
)

// Options say how thoroughly to look. The zero value takes some seconds on a
// store nearby, and some 2,000 requests.
type Options struct {
	// Rounds and Racers size the races; 0 means 25 rounds of 16 racers.
	Rounds, Racers int
	// Profile is what is known about the store already. The checks are made all
	// the same; where nothing may be written below probe/ it is believed.
	Profile Profile
	// Present are keys of objects that are there. Credentials that may not list
	// are told "denied" where there is no object, so that nothing but a key that is
	// known tells whether they may read.
	Present []string
	// Each, if not nil, is called with each finding as soon as it is made, one at
	// a time.
	Each func(Finding)
}

// Describer is an optional ability of a driver: to tell about its place what the
// methods of a store do not.
type Describer interface {
	// Describe looks at the place. It changes nothing but what scope permits.
	Describe(ctx context.Context, scope Scope) Description
}

// Scope says what a driver may do to describe its place.
type Scope struct {
	// Write says that objects may be written under keys that begin with Probe and
	// go on with lower-case hex digits: these credentials may, and conditions are
	// honoured.
	Write bool
	Probe string
	// Wrote is to be told the key of every object that may have been written, and
	// sees to its removal.
	Wrote func(key string)
}

// Description is what a driver tells about its place.
type Description struct {
	Name string // in messages
	// Trusted says that conditional writes are known to be honoured there.
	Trusted bool
	// Nowhere is a version that no object has; may be zero.
	Nowhere objstore.Version
	// Markers says whether to delete what is not there leaves something behind.
	Markers Answer
	// DeletesAsWrites says that whoever may write may delete, and that to delete what
	// is not there tells nothing.
	DeletesAsWrites bool
	Findings        []Finding
}

// trees are where the objects of logs are.
var trees = [2]string{"manifests/", "segments/"}

const (
	reachTimeout   = 30 * time.Second
	raceBudget     = time.Minute
	cleanupTimeout = 30 * time.Second
	fewCreates     = 4 // where a key that was created stays for ever
	fewRaces       = 8 // a racy store may well pass less than these
)

// Examine finds out what a store and the credentials that it was opened with
// can do. It writes below probe/ alone, removes what it wrote if that is
// permitted, and works with credentials that may only read. A store that has a
// Guard is refused by it like any writer; give the driver itself where there is
// a choice. A report is returned also when ctx ends, as far as it got by then.
func Examine(ctx context.Context, store objstore.Store, opt Options) *Report {
	if opt.Rounds == 0 {
		opt.Rounds = 25
	}
	x := &examination{
		store: &ledger{Store: store, keys: map[string]bool{}}, opt: opt,
		report: &Report{},
	}
	if d, ok := find[Describer](store); ok {
		x.describer = d
	}
	x.run(ctx)
	return x.report
}

// examination is one run of Examine.
type examination struct {
	store     *ledger
	describer Describer
	opt       Options
	report    *Report
	place     Description

	proof    error // of Prove; nil if it was passed
	written  string
	version  objstore.Version // of the probe written, if it is there
	unread   error            // why that probe cannot be read
	lists    Answer           // whether lists can be relied upon
	date     time.Time        // that the store said
	seen     time.Time        // when it did, by our clock
	clock    bool             // they were compared
	replaced []string         // names that the driver has findings for
}

// add files a finding.
func (x *examination) add(f Finding) {
	if slices.Contains(x.replaced, f.Name) {
		return
	}
	x.report.Findings = append(x.report.Findings, f)
	if x.opt.Each != nil {
		x.opt.Each(f)
	}
}

func (x *examination) run(ctx context.Context) {
	if !x.reach(ctx) {
		return
	}
	x.conditions(ctx)
	for _, step := range []func(context.Context){
		func(ctx context.Context) { x.describe(ctx, x.proof == nil) },
		x.races, x.speed, x.consistency, x.listing, x.metadata, x.rights,
	} {
		if ctx.Err() != nil {
			break
		}
		step(ctx)
	}
	x.clean(ctx)
	x.conclude()
}

// skips files a finding that nothing was tried, where nothing may be written.
func (x *examination) skips(name string) bool {
	if x.proof == nil {
		return false
	}
	x.add(Finding{Name: name, Status: Skipped, Seen: x.whyNotWritten()})
	return true
}

func (x *examination) whyNotWritten() string {
	switch {
	case errors.Is(x.proof, objstore.ErrUnsupported):
		return "not tried: the store is not safe to write to"
	case errors.Is(x.proof, objstore.ErrDenied):
		return "not tried: these credentials may not write below " + probePrefix
	}
	return "not tried: the proof could not be finished"
}

// reach asks for an object that is not there.
func (x *examination) reach(ctx context.Context) bool {
	soon, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	_, err := x.get(soon, absent(trees[0]), objstore.GetOptions{})
	if err == nil {
		x.add(Finding{Name: NameReach, Status: Failed, Seen: "it has an object of a name that was just made up",
			Means: "what answers there is no store of objects", Do: "check the endpoint, and what stands between here and there"})
		return false
	}
	if errors.Is(err, objstore.ErrNotExist) || plainlyDenied(err) {
		x.add(Finding{Name: NameReach, Status: OK, Seen: "it answers, and takes these credentials"})
		x.compareClocks()
		return true
	}
	f := Finding{Name: NameReach, Status: Failed, Seen: textOf(err), Do: hintOf(err), Err: err}
	switch {
	case errors.Is(err, objstore.ErrDenied):
		f.Means = "these credentials are not accepted"
	case errors.Is(err, objstore.ErrNoCredentials):
		f.Seen = saidOf(err)
	case errors.Is(err, objstore.ErrRefused) && !answered(err):
		f.Means = "no request was sent: nothing is known of the store before"
	case errors.Is(err, objstore.ErrRefused):
		f.Means = "it answers, and does not serve requests as they are"
	default:
		f.Means = "nothing is known of the store until it answers"
	}
	x.add(f)
	x.compareClocks()
	if errors.Is(err, objstore.ErrRefused) && answered(err) {
		x.describe(ctx, false)
	}
	return false
}

// absent is a key that no log has, where nothing is. Like all that begins with a
// dot, it would not be taken for anything if it were there.
func absent(tree string) string {
	return tree + ".probe-" + nonce()
}

// plainlyDenied reports whether err denies a right, and not the credentials as
// such.
func plainlyDenied(err error) bool {
	var e *objstore.Error
	return errors.Is(err, objstore.ErrDenied) && errors.As(err, &e) && (e.Code == "" || e.Code == "AccessDenied")
}

func (x *examination) conditions(ctx context.Context) {
	_, x.proof = Prove(ctx, x.store)
	f := Finding{Name: NameConditional, Err: x.proof}
	switch err := x.proof; {
	case err == nil:
		f.Status, f.Seen = OK, "If-None-Match and If-Match are obeyed, also by two writes at once"
	case errors.Is(err, objstore.ErrUnsupported):
		f.Status, f.Unsafe, f.Seen = Failed, true, reasonOf(err)
		f.Means, f.Do = "two writers would overwrite each other and both be told that they succeeded; reading is safe", hintOf(err)
	case errors.Is(err, objstore.ErrDenied):
		f.Status, f.Seen = Skipped, x.whyNotWritten()+wordsOf(err)
	default:
		f.Status, f.Seen, f.Do = Unknown, textOf(err), hintOf(err)
		f.Means = "whether writing is safe is not known"
	}
	x.add(f)
}

func (x *examination) races(ctx context.Context) {
	if x.skips(NameRace) {
		return
	}
	opt := RaceOptions{Racers: x.opt.Racers, Rounds: x.opt.Rounds, Budget: raceBudget}
	if x.store.keeps() {
		opt.Creates = fewCreates
	}
	result, err := Race(ctx, x.store, opt)
	f := Finding{Name: NameRace, Err: err}
	switch {
	case err == nil:
		f.Status = OK
		f.Seen = words.Count(result.Races, "race") + ", each with one winner"
		if result.Undecided > 0 {
			f.Seen += fmt.Sprintf("; of %d others not all replies came", result.Undecided)
		}
		if result.Races < fewRaces {
			f.Status, f.Means = Unknown, "too few to conclude anything"
		} else {
			x.report.Profile.Conditional, x.report.Profile.Raced = true, true
		}
		if result.Throttled > 0 {
			x.report.Profile.Rate = 1 // until it is measured
		}
	case errors.Is(err, objstore.ErrUnsupported):
		f.Status, f.Unsafe, f.Seen = Failed, true, reasonOf(err)
		f.Means, f.Do = "one request at a time is obeyed; of several at a time more than one succeeds, and what the others wrote is lost. Reading is safe", hintOf(err)
	default:
		f.Status, f.Seen, f.Do = Unknown, textOf(err), hintOf(err)
		f.Means = "whether several writers at a time are safe is not known"
	}
	x.add(f)
}

// describe takes what the driver knows.
func (x *examination) describe(ctx context.Context, writes bool) {
	if x.describer == nil {
		return
	}
	x.place = x.describer.Describe(ctx, Scope{Write: writes, Probe: probeKey(), Wrote: x.store.wrote})
	x.report.Store = x.place.Name
	x.report.ProfileUseless = x.place.Trusted
	for _, f := range x.place.Findings {
		x.add(f)
	}
	for _, f := range x.place.Findings {
		x.replaced = append(x.replaced, f.Name)
	}
}

// clean removes the probes that are still there.
func (x *examination) clean(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	total := x.store.total()
	if total == 0 {
		return
	}
	x.report.Left = x.store.remove(ctx)
	f := Finding{Name: NameProbes, Status: OK, Seen: "all that was written is removed"}
	if n := len(x.report.Left); n > 0 {
		f.Status = Warning
		f.Seen = fmt.Sprintf("%d of %d objects that were written could not be removed: %s", n, total, strings.Join(x.report.Left[:min(n, 5)], ", "))
		if n > 5 {
			f.Seen += ", …"
		}
		f.Means = "they are a few bytes each, and no log knows them"
		f.Do = "gc removes them, or let a lifecycle rule expire what is below " + probePrefix
	}
	x.add(f)
}

// get reads, and looks at the clock by the way.
func (x *examination) get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	o, err := x.store.Get(ctx, key, opt)
	date := o.Date
	if err != nil {
		date = objstore.DateOf(err)
	}
	if !date.IsZero() && x.date.IsZero() {
		x.date, x.seen = date, time.Now()
	}
	return o, err
}

// compareClocks does so once, if the store has said a time.
func (x *examination) compareClocks() {
	if !x.clock && !x.date.IsZero() {
		x.clock = true
		x.add(Clock(x.date, x.seen))
	}
}

// reasonOf is why a proof or a race failed, without what it was.
func reasonOf(err error) string {
	var e *objstore.Error
	if errors.As(err, &e) && e.Err != nil {
		if why, ok := strings.CutPrefix(e.Err.Error(), aboutProof); ok {
			return why
		}
	}
	return textOf(err)
}

// textOf is what an error says; hintOf what can be done about it.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// saidOf is what an error says, without what was done to which object.
func saidOf(err error) string {
	var e *objstore.Error
	if !errors.As(err, &e) {
		return textOf(err)
	}
	bare := *e
	bare.Op, bare.Key = "", ""
	said := strings.TrimPrefix(bare.Error(), " : ")
	return strings.TrimPrefix(said, objstore.ErrRefused.Error()+": ")
}

// wordsOf is what the store itself says about a denial, as the end of a text: often
// which action on what. It is empty where that says no more than the class.
func wordsOf(err error) string {
	var e *objstore.Error
	if !errors.As(err, &e) || e.Status == 0 || e.Err == nil {
		return ""
	}
	words := strings.TrimSuffix(e.Err.Error(), ".")
	for _, plain := range []string{"", "Access Denied", "AccessDenied", "Forbidden"} {
		if strings.EqualFold(words, plain) {
			return ""
		}
	}
	return ". The store says: " + words
}

// answered reports whether an error is the reply of a server.
func answered(err error) bool {
	var e *objstore.Error
	return errors.As(err, &e) && e.Status != 0
}

func hintOf(err error) string {
	var e *objstore.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}
