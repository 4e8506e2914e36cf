package report

import (
	"fmt"
	"testing"
	"time"

	"github.com/s3log/s3log/internal/fixtures"
	"github.com/s3log/s3log/sessiongen"
)

// What the tests below do over and over in a page.
const (
	unfoldAll = `(async () => {
		const wait = () => new Promise(r => setTimeout(r, 50));
		for (let n = -1; n !== document.querySelectorAll('details').length;) {
			n = document.querySelectorAll('details').length;
			for (const d of document.querySelectorAll('details')) { if (!d.open) d.querySelector('summary').click(); }
			await wait();
		}
		return document.querySelectorAll('details:not([open])').length;
	})()`
	visibleTurns = `document.querySelectorAll('#timeline > details.turn:not([hidden])').length`
)

// In a browser a hostile log is text, wherever one looks, and nothing runs.
func TestBrowserHostile(t *testing.T) {
	w, id := hostileWorld(t)
	page, facts := w.page(id, Options{})
	b := newBrowser(t)
	b.open(page)
	before := b.do(`document.querySelectorAll('script, style, a, form, input, button').length`)
	if left := b.do(unfoldAll); left != 0.0 {
		t.Errorf("%v blocks stay folded", left)
	}
	b.until(`(() => {
		document.querySelectorAll('.e:not([open]) > summary').forEach(s => s.click());
		return [...document.querySelectorAll('.e')].filter(e => e.children.length > 1).length;
	})()`, float64(facts.Events))
	if n := b.do(`document.querySelectorAll('img, svg [onload], iframe, object, embed, link, base, [onerror], [onmouseover], [onfocus], [style]').length`); n != 0.0 {
		t.Errorf("the page has %v elements that are not ours", n)
	}
	if n := b.do(`[...document.querySelectorAll('a')].filter(a => !/^#[a-z]+(-[0-9]+)?$/.test(a.getAttribute('href'))).length`); n != 0.0 {
		t.Errorf("%v links lead elsewhere", n)
	}
	if n := b.do(`document.querySelectorAll('script, style, form, input').length`); n == 0.0 || before == 0.0 {
		t.Error("there is no script")
	}
	if n := b.do(`(document.body.innerText.match(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g) || []).length`); n != 0.0 {
		t.Errorf("%v characters are invisible", n)
	}
	for _, want := range []string{`</script><script>alert(1)</script>`, `\u202egnp.exe\u202c`, `"n": 1e400`, `"dup": 2`, `\ud800 \udc00`, "The first part of 1.72 MiB"} {
		if b.do(fmt.Sprintf(`document.body.textContent.includes(%q)`, want)) != true {
			t.Errorf("%q cannot be seen", want)
		}
	}
	// The search takes text as text, too.
	b.do(`(() => { const q = document.querySelector('#q'); q.value = '</script><script>alert(1)'; q.dispatchEvent(new Event('input')); })()`)
	b.until(`/^[1-9][0-9]* events in/.test(document.querySelector('#found').textContent)`, true)
	b.quiet()
	// Even a script could not make markup of text. (The browser complains, of course.)
	if b.do(`(() => { try { document.createElement('div').innerHTML = '<b>'; return false; } catch { return true; } })()`) != true {
		t.Error("a script may make markup of text")
	}
}

