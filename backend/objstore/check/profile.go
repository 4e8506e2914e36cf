package check

import (
	"fmt"
	"strconv"
	"strings"
)

// Profile is what a proof found out about a store. Its text form is given to
// later processes (profile= in a store URL), which then need no proof of their
// own. The zero Profile says that nothing is known.
type Profile struct {
	// Conditional: both conditions were honoured in both polarities.
	Conditional bool
	// Raced: they were honoured by concurrent requests, too.
	Raced bool
	// Rate is how many writes a second the store was seen to accept on one key;
	// 0 means that no limit was met.
	Rate int
}

// String gives the text form, "conditional,raced,rate=1"; the zero Profile is
// "none".
func (p Profile) String() string {
	var parts []string
	if p.Conditional {
		parts = append(parts, "conditional")
	}
	if p.Raced {
		parts = append(parts, "raced")
	}
	if p.Rate > 0 {
		parts = append(parts, "rate="+strconv.Itoa(p.Rate))
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ",")
}

// ParseProfile reads the text form. A profile that does not say "conditional"
// is an error, except "none" and the empty string: whoever gives a profile
// gives it in place of the proof.
func ParseProfile(text string) (Profile, error) {
	var p Profile
	if text == "" || text == "none" {
		return p, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, hasValue := strings.Cut(part, "=")
		switch {
		case part == "conditional":
			p.Conditional = true
		case part == "raced":
			p.Raced = true
		case name == "rate" && hasValue:
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 {
				return Profile{}, fmt.Errorf("store profile %q: rate %q is not a positive number", text, value)
			}
			p.Rate = n
		default:
			return Profile{}, fmt.Errorf("store profile %q: unknown part %q (known are conditional, raced, rate=N)", text, part)
		}
	}
	if !p.Conditional {
		return Profile{}, fmt.Errorf("store profile %q does not say conditional: such a store cannot be written to", text)
	}
	return p, nil
}
