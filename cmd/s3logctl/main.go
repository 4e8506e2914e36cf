// Command s3logctl keeps append-only event logs in object storage: it appends,
// reads, follows, lists, imports, exports and copies them, resumes, forks and
// replays them, judges their brackets, verifies them, and settles what became of a
// commit whose reply was lost. docs/cli.md is its reference: verbs, flags, exit codes
// and the JSON that scripts may rely on.
//
// There is a file for each verb, and what a verb means is decided in package
// backend: nothing here knows manifests, segments or the protocol.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/s3log/s3log/internal/words"
)

func main() { os.Exit(systemRun()) }

// systemRun runs the command on the process's own streams. The first SIGINT or
// SIGTERM cancels what is going on, the second one kills. A closed output pipe
// ends the process by SIGPIPE, as it does other tools.
func systemRun() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, os.Args[1:], surroundings{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		stdoutTTY:  term.IsTerminal(int(os.Stdout.Fd())),
		stderrTTY:  term.IsTerminal(int(os.Stderr.Fd())),
		stdinTTY:   term.IsTerminal(int(os.Stdin.Fd())),
		width:      terminalWidth,
		getenv:     os.Getenv,
		writer:     userAtHost,
		open:       openStore,
		executable: os.Executable,
	})
}

// terminalWidth is how many columns the terminal has that output goes to; 0 if it
// does not say.
func terminalWidth() int {
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// run executes one command line and returns the exit code, see docs/cli.md.
func run(ctx context.Context, args []string, around surroundings) int {
	return newGlobals(around).run(ctx, args)
}

func (g *globals) run(ctx context.Context, args []string) int {
	defer g.close()
	root := newRootCommand(g)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if ferr := g.flush(); err == nil && ferr != nil {
		err = withHint(fmt.Errorf("writing the output: %w", ferr), "nothing else failed: what was to be written to the store is there")
	}
	g.complain(err)
	g.reportRequests()
	if g.exit == exitDone && g.live {
		return exitLive
	}
	return g.exit
}

func newRootCommand(g *globals) *cobra.Command {
	root := &cobra.Command{
		Use:   "s3logctl",
		Short: "Append-only event logs in object storage",
		Long: `s3logctl keeps append-only event logs in S3-compatible object storage, or in a
directory.

A store is s3://bucket/prefix?region=…&endpoint=…&path-style=true, file:///dir,
or a path such as ./dir or /dir. Without --store and S3LOG_STORE it is the
embedded store in the user's data directory.`,
		Example: `  s3logctl demo
  s3logctl generate --events 200 | s3logctl import --log demo -
  s3logctl ls
  s3logctl tail demo -n 3
  echo '{"type":"note","data":{"text":"hello"}}' | s3logctl append demo`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			err := usagef("unknown command %q", args[0])
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				return withHint(err, fmt.Sprintf("did you mean %q?", near[0]))
			}
			return withHint(err, "`s3logctl --help` lists the commands")
		},
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		PersistentPreRunE:          func(cmd *cobra.Command, _ []string) error { return g.check(cmd) },
		Version:                    buildVersion().String(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(g.stdin)
	root.SetOut(g.out)
	root.SetErr(g.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return withHint(usagef("%w", err), fmt.Sprintf("`%s --help` shows the flags", cmd.CommandPath()))
	})
	g.addFlags(root)
	// Flags are explained in the width of the terminal.
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", g.textWidth())))
	for _, group := range []struct {
		title string
		verbs []*cobra.Command
	}{
		{"Write a log:", []*cobra.Command{newAppendCommand(g), newResumeCommand(g), newForkCommand(g), newReplayCommand(g), newDecideCommand(g)}},
		{"Read logs:", []*cobra.Command{newLsCommand(g), newInfoCommand(g), newCatCommand(g), newTailCommand(g), newInspectCommand(g)}},
		{"Judge them:", []*cobra.Command{newCheckCommand(g), newVerifyCommand(g), newDiffCommand(g), newReportCommand(g)}},
		{"Move them:", []*cobra.Command{newImportCommand(g), newExportCommand(g), newCpCommand(g), newSyncCommand(g)}},
		{"Look after a store:", []*cobra.Command{newDoctorCommand(g), newFsckCommand(g), newFoldCommand(g), newRmCommand(g), newGcCommand(g)}},
		{"Try it:", []*cobra.Command{newDemoCommand(g), newGenerateCommand(g), newBenchCommand(g)}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, verb := range group.verbs {
			verb.GroupID = group.title
		}
		root.AddCommand(group.verbs...)
	}
	root.AddCommand(newVersionCommand(g))
	addCompletionCommand(root)
	return root
}

// addCompletionCommand adds cobra's own, which by itself takes an unknown shell
// for a question about the known ones.
func addCompletionCommand(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil {
		panic("s3logctl: " + err.Error()) // it was just added
	}
	var shells []string
	for _, shell := range completion.Commands() {
		shells = append(shells, shell.Name())
		shell.Args = exactArgs(0, "no arguments")
	}
	completion.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return withHint(usagef("no completion for %q", args[0]), "the shells are "+strings.Join(shells, ", "))
	}
	completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// verbName is a verb as it is typed behind the name of the program.
func verbName(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// exactArgs is cobra.ExactArgs with an error of the right exit code.
func exactArgs(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("%s takes %s, not %s", verbName(cmd), what, words.Count(len(args), "argument"))
		}
		return nil
	}
}

// minArgs is cobra.MinimumNArgs with an error of the right exit code.
func minArgs(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return usagef("%s takes %s", verbName(cmd), what)
		}
		return nil
	}
}
