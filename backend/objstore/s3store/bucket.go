package s3store

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/s3log/s3log/backend/objstore/check"
	"github.com/s3log/s3log/internal/words"
)

// SettingsAPI are calls that ask for settings of a bucket. An API that has them,
// as *s3.Client does, is asked by Describe; no other method needs them.
type SettingsAPI interface {
	GetBucketVersioning(context.Context, *s3.GetBucketVersioningInput, ...func(*s3.Options)) (*s3.GetBucketVersioningOutput, error)
	GetBucketLifecycleConfiguration(context.Context, *s3.GetBucketLifecycleConfigurationInput, ...func(*s3.Options)) (*s3.GetBucketLifecycleConfigurationOutput, error)
	GetObjectLockConfiguration(context.Context, *s3.GetObjectLockConfigurationInput, ...func(*s3.Options)) (*s3.GetObjectLockConfigurationOutput, error)
	GetBucketEncryption(context.Context, *s3.GetBucketEncryptionInput, ...func(*s3.Options)) (*s3.GetBucketEncryptionOutput, error)
}

// Where objects of logs are, below the store's prefix.
var logTrees = []string{tornPrefix, "segments/"}

const (
	nameVersioning  = "versioning"
	nameLifecycle   = "lifecycle"
	nameLock        = "object-lock"
	nameEncryption  = "encryption"
	seenUnversioned = "off"
	seenNoSetting   = "the server has no such setting"
)

// settings asks how the bucket is set up.
func (d *driver) settings(ctx context.Context) []check.Finding {
	api, ok := d.api.(SettingsAPI)
	if !ok {
		f := check.Finding{Status: check.Unknown, Seen: "the client cannot ask for settings of a bucket"}
		var all []check.Finding
		for _, name := range []string{nameVersioning, nameLifecycle, nameLock, nameEncryption} {
			f.Name = name
			all = append(all, f)
		}
		return all
	}
	lifecycle, rules := d.lifecycle(ctx, api)
	return []check.Finding{d.versioning(ctx, api, rules), lifecycle, d.objectLock(ctx, api), d.encryption(ctx, api)}
}

// ask makes a call about the bucket. It reports whether there is such a setting;
// if that cannot be known, f says why. none are the codes that mean "not set".
func (d *driver) ask(f *check.Finding, right string, call func(o func(*s3.Options)) error, none ...string) (set bool) {
	_, err := d.try(opGet, d.repeat, call)
	if err == nil {
		return true
	}
	r := replyOf(opGet, false, err)
	for _, code := range none {
		if r.code == code {
			return false
		}
	}
	switch {
	case r.status == http.StatusForbidden:
		f.Status, f.Seen = check.Unknown, "these credentials may not ask ("+right+")"
	case r.status == http.StatusNotImplemented, r.status == http.StatusMethodNotAllowed, r.code == "NotImplemented":
		f.Status, f.Seen = check.Skipped, seenNoSetting
	default:
		f.Status, f.Seen, f.Err = check.Unknown, textOf(err), err
		if r.status != 0 {
			f.Seen = fmt.Sprintf("the server does not tell (%s, HTTP %d)", r.code, r.status)
		}
		if r.status/100 == 4 && !d.aws && !r.expired() && !r.skewed(err) {
			f.Status, f.Err = check.Skipped, nil // nor will it tomorrow
		}
	}
	return false
}

