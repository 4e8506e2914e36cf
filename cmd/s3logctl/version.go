package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/spf13/cobra"
)

func newVersionCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Print the version",
		Long:              "Print what the build knows about itself: version, commit, Go and platform.",
		Example:           `  s3logctl version --output json | jq -r .commit`,
		Args:              exactArgs(0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			g.print(v, func(w io.Writer) { fmt.Fprintln(w, v) })
			return nil
		},
	}
}

// version is what the build knows about itself.
type version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Time     string `json:"time"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (v version) String() string {
	text := "s3logctl " + v.Version
	if v.Commit != "" {
		text += " (" + v.Commit
		if v.Time != "" {
			text += ", " + v.Time
		}
		if v.Modified {
			text += ", modified"
		}
		text += ")"
	}
	return text + ", " + v.Go + ", " + v.Platform
}

var buildVersion = sync.OnceValue(func() version {
	v := version{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
})

// softwareVersion is the version for commits: whatever the build says, short.
func softwareVersion() string {
	const most = 64
	v := buildVersion().Version
	return v[:min(len(v), most)]
}
