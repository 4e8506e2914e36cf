package container

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"

	"github.com/s3log/s3log/localstack"
)

// dockerfile makes an image that holds the one file it needs.
const dockerfile = `FROM scratch
COPY versitygw /versitygw
WORKDIR /iam
WORKDIR /versions
WORKDIR /data
EXPOSE 7070
ENTRYPOINT ["/versitygw"]
CMD ["--port", ":7070", "--iam-dir", "/iam", "--quiet", "--keep-alive", "posix", "--versioning-dir", "/versions", "/data"]
`

var built struct {
	sync.Mutex
	image string
}

// Versitygw is an image built from nothing and the statically linked binary
// that package localstack builds: it needs no registry. Its file system must
// have extended attributes, as those of common storage drivers do. The server
// has fresh keys every time.
func Versitygw(tb testing.TB) Image {
	tb.Helper()
	prepare(tb)
	built.Lock()
	defer built.Unlock()
	if built.image == "" {
		built.image = build(tb)
	}
	key := randomHex()
	access, secret := "root-"+key[:16], key[16:]
	return Image{
		Name: built.image, Port: "7070/tcp", AccessKey: access, SecretKey: secret, Admin: true,
		Env: map[string]string{"ROOT_ACCESS_KEY": access, "ROOT_SECRET_KEY": secret},
	}
}

// build builds the image, or finds that the engine has it already.
func build(tb testing.TB) string {
	tb.Helper()
	provider, err := testcontainers.NewDockerProvider(testcontainers.WithLogger(log.TestLogger(tb)))
	if err != nil {
		tb.Fatalf("localstack: no container engine: %v", err)
	}
	defer provider.Close()
	version, err := provider.Client().ServerVersion(tb.Context(), client.ServerVersionOptions{})
	if err != nil {
		tb.Fatalf("localstack: no container engine: %v", err)
	}
	binary, err := os.ReadFile(localstack.BinaryFor(tb, "linux", version.Arch))
	if err != nil {
		tb.Fatalf("localstack: %v", err)
	}
	archive, err := archiveOf(map[string][]byte{"Dockerfile": []byte(dockerfile), "versitygw": binary})
	if err != nil {
		tb.Fatalf("localstack: %v", err)
	}
	var said bytes.Buffer
	image, err := provider.BuildImage(tb.Context(), &testcontainers.ContainerRequest{FromDockerfile: testcontainers.FromDockerfile{
		ContextArchive: archive, Repo: "s3log-test-versitygw", Tag: "latest", KeepImage: true, BuildLogWriter: &said,
	}})
	if err != nil {
		tb.Fatalf("localstack: build an image of versitygw: %v\n%s", err, said.Bytes())
	}
	return image
}

// archiveOf is a tar archive of executable files.
func archiveOf(files map[string][]byte) (*bytes.Reader, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(text); err != nil {
			return nil, fmt.Errorf("archive of %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return bytes.NewReader(b.Bytes()), nil
}

func randomHex() string {
	b := make([]byte, 24)
	rand.Read(b)
	return hex.EncodeToString(b)
}