func (d *driver) versioning(ctx context.Context, api SettingsAPI, rules *rules) check.Finding {
	f := check.Finding{Name: nameVersioning, Status: check.OK, Seen: seenUnversioned}
	var out *s3.GetBucketVersioningOutput
	set := d.ask(&f, "s3:GetBucketVersioning", func(o func(*s3.Options)) (err error) {
		out, err = api.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &d.bucket}, o)
		return err
	})
	if set && out.Status != "" {
		f.Seen = strings.ToLower(string(out.Status))
	}
	marked := d.deletions.markers() == check.Yes
	if f.Status == check.Unknown && marked {
		f.Status, f.Seen = check.OK, "enabled, as what deleting leaves behind shows"
	} else if !set || out.Status != types.BucketVersioningStatusEnabled {
		return f
	}
	var kept []string
	if rules != nil {
		for _, tree := range logTrees {
			if !rules.clears[tree] {
				kept = append(kept, d.prefix+tree)
			}
		}
		if kept == nil {
			f.Seen += "; rules remove former versions"
			return f
		}
		f.Seen += "; no rule removes former versions below " + strings.Join(kept, " and ")
	} else {
		f.Seen += "; whether rules remove former versions is not known"
	}
	f.Status = check.Warning
	f.Means = "every commit leaves the former manifest behind, and what gc removes is not freed: a long log costs many times its size"
	f.Do = "add lifecycle rules with NoncurrentVersionExpiration for " + d.prefix + strings.Join(logTrees, " and "+d.prefix) +
		" (and with ExpiredObjectDeleteMarker for the latter); former manifests of the last days are worth keeping"
	return f
}

// rules are what the lifecycle rules of a bucket do to objects of logs.
type rules struct {
	expire  []string // in words
	archive []string
	clears  map[string]bool // trees whose noncurrent versions are removed
}

func (d *driver) lifecycle(ctx context.Context, api SettingsAPI) (check.Finding, *rules) {
	f := check.Finding{Name: nameLifecycle, Status: check.OK}
	var out *s3.GetBucketLifecycleConfigurationOutput
	set := d.ask(&f, "s3:GetLifecycleConfiguration", func(o func(*s3.Options)) (err error) {
		out, err = api.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &d.bucket}, o)
		return err
	}, "NoSuchLifecycleConfiguration")
	switch {
	case f.Status != check.OK && f.Seen != seenNoSetting:
		return f, nil // there may be some
	case !set:
		if f.Status == check.OK {
			f.Seen = "no rules"
		}
		return f, &rules{}
	}
	r := d.judgeRules(out.Rules)
	f.Seen = words.Count(len(out.Rules), "rule") + ", none of which removes or archives objects of logs"
	switch {
	case r.expire != nil:
		f.Status, f.Unsafe = check.Failed, true
		f.Seen = strings.Join(r.expire, "; ")
		f.Means = "logs lose events, or vanish, with time. Deleted logs come back as new ones, too: their tombstones must stay"
		f.Do = "take " + d.prefix + strings.Join(logTrees, " and "+d.prefix) + " out of the rule, and delete logs with rm and gc; rules for " + d.prefix + "probe/ are welcome"
	case r.archive != nil:
		f.Status = check.Warning
		f.Seen = strings.Join(r.archive, "; ")
		f.Means = "what is archived cannot be read until somebody restores it"
		f.Do = "use a storage class with instant retrieval"
	}
	return f, r
}

// judgeRules finds what rules do to manifests and segments.
func (d *driver) judgeRules(all []types.LifecycleRule) *rules {
	r := &rules{clears: map[string]bool{}}
	for i := range all {
		rule := &all[i]
		prefix, part, mine := reachOf(rule)
		if rule.Status != types.ExpirationStatusEnabled || !mine {
			continue
		}
		for _, tree := range logTrees {
			full := d.prefix + tree
			whole := strings.HasPrefix(full, prefix)
			if !whole && !strings.HasPrefix(prefix, full) {
				continue
			}
			name := fmt.Sprintf("rule %q", aws.ToString(rule.ID))
			if e := rule.Expiration; e != nil && e.Date != nil {
				r.expire = append(r.expire, fmt.Sprintf("%s deletes what is below %s on %s", name, full, e.Date.UTC().Format(time.DateOnly)))
			} else if e != nil && aws.ToInt32(e.Days) > 0 {
				r.expire = append(r.expire, fmt.Sprintf("%s deletes what is below %s %s after it was written", name, full, words.Count(*e.Days, "day")))
			}
			for _, t := range rule.Transitions {
				if t.StorageClass == types.TransitionStorageClassGlacier || t.StorageClass == types.TransitionStorageClassDeepArchive {
					r.archive = append(r.archive, fmt.Sprintf("%s moves what is below %s to %s", name, full, t.StorageClass))
				}
			}
			if rule.NoncurrentVersionExpiration != nil && whole && !part {
				r.clears[tree] = true
			}
		}
	}
	return r
}

