package main

import (
	"fmt"
	"io"
	"time"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/words"
)

// quiet is how long the owner of a log must not have committed before a one-shot
// command replaces it without being told to, so that a line in a shell does not
// fence a running agent by accident.
const quiet = time.Minute

const takeOverHelp = "replace an owner that holds the log or was active in the last minute"

func adoptOptions(takeOver bool) backend.AdoptOptions {
	return backend.AdoptOptions{TakeOver: takeOver, Quiet: quiet}
}

// receipt is where events are, in JSON.
type receipt struct {
	Log        string `json:"log"`
	First      int64  `json:"first"`
	Count      int64  `json:"count"`
	Next       int64  `json:"next"`
	Revision   int64  `json:"revision"`
	Generation int64  `json:"generation"`
	Duplicate  bool   `json:"duplicate"`
}

func newReceipt(r backend.Receipt) receipt { return receipt(r) }

// text says where the events of a receipt are.
func (r receipt) text(w io.Writer, done string) {
	fmt.Fprintf(w, "%s %s %s %s; the log continues at %d (revision %d, generation %d)\n",
		done, events(r.Count), seqs(r.First, r.Count), quote(r.Log), r.Next, r.Revision, r.Generation)
}

// events is a number of events in words.
func events(n int64) string { return words.Count(n, "event") }

// seqs is where events are, in words.
func seqs(first, count int64) string {
	switch {
	case count <= 0:
		return "of"
	case count == 1:
		return fmt.Sprintf("(seq %d) of", first)
	}
	return fmt.Sprintf("(seq %d to %d) of", first, first+count-1)
}

// bytesText is a size for people.
func bytesText(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/1024, 0
	for f >= 999.5 && unit < 3 {
		f, unit = f/1024, unit+1
	}
	return fmt.Sprintf("%.3g %ciB", f, "KMGT"[unit])
}

// ageText is how long something is ago, for people.
func ageText(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// timeText is a time in ms since the Unix epoch, for people.
func timeText(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
