package simulation

import (
	"strings"
	"testing"
	"time"
)

// What porcupine is asked can tell right from wrong.
func TestLinearize(t *testing.T) {
	at := func(from, to int, op operation) operation {
		op.log, op.who = "log", "p"
		op.from, op.to = time.Unix(int64(from), 0), time.Unix(int64(to), 0)
		return op
	}
	added := func(tags string, first int64) operation {
		return operation{in: asked{do: appends, tags: tags, n: int64(len(strings.Fields(tags)))}, out: said{first: first}}
	}
	keyed := func(tags string, first int64, duplicate bool) operation {
		op := added(tags, first)
		op.in.key, op.out.duplicate = "k", duplicate
		return op
	}
	read := func(tags string) operation { return operation{in: asked{do: reads}, out: said{events: tags}} }
	maybe := func(op operation) operation { op.unsettled = true; return op }
	deleted := operation{in: asked{do: deletes}}
	for _, tc := range []struct {
		name  string
		ok    bool
		calls []operation
	}{
		{"one after the other", true, []operation{at(1, 2, added("a", 0)), at(3, 4, added("b c", 1)), at(5, 6, read("a b c"))}},
		{"at the same time", true, []operation{at(1, 9, added("a", 1)), at(1, 9, added("b", 0)), at(1, 9, read("b")), at(10, 11, read("b a"))}},
		{"a boundary between", true, []operation{at(1, 2, added("a", 0)), at(3, 4, added("b", 3)), at(5, 6, read("a b"))}},
		{"an acknowledged append is missed", false, []operation{at(1, 2, added("a", 0)), at(3, 4, read(""))}},
		{"and seen too early", false, []operation{at(1, 2, read("a")), at(3, 4, added("a", 0))}},
		{"and seen, then not", false, []operation{at(1, 9, added("a", 0)), at(2, 3, read("a")), at(4, 5, read(""))}},
		{"two in one place", false, []operation{at(1, 2, added("a", 0)), at(3, 4, added("b", 0)), at(5, 6, read("a b"))}},
		{"the wrong order", false, []operation{at(1, 2, added("a", 0)), at(3, 4, added("b", 1)), at(5, 6, read("b a"))}},
		{"what nobody appended", false, []operation{at(1, 2, added("a", 0)), at(5, 6, read("a b"))}},
		{"unknown, and seen later", true, []operation{at(1, 2, maybe(added("a", 0))), at(3, 4, read("")), at(5, 6, read("a"))}},
		{"unknown, and never seen", true, []operation{at(1, 2, maybe(added("a", 0))), at(3, 4, read("")), at(5, 6, read(""))}},
		{"unknown, and gone again", false, []operation{at(1, 2, maybe(added("a", 0))), at(3, 4, read("a")), at(5, 6, read(""))}},
		{"a key that is repeated", true, []operation{at(1, 2, keyed("a", 0, false)), at(3, 4, keyed("a", 0, true)), at(5, 6, read("a"))}},
		{"and found elsewhere", false, []operation{at(1, 2, keyed("a", 0, false)), at(3, 4, keyed("a", 1, true)), at(5, 6, read("a"))}},
		{"and not found", false, []operation{at(1, 2, keyed("a", 0, false)), at(3, 4, keyed("a", 1, false)), at(5, 6, read("a a"))}},
		{"a key that the first to send it finds", true, []operation{at(1, 2, keyed("a", 0, true)), at(5, 6, read("a"))}},
		{"deleted", true, []operation{at(1, 2, added("a", 0)), at(3, 4, read("a")), at(5, 6, deleted)}},
		{"deleted, and read", false, []operation{at(1, 2, added("a", 0)), at(3, 4, deleted), at(5, 6, read("a"))}},
		{"deleted, and appended to", false, []operation{at(1, 2, added("a", 0)), at(3, 4, deleted), at(5, 6, added("b", 1))}},
		{"deleted, perhaps", true, []operation{at(1, 2, added("a", 0)), at(3, 4, maybe(deleted)), at(5, 6, read("a"))}},
	} {
		if got := linearize(tc.calls); (got == "") != tc.ok {
			t.Errorf("%s: %q", tc.name, got)
		}
	}
}