// reachOf is the prefix of the keys that a rule is for. part says that it is for
// objects of some sizes only; mine is false if it wants tags, which no object of
// a log has.
func reachOf(rule *types.LifecycleRule) (prefix string, part, mine bool) {
	prefix = aws.ToString(rule.Prefix) //nolint:staticcheck // old rules have it
	f := rule.Filter
	if f == nil {
		return prefix, false, true
	}
	if f.Prefix != nil {
		prefix = *f.Prefix
	}
	part = f.ObjectSizeGreaterThan != nil || f.ObjectSizeLessThan != nil
	mine = f.Tag == nil
	if and := f.And; and != nil {
		if and.Prefix != nil {
			prefix = *and.Prefix
		}
		part = part || and.ObjectSizeGreaterThan != nil || and.ObjectSizeLessThan != nil
		mine = mine && len(and.Tags) == 0
	}
	return prefix, part, mine
}

func (d *driver) objectLock(ctx context.Context, api SettingsAPI) check.Finding {
	f := check.Finding{Name: nameLock, Status: check.OK, Seen: "off"}
	var out *s3.GetObjectLockConfigurationOutput
	set := d.ask(&f, "s3:GetBucketObjectLockConfiguration", func(o func(*s3.Options)) (err error) {
		out, err = api.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: &d.bucket}, o)
		return err
	}, "ObjectLockConfigurationNotFoundError", "NoSuchObjectLockConfiguration", "ObjectLockConfigurationNotFound")
	if !set || out.ObjectLockConfiguration == nil || out.ObjectLockConfiguration.ObjectLockEnabled == "" {
		return f
	}
	rule := out.ObjectLockConfiguration.Rule
	if rule == nil || rule.DefaultRetention == nil || rule.DefaultRetention.Mode == "" {
		f.Seen = "on, without a default retention"
		return f
	}
	r := rule.DefaultRetention
	term := words.Count(aws.ToInt32(r.Days), "day")
	if aws.ToInt32(r.Years) > 0 {
		term = words.Count(*r.Years, "year")
	}
	f.Status = check.Warning
	f.Seen = fmt.Sprintf("on: every version is kept for %s (%s)", term, strings.ToLower(string(r.Mode)))
	f.Means = "appending works; every former manifest, and what gc removes, takes up space until then"
	f.Do = "where that is not meant, remove the bucket's default retention"
	return f
}

func (d *driver) encryption(ctx context.Context, api SettingsAPI) check.Finding {
	f := check.Finding{Name: nameEncryption, Status: check.OK, Seen: "no default"}
	var out *s3.GetBucketEncryptionOutput
	set := d.ask(&f, "s3:GetEncryptionConfiguration", func(o func(*s3.Options)) (err error) {
		out, err = api.GetBucketEncryption(ctx, &s3.GetBucketEncryptionInput{Bucket: &d.bucket}, o)
		return err
	}, "ServerSideEncryptionConfigurationNotFoundError")
	if set && out.ServerSideEncryptionConfiguration != nil {
		for _, rule := range out.ServerSideEncryptionConfiguration.Rules {
			if by := rule.ApplyServerSideEncryptionByDefault; by != nil {
				f.Seen = "by default " + string(by.SSEAlgorithm)
				if by.KMSMasterKeyID != nil {
					f.Seen += " with key " + *by.KMSMasterKeyID
				}
				if strings.HasPrefix(string(by.SSEAlgorithm), "aws:kms") {
					f.Means = "readers need kms:Decrypt on the key, writers kms:GenerateDataKey, too"
				}
			}
		}
	}
	if d.opt.SSE != "" {
		f.Seen += "; writes ask for " + d.opt.SSE
	}
	return f
}
