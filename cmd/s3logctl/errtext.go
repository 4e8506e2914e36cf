package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// errorText is an error for people. An error of the library names at every step
// what it was doing, on which log and object: that is for whoever holds one link of
// the chain. Here the whole chain is read at once, so that each of them is named
// once, and the verb is the one that was typed:
//
//	verb "log" (object "key") at seq 3: what is wrong
//
// Without a verb, that of the innermost step is left out, too.
func errorText(err error, verb string) string {
	if err == nil {
		return ""
	}
	return (&errorWriter{verb: verb}).text(err)
}

// interruptedText is what is said of the user's own Ctrl-C.
const interruptedText = "interrupted"

// errorWriter is a text in the making: what it has named already.
type errorWriter struct {
	verb   string
	begun  bool // log, key and seq are those of the first step
	log    string
	key    string
	seq    int64
	absent bool  // that something is not there
	class  error // what the store's reply meant
}

func (w *errorWriter) text(err error) string {
	switch e := err.(type) { //nolint:errorlint // every link of the chain has its own turn
	case *backend.OpError:
		return joined(w.step(e), w.text(e.Err))
	case *objstore.Error:
		return w.reply(e)
	case *segment.EventError:
		// Which one of a batch it is means nothing to whoever has lines of a file.
		alone := *e
		alone.Index = -1
		return alone.Error()
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return w.around(err.Error(), inner)
		}
	case interface{ Unwrap() []error }:
		return w.around(err.Error(), e.Unwrap()...)
	}
	switch err { //nolint:errorlint // the sentinels themselves
	case backend.ErrNotFound, backend.ErrMissing:
		w.absent = true
	case context.DeadlineExceeded:
		return "it took too long"
	}
	if errors.Is(err, context.Canceled) { // or a signal
		return interruptedText
	}
	return err.Error()
}

// around is a text with the texts of its causes in their places.
func (w *errorWriter) around(whole string, causes ...error) string {
	var b strings.Builder
	for _, cause := range causes {
		if cause == nil || cause.Error() == "" {
			continue
		}
		before, after, found := strings.Cut(whole, cause.Error())
		if !found {
			continue
		}
		text := w.text(cause)
		if text == "" {
			before = strings.TrimSuffix(before, ": ")
		}
		b.WriteString(before + text)
		whole = after
	}
	return strings.TrimSuffix(b.String()+whole, ": ")
}

// step names what was done to what, as far as that is new.
func (w *errorWriter) step(e *backend.OpError) string {
	if !w.begun {
		w.begun = true
		w.log, w.key, w.seq = e.Log, e.Key, e.Seq
		w.gather(e.Err)
		first := manifest.OpError{Op: w.verb, Log: w.log, Key: w.key, Seq: w.seq}
		return strings.TrimSpace(first.Error())
	}
	if e.Log != w.log && e.Log != "" {
		other := manifest.OpError{Op: stepWord(e.Op), Log: e.Log, Seq: e.Seq}
		if e.Key != w.key {
			other.Key = e.Key
		}
		w.key = e.Key
		return other.Error()
	}
	inner := manifest.OpError{Seq: -1}
	if e.Key != w.key {
		inner.Key = e.Key
	}
	if e.Seq != w.seq {
		inner.Seq = e.Seq
	}
	return strings.TrimSpace(inner.Error())
}

// gather takes object and seq of the steps below that are about the same log, as
// far as the first one does not know them.
func (w *errorWriter) gather(err error) {
	for e, ok := errors.AsType[*backend.OpError](err); ok; e, ok = errors.AsType[*backend.OpError](e.Err) {
		if e.Log != "" && e.Log != w.log {
			return
		}
		if w.key == "" {
			w.key = e.Key
		}
		if w.seq < 0 && (e.Key == w.key || e.Key == "") {
			w.seq = e.Seq
		}
	}
}

// stepWord is what a step on another log than the one in question is called.
func stepWord(op string) string {
	if op == "load" || op == "open" {
		return "read"
	}
	return op
}

// reply is what the store said.
func (w *errorWriter) reply(e *objstore.Error) string {
	if w.absent && w.names(e.Key) && errors.Is(e.Class, objstore.ErrNotExist) {
		return "" // it was said that it is not there
	}
	interrupted := errors.Is(e.Err, context.Canceled)
	if interrupted && e.Op != "Put" {
		return interruptedText // and no word of the store, which was not waited for
	}
	name := e.Op
	if !w.names(e.Key) && e.Key != "" {
		name += " " + quote(e.Key)
	}
	class := strings.TrimPrefix(e.Class.Error(), objstore.ErrRefused.Error()+": ")
	switch {
	case w.class == e.Class: //nolint:errorlint // the class itself
		class = "" // it was said
	case e.Class == objstore.ErrUndecided && e.Op != "Put": //nolint:errorlint // the same
		class = "no answer"
	}
	w.class = e.Class
	code := ""
	switch {
	case e.Code != "" && e.Status != 0:
		code = fmt.Sprintf("(%s, HTTP %d)", e.Code, e.Status)
	case e.Code != "":
		code = "(" + e.Code + ")"
	case e.Status != 0:
		code = fmt.Sprintf("(HTTP %d)", e.Status)
	}
	text := joined(name, strings.TrimSpace(class+" "+code))
	switch {
	case interrupted:
		text = joined(text, interruptedText)
	case e.Err != nil:
		text = joined(text, w.text(e.Err))
	}
	return text
}

// names reports whether an object was named already.
func (w *errorWriter) names(key string) bool { return w.begun && key == w.key }

// joined is what was done and what came of it.
func joined(what, came string) string {
	if what == "" || came == "" {
		return what + came
	}
	return what + ": " + came
}
