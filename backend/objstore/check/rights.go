package check

import (
	"context"
	"errors"
	"strings"

	"github.com/s3log/s3log/backend/objstore"
)

// right is what is known of one right, by tree.
type right struct {
	answers [2]Answer
	err     error // what denied it, or left it open
}

func (r right) all() Answer { return r.answers[0].and(r.answers[1]) }

// finding says what is known of a right.
func (r right) finding(name string) Finding {
	f := Finding{Name: name, Err: r.err}
	var with, without, open []string
	for i, a := range r.answers {
		switch a {
		case Yes:
			with = append(with, trees[i])
		case No:
			without = append(without, trees[i])
		default:
			open = append(open, trees[i])
		}
	}
	switch {
	case without != nil:
		f.Status, f.Seen = Denied, "not permitted below "+strings.Join(without, " and ")
		if with != nil {
			f.Seen += ", permitted below " + strings.Join(with, " and ")
		}
		f.Seen += wordsOf(r.err)
		f.Do = hintOf(r.err)
	case open != nil:
		f.Status, f.Seen = Unknown, "not known below "+strings.Join(open, " and ")
		if r.err != nil {
			f.Seen += ": " + textOf(r.err)
		}
	default:
		f.Status, f.Seen = OK, "permitted below "+strings.Join(with, " and ")
	}
	return f
}

// rights finds out what these credentials may do where logs are, without
// changing anything there.
func (x *examination) rights(ctx context.Context) {
	lists, present := x.mayList(ctx)
	reads, told := x.mayRead(ctx, present)
	writes := x.mayWrite(ctx, present, told)
	deletes := x.mayDelete(ctx, writes)
	x.mayCopy(ctx)

	safe := NotKnown
	switch {
	case x.unsafe():
		safe = No
	case x.proof == nil:
		if race, _ := x.report.Find(NameRace); race.Status != Unknown || race.Err == nil {
			safe = Yes
		}
	case errors.Is(x.proof, objstore.ErrRefused):
		// Where nothing is known, the first write of a process is refused.
		if safe = No; plainlyDenied(x.proof) && (x.place.Trusted || x.opt.Profile.Conditional) {
			safe = Yes
		}
	}
	can := &x.report.Can
	can.Read = reads.all()
	can.Append = reads.answers[0].and(writes.all()).and(safe)
	can.List = lists.answers[0].and(reads.answers[0])
	if x.lists == No {
		can.List = No
	}
	can.Collect = lists.all().and(can.List).and(writes.answers[0]).and(deletes.answers[1]).and(safe)
}

func (x *examination) unsafe() bool {
	for _, f := range x.report.Findings {
		if f.Unsafe {
			return true
		}
	}
	return false
}

// mayList lists up to the first object of each tree, and returns keys of objects
// that are there.
func (x *examination) mayList(ctx context.Context) (r right, present [2]string) {
	for i, tree := range trees {
		var err error
		for info, e := range x.store.List(ctx, tree, "") {
			if err = e; e == nil {
				present[i] = info.Key
			}
			break
		}
		switch {
		case err == nil:
			r.answers[i] = Yes
		case errors.Is(err, objstore.ErrDenied):
			r.answers[i], r.err = No, err
		default:
			r.err = err
		}
	}
	for _, key := range x.opt.Present {
		for i, tree := range trees {
			if strings.HasPrefix(key, tree) {
				present[i] = key
			}
		}
	}
	x.add(r.finding(NameList))
	return r, present
}

