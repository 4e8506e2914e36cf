package memstore

import (
	"bytes"
	"strings"
)

// The methods of this file are for tests that play somebody else's hand on the
// store: damage, a restored copy, an operator with another tool. No rule is
// checked.

// Replace puts body under key, with a new version and without metadata. It does
// not count as a use of the name by s3log.
func (s *Store) Replace(key string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(key, body, nil)
}

// Drop removes an object and forgets that its name was ever used.
func (s *Store) Drop(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
	delete(s.history, key)
}

// Snapshot copies out all objects whose keys start with prefix: for tests that
// compare before and after, or put some of it back with Replace.
func (s *Store) Snapshot(prefix string) map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string][]byte{}
	for key, o := range s.objects {
		if strings.HasPrefix(key, prefix) {
			all[key] = bytes.Clone(o.body)
		}
	}
	return all
}
