package segment

// view reads the members of interest of a JSON value, once from front to back.
// Every method consumes exactly one value, whatever it is, and reports whether
// it had the shape asked for. After broken JSON nothing has any shape.
type view struct {
	r   *jsonReader
	err error
}

func viewOf(text []byte) view { return view{r: readJSON(text)} }

func (v *view) close() { v.r.release() }

// failed reports whether the text read so far was broken JSON.
func (v *view) failed() bool { return v.err != nil }

func (v *view) skip() { v.value() }

func (v *view) value() []byte {
	if v.err != nil {
		return nil
	}
	var value []byte
	value, v.err = v.r.dec.ReadValue()
	return value
}

// token consumes a delimiter.
func (v *view) token() bool {
	if v.err == nil {
		_, v.err = v.r.dec.ReadToken()
	}
	return v.err == nil
}

// object calls f with the name of each member. f must consume its value, and
// must not use the name after that.
func (v *view) object(f func(name []byte)) bool {
	if v.r.dec.PeekKind() != '{' {
		v.skip()
		return false
	}
	v.token()
	for v.err == nil && v.r.dec.PeekKind() != '}' {
		if literal := v.value(); v.err == nil {
			// A name with a lone surrogate comes out with a replacement
			// character and so equals no name of interest.
			name, _ := v.r.unquote(literal)
			f(name)
		}
	}
	return v.token()
}

// array calls f at each element, which f must consume.
func (v *view) array(f func()) bool {
	if v.r.dec.PeekKind() != '[' {
		v.skip()
		return false
	}
	v.token()
	for v.err == nil && v.r.dec.PeekKind() != ']' {
		f()
	}
	return v.token()
}

// count reads a plain integer from 0 to MaxSeq.
func (v *view) count() (int64, bool) {
	n, ok := plainInteger(v.value())
	return n, ok && n >= 0
}

// text reads a string; the bytes are valid until the next value is read.
func (v *view) text() ([]byte, bool) {
	literal := v.value()
	if len(literal) == 0 || literal[0] != '"' {
		return nil, false
	}
	return v.r.unquote(literal)
}

// str reads a string.
func (v *view) str() (string, bool) {
	b, ok := v.text()
	if !ok {
		return "", false
	}
	return string(b), true
}
