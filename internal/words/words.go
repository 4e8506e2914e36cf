// Package words puts numbers of things into words, for all texts that people read.
package words

import "strconv"

// Count is a number of things whose plural ends in an s: "1 event", "2 events".
func Count[N ~int | ~int32 | ~int64](n N, thing string) string {
	text := strconv.FormatInt(int64(n), 10) + " " + thing
	if n == 1 {
		return text
	}
	return text + "s"
}
