package sessiongen

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// prose writes text that repeats itself about as much as what agents write.
// All of it is the content of JSON strings: what needs an escape has one.
type prose struct {
	rng     *rand.Rand
	english wordSource
	chinese wordSource
	foreign bool   // write Chinese
	capital bool   // the next word begins a sentence
	start   bool   // the next word begins a line
	inline  bool   // words only, without ends of sentences and lines
	left    int    // words until the sentence ends
	rest    string // second half of a word that comes in two tokens
	memory  []byte // what tools have printed
	printed []int  // where in memory one of them began
}

// wordSource picks words by rank, and often one that has followed the word
// before.
type wordSource struct {
	words []string
	ranks [4096]uint16 // each word as often as its rank deserves
	last  uint32
}

func newProse(rng *rand.Rand) *prose {
	p := &prose{rng: rng, left: 8}
	p.english.init(english)
	p.chinese.init(chinese)
	return p
}

func (s *wordSource) init(words []string) {
	s.words = words
	var sum float64
	weight := func(rank int) float64 { return 1 / float64(rank+2) }
	for i := range words {
		sum += weight(i)
	}
	at, word := 0.0, 0
	for i := range s.ranks {
		for at+weight(word) < sum*float64(i)/float64(len(s.ranks)) && word < len(words)-1 {
			at += weight(word)
			word++
		}
		s.ranks[i] = uint16(word)
	}
}

// next picks a word by the random bits r.
func (s *wordSource) next(r uint32) string {
	i := r >> 20
	if r&15 < 15 {
		i = (s.last*4 + r>>4&r>>6&3) * 2654435761 >> 20 // of four followers, one comes most of the time
	}
	word := uint32(s.ranks[i])
	if word == s.last {
		word = (word + 7) % uint32(len(s.words))
	}
	s.last = word
	return s.words[word]
}

// begin begins a text, in Chinese if it is foreign.
func (p *prose) begin(foreign bool) {
	p.foreign, p.capital, p.start, p.rest = foreign, true, true, ""
	p.left, p.inline = max(p.left, 3), false
}

// token appends what a model streams in one piece: a word, half of a long one,
// or a punctuation mark.
func (p *prose) token(dst []byte) []byte {
	if p.rest != "" {
		dst = append(dst, p.rest...)
		p.rest = ""
		return dst
	}
	r := p.rng.Uint64()
	if p.left == 0 && !p.inline {
		p.left = 4 + int(r&15)
		stop := p.stop(uint32(r >> 8))
		p.capital, p.start = stop[0] == '.', strings.Contains(stop, `\n`)
		return append(dst, stop...)
	}
	p.left = max(p.left-1, 0)
	source := &p.english
	if p.foreign {
		source = &p.chinese
	}
	capital := p.capital
	start := p.start
	p.capital, p.start = false, false
	switch r >> 54 {
	case 0, 1, 2, 3, 4, 5, 6, 7, 8, 9:
		return p.identifier(append(dst, " `"...), true)
	case 10, 11, 12, 13:
		return strconv.AppendUint(append(dst, ' '), r>>32&0x7f, 10)
	case 14, 15:
		return append(dst, emoji[r>>32%uint64(len(emoji))]...)
	}
	word := source.next(uint32(r))
	if len(word) > 8 && r>>40&3 != 0 && !p.foreign {
		word, p.rest = word[:5], word[5:]
	}
	if p.foreign {
		return append(dst, word...)
	}
	if start {
		word = word[1:]
	}
	dst = append(dst, word...)
	if first := len(dst) - len(strings.TrimLeft(word, " ")); capital && dst[first] >= 'a' {
		dst[first] -= 'a' - 'A'
	}
	return dst
}

// stop ends a sentence.
func (p *prose) stop(r uint32) string {
	switch {
	case p.foreign:
		return [...]string{"。", "，", "，", "。", "：", "，", "。\\n\\n", "，"}[r&7]
	case r&15 == 0:
		return ".\\n\\n- "
	}
	return [...]string{".", ",", ".", ".\\n\\n", ",", ":", ".", " —"}[r>>4&7]
}

// identifier appends a name from code.
func (p *prose) identifier(dst []byte, quoted bool) []byte {
	r := p.rng.Uint32()
	dst = append(dst, verbs[r>>8%uint32(len(verbs))]...)
	dst = append(dst, nouns[r>>20%uint32(len(nouns))]...)
	if quoted {
		dst = append(dst, '`')
	}
	return dst
}

