package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/s3log/s3log/backend/objstore"
)

const (
	bodyTries  = 4        // of a Get whose body was cut, or not the store's
	trustedLen = 64 << 20 // announced lengths up to this are allocated at once
	emptyPages = 100      // in a row, before a List gives up
)

// Get implements objstore.Reader. A body that is cut short is fetched again, a
// few times, from its beginning; so is a manifest whose body is not its ETag's.
func (d *driver) Get(ctx context.Context, key string, opt objstore.GetOptions) (objstore.Object, error) {
	if _, _, err := opt.Span(math.MaxInt64); err == objstore.ErrRejected {
		return objstore.Object{}, &objstore.Error{Op: opGet, Key: key, Class: err, Err: fmt.Errorf("options %+v make no sense", opt)}
	}
	in := &s3.GetObjectInput{Bucket: &d.bucket, Key: d.full(key)}
	if opt.Length > 0 {
		last := opt.Offset + (opt.Length - 1)
		if last < opt.Offset {
			last = math.MaxInt64
		}
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", opt.Offset, last))
	}
	if !opt.IfNot.IsZero() {
		in.IfNoneMatch = aws.String(opt.IfNot.Token())
	}
	for cut, torn := 0, 0; ; {
		obj, err := d.get(ctx, key, in, opt)
		if err == nil {
			return obj, nil
		}
		// What fails before the body is the SDK's to repeat.
		try, again := 0, false
		switch {
		case errors.Is(err, errCut), errors.Is(err, errForeign):
			try, again = cut, cut < bodyTries-1
			cut++
		case errors.Is(err, errTorn):
			try, again = torn, torn < tornTries
			torn++
		}
		if !again || ctx.Err() != nil || d.sleep(ctx, try) != nil {
			return objstore.Object{}, err
		}
	}
}

// get is one try of Get.
func (d *driver) get(ctx context.Context, key string, in *s3.GetObjectInput, opt objstore.GetOptions) (objstore.Object, error) {
	var out *s3.GetObjectOutput
	a, err := d.try(opGet, d.repeat, func(o func(*s3.Options)) (err error) {
		out, err = d.api.GetObject(ctx, in, o)
		return err
	})
	if err != nil {
		return objstore.Object{}, d.errorOf(opGet, key, false, err, a)
	}
	defer out.Body.Close()
	fail := func(class, err error) (objstore.Object, error) {
		return objstore.Object{}, &objstore.Error{Op: opGet, Key: key, Class: class, Err: err}
	}
	if class, hint, err := genuine(out); err != nil {
		return objstore.Object{}, &objstore.Error{Op: opGet, Key: key, Class: class, Hint: hint, Err: d.at(err)}
	}

	info := d.info(key, 0, out.ETag, out.LastModified, out.Metadata, out.ResultMetadata)
	length := int64(-1) // of the body; not announced
	if out.ContentLength != nil {
		length = *out.ContentLength
	}
	skip := int64(0)
	switch {
	case opt.Length == 0:
		info.Size = length
	case out.ContentRange != nil:
		first, last, size, err := parseContentRange(*out.ContentRange)
		if err != nil {
			return fail(objstore.ErrUndecided, err)
		}
		_, want, err := opt.Span(size)
		if err == objstore.ErrRange || err == nil && (first != opt.Offset || last-first+1 != want || length >= 0 && length != want) {
			return fail(objstore.ErrUndecided, fmt.Errorf("asked for %s, got %s, %d bytes", *in.Range, *out.ContentRange, length))
		}
		info.Size, length = size, last-first+1
	case length >= 0: // the range was ignored: the whole object follows
		offset, want, err := opt.Span(length)
		if err != nil {
			return fail(err, nil)
		}
		info.Size, skip, length = length, offset, want
	default:
		return fail(objstore.ErrUndecided, errors.New("a reply to a ranged request with neither range nor length"))
	}
	if opt.Limit > 0 && length > opt.Limit {
		return fail(objstore.ErrTooLarge, fmt.Errorf("%d bytes, the limit is %d", length, opt.Limit))
	}

	if n, err := io.CopyN(io.Discard, out.Body, skip); err != nil {
		return fail(objstore.ErrUndecided, fmt.Errorf("%w: %d of %d bytes skipped: %w", errCut, n, skip, err))
	}
	body, err := readBody(out.Body, length, opt.Limit)
	if err != nil {
		return fail(classOfBody(err), err)
	}
	if info.Size < 0 {
		info.Size = int64(len(body))
	}
	if opt.Length == 0 && d.tags.torn(key, body, out) {
		return objstore.Object{}, &objstore.Error{Op: opGet, Key: key, Class: objstore.ErrUnsupported, Hint: hintTorn,
			Err: fmt.Errorf("%w at every read: ETag %s, %d bytes", errTorn, aws.ToString(out.ETag), len(body))}
	}
	return objstore.Object{Info: info, Body: body}, nil
}

