package localstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	readyTimeout = 30 * time.Second // of a start; it takes about 100 ms
	portTries    = 10               // a port may be taken between our look and the server's
	logTail      = 4 << 10          // bytes of the server's output in an error
)

// process is a versitygw of ours, with its directory.
type process struct {
	dir       string // everything it owns
	binary    string
	accessKey string
	secretKey string
	versioned bool
	addr      string
	watch     *watcher

	mu  sync.Mutex
	cmd *exec.Cmd // nil while it does not run
}

// startProcess builds the server if need be, and starts it on a free port.
func startProcess(ctx context.Context, versioned bool) (*process, error) {
	if !supported {
		return nil, fmt.Errorf("no server can be started on this operating system: name one that runs already: %s, %s, %s", EnvEndpoint, EnvAccessKey, EnvSecretKey)
	}
	binary, err := gateway(ctx, runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	dir, err := dataDir()
	if err != nil {
		return nil, err
	}
	p := &process{dir: dir, binary: binary, accessKey: "root-" + randomHex(8), secretKey: randomHex(20), versioned: versioned}
	for _, sub := range []string{"data", "iam", "versions"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			os.RemoveAll(dir)
			return nil, err
		}
	}
	if p.watch, err = startWatcher(dir); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("start the watcher of the server: %w", err)
	}
	for range portTries {
		if p.addr, err = freeAddr(); err != nil {
			break
		}
		if err = p.start(ctx); err == nil {
			return p, nil
		}
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	p.close()
	return nil, err
}

// dataDir makes a directory for a server's data, which needs a file system with
// extended attributes: that is where it keeps ETags and metadata.
func dataDir() (string, error) {
	parents := []string{os.TempDir()}
	cache, err := cacheDir()
	if err == nil {
		parents = append(parents, cache)
	}
	var errs []error
	for _, parent := range parents {
		dir, err := os.MkdirTemp(parent, "s3log-server-")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if err := tryXattr(dir); err != nil {
			os.Remove(dir)
			errs = append(errs, fmt.Errorf("%s: no extended attributes: %w", parent, err))
			continue
		}
		return dir, nil
	}
	return "", fmt.Errorf("no place for the data of a test server (set TMPDIR to a directory on a file system with user extended attributes): %w", errors.Join(append(errs, err)...))
}

// freeAddr is an address where nobody listens just now.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// server is the process as a test sees it.
func (p *process) server(own bool) *Server {
	return &Server{Endpoint: "http://" + p.addr, Region: defaultRegion, AccessKey: p.accessKey, SecretKey: p.secretKey, Admin: true, process: p, own: own}
}

var errPortTaken = errors.New("its port was taken")

// start runs the server on p.addr and waits until it answers. The caller has
// p.mu, or p to itself.
func (p *process) start(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	args := []string{"--port", p.addr, "--region", defaultRegion, "--iam-dir", filepath.Join(p.dir, "iam"), "--quiet", "--keep-alive", "posix"}
	if p.versioned {
		args = append(args, "--versioning-dir", filepath.Join(p.dir, "versions"))
	}
	cmd := exec.Command(p.binary, append(args, filepath.Join(p.dir, "data"))...)
	cmd.Dir = p.dir
	cmd.Env = append(cleanEnv(), "ROOT_ACCESS_KEY="+p.accessKey, "ROOT_SECRET_KEY="+p.secretKey)
	cmd.Stdout, cmd.Stderr = log, log
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.binary, err)
	}
	p.cmd = cmd
	p.watch.guard(cmd.Process.Pid)
	if err := p.ready(ctx); err != nil {
		p.stop()
		return err
	}
	return nil
}

// ready waits until the server answers to its own keys: somebody else's server
// on a port that we lost would not.
func (p *process) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true}
	client := p.server(false).newClient(&http.Client{Transport: transport, Timeout: 5 * time.Second}, p.accessKey, p.secretKey,
		func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		_, err := client.ListBuckets(ctx, &s3.ListBucketsInput{})
		gone := exited(p.cmd)
		if err == nil && !gone {
			return nil
		}
		if gone {
			p.cmd = nil
			p.watch.guard(0)
			out := p.output()
			if strings.Contains(out, "address already in use") || err == nil {
				return fmt.Errorf("the server ended: %w\n%s", errPortTaken, out)
			}
			return fmt.Errorf("the server ended while it was starting:\n%s", out)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server at %s does not answer: %w\n%s", p.addr, err, p.output())
		case <-time.After(wait):
		}
	}
}

// output is the end of what the server said.
func (p *process) output() string {
	f, err := os.Open(filepath.Join(p.dir, "log"))
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > logTail {
		f.Seek(-logTail, io.SeekEnd)
	}
	b, _ := io.ReadAll(f)
	return strings.TrimSpace(string(b))
}

func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil
}

func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
}

// stop ends the server if it runs. The caller has p.mu, or p to itself.
func (p *process) stop() {
	if p.cmd == nil {
		return
	}
	p.cmd.Process.Kill()
	p.cmd.Wait()
	p.cmd = nil
	p.watch.guard(0)
}

// restart starts the server where it was.
func (p *process) restart(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	err := p.start(ctx)
	// Others look for free ports, too, and let go of what they found.
	for try := 0; errors.Is(err, errPortTaken) && try < portTries; try++ {
		time.Sleep(100 * time.Millisecond)
		err = p.start(ctx)
	}
	return err
}

// close ends the server and removes its data.
func (p *process) close() {
	p.kill()
	p.watch.close()
}

// cleanEnv is the environment of the server and its tools: none of the
// variables that configure them.
func cleanEnv() (env []string) {
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "SYSTEMROOT"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
