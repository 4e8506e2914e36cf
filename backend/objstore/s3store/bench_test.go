package s3store

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/s3log/s3log/backend/objstore"
)

// answers is an HTTP client with a server that takes no time: every request is
// read and gets the same reply.
type answers struct {
	status int
	code   string
}

func (a answers) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
		r.Body.Close()
	}
	body := ""
	if a.code != "" {
		body = fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>at least one of the pre-conditions did not hold</Message></Error>`, a.code)
	}
	return &http.Response{
		StatusCode: a.status, Status: fmt.Sprint(a.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Etag": {`"0123456789abcdef0123456789abcdef"`}, "Date": {"Thu, 01 Jan 2026 00:00:00 GMT"}, "X-Amz-Request-Id": {"R"}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

// BenchmarkPut is the client's part of a conditional PUT of an ordinary manifest:
// checksum, signature, request and the judging of the reply, all but the network.
func BenchmarkPut(b *testing.B) {
	body := make([]byte, 28<<10)
	for _, bb := range []struct {
		name  string
		reply answers
		class objstore.Class
	}{
		{"applied", answers{200, ""}, objstore.Applied},
		{"precondition", answers{412, "PreconditionFailed"}, objstore.Precondition},
		{"throttled", answers{503, "SlowDown"}, objstore.Undecided},
	} {
		for _, sum := range []Checksum{ChecksumMD5, ChecksumCRC32C} {
			b.Run(bb.name+"/"+string(sum), func(b *testing.B) {
				client := s3.New(s3.Options{
					Region: "us-east-1", BaseEndpoint: aws.String("http://127.0.0.1:1"), UsePathStyle: true, HTTPClient: bb.reply,
					Credentials: credentials.NewStaticCredentialsProvider("AKID", "SECRET", ""),
				})
				s, err := New(client, "b", "p", Options{Profile: "conditional", Checksum: sum})
				if err != nil {
					b.Fatal(err)
				}
				cond := objstore.IfVersion(objstore.NewVersion(`"1"`))
				b.ReportAllocs()
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					if _, err := s.Put(b.Context(), "manifests/log.json", body, cond, objstore.PutOptions{}); objstore.Classify(err) != bb.class {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkClassify is what a reply that is an error takes to be understood.
func BenchmarkClassify(b *testing.B) {
	for _, bb := range []reply{
		{op: opPut, match: true, code: "PreconditionFailed", status: 412, header: http.Header{}},
		{op: opPut, match: true, code: "InvalidArgument", status: 400, message: "Unsupported header If-Match", header: http.Header{}},
		{op: opPut, match: true, code: "SomethingNew", status: 500, header: http.Header{}},
	} {
		b.Run(bb.code, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if bb.judge().class == nil {
					b.Fatal(bb.code)
				}
			}
		})
	}
}
