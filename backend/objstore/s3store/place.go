package s3store

import (
	"bytes"
	"context"
	"crypto/fips140"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/check"
)

var _ check.Describer = (*Store)(nil)

// nowhere is the ETag of no object: that of empty ones has other digits.
const nowhere = `"00000000000000000000000000000000"`

// Describe implements check.Describer: the region, the settings of the bucket as
// far as these credentials may ask for them, and the dialect of ETags and
// checksums. It writes below scope.Probe alone.
func (s *Store) Describe(ctx context.Context, scope check.Scope) check.Description {
	d := s.driver
	desc := check.Description{Name: s.String(), Trusted: d.aws, Nowhere: objstore.NewVersion(nowhere)}
	region := d.describeRegion(ctx)
	desc.Findings = append(desc.Findings, region)
	if region.Status != check.OK {
		return desc // nothing else would be answered either
	}
	desc.Findings = append(desc.Findings, d.settings(ctx)...)
	desc.Markers = d.deletions.markers()
	if desc.Markers == check.NotKnown {
		for _, f := range desc.Findings {
			if f.Name == nameVersioning && f.Seen == seenUnversioned {
				desc.Markers = check.No
			}
		}
	}
	if scope.Write {
		desc.Findings = append(desc.Findings, d.dialect(ctx, scope)...)
	}
	return desc
}

// deletions is what deleting was seen to leave behind.
type deletions struct{ clean, marked atomic.Bool }

func (d *deletions) note(marker bool) {
	if marker {
		d.marked.Store(true)
	} else {
		d.clean.Store(true)
	}
}

func (d *deletions) markers() check.Answer {
	switch {
	case d.marked.Load():
		return check.Yes
	case d.clean.Load():
		return check.No
	}
	return check.NotKnown
}

// describeRegion asks for an object that is not there, and looks at what the
// reply says of the bucket's region.
func (d *driver) describeRegion(ctx context.Context) check.Finding {
	f := check.Finding{Name: "region", Status: check.OK}
	key := tornPrefix + ".probe-region"
	a, err := d.try(opGet, d.repeat, func(o func(*s3.Options)) error {
		out, err := d.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &d.bucket, Key: d.full(key)}, o)
		if err == nil {
			err = out.Body.Close()
		}
		return err
	})
	signed := d.region
	if signed == "" {
		signed = "a region that is not known here"
	}
	r := replyOf(opGet, false, err)
	var e *objstore.Error
	if err != nil {
		e = d.errorOf(opGet, key, false, err, a)
	}
	switch there := r.region(); {
	case there != "" && there != d.region:
		f.Status, f.Err = check.Failed, e
		f.Seen = fmt.Sprintf("the bucket is in %s; requests are signed for %s", there, signed)
		f.Do = "set region=" + there
	case e != nil && strings.HasPrefix(e.Hint, hintRegion):
		f.Status, f.Err = check.Failed, e
		f.Seen, f.Do = fmt.Sprintf("the bucket is in another region than %s, and the store does not say in which", signed), e.Hint
	case e != nil && !errors.Is(e, objstore.ErrNotExist) && e.Status != http.StatusForbidden,
		e != nil && e.Status == http.StatusForbidden && e.Code != "AccessDenied" && e.Code != "":
		f.Status, f.Seen, f.Err = check.Unknown, "there was no answer to tell it by", e
	default:
		f.Seen = "requests are signed for " + signed + ", which is accepted"
	}
	return f
}

// trial writes an object with headers that Put does not send. The reply is zero
// after success.
func (d *driver) trial(ctx context.Context, scope check.Scope, name string, change func(*s3.PutObjectInput), options ...func(*s3.Options)) (body []byte, out *s3.PutObjectOutput, r reply) {
	key := scope.Probe + name
	body = fmt.Appendf(nil, "s3log store check %s\n", key)
	in := &s3.PutObjectInput{
		Bucket: &d.bucket, Key: d.full(key), ContentType: aws.String("text/plain"), IfNoneMatch: aws.String("*"),
		ContentLength: aws.Int64(int64(len(body))), ServerSideEncryption: types.ServerSideEncryption(d.opt.SSE),
	}
	if d.opt.KMSKeyID != "" {
		in.SSEKMSKeyId = &d.opt.KMSKeyID
	}
	change(in)
	_, err := d.try(opPut, d.once, func(o func(*s3.Options)) (err error) {
		in.Body = bytes.NewReader(body)
		out, err = d.api.PutObject(ctx, in, append([]func(*s3.Options){o}, options...)...)
		return err
	})
	if err == nil {
		scope.Wrote(key)
		return body, out, r
	}
	r = replyOf(opPut, false, err)
	if r.message == "" {
		r.message = textOf(err)
	}
	if r.status == 0 || r.status >= 500 {
		scope.Wrote(key)
	}
	return body, nil, r
}

// dialect finds out what ETags are and which sums are looked at.
func (d *driver) dialect(ctx context.Context, scope check.Scope) []check.Finding {
	return []check.Finding{d.etag(ctx, scope), d.checksums(ctx, scope), d.trailers(ctx, scope)}
}

