// Package integration tests the whole system as its users meet it: processes,
// stores, sizes and servers. It holds no code of its own.
package integration
