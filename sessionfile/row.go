package sessionfile

import (
	"bytes"
	"strconv"
)

// row is a packed row while its members are read. It refers to the line it was
// parsed from.
type row struct {
	next  delta  // the member that expand yields next; its text is set by then
	left  int    // members not yet yielded
	gaps  cursor // over the elements of dt
	texts cursor // over the elements of texts or args
}

// parseRow checks the whole of a packed row, so that nothing can be wrong with
// its members afterwards. Members may be in any order, but there must be
// exactly those of the row's kind.
func (s *scanner) parseRow(k kind, line []byte) (row, *flaw) {
	r := row{next: delta{run: run{kind: k}}}
	var data []byte
	top := shape{
		{name: "type", any: new([]byte)},
		{name: "seq0", natural: &r.next.seq},
		{name: "time0", integer: &r.next.time},
		{name: "data", any: &data},
	}
	if f := s.read(line, top); f != nil {
		return r, badRow(k, f)
	}
	if data[0] != '{' {
		return r, badRow(k, invalid("data is not an object"))
	}
	var gaps, texts []byte
	inner := shape{
		{name: "turn", natural: &r.next.turn},
		{name: "step", natural: &r.next.step},
		{name: "index", natural: &r.next.index},
		{name: "dt", any: &gaps},
	}
	if k == kindToolCall {
		inner = append(inner,
			field{name: "id", str: &r.next.id},
			field{name: "name", str: &r.next.name, optional: true},
			field{name: "args", any: &texts})
	} else {
		inner = append(inner, field{name: "texts", any: &texts})
	}
	if f := s.read(data, inner); f != nil {
		return r, badRow(k, f)
	}
	if f := r.checkMembers(gaps, texts); f != nil {
		return r, badRow(k, f)
	}
	return r, nil
}

func badRow(k kind, f *flaw) *flaw {
	return &flaw{"malformed " + k.tag() + " row: " + f.reason, f.err}
}

// checkMembers counts the row's members and walks through their seqs and times.
func (r *row) checkMembers(gaps, texts []byte) *flaw {
	if gaps[0] != '[' || texts[0] != '[' {
		return invalid("dt, texts and args are arrays")
	}
	r.gaps, r.texts = cursor{gaps[1:]}, cursor{texts[1:]}
	n := 0
	for c := r.texts; ; n++ {
		v, more := c.next()
		if !more {
			break
		}
		if v[0] != '"' {
			return invalid("member %d is not a string", n)
		}
	}
	if n == 0 {
		return invalid("it has no members")
	}
	time, gap := r.next.time, 0
	for c := r.gaps; ; gap++ {
		v, more := c.next()
		if !more {
			break
		}
		d, ok := plainInteger(v)
		if time += d; !ok || time > maxSafe || time < -maxSafe {
			return invalid("gap %d is not a plain integer that leads to one", gap)
		}
	}
	if gap != n-1 {
		return invalid("%d members need %d gaps, not %d", n, n-1, gap)
	}
	if r.next.seq > maxSafe-int64(n-1) {
		return invalid("its seqs go beyond 2^53-1")
	}
	r.left = n
	return nil
}

// expand appends the next member's line to dst; it reports false if there is
// none left.
func (r *row) expand(dst []byte) ([]byte, bool) {
	if r.left == 0 {
		return dst, false
	}
	r.next.text, _ = r.texts.next()
	dst = r.next.appendLine(dst)
	if r.left--; r.left > 0 {
		v, _ := r.gaps.next()
		gap, _ := plainInteger(v)
		r.next.time += gap
		r.next.seq++
	}
	return dst, true
}

// cursor walks through a valid JSON array of strings and numbers, from behind
// its bracket on.
type cursor struct{ rest []byte }

// next yields the next element's literal. An element that is neither a string
// nor a number yields something that is neither, and ends the walk.
func (c *cursor) next() (literal []byte, ok bool) {
	c.rest = bytes.TrimLeft(c.rest, space+",")
	if len(c.rest) == 0 || c.rest[0] == ']' {
		return nil, false
	}
	n := literalLen(c.rest)
	if n == 0 {
		n = bytes.IndexAny(c.rest, space+",]")
	}
	literal, c.rest = c.rest[:n], c.rest[n:]
	if b := literal[0]; b == '[' || b == '{' {
		c.rest = nil
	}
	return literal, true
}

// shape lists all the members that an object may have.
type shape []field

// field is one of them: where its value goes, and by that of which kind it is.
type field struct {
	name     string
	natural  *int64  // an integer that is not negative
	integer  *int64  // an integer
	str      *[]byte // a string's literal
	any      *[]byte // any value
	optional bool
}

// read reads the object in text, which must have exactly these members.
func (s *scanner) read(text []byte, want shape) *flaw {
	seen := 0
	f := s.members(text, func(name, value []byte) *flaw {
		for i := range want {
			if want[i].name != string(name) {
				continue
			}
			if seen&(1<<i) != 0 {
				return invalid("the member %s occurs twice", want[i].name)
			}
			seen |= 1 << i
			return want[i].set(value)
		}
		return invalid("it has a member %s", excerpt(strconv.AppendQuote(nil, string(name))))
	})
	if f != nil {
		return f
	}
	for i := range want {
		if seen&(1<<i) == 0 && !want[i].optional {
			return invalid("the member %s is missing", want[i].name)
		}
	}
	return nil
}

func (f *field) set(value []byte) *flaw {
	switch {
	case f.any != nil:
		*f.any = value
	case f.str != nil:
		if value[0] != '"' {
			return invalid("%s is not a string", f.name)
		}
		*f.str = value
	default:
		n, ok := plainInteger(value)
		if f.integer != nil {
			*f.integer = n
		} else {
			*f.natural, ok = n, ok && n >= 0
		}
		if !ok {
			return invalid("%s is not a plain integer within bounds", f.name)
		}
	}
	return nil
}
