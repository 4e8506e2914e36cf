package main

import (
	"os"
	"os/user"
	"strings"
	"unicode/utf8"

	"github.com/s3log/s3log/manifest"
	"github.com/s3log/s3log/segment"
)

// userAtHost names who runs this process, and where, as far as the system says.
func userAtHost() string {
	var parts []string
	if u, err := user.Current(); err == nil && u.Username != "" {
		parts = append(parts, u.Username)
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		parts = append(parts, host)
	}
	return fittingLabel(strings.Join(parts, "@"))
}

// fittingLabel is as much of a name as a log keeps of a writer's.
func fittingLabel(name string) string {
	name = strings.ToValidUTF8(name, "?")
	for len(segment.AppendString(nil, name))-len(`""`) > manifest.MaxLabel {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name
}
