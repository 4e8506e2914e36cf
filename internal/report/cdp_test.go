package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// chromium finds a browser. Where there is none the test is skipped and says so,
// except in CI.
func chromium(t *testing.T) string {
	t.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}
	if named := os.Getenv("S3LOG_CHROMIUM"); named != "" {
		names = []string{named}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("none of %s is installed, and CI=true", strings.Join(names, ", "))
	}
	t.Skipf("NOT TESTED in a browser: none of %s is installed", strings.Join(names, ", "))
	return ""
}

// browser is a headless Chromium with one page, driven over its debugging pipe.
type browser struct {
	t    *testing.T
	in   *os.File
	mu   sync.Mutex
	id   int
	wait map[int]chan reply
	tab  string
	said []string // errors, dialogs, and requests but for the page itself
	load chan struct{}
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

const browserPatience = 2 * time.Minute

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := chromium(t)
	fromUs, toBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromBrowser, toUs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--headless=new", "--remote-debugging-pipe", "--user-data-dir=" + filepath.Join(t.TempDir(), "profile"), "--no-first-run", "--disable-gpu",
		"--disable-dev-shm-usage", "--disable-background-networking", "--disable-extensions", "--mute-audio", "about:blank"}
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox")
	}
	cmd := exec.Command(path, args...)
	cmd.ExtraFiles = []*os.File{fromUs, toUs}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = fromUs.Close(), toUs.Close()
	b := &browser{t: t, in: toBrowser, wait: make(map[int]chan reply), load: make(chan struct{}, 1)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(fromBrowser)
	}()
	t.Cleanup(func() {
		b.post("", "Browser.close", nil)
		gone := make(chan error, 1)
		go func() { gone <- cmd.Wait() }()
		select {
		case <-gone:
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			<-gone
		}
		_ = toBrowser.Close()
		<-read
		_ = fromBrowser.Close()
		if t.Failed() {
			t.Logf("the browser said: %.2000s", stderr.String())
		}
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	b.tab = session.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1400, "height": 1000, "deviceScaleFactor": 1, "mobile": false}, nil)
	return b
}

// read takes what the browser sends until it is gone.
func (b *browser) read(from *os.File) {
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, ch := range b.wait {
				close(ch)
			}
			b.wait = nil
			return
		}
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			reply
		}
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		switch {
		case m.ID != 0:
			if ch := b.wait[m.ID]; ch != nil {
				ch <- m.reply
				delete(b.wait, m.ID)
			}
		case m.Method == "Page.loadEventFired":
			select {
			case b.load <- struct{}{}:
			default:
			}
		case m.Method == "Network.requestWillBeSent":
			if !bytes.Contains(m.Params, []byte(`"type":"Document"`)) {
				b.said = append(b.said, fmt.Sprintf("request: %.300s", m.Params))
			}
		case m.Method == "Runtime.exceptionThrown", m.Method == "Log.entryAdded", m.Method == "Runtime.consoleAPICalled", m.Method == "Page.javascriptDialogOpening":
			b.said = append(b.said, fmt.Sprintf("%s: %.500s", m.Method, m.Params))
		}
		b.mu.Unlock()
	}
}

// post sends a command and returns where its reply comes; nil if the browser is gone.
func (b *browser) post(tab, method string, params any) chan reply {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wait == nil {
		return nil
	}
	b.id++
	ch := make(chan reply, 1)
	b.wait[b.id] = ch
	m := map[string]any{"id": b.id, "method": method}
	if params != nil {
		m["params"] = params
	}
	if tab != "" {
		m["sessionId"] = tab
	}
	text, err := json.Marshal(m)
	if err == nil {
		_, err = b.in.Write(append(text, 0))
	}
	if err != nil {
		return nil
	}
	return ch
}

func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	ch := b.post(b.tab, method, params)
	if ch == nil {
		b.t.Fatalf("%s: the browser is gone", method)
	}
	select {
	case r, ok := <-ch:
		if !ok || r.Error != nil {
			b.t.Fatalf("%s: %+v", method, r.Error)
		}
		if result != nil {
			if err := json.Unmarshal(r.Result, result); err != nil {
				b.t.Fatal(err)
			}
		}
	case <-time.After(browserPatience):
		b.t.Fatalf("%s: no answer", method)
	}
}

// open goes to a page and returns how long that took, up to the second frame
// behind its load event.
func (b *browser) open(page string, fragment ...string) time.Duration {
	b.t.Helper()
	began := b.navigate(page, fragment...)
	b.do(`new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(0))))`)
	return time.Since(began)
}

// navigate goes to a page and returns when it began to.
func (b *browser) navigate(page string, fragment ...string) (began time.Time) {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "report.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		b.t.Fatal(err)
	}
	began = time.Now()
	b.call("Page.navigate", map[string]any{"url": "file://" + file + strings.Join(fragment, "")}, nil)
	select {
	case <-b.load:
	case <-time.After(browserPatience):
		b.t.Fatal("the page does not load")
	}
	return began
}

// do evaluates an expression in the page.
func (b *browser) do(js string) any {
	b.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": js, "awaitPromise": true, "returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %.800s", js, r.ExceptionDetails)
	}
	return r.Result.Value
}

// until waits for an expression to have a value.
func (b *browser) until(js string, want any) {
	b.t.Helper()
	var got any
	for end := time.Now().Add(browserPatience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got = b.do(js); got == want {
			return
		}
	}
	b.t.Fatalf("%s is %v, want %v", js, got, want)
}

func (b *browser) key(name string) {
	b.t.Helper()
	p := map[string]any{"type": "keyDown", "key": name}
	switch {
	case name == "Enter":
		p["text"], p["windowsVirtualKeyCode"] = "\r", 13
	case len(name) == 1:
		p["text"] = name
	}
	b.call("Input.dispatchKeyEvent", p, nil)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": name}, nil)
}

// quiet fails if the page has said anything, or asked for anything.
func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.said {
		b.t.Error(s)
	}
	b.said = nil
}
