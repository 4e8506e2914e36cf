// Package integration holds tests of the whole: what is written by the library
// is read by other means, through the store's own bytes. It has no code of its
// own, and no test of a single package's insides.
package integration
