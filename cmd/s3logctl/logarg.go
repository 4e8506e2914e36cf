package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/s3log/s3log/manifest"
)

// checkLog refuses an argument that cannot be the id of a log.
func checkLog(id string) error {
	if err := manifest.CheckID(id); err != nil {
		return usageError{err}
	}
	return nil
}

// logArgs takes exactly one argument, the id of a log.
func logArgs(cmd *cobra.Command, args []string) error {
	if err := exactArgs(1, "one log id")(cmd, args); err != nil {
		return err
	}
	return checkLog(args[0])
}

// A completion must be quick, and nobody reads a longer list.
const (
	completionTime = 5 * time.Second
	maxCompletions = 1000
)

// completeLog completes the first argument with the ids of the store's logs,
// and later ones with file names if there may be any.
func (g *globals) completeLog(files bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return g.logIDs(cmd.Context(), begin), cobra.ShellCompDirectiveNoFileComp
		case files:
			return nil, cobra.ShellCompDirectiveDefault
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// logIDs lists the ids that begin with a text: one LIST, no manifest is read.
// Ids that a shell could not take as they are, and those that only a manifest
// knows, are left out. A completion that fails is an empty one.
func (g *globals) logIDs(ctx context.Context, begin string) []string {
	at, err := g.locate()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	store, err := g.open(ctx, at, useRead)
	if err != nil {
		return nil
	}
	var ids []string
	for info, err := range store.List(ctx, completionPrefix(begin), "") {
		if err != nil || len(ids) == maxCompletions {
			break
		}
		if id, exact, ok := manifest.ParseKey(info.Key); ok && exact && quote(id) == id && strings.HasPrefix(id, begin) {
			ids = append(ids, id)
		}
	}
	return ids
}

// completionPrefix is what the keys of such manifests begin with.
func completionPrefix(begin string) string {
	if begin == "" || manifest.CheckID(begin) != nil {
		return manifest.ManifestPrefix
	}
	escaped := manifest.EscapeID(begin)
	if _, exact, ok := manifest.UnescapeID(escaped); !ok || !exact {
		return manifest.ManifestPrefix
	}
	return manifest.ManifestPrefix + escaped
}
