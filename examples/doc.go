// Package examples has programs in the folders below it, and README.md, which
// says what each shows.
package examples
