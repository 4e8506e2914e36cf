// Package backend keeps append-only event logs in an object store. It is what a
// harness imports: Reader reads, follows, lists and looks at logs with read-only
// credentials, Backend adds writing. A log is a manifest, which changes only by
// conditional PUT, and immutable segments; an append is one PUT.
//
// It is not an S3 client: any objstore.Store will do. Resuming, forking and
// replaying belong to package seedpath, and command lines to cmd/s3logctl.
package backend