// mayRead reads what is there, and what is not: who may read is told that it is
// absent, unless the right to list is wanting, too. told says in which trees.
func (x *examination) mayRead(ctx context.Context, present [2]string) (r right, told [2]bool) {
	for i, tree := range trees {
		_, err := x.get(ctx, absent(tree), objstore.GetOptions{})
		if err == nil || errors.Is(err, objstore.ErrNotExist) {
			r.answers[i], told[i] = Yes, true
		} else {
			r.err = err
		}
		if present[i] == "" {
			if told[i] && errors.Is(x.unread, objstore.ErrDenied) {
				r.answers[i], r.err = NotKnown, x.unread
			}
			continue
		}
		switch _, err := x.get(ctx, present[i], objstore.GetOptions{Length: 1}); {
		case err == nil, errors.Is(err, objstore.ErrRange): // of no bytes: that is fsck's business
			r.answers[i] = Yes
		case errors.Is(err, objstore.ErrRefused):
			r.answers[i], r.err = No, err
		case errors.Is(err, objstore.ErrNotExist): // removed meanwhile, or not there as was said
		default:
			r.answers[i], r.err = NotKnown, err
		}
	}
	f := r.finding(NameRead)
	switch {
	case f.Status == Unknown && r.err == x.unread && r.err != nil:
		f.Status, f.Seen, f.Do = Denied, "what was just written cannot be read: "+textOf(r.err), hintOf(r.err)
		f.Means = "if a KMS key is the reason, no log can be read; else just the right to read below " + probePrefix + " is missing"
	case f.Status == Unknown && errors.Is(r.err, objstore.ErrDenied) && r.answers[0] == Yes:
		f.Seen = "permitted below " + trees[0] + "; what is not there is denied below " + trees[1] + ", and no segment is known"
		f.Do = "name a log that has segments, to tell one from the other: doctor --log ID"
	case f.Status == Unknown && errors.Is(r.err, objstore.ErrDenied):
		f.Status, f.Means, f.Do = Denied, hintOf(r.err), hintLog
		f.Seen = "what is not there is denied below " + trees[0] + " or " + trees[1]
	}
	x.add(f)
	return r, told
}

// mayWrite makes writes on a condition that cannot hold: the replacement of an
// object that is not there. Who may write is told so, unless absence is hidden
// by a denial; then it is the replacement of a version that is not there, by
// what is there already.
func (x *examination) mayWrite(ctx context.Context, present [2]string, told [2]bool) (r right) {
	nowhere := x.place.Nowhere
	if nowhere.IsZero() {
		nowhere = x.version
	}
	switch {
	case x.proof != nil && !x.place.Trusted && !x.opt.Profile.Conditional:
		f := Finding{Name: NameWrite, Status: Unknown, Err: x.proof, Seen: x.whyNotWritten()}
		switch {
		case errors.Is(x.proof, objstore.ErrUnsupported):
			f.Status = Skipped
		case errors.Is(x.proof, objstore.ErrRefused):
			f.Status, f.Do = Denied, hintOf(x.proof)
			f.Seen = "not permitted below " + probePrefix + ", where a store that is not known is tried before anything of a log is written"
			if f.Seen += wordsOf(x.proof); !plainlyDenied(x.proof) {
				f.Seen = textOf(x.proof)
			}
			r.answers = [2]Answer{No, No}
		}
		x.add(f)
		return r
	case nowhere.IsZero():
		x.add(Finding{Name: NameWrite, Status: Skipped, Seen: "not tried: there is no version to put a condition on"})
		return r
	}
	for i, tree := range trees {
		_, err := x.store.Put(ctx, absent(tree), []byte("s3log store check\n"), objstore.IfVersion(nowhere), objstore.PutOptions{})
		if plainlyDenied(err) && !told[i] {
			if again, e := x.rewrite(ctx, present[i], nowhere); again {
				err = e
			} else {
				r.err = err
				continue
			}
		}
		switch {
		case errors.Is(err, objstore.ErrPrecondition):
			r.answers[i] = Yes
		case errors.Is(err, objstore.ErrRefused):
			r.answers[i], r.err = No, err
		case err == nil:
			x.add(Finding{Name: NameConditional, Status: Failed, Unsafe: true, Seen: "a replacement of a version that is not there succeeded below " + tree,
				Means: "conditions are not obeyed there", Do: hintUnsafe})
			r.answers[i] = Yes
		default:
			r.err = err
		}
	}
	f := r.finding(NameWrite)
	switch {
	case f.Status == Unknown && plainlyDenied(r.err):
		f.Seen = "a replacement of what is not there is denied below " + trees[0] + " or " + trees[1]
		f.Means = hintOf(r.err) + "; or absence is hidden from those who may not list"
		f.Do = hintLog
	case x.proof == nil:
		f.Seen += ", and below " + probePrefix
	}
	x.add(f)
	return r
}

