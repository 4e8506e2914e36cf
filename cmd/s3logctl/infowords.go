package main

import (
	"fmt"

	"github.com/s3log/s3log/backend"
	"github.com/s3log/s3log/internal/words"
	"github.com/s3log/s3log/manifest"
)

// infoWords says what the state of a log means for who looks at it, and what can be
// done.
func infoWords(in backend.Info) (list []string) {
	say := func(format string, args ...any) { list = append(list, oneLine(fmt.Sprintf(format, args...))) }
	id := words.Shell(in.Log)
	if in.State == manifest.StateDeleted {
		by := ""
		if in.Owner != nil && in.Owner.Label != "" {
			by = " by " + quote(in.Owner.Label)
		}
		say("It was deleted on %s%s. The id stays taken. A day after that `s3logctl gc %s --apply` removes the segments that are still there.", timeText(in.Commit.At), by, id)
		return list
	}
	if o := in.Origin; o != nil && o.Parent != nil {
		say("It is a fork, which shares nothing with its parent: it stays whatever becomes of that. `s3logctl diff %s %s` shows where they part.", words.Shell(o.Parent.Log), id)
	}
	content := in.Content
	if content.Boundary != nil {
		say("What is before seq %d is history: whatever was left open there is stale, nobody is going to close it.", content.Boundary.Seq)
	}
	switch {
	case content.Turn != nil && in.Owner.Released:
		say("A turn was interrupted: nobody is writing the rest of it. `s3logctl resume %s` ends it, and makes it history.", id)
	case content.Turn != nil:
		say("A turn is open: its writer is in the middle of it, or was interrupted. `s3logctl resume %s` would end it.", id)
	}
	label := ""
	if in.Owner.Label != "" {
		label = " (" + quote(in.Owner.Label) + ")"
	}
	switch {
	case in.Owner.Released:
		say("Its last writer%s is done: anybody may go on with it.", label)
	case in.LeaseState == "held":
		say("Its writer%s asks not to be replaced before %s; --take-over replaces it all the same.", label, timeText(in.Lease.Until))
	default:
		say("Its writer%s has not said that it is done, and last wrote on %s. From a minute after that on, whoever appends or resumes replaces it; before, that takes --take-over.", label, timeText(in.Commit.At))
	}
	say("Noted elsewhere, the root proves later that these events are still the same: `s3logctl verify %s --since %s`.", id, *rootText(in))
	return list
}
