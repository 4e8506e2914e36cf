package main

import "github.com/spf13/cobra"

// apply is how verbs that remove or rewrite something are told to do it: without
// it they say what they would do.
type apply struct {
	dryRun, apply bool
}

func (a *apply) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&a.dryRun, "dry-run", true, "say what would be done, and do nothing")
	f.BoolVar(&a.apply, "apply", false, "do it: the same as --dry-run=false")
}

// check settles what the two flags mean together.
func (a *apply) check(cmd *cobra.Command) error {
	asked := cmd.Flags().Changed("dry-run")
	switch {
	case a.apply && asked && a.dryRun:
		return usagef("--apply does it and --dry-run does not: give one of them")
	case cmd.Flags().Changed("apply") && !a.apply && asked && !a.dryRun:
		return usagef("--dry-run=false does it and --apply=false does not: give one of them")
	}
	a.apply = a.apply || !a.dryRun
	return nil
}

// use is what such a verb does with a store.
func (a *apply) use() use {
	if a.apply {
		return useWrite
	}
	return useRead
}
