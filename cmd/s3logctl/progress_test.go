package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What takes long is watched on a terminal, and nothing is left of that.
func TestWatch(t *testing.T) {
	for _, test := range []struct {
		tty, json bool
		takes     time.Duration
		want      string
	}{
		{tty: true, takes: progressAfter / 2},
		{tty: true, takes: progressAfter + progressEvery*3/2, want: strings.Repeat("\rreading x: 0 requests, 0 B read\x1b[K", 2) + "\r\x1b[K"},
		{tty: true, json: true, takes: 2 * progressAfter},
		{takes: 2 * progressAfter},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stderr bytes.Buffer
				g := newGlobals(surroundings{stderr: &stderr, stderrTTY: test.tty})
				if test.json {
					g.output = outputJSON
				}
				done := g.watch("reading x")
				time.Sleep(test.takes)
				done()
				if got := stderr.String(); got != test.want {
					t.Errorf("%q, want %q", got, test.want)
				}
			})
		})
	}
}