// What a person does with a page.
func TestBrowserUse(t *testing.T) {
	w := newWorld(t)
	lines := w.session("log", sessiongen.Options{Seed: 3, Events: 4000})
	w.append("log", false, `{"type":"note","time":1,"data":{"text":"a \"needle\" in \u0068ay"}}`)
	page, _ := w.page("log", Options{})
	b := newBrowser(t)
	b.open(page, "#seq-2222")
	turns := b.do(visibleTurns).(float64)

	// A seq is found, unfolded, and shown: the one in the address, and others.
	for _, seq := range []int{2222, 0, 1, 777, 2500, len(lines)} {
		if seq != 2222 {
			b.do(fmt.Sprintf(`location.hash = '#seq-%d'`, seq))
		}
		b.until(fmt.Sprintf(`(() => { const e = document.querySelector('.here'); if (!e) return false; const r = e.getBoundingClientRect();
			return ['seq-%[1]d', 'ev-%[1]d'].includes(e.id) && r.bottom > 0 && r.top < innerHeight; })()`, seq), true)
	}
	// So is text, as it is meant, not as it is written.
	b.key("/")
	b.until(`document.activeElement.id`, "q")
	b.do(`document.querySelector('#q').value = '"NEEDLE" in hay'; document.querySelector('#q').dispatchEvent(new Event('input'))`)
	b.until(`document.querySelector('#found').textContent`, "1 event in 1 place")
	if n := b.do(`document.querySelectorAll('#timeline > .b[data-first]:not([hidden])').length`); n != 1.0 {
		t.Errorf("%v blocks are left", n)
	}
	b.key("Enter")
	b.until(`document.querySelector('.here')?.id`, fmt.Sprintf("ev-%d", len(lines)))
	b.key("Escape")
	b.until(visibleTurns, turns)
	// A seq may be given, too.
	b.key("/")
	b.do(`document.querySelector('#q').value = '1234'`)
	b.key("Enter")
	b.until(`['seq-1234', 'ev-1234'].includes(document.querySelector('.here')?.id)`, true)
	b.key("Escape")
	b.until(`document.activeElement.tagName`, "BODY")

	// Keys go from turn to turn.
	b.do(`document.querySelector('#fold').click(); scrollTo(0, 0); document.querySelector('#timeline > details.turn > summary').focus()`)
	first := b.do(`document.activeElement.parentElement.id`)
	b.key("j")
	b.key("j")
	b.until(fmt.Sprintf(`document.activeElement.parentElement.id !== %q`, first), true)
	b.until(`document.activeElement.parentElement.classList.contains('turn')`, true)
	b.key("Enter")
	b.until(`document.activeElement.parentElement.open`, true)
	b.key("e")
	b.until(`document.querySelectorAll('#timeline > details[open] .raw[open] .evs').length > 0`, true)
	b.key("k")
	b.key("k")
	b.until(`document.activeElement.parentElement.id`, first)
	b.do(`document.querySelector('#keys').click(); document.activeElement.blur()`)
	b.key("/")
	if b.do(`document.activeElement.id`) == "q" {
		t.Error("keys work although they are switched off")
	}

	// Only what went wrong.
	b.do(`document.querySelector('#problems').click()`)
	if n := b.do(visibleTurns).(float64); n == 0 || n >= turns {
		t.Errorf("%v of %v turns have errors", n, turns)
	}
	if n := b.do(`document.querySelectorAll('#timeline > details.turn:not([hidden]):not([data-errors])[data-class=good]').length`); n != 0.0 {
		t.Errorf("%v turns have none", n)
	}
	// Both schemes of colours.
	colours := make(map[any]bool)
	for _, scheme := range []string{"light", "dark"} {
		b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
		colours[b.do(`getComputedStyle(document.body).backgroundColor`)] = true
	}
	if len(colours) != 2 {
		t.Errorf("the colours are %v", colours)
	}
	// Narrow, nothing sticks out.
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": false}, nil)
	if n := b.do(`document.documentElement.scrollWidth`).(float64); n > 400 {
		t.Errorf("the page is %v wide in a window of 400", n)
	}
	b.quiet()
}

// Without its script a page shows the timeline.
func TestBrowserWithoutScript(t *testing.T) {
	w := newWorld(t)
	w.session("log", sessiongen.Options{Seed: 3, Events: 500})
	page, _ := w.page("log", Options{})
	b := newBrowser(t)
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.navigate(page)
	b.do(`document.querySelectorAll('#timeline > details').forEach(d => { d.open = true; })`)
	if n := b.do(`document.querySelectorAll('#timeline .i .m').length`).(float64); n < 20 {
		t.Errorf("%v items are shown", n)
	}
	if b.do(`document.body.innerText.includes('s3logctl cat log --from SEQ')`) != true || b.do(`document.querySelector('#find').hidden`) != true {
		t.Error("it is not said where events are to be found")
	}
}

// slowest is how long opening a page may take. It is meant to be two seconds; a
// machine that tests run on is not idle.
const slowest = 15 * time.Second

// Long sessions open quickly.
func TestBrowserSpeed(t *testing.T) {
	if testing.Short() {
		t.Skip("makes long sessions")
	}
	pages := map[string]string{}
	w := newWorld(t)
	w.session("log", sessiongen.Options{Seed: 1, Events: 50_000})
	pages["50,000 events"], _ = w.page("log", Options{})
	if file := largestFixture(t); file != "" {
		header, lines := expand(t, file)
		w.lines("fixture", false, header, lines)
		pages["the largest fixture"], _ = w.page("fixture", Options{})
	}
	b := newBrowser(t)
	for name, page := range pages {
		best := slowest
		for range 3 {
			best = min(best, b.open(page))
		}
		t.Logf("%s: %d bytes, opened in %v", name, len(page), best)
		if best >= slowest {
			t.Errorf("%s: more than %v", name, best)
		}
	}
	b.quiet()
}

func largestFixture(t *testing.T) (largest string) {
	t.Helper()
	most := 0
	for _, file := range fixtures.Files(t, "sessions") {
		if _, lines := expand(t, file); len(lines) > most {
			largest, most = file, len(lines)
		}
	}
	return largest
}
