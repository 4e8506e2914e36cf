package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/s3log/s3log/backend"
)

// The bracket of a compaction, and what stands in it.
const (
	opening = "compaction/start"
	summary = "compaction/summary"
	closing = "compaction/end"
)

// Begin opens the bracket of a compaction on a log, unless one is live, and
// reports whether it did. The verdict and the opening are one atomic step: the
// handle answers without a request, and the append lands only where the log is
// still what the answer was about. Of any number of processes, and of goroutines
// that share a handle, one at most gets true, whatever they saw before.
//
// An error that is ErrOutcomeUnknown leaves it open whether the bracket is.
func Begin(ctx context.Context, l *backend.Log) (bool, error) {
	v, next, err := l.Check(ctx, opening, closing)
	if err != nil || v.Answer == backend.Live {
		return false, err
	}
	_, err = l.Append(ctx, [][]byte{event(opening, map[string]any{})}, backend.AppendOptions{ExpectNext: &next})
	if errors.Is(err, backend.ErrSeqMismatch) || errors.Is(err, backend.ErrFenced) {
		return false, nil // somebody else was first, with this or something else: ask again, or leave it
	}
	return err == nil, err
}

// Compact summarises a log, unless somebody is at it, and reports whether it did.
// It adopts the log, and so replaces its owner: an agent that is at work there
// calls Begin with its own handle instead. A compaction whose owner has died stays
// live until the session is resumed.
func Compact(ctx context.Context, b *backend.Backend, id string, opt backend.AdoptOptions, summarise func(ctx context.Context, events [][]byte) (string, error)) (bool, error) {
	l, err := b.Adopt(ctx, id, opt)
	if err != nil {
		return false, err
	}
	defer func() { _ = l.Close(ctx, backend.CloseOptions{}) }() // it was released, or is not ours
	begun, err := Begin(ctx, l)
	if err != nil || !begun {
		return false, err
	}
	upTo := l.Next() - 1
	events, err := read(ctx, b, id, upTo)
	text := ""
	if err == nil {
		text, err = summarise(ctx, events)
	}
	if err != nil {
		// Nothing was compacted, and others may try, also where it was ctx that ended.
		_, cerr := l.Append(context.WithoutCancel(ctx), [][]byte{event(closing, map[string]any{"error": true})}, backend.AppendOptions{Last: true})
		return false, errors.Join(err, cerr)
	}
	_, err = l.Append(ctx, [][]byte{
		event(summary, map[string]any{"upTo": upTo, "text": text}),
		event(closing, map[string]any{}),
	}, backend.AppendOptions{Last: true})
	return err == nil, err
}

// read reads the events up to a seq.
func read(ctx context.Context, b *backend.Backend, id string, upTo int64) (events [][]byte, err error) {
	for e, err := range b.Events(ctx, id, backend.ReadOptions{To: &upTo}) {
		if err != nil {
			return nil, err
		}
		events = append(events, bytes.Clone(e.Line)) // which is valid only until the next one
	}
	return events, nil
}

func event(typ string, data map[string]any) []byte {
	line, err := json.Marshal(map[string]any{"type": typ, "data": data})
	if err != nil {
		panic(err) // strings and numbers can be encoded
	}
	return line
}
