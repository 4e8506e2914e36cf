package s3store

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/s3log/s3log/backend/objstore"
	"github.com/s3log/s3log/backend/objstore/check"
)

// Put implements objstore.Store: one request, with one exception. A request
// that was answered "expired token" or "clock too skewed" was not applied; it
// is signed anew and sent once more.
func (d *driver) Put(ctx context.Context, key string, body []byte, cond objstore.Condition, opt objstore.PutOptions) (objstore.Info, error) {
	reject := func(class error, hint string, err error) (objstore.Info, error) {
		return objstore.Info{}, &objstore.Error{Op: opPut, Key: key, Class: class, Hint: hint, Err: err}
	}
	if err := objstore.CheckKey(key); err != nil {
		return reject(objstore.ErrRejected, "", err)
	}
	if err := objstore.CheckMetadata(opt.Metadata); err != nil {
		return reject(objstore.ErrRejected, "", err)
	}
	if !cond.Valid() {
		return reject(objstore.ErrUnsupported, hintWeak, errors.New("no usable strong ETag (proxy?) to write on; nothing was sent"))
	}

	in := &s3.PutObjectInput{
		Bucket:        &d.bucket,
		Key:           d.full(key),
		Body:          bytes.NewReader(body),
		ContentLength: aws.Int64(int64(len(body))),
		ContentType:   aws.String("application/octet-stream"),
		Metadata:      opt.Metadata,
	}
	if opt.ContentType != "" {
		in.ContentType = &opt.ContentType
	}
	if cond.Absent() {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = aws.String(cond.Match().Token())
	}
	in.ServerSideEncryption = types.ServerSideEncryption(d.opt.SSE)
	if d.opt.KMSKeyID != "" {
		in.SSEKMSKeyId = &d.opt.KMSKeyID
	}
	var known []byte // the body's MD5, if it was made
	// Ready-made sums go into the header as they are, and keep the SDK from
	// adding trailing ones.
	switch d.opt.Checksum {
	case ChecksumCRC32C:
		sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(body, castagnoli))
		in.ChecksumCRC32C = aws.String(base64.StdEncoding.EncodeToString(sum))
	default:
		sum := md5.Sum(body)
		known = sum[:]
		in.ContentMD5 = aws.String(base64.StdEncoding.EncodeToString(sum[:]))
	}

	var out *s3.PutObjectOutput
	hold := check.Hold(ctx)
	a, err := d.try(opPut, d.once, func(o func(*s3.Options)) (err error) {
		if hold != nil {
			in.Body = bytes.NewReader(body)
			if out, err = d.api.PutObject(ctx, in, o, meeting(hold)); replyOf(opPut, false, err).status != http.StatusExpectationFailed {
				return err
			}
			hold = nil // a server that cannot ask for a body; nothing was written
		}
		in.Body = bytes.NewReader(body)
		out, err = d.api.PutObject(ctx, in, o)
		return err
	})
	if err != nil {
		return objstore.Info{}, d.errorOf(opPut, key, !cond.Absent(), err, a)
	}
	if d.tags.learn(key, body, known, out) {
		out.ETag = nil // a success, without a version: whoever wants to know reads
	}
	return d.info(key, int64(len(body)), out.ETag, nil, nil, out.ResultMetadata), nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Delete implements objstore.Store. On a versioned bucket it leaves a delete
// marker, as any plain delete does.
func (d *driver) Delete(ctx context.Context, key string) error {
	a, err := d.try(opDelete, d.repeat, func(o func(*s3.Options)) error {
		out, err := d.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &d.bucket, Key: d.full(key)}, o)
		if err == nil && out != nil {
			d.deletions.note(aws.ToBool(out.DeleteMarker))
		}
		return err
	})
	if err == nil {
		return nil
	}
	e := d.errorOf(opDelete, key, false, err, a)
	if errors.Is(e, objstore.ErrNotExist) {
		return nil // S3 says 204 to that, some servers 404
	}
	return e
}

// Copy implements objstore.Copier. The copy is confirmed by a HEAD, because a
// reply of 200 to a copy may hold an error, or nothing. Servers that are not
// AWS may ignore the condition on a copy; there a HEAD before it finds what
// exists already, but two copies to one key at the same instant may both
// succeed. s3log never copies to a name that somebody else could use.
func (d *driver) Copy(ctx context.Context, src, dst string) (objstore.Info, error) {
	if err := objstore.CheckKey(dst); err != nil {
		return objstore.Info{}, &objstore.Error{Op: opCopy, Key: dst, Class: objstore.ErrRejected, Err: err}
	}
	if !d.aws {
		switch _, err := d.head(ctx, opCopy, dst); {
		case err == nil:
			return objstore.Info{}, &objstore.Error{Op: opCopy, Key: dst, Class: objstore.ErrPrecondition, Err: errors.New("it exists")}
		case !errors.Is(err, objstore.ErrNotExist) && !errors.Is(err, objstore.ErrDenied): // denied may be absent
			return objstore.Info{}, err
		}
	}
	in := &s3.CopyObjectInput{
		Bucket:               &d.bucket,
		Key:                  d.full(dst),
		CopySource:           aws.String(escapePath(d.bucket + "/" + d.prefix + src)),
		IfNoneMatch:          aws.String("*"),
		ServerSideEncryption: types.ServerSideEncryption(d.opt.SSE),
	}
	if d.opt.KMSKeyID != "" {
		in.SSEKMSKeyId = &d.opt.KMSKeyID
	}
	var out *s3.CopyObjectOutput
	a, err := d.try(opCopy, d.once, func(o func(*s3.Options)) (err error) {
		out, err = d.api.CopyObject(ctx, in, o)
		return err
	})
	if err != nil {
		e := d.errorOf(opCopy, dst, false, err, a)
		if errors.Is(e, objstore.ErrNotExist) {
			e.Key = src
		}
		return objstore.Info{}, e
	}
	if out.CopyObjectResult == nil || aws.ToString(out.CopyObjectResult.ETag) == "" {
		return objstore.Info{}, &objstore.Error{Op: opCopy, Key: dst, Class: objstore.ErrUndecided, Status: 200,
			Err: errors.New("the reply is empty: the copy may be missing")}
	}
	info, err := d.head(ctx, opCopy, dst)
	if err != nil {
		return objstore.Info{}, &objstore.Error{Op: opCopy, Key: dst, Class: objstore.ErrUndecided,
			Err: fmt.Errorf("the store said that it was copied, but: %w", hideClass{err})}
	}
	return info, nil
}

// hideClass shows an error without what it lets conclude.
type hideClass struct{ err error }

func (h hideClass) Error() string { return h.err.Error() }
func (h hideClass) Is(target error) bool {
	return (target == context.Canceled || target == context.DeadlineExceeded) && errors.Is(h.err, target)
}

// escapePath escapes the elements of a copy source, as the header wants them.
func escapePath(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}
