package report

import (
	"html"
	"slices"
	"strings"
	"testing"
)

// node is an element of a page.
type node struct {
	name string
	attr map[string]string
	text string // of an element whose content is no markup
	kids []*node
	said string // of a text, which has no name
}

// A parser of HTML that is as strict as our own pages allow: attributes are
// quoted, elements closed unless they are known not to be, and whatever is odd is
// an error. What a browser would make of something odd does not matter then.
var (
	voidElements = []string{"meta", "input", "br"}
	rawElements  = []string{"script", "style", "title"}
	openElements = []string{"th", "td"} // HTML lets their ends be left out
)

func parseHTML(t testing.TB, text string) *node {
	t.Helper()
	rest, ok := strings.CutPrefix(text, "<!DOCTYPE html>")
	if !ok {
		t.Fatalf("no doctype: %.80q", text)
	}
	root := &node{}
	parseInto(t, root, rest)
	return root
}

func parseInto(t testing.TB, root *node, text string) {
	t.Helper()
	stack := []*node{root}
	top := func() *node { return stack[len(stack)-1] }
	for text != "" {
		i := strings.IndexByte(text, '<')
		if i < 0 {
			i = len(text)
		}
		top().kids = append(top().kids, &node{said: html.UnescapeString(text[:i])})
		if strings.ContainsAny(text[:i], "\x00") {
			t.Fatalf("a NUL in the page: %.80q", text)
		}
		if text = text[i:]; text == "" {
			break
		}
		if name, ok := strings.CutPrefix(text, "</"); ok {
			name, text, ok = strings.Cut(name, ">")
			for ok && slices.Contains(openElements, top().name) && top().name != name {
				stack = stack[:len(stack)-1]
			}
			if !ok || top().name != name {
				t.Fatalf("</%.40s> closes <%s>", name, top().name)
			}
			stack = stack[:len(stack)-1]
			continue
		}
		n, after := parseTag(t, text)
		for slices.Contains(openElements, n.name) && slices.Contains(openElements, top().name) {
			stack = stack[:len(stack)-1]
		}
		top().kids = append(top().kids, n)
		closed := strings.HasSuffix(text[:len(text)-len(after)], "/>")
		text = after
		switch {
		case slices.Contains(rawElements, n.name):
			// Raw text ends at the first end tag of its name, whatever is in it.
			end := endOf(text, n.name)
			if end < 0 {
				t.Fatalf("<%s> has no end", n.name)
			}
			n.text = text[:end]
			if n.name == "title" {
				n.text = html.UnescapeString(n.text)
			}
			_, text, _ = strings.Cut(text[end:], ">")
		case n.name == "noscript":
			// Text to a browser with a script, markup to one without: both end here.
			end := endOf(text, n.name)
			if end < 0 {
				t.Fatal("<noscript> has no end")
			}
			n.text = text[:end]
			parseInto(t, n, n.text)
			_, text, _ = strings.Cut(text[end:], ">")
		case closed || slices.Contains(voidElements, n.name):
		default:
			stack = append(stack, n)
		}
	}
	if len(stack) != 1 {
		t.Fatalf("<%s> is not closed", top().name)
	}
}

// endOf is where the end tag of an element is in text, -1 if there is none.
func endOf(text, name string) int {
	for at := 0; ; {
		i := strings.Index(text[at:], "</")
		if i < 0 {
			return -1
		}
		at += i
		if rest := text[at+2:]; len(rest) >= len(name) && strings.EqualFold(rest[:len(name)], name) {
			return at
		}
		at += 2
	}
}

// parseTag reads a start tag.
func parseTag(t testing.TB, text string) (n *node, after string) {
	t.Helper()
	i := 1
	for i < len(text) && (text[i] >= 'a' && text[i] <= 'z' || text[i] >= '0' && text[i] <= '9') {
		i++
	}
	n = &node{name: text[1:i], attr: map[string]string{}}
	if n.name == "" {
		t.Fatalf("markup that is no tag: %.80q", text)
	}
	for text = text[i:]; ; {
		text = strings.TrimLeft(text, " \n")
		if after, ok := strings.CutPrefix(text, ">"); ok {
			return n, after
		}
		if after, ok := strings.CutPrefix(text, "/>"); ok {
			return n, after
		}
		end := strings.IndexAny(text, "= >\n")
		if end <= 0 {
			t.Fatalf("an attribute of <%s>: %.80q", n.name, text)
		}
		name := text[:end]
		value := ""
		if rest, ok := strings.CutPrefix(text[end:], `="`); ok {
			if value, text, ok = strings.Cut(rest, `"`); !ok {
				t.Fatalf("<%s %s> has no end", n.name, name)
			}
		} else {
			text = text[end:]
		}
		if _, twice := n.attr[name]; twice {
			t.Fatalf("<%s> has %s twice", n.name, name)
		}
		n.attr[name] = html.UnescapeString(value)
	}
}

// each calls f for every element.
func (n *node) each(f func(*node)) {
	for _, kid := range n.kids {
		if kid.name != "" {
			f(kid)
			kid.each(f)
		}
	}
}

func (n *node) all(name string) (list []*node) {
	n.each(func(k *node) {
		if k.name == name {
			list = append(list, k)
		}
	})
	return list
}

// byID is the element with an id.
func (n *node) byID(t testing.TB, id string) *node {
	t.Helper()
	var found *node
	n.each(func(k *node) {
		if k.attr["id"] == id {
			if found != nil {
				t.Errorf("the id %s is there twice", id)
			}
			found = k
		}
	})
	if found == nil {
		t.Fatalf("there is no element with the id %s", id)
	}
	return found
}

// words is all text in an element, with single spaces.
func (n *node) words() string {
	var b strings.Builder
	var add func(*node)
	add = func(n *node) {
		b.WriteString(n.said)
		for _, k := range n.kids {
			add(k)
		}
	}
	add(n)
	return strings.Join(strings.Fields(b.String()), " ")
}