func contentMD5(body string) *string {
	return aws.String(base64.StdEncoding.EncodeToString(md5Of([]byte(body))))
}

func crc32cOf(body string) *string {
	sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum([]byte(body), castagnoli))
	return aws.String(base64.StdEncoding.EncodeToString(sum))
}

func (d *driver) etag(ctx context.Context, scope check.Scope) check.Finding {
	f := check.Finding{Name: "etag", Status: check.OK}
	body, out, r := d.trial(ctx, scope, "0", func(*s3.PutObjectInput) {})
	if out == nil {
		f.Status, f.Seen = check.Unknown, r.message
		return f
	}
	switch tag := aws.ToString(out.ETag); {
	case versionOf(out.ETag).IsZero():
		f.Status, f.Seen = check.Warning, "a write is answered without a strong ETag"
		f.Means, f.Do = "every write costs a HEAD more", "go past the proxy that removes or weakens ETags"
	case !fips140.Enabled() && isMD5(md5Of(body), tag):
		f.Seen = "the MD5 of the body"
	default:
		f.Seen = "not the MD5 of the body"
		f.Means = "a read that meets a write, and gets the ETag of one version with the body of another, is recognised by metadata alone"
	}
	if tag := aws.ToString(out.ETag); tag != "" && !strings.HasPrefix(tag, `"`) && f.Status == check.OK {
		f.Seen += ", without quotes"
	}
	return f
}

// checksums writes bodies with sums that are not theirs.
func (d *driver) checksums(ctx context.Context, scope check.Scope) check.Finding {
	f := check.Finding{Name: "checksum", Status: check.OK}
	var byMD5 *s3.PutObjectOutput
	r5 := reply{message: "is not to be had in FIPS mode"}
	if !fips140.Enabled() {
		_, byMD5, r5 = d.trial(ctx, scope, "1", func(in *s3.PutObjectInput) { in.ContentMD5 = contentMD5("another body") })
	}
	_, byCRC, rc := d.trial(ctx, scope, "2", func(in *s3.PutObjectInput) { in.ChecksumCRC32C = crc32cOf("another body") })
	judge := func(name string, out *s3.PutObjectOutput, r reply) (honoured bool, text string) {
		switch {
		case out != nil:
			return false, "a wrong " + name + " is ignored"
		case r.status == http.StatusNotImplemented:
			return false, name + " is not implemented"
		case r.status >= 400 && r.status < 500 && r.status != http.StatusForbidden:
			return true, "a body that does not have its " + name + " is refused"
		}
		return false, name + ": " + r.message
	}
	md5Works, md5Text := judge("Content-MD5", byMD5, r5)
	crcWorks, crcText := judge("x-amz-checksum-crc32c", byCRC, rc)
	used, other, otherName := md5Works, crcWorks, ChecksumCRC32C
	f.Seen = md5Text + "; " + crcText
	if d.opt.Checksum == ChecksumCRC32C {
		used, other, otherName = crcWorks, md5Works, ChecksumMD5
		f.Seen = crcText + "; " + md5Text
	}
	switch {
	case used:
	case other:
		f.Status, f.Do = check.Warning, "add checksum="+string(otherName)+" to the store URL"
		f.Means = "what is damaged on its way to the store is noticed when it is read, not when it is written"
	default:
		f.Status = check.Warning
		f.Means = "what is damaged on its way to the store is noticed when it is read, not when it is written"
		if strings.HasPrefix(d.endpoint, "http://") {
			f.Do = "use https, which notices by itself"
		}
	}
	return f
}

// trailers writes with the checksum that SDKs send by default, behind the body.
// s3log never does, but whoever looks after the bucket may.
func (d *driver) trailers(ctx context.Context, scope check.Scope) check.Finding {
	f := check.Finding{Name: "trailers", Status: check.OK, Seen: "checksums behind the body are understood"}
	if strings.HasPrefix(d.endpoint, "http://") {
		f.Status, f.Seen = check.Skipped, "SDKs send checksums behind the body by https alone"
		return f
	}
	const others = "s3log never sends such checksums; other programs may need AWS_REQUEST_CHECKSUM_CALCULATION=when_required"
	body, out, r := d.trial(ctx, scope, "3", func(in *s3.PutObjectInput) { in.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32 })
	if out == nil {
		f.Status, f.Seen, f.Means = check.Warning, "checksums behind the body are refused: "+r.message, others
		return f
	}
	switch o, err := d.Get(ctx, scope.Probe+"3", objstore.GetOptions{Limit: 1 << 20}); {
	case err != nil:
		f.Status, f.Seen = check.Unknown, err.Error()
	case !bytes.Equal(o.Body, body):
		f.Status, f.Seen, f.Means = check.Warning, fmt.Sprintf("checksums behind the body become part of the object: %d bytes came back as %d", len(body), len(o.Body)), others
	}
	return f
}
