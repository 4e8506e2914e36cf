//go:build !unix

package filestore

// These belong to tests that need Unix.
func childNobody(string) error { return nil }
func childDenied(string) error { return nil }
func childFiles(string) error  { return nil }
