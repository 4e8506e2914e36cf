package words

import "testing"

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0 events", 1: "1 event", 2: "2 events", 1_000_000: "1000000 events", -1: "-1 events"} {
		if got := Count(n, "event"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