func classOfBody(err error) error {
	if errors.Is(err, objstore.ErrTooLarge) {
		return objstore.ErrTooLarge
	}
	return objstore.ErrUndecided
}

// readBody reads exactly length bytes, or to the end if length is negative,
// then at most limit bytes unless that is 0.
func readBody(r io.Reader, length, limit int64) ([]byte, error) {
	bound := length
	if length < 0 {
		if bound = math.MaxInt64; limit > 0 {
			bound = limit + 1
		}
	}
	var buf bytes.Buffer
	if length > 0 {
		// ReadFrom wants room for one more read to see the end.
		buf.Grow(int(min(length, trustedLen)) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(r, bound))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: after %d bytes: %w", errCut, n, err)
	case length >= 0 && n < length:
		return nil, fmt.Errorf("%w: %d of %d bytes", errCut, n, length)
	case length < 0 && limit > 0 && n > limit:
		return nil, objstore.ErrTooLarge
	}
	return buf.Bytes(), nil
}

// parseContentRange takes "bytes 0-9/42" apart.
func parseContentRange(s string) (first, last, size int64, err error) {
	bad := fmt.Errorf("content range %q cannot be read", s)
	span, total, ok1 := strings.Cut(strings.TrimPrefix(s, "bytes "), "/")
	from, to, ok2 := strings.Cut(span, "-")
	if !ok1 || !ok2 {
		return 0, 0, 0, bad
	}
	for _, f := range []struct {
		text string
		n    *int64
	}{{from, &first}, {to, &last}, {total, &size}} {
		if *f.n, err = strconv.ParseInt(f.text, 10, 64); err != nil || *f.n < 0 {
			return 0, 0, 0, bad
		}
	}
	if last < first || last >= size {
		return 0, 0, 0, bad
	}
	return first, last, size, nil
}

// Head implements objstore.Reader.
func (d *driver) Head(ctx context.Context, key string) (objstore.Info, error) {
	return d.head(ctx, opHead, key)
}

func (d *driver) head(ctx context.Context, op, key string) (objstore.Info, error) {
	var out *s3.HeadObjectOutput
	a, err := d.try(opHead, d.repeat, func(o func(*s3.Options)) (err error) {
		out, err = d.api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &d.bucket, Key: d.full(key)}, o)
		return err
	})
	if err != nil {
		e := d.errorOf(opHead, key, false, err, a)
		e.Op = op
		return objstore.Info{}, e
	}
	if isPage(out.ContentType, out.ETag) {
		return objstore.Info{}, &objstore.Error{Op: op, Key: key, Class: objstore.ErrUndecided, Hint: hintForeign, Err: d.at(errForeign)}
	}
	return d.info(key, aws.ToInt64(out.ContentLength), out.ETag, out.LastModified, out.Metadata, out.ResultMetadata), nil
}

// info gathers what a reply says about an object.
func (d *driver) info(key string, size int64, etag *string, modified *time.Time, metadata map[string]string, result middleware.Metadata) objstore.Info {
	info := objstore.Info{Key: key, Size: size, Version: versionOf(etag), Modified: aws.ToTime(modified)}
	info.Date, _ = awsmiddleware.GetServerTime(result)
	for k, v := range metadata {
		if info.Metadata == nil {
			info.Metadata = make(map[string]string, len(metadata))
		}
		info.Metadata[strings.ToLower(k)] = v
	}
	return info
}