// path appends the path of a file.
func (p *prose) path(dst []byte) []byte {
	r := p.rng.Uint64()
	dst = append(dst, folders[r>>8%uint64(len(folders))]...)
	dst = append(dst, '/')
	dst = append(dst, verbs[r>>20%uint64(len(verbs))]...)
	if r&3 == 0 {
		dst = append(dst, '-')
		dst = append(dst, verbs[r>>30%uint64(len(verbs))]...)
	}
	return append(dst, endings[r>>40%uint64(len(endings))]...)
}

// text appends about n bytes of sentences.
func (p *prose) text(dst []byte, n int) []byte {
	for end := len(dst) + n; len(dst) < end; {
		dst = p.token(dst)
	}
	if p.rest != "" {
		dst = p.token(dst)
	}
	return dst
}

// output appends about n bytes of what tools print. Half of it they have
// printed before: files are read again, tests run again.
func (p *prose) output(dst []byte, n int) []byte {
	const most = 16 << 10 // bytes that are remembered
	for end := len(dst) + n; len(dst) < end; {
		part := min(end-len(dst), 200+p.rng.IntN(1500))
		if known := len(p.printed); known > 0 && p.rng.IntN(2) == 0 {
			lines := p.memory[p.printed[p.rng.IntN(known)]:]
			// Only whole lines, since an escape must not be cut.
			cut := bytes.LastIndex(lines[:min(part, len(lines))], lineBreak)
			if cut < 0 {
				cut = bytes.Index(lines, lineBreak)
			}
			dst = append(dst, lines[:cut+len(lineBreak)]...)
			continue
		}
		from := len(dst)
		dst = p.print(dst, part)
		if len(p.memory) > most {
			p.memory, p.printed = p.memory[:0], p.printed[:0]
		}
		p.printed = append(p.printed, len(p.memory))
		p.memory = append(p.memory, dst[from:]...)
	}
	return dst
}

var lineBreak = []byte(`\n`)

// print appends about n bytes of new lines.
func (p *prose) print(dst []byte, n int) []byte {
	style := p.rng.IntN(4)
	line := p.rng.IntN(300)
	folder := folders[p.rng.IntN(len(folders))]
	for end := len(dst) + n; len(dst) < end; {
		r := p.rng.Uint32()
		switch style {
		case 0: // a search
			dst = append(append(dst, folder...), '/')
			dst = append(dst, verbs[r%uint32(len(verbs))]...)
			dst = append(dst, ".ts:"...)
			line += int(r >> 27)
			dst = strconv.AppendInt(dst, int64(line), 10)
			dst = append(dst, ":  const "...)
			dst = p.identifier(dst, false)
			dst = append(dst, " = await "...)
			dst = p.identifier(dst, false)
			dst = append(dst, "(\\\"config\\\");"...)
		case 1: // a source file
			line++
			dst = strconv.AppendInt(dst, int64(line), 10)
			dst = append(dst, "\\t\\t"...)
			if r&3 == 0 {
				dst = append(dst, "if err != nil {\\n\\t\\t\\treturn fmt.Errorf(\\\""...)
				dst = append(dst, verbs[r>>8%uint32(len(verbs))]...)
				dst = append(dst, ": %w\\\", err)\\n\\t\\t}"...)
			} else {
				dst = p.identifier(dst, false)
				dst = append(dst, "(ctx,"...)
				dst = p.english.appendWord(dst, r)
				dst = append(dst, ')')
			}
		case 2: // a listing
			dst = append(dst, "-rw-r--r--  1 dev dev "...)
			dst = strconv.AppendUint(dst, uint64(r>>18), 10)
			dst = append(dst, " Jan  5 09:1"...)
			dst = append(dst, byte('0'+r&7))
			dst = append(dst, ' ')
			dst = p.path(dst)
		default: // a log
			dst = append(dst, "ok  \\t"...)
			dst = append(dst, folder...)
			dst = append(dst, "\\t0."...)
			dst = strconv.AppendUint(dst, uint64(100+r>>23), 10)
			dst = append(dst, "s\\t"...)
			dst = p.text(dst, 40)
		}
		dst = append(dst, "\\n"...)
	}
	return dst
}

func (s *wordSource) appendWord(dst []byte, r uint32) []byte { return append(dst, s.next(r)...) }

// appendString appends s as a JSON string. What is not UTF-8 is replaced.
func appendString(dst []byte, s string) []byte {
	quoted, err := jsontext.AppendQuote(dst, s)
	if err != nil && !utf8.ValidString(s) {
		quoted, _ = jsontext.AppendQuote(dst, string([]rune(s)))
	}
	return quoted
}