// hintLog is what to do where absence is hidden and no object is known.
const hintLog = "name a log that is there, to tell one from the other: doctor --log ID"

// rewrite puts an object where it is already, if it had a version that no object
// has: not even a store that ignores that would lose anything.
func (x *examination) rewrite(ctx context.Context, key string, nowhere objstore.Version) (tried bool, err error) {
	if key == "" || x.proof != nil && !x.place.Trusted {
		return false, nil
	}
	o, err := x.store.Get(ctx, key, objstore.GetOptions{Limit: rewriteLimit})
	if err != nil {
		return false, nil
	}
	// Not by the ledger, which would remove what it takes for a probe.
	_, err = x.store.Store.Put(ctx, key, o.Body, objstore.IfVersion(nowhere), objstore.PutOptions{Metadata: o.Metadata})
	return true, err
}

// rewriteLimit is the size of the largest object that is sent for nothing.
const rewriteLimit = 1 << 20

// mayDelete looks at what became of the probes, and deletes what is not there
// where that leaves nothing behind and tells something.
func (x *examination) mayDelete(ctx context.Context, writes right) (r right) {
	f := Finding{Name: NameDelete}
	x.store.mu.Lock()
	probes, denied := x.store.deleted > 0, x.store.undelete
	x.store.mu.Unlock()
	where := []string{}
	if probes {
		where = append(where, "permitted below "+probePrefix)
	} else if errors.Is(denied, objstore.ErrRefused) {
		f.Err = denied
		where = append(where, "not permitted below "+probePrefix+wordsOf(denied))
	}
	tried := false
	if x.place.Markers != No {
		where = append(where, "not tried below "+trees[1]+", where it might leave a delete marker")
	} else {
		err := writes.err
		if !x.place.DeletesAsWrites || writes.answers[1] != No {
			err = x.store.Delete(ctx, absent(trees[1]))
		}
		tried = true
		switch {
		case err == nil:
			r.answers[1] = Yes
			where = append(where, "permitted below "+trees[1])
		case errors.Is(err, objstore.ErrRefused):
			r.answers[1], f.Err = No, err
			where = append(where, "not permitted below "+trees[1]+wordsOf(err))
		default:
			where = append(where, "not known below "+trees[1]+": "+textOf(err))
		}
	}
	f.Seen = strings.Join(where, ", ")
	switch {
	case f.Err != nil:
		f.Status, f.Do = Denied, hintOf(f.Err)
		f.Means = "writers need it for their probes alone; collecting needs it below " + trees[1]
	case r.answers[1] == Yes || probes:
		f.Status = OK
	case !tried:
		f.Status = Skipped
	default:
		f.Status = Unknown
	}
	x.add(f)
	return r
}

// mayCopy copies a probe inside the store.
func (x *examination) mayCopy(ctx context.Context) {
	f := Finding{Name: NameCopy, Status: OK, Seen: "objects can be copied inside the store"}
	const otherwise = "the bytes of large logs that are forked go through the client"
	if x.written == "" {
		f.Status, f.Seen = Skipped, x.whyNotWritten()
		if x.proof == nil {
			f.Seen = "not tried: there is no probe to copy"
		}
		x.add(f)
		return
	}
	switch _, err := x.store.Copy(ctx, x.written, probeKey()); {
	case err == nil:
	case errors.Is(err, objstore.ErrDenied):
		f.Status, f.Seen, f.Means, f.Do = Denied, textOf(err), otherwise, hintOf(err)
	default:
		f.Status, f.Seen, f.Means, f.Do = Warning, textOf(err), otherwise, hintOf(err)
	}
	x.add(f)
}

// conclude settles what depends on everything else.
func (x *examination) conclude() {
	if x.unsafe() {
		x.report.Can.Append, x.report.Can.Collect = No, No
	}
	if x.unsafe() || !x.report.Profile.Raced {
		x.report.Profile = Profile{}
	}
}
