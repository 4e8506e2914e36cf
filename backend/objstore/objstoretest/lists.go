package objstoretest

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"

	"github.com/s3log/s3log/backend/objstore"
)

// listOrder compares every combination of prefix and after with a model.
func (s *suite) listOrder() {
	// In byte order '!' < '-' < '.' < '/' < '0' < '=' < 'A' < '_' < 'a': a walk
	// through directories meets some of these in another order.
	keys := []string{
		"a!", "a-", "a-/1", "a-b", "a.", "a.json", "a.json-", "a/!", "a/1", "a/1-", "a/1.x/y", "a/2/x", "a/2/x-", "a/2/y/z", "a/2-", "a/3", "a/~",
		"a0", "a0/1", "a=b", "A", "A/x", "a_", "aa", "ab/1", "b/a", "b-/a", "b.a", "z",
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { // an object below an object is for S3 alone
		return slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k, key+"/") })
	})
	for _, key := range keys {
		s.mustCreate(key, key)
	}
	slices.Sort(keys)

	prefixes := []string{"", "a", "a/", "a/1", "a/1.x/", "a/2", "a/2/", "a/2/y", "a-", "a.", "b", "b/", "c", "a/1/", "zz", "A"}
	afters := append([]string{"", "!", "a/", "a/0", "a/1~", "a/2/", "a/2/x~", "a/zz", "b", "~"}, keys...)
	for _, prefix := range prefixes {
		for _, after := range afters {
			var want []string
			for _, key := range keys {
				if strings.HasPrefix(key, prefix) && key > after {
					want = append(want, key)
				}
			}
			if diff := cmp.Diff(want, s.list(prefix, after)); diff != "" {
				s.Errorf("list %q after %q (-want +got):\n%s", prefix, after, diff)
			}
		}
	}

	for info, err := range s.store.List(s.Context(), s.dir, "") {
		if err != nil {
			s.Fatal(err)
		}
		if want := int64(len(info.Key) - len(s.dir)); info.Size != want {
			s.Errorf("list: %s has size %d, want %d", info.Key, info.Size, want)
		}
		head, err := s.store.Head(s.Context(), info.Key)
		if err != nil {
			s.Fatal(err)
		}
		if !info.Version.IsZero() && info.Version != head.Version {
			s.Errorf("list: %s has version %v, want %v", info.Key, info.Version, head.Version)
		}
		if d := info.Modified.Sub(head.Modified).Abs().Seconds(); d >= 1 { // S3 says whole seconds in one, fractions in the other
			s.Errorf("list: %s modified at %v, want %v", info.Key, info.Modified, head.Modified)
		}
		if len(info.Metadata) > 0 {
			s.Errorf("list: %s comes with metadata", info.Key)
		}
	}
}

// listLarge needs more than two pages.
func (s *suite) listLarge() {
	var want []string
	for i := range s.opt.Keys {
		want = append(want, fmt.Sprintf("%05d", i))
	}
	next := make(chan string, len(want))
	for _, key := range want {
		next <- "k/" + key
	}
	close(next)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for key := range next {
				if _, err := s.put(key, "x", objstore.IfAbsent()); err != nil {
					s.Errorf("create: %v", err)
				}
			}
		})
	}
	wg.Wait()
	trim := func(keys []string) []string {
		for i := range keys {
			keys[i] = strings.TrimPrefix(keys[i], "k/")
		}
		return keys
	}
	if diff := cmp.Diff(want, trim(s.list("k/", ""))); diff != "" {
		s.Errorf("whole list (-want +got):\n%s", diff)
	}
	middle := len(want) / 2
	if diff := cmp.Diff(want[middle+1:], trim(s.list("k/", "k/"+want[middle]))); diff != "" {
		s.Errorf("second half (-want +got):\n%s", diff)
	}
	n := 0
	for _, err := range s.store.List(s.Context(), s.dir, "") {
		if err != nil {
			s.Fatal(err)
		}
		if n++; n == 7 {
			break // a reader who has enough may leave
		}
	}
}

func (s *suite) listAfterWrite() {
	for i := range 10 {
		key := fmt.Sprintf("d%d/k", i)
		s.mustCreate(key, "x")
		if got := s.list("", ""); !slices.Equal(got, []string{key}) {
			s.Fatalf("list after create of %q: %q", key, got)
		}
		if err := s.store.Delete(s.Context(), s.dir+key); err != nil {
			s.Fatal(err)
		}
		if got := s.list("", ""); len(got) != 0 {
			s.Fatalf("list after delete of %q: %q", key, got)
		}
	}
}

// listUnderWrites: an object that is overwritten while it is listed is listed,
// once.
func (s *suite) listUnderWrites() {
	var keys []string
	versions := map[string]objstore.Version{}
	for i := range 20 {
		key := fmt.Sprintf("m/%02d", i)
		keys = append(keys, key)
		versions[key] = s.mustCreate(key, "start")
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for round := 0; ; round++ {
			for _, key := range keys {
				select {
				case <-stop:
					return
				default:
				}
				info, err := s.put(key, fmt.Sprintf("round %d", round), objstore.IfVersion(versions[key]))
				if objstore.Classify(err) == objstore.TryAgain {
					continue
				}
				if err != nil {
					s.Errorf("overwrite: %v", err)
					return
				}
				if versions[key] = info.Version; info.Version.IsZero() {
					o, err := s.get(key, objstore.GetOptions{})
					if err != nil {
						s.Errorf("get: %v", err)
						return
					}
					versions[key] = o.Version
				}
			}
		}
	})
	for range 2 * s.opt.Rounds {
		var got []string
		for info, err := range s.store.List(s.Context(), s.dir, "") {
			if err != nil {
				s.Errorf("list: %v", err)
				break
			}
			// Servers on a file system may show the file that is about to become an
			// object (versitygw: ".16.sgwtmp.…"). No key of a log has such a name.
			if strings.HasPrefix(path.Base(info.Key), ".") {
				continue
			}
			got = append(got, strings.TrimPrefix(info.Key, s.dir))
		}
		if diff := cmp.Diff(keys, got); diff != "" {
			s.Errorf("list during overwrites (-want +got):\n%s", diff)
			break
		}
	}
	close(stop)
	wg.Wait()
}
