package container

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// compose is what localstack/compose.yaml uses of a compose file.
type compose struct {
	Name     string
	Services map[string]struct {
		Image        string
		Command      []string
		Ports, Tmpfs []string
		Environment  map[string]string
		Healthcheck  struct {
			Test              []string
			Interval, Timeout string
			Retries           int
		}
	}
}

// Servers that a compose file starts are those that Start would start: the same
// arguments, environment and keys; and nobody but this machine reaches them. The
// document names their addresses and keys.
func TestComposeFile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "testing-with-localstack.md"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOCALSTACK_AUTH_TOKEN", "")
	var file compose
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	images := map[string]Image{"minio": MinIO("x"), "localstack": LocalStack("x")}
	if len(file.Services) != len(images) {
		t.Errorf("%d services", len(file.Services))
	}
	for name, want := range images {
		got, ok := file.Services[name]
		if !ok {
			t.Errorf("no service %s", name)
			continue
		}
		port := strings.TrimSuffix(want.Port, "/tcp")
		if len(got.Ports) != 1 || got.Ports[0] != "127.0.0.1:"+port+":"+port {
			t.Errorf("%s: ports %q", name, got.Ports)
		}
		variable := strings.ToUpper(name) + "_IMAGE"
		if !regexp.MustCompile(`^\$\{` + variable + `:-[a-z]+/[a-z]+:[A-Za-z0-9.-]+\}$`).MatchString(got.Image) {
			t.Errorf("%s: image %q", name, got.Image)
		}
		if !slices.Equal(got.Command, want.Cmd) {
			t.Errorf("%s: arguments %q, want %q", name, got.Command, want.Cmd)
		}
		for key, value := range want.Env {
			if got.Environment[key] != value {
				t.Errorf("%s: %s is %q, want %q", name, key, got.Environment[key], value)
			}
		}
		if len(got.Healthcheck.Test) < 2 || got.Healthcheck.Retries == 0 {
			t.Errorf("%s: nobody can wait for it: %+v", name, got.Healthcheck)
		}
		for _, say := range []string{
			"up --wait " + name, "`" + variable + "`",
			"S3LOG_TEST_ENDPOINT=http://127.0.0.1:" + port + " S3LOG_TEST_ACCESS_KEY=" + want.AccessKey + " S3LOG_TEST_SECRET_KEY=" + want.SecretKey + " ",
		} {
			if !bytes.Contains(page, []byte(say)) {
				t.Errorf("the document does not say %q", say)
			}
		}
	}
}
