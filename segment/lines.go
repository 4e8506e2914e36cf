package segment

import (
	"bytes"
	"fmt"
	"iter"
)

// Lines iterates over the lines of raw, the content of one or more frames, each
// without its LF and as a part of raw. An empty line and a missing last LF are
// ErrCorrupt, which ends the iteration; its text says at which byte.
func Lines(raw []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for at := 0; at < len(raw); {
			n, err := lineEnd(raw, at)
			if err != nil {
				yield(nil, corruptf("%w", err))
				return
			}
			if !yield(raw[at:n:n], nil) {
				return
			}
			at = n + 1
		}
	}
}

// AppendLineEnds appends to ends where in raw the LF of each line is, after the
// checks of Lines: who has them need not look for the lines once more. On an error
// ends is returned as it was.
func AppendLineEnds(ends []int, raw []byte) ([]int, error) {
	out := ends
	for at := 0; at < len(raw); {
		n, err := lineEnd(raw, at)
		if err != nil {
			return ends, corruptf("%w", err)
		}
		out = append(out, n)
		at = n + 1
	}
	return out, nil
}

// lineEnd returns where the LF of the line is that begins at byte at.
func lineEnd(raw []byte, at int) (int, error) {
	switch n := bytes.IndexByte(raw[at:], '\n'); n {
	case -1:
		return 0, fmt.Errorf("the last line, at byte %d, does not end with a line feed", at)
	case 0:
		return 0, fmt.Errorf("an empty line at byte %d", at)
	default:
		return at + n, nil
	}
}
