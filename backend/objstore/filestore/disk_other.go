//go:build !(darwin || linux || windows)

package filestore

import "errors"

// diskOf is for systems that are asked in another way.
func diskOf(string) (free int64, kind string, err error) {
	return 0, "", errors.New("how much room there is cannot be asked here")
}