// List implements objstore.Reader. It fetches pages of up to 1,000 as they are
// needed. A server that repeats a page, or does not keep the order, is an
// error, not a longer list. Somebody else's keys may hold what XML cannot: they
// are asked for in URL encoding, and where a server knows none and shows U+FFFD
// in their places, they are passed on like that, wherever they stand.
func (d *driver) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		in := &s3.ListObjectsV2Input{Bucket: &d.bucket, Prefix: d.full(prefix), EncodingType: types.EncodingTypeUrl}
		if after != "" {
			in.StartAfter = d.full(after)
		}
		last, empty := "", 0
		for {
			out, err := d.page(ctx, prefix, in)
			if err != nil {
				yield(objstore.Info{}, err)
				return
			}
			fail := func(format string, args ...any) {
				yield(objstore.Info{}, &objstore.Error{Op: opList, Key: prefix, Class: objstore.ErrUndecided, Err: fmt.Errorf(format, args...)})
			}
			next := aws.ToString(out.NextContinuationToken)
			more := aws.ToBool(out.IsTruncated)
			if empty++; len(out.Contents) > 0 {
				empty = 0
			}
			switch {
			case more && next == "":
				fail("the list goes on, but the store does not say where")
				return
			case more && next == aws.ToString(in.ContinuationToken):
				fail("the store gave the same continuation token twice: the list would never end")
				return
			case more && empty == emptyPages:
				fail("%d empty pages in a row", empty)
				return
			}
			date, _ := awsmiddleware.GetServerTime(out.ResultMetadata)
			for _, o := range out.Contents {
				full := d.listedKey(aws.ToString(o.Key), out.EncodingType)
				key, ok := strings.CutPrefix(full, d.prefix)
				mangled := strings.ContainsRune(key, utf8.RuneError)
				switch {
				case !ok || !strings.HasPrefix(key, prefix):
					fail("the list has a key that was not asked for: %q", full)
					return
				case after != "" && key <= after:
					continue // a server that does not know where to start after
				case mangled: // its place is that of the key that it stands for
				case last != "" && key <= last:
					fail("the list is not in order: %q comes after %q", key, last)
					return
				default:
					last = key
				}
				info := objstore.Info{Key: key, Size: aws.ToInt64(o.Size), Version: versionOf(o.ETag), Modified: aws.ToTime(o.LastModified), Date: date}
				if !yield(info, nil) {
					return
				}
			}
			if !more {
				return
			}
			in.StartAfter, in.ContinuationToken = nil, &next
		}
	}
}

// listedKey is a key as it was before a server encoded it for a list. One that
// only says that it did is seen by the prefix, if by anything.
func (d *driver) listedKey(key string, encoding types.EncodingType) string {
	if encoding != types.EncodingTypeUrl {
		return key
	}
	plain, err := url.QueryUnescape(key)
	if err != nil || !strings.HasPrefix(plain, d.prefix) && strings.HasPrefix(key, d.prefix) {
		return key
	}
	return plain
}

// page fetches one page of a List. One whose body was cut is fetched again, a few
// times.
func (d *driver) page(ctx context.Context, prefix string, in *s3.ListObjectsV2Input) (*s3.ListObjectsV2Output, error) {
	for try := 0; ; try++ {
		var out *s3.ListObjectsV2Output
		a, err := d.try(opList, d.repeat, func(o func(*s3.Options)) (err error) {
			out, err = d.api.ListObjectsV2(ctx, in, o)
			return err
		})
		var e *objstore.Error
		switch {
		case err != nil:
			e = d.errorOf(opList, prefix, false, err, a)
		case out.KeyCount == nil && out.IsTruncated == nil && out.Name == nil && len(out.Contents) == 0:
			// Not even an empty list: some other page, of which the SDK takes anything.
			e = &objstore.Error{Op: opList, Key: prefix, Class: objstore.ErrUndecided, Hint: hintForeign, Err: d.at(errForeign)}
		default:
			return out, nil
		}
		if foreign := err == nil; !foreign && e.Status/100 != 2 || try == bodyTries-1 || ctx.Err() != nil || d.sleep(ctx, try) != nil {
			return nil, e
		}
	}
}
