package simulation

// mutants break the rules of commits and of what is decided about them; those of
// names, handles, the seed path, readers and removal are in others.
var mutants = append(replyMutants, append(decisionMutants, otherMutants...)...)

const (
	commitFile = "manifest/commit.go"
	decideFile = "manifest/decide.go"
	draftFile  = "manifest/draft.go"
)

// What a reply means.
var replyMutants = []mutant{
	{
		rule: "a 409 decides nothing about the commit: is taken for lost", file: commitFile, seeds: 1000, as: "LIE",
		edits: []edit{{"\tcase objstore.TryAgain:\n\t\ta.last = err\n\t\treturn actWaitSend\n", "\tcase objstore.TryAgain:\n\t\treturn a.failedOn(Head{}, Rebase, err)\n"}},
	},
	{
		rule: "a 409 decides nothing about the commit: is taken for won", file: commitFile, seeds: 100, as: "LOSTACK",
		edits: []edit{{"\tcase objstore.TryAgain:\n\t\ta.last = err\n\t\treturn actWaitSend\n", "\tcase objstore.TryAgain:\n\t\treturn a.done(outcome{head: Head{Record: a.p.Record, Version: a.base.Version}, verdict: Committed})\n"}},
	},
	{
		rule: "a 503 leaves the outcome open: is taken for not landed", file: commitFile, seeds: 300, as: "LIE",
		edits: []edit{{"\tcase objstore.Undecided:\n", "\tcase objstore.Undecided:\n\t\tif errors.Is(err, objstore.ErrThrottled) {\n\t\t\treturn a.failedOn(Head{}, Rebase, err)\n\t\t}\n"}},
	},
	{
		rule: "a 412 is followed by a read: is taken for lost", file: commitFile, seeds: 50, as: "LIE FALSEFENCE KEYMISS", first: true,
		edits: []edit{{"\tcase objstore.Precondition:\n\t\ta.last = err\n\t\treturn actRead\n", "\tcase objstore.Precondition:\n\t\treturn a.failedOn(Head{}, Fenced, ErrFenced)\n"}},
	},
	{
		rule: "a 412 is followed by a read: is taken for won", file: commitFile, seeds: 50, as: "LOSTACK",
		edits: []edit{{"\tcase objstore.Precondition:\n\t\ta.last = err\n\t\treturn actRead\n", "\tcase objstore.Precondition:\n\t\treturn a.done(outcome{head: Head{Record: a.p.Record, Version: a.base.Version}, verdict: Committed})\n"}},
	},
	{
		rule: "a refusal decides nothing about an earlier copy", file: commitFile, seeds: 500, as: "LIE",
		edits: []edit{{"\tif a.undecided != nil {\n\t\treturn a.unknown(err)\n\t}\n", ""}},
	},
	{
		rule: "giving up decides nothing", file: commitFile, seeds: 1000, as: "LIE",
		edits: []edit{{"\tif a.undecided != nil || (a.last != nil && objstore.Classify(a.last) != objstore.TryAgain) {\n", "\tif false {\n"}},
	},
	{
		rule: "metadata of another commit show a torn read", file: "manifest/load.go", seeds: 200, as: "LOSTACK MISMATCH CHAIN STALE INTERNAL",
		edits: []edit{{"if c, ok := obj.Metadata[metaCommit]; ok && c != r.Commit.ID {", "if c, ok := obj.Metadata[metaCommit]; ok && c == \"\" {"}},
	},
}

// What a manifest says about a commit: each row of the table.
var decisionMutants = []mutant{
	{
		rule: "a create is judged by its uid", file: decideFile, seeds: 200, as: "LIE TWICE",
		edits: []edit{{"\t\tcase head.UID == in.UID:\n\t\t\treturn Committed\n", ""}},
	},
	{
		rule: "a create is judged by its uid, also when others have taken over", file: decideFile, seeds: 1000, as: "LIE TWICE FENCE",
		edits: []edit{{"\t\tcase head.UID == in.UID && head.Generation() > in.Generation:\n\t\t\treturn CommittedFenced\n", "\t\tcase head.UID == in.UID && head.Generation() > in.Generation:\n\t\t\treturn StartOver\n"}},
	},
	{
		rule: "absence is the version of a create", file: decideFile, seeds: 1000, as: "LIE TWICE FENCE",
		edits: []edit{{"\t\t\treturn Unmoved // for a create, absence is the version it was conditioned on\n", "\t\t\treturn StartOver\n"}},
	},
	{
		rule: "a takeover is lost where its record names another", file: decideFile, seeds: 200, as: "LOSTACK",
		edits: []edit{{"\t\tcase own.Writer != in.Writer:\n\t\t\treturn StartOver\n", "\t\tcase own.Writer != in.Writer:\n\t\t\treturn Committed\n"}},
	},
	{
		rule: "a takeover is committed where its record names it", file: decideFile, seeds: 200, as: "LIE TWICE FENCE",
		edits: []edit{{"\t\tcase head.Generation() > in.Generation:\n\t\t\treturn CommittedFenced\n\t\t}\n\t\treturn Committed\n", "\t\tcase head.Generation() > in.Generation:\n\t\t\treturn CommittedFenced\n\t\t}\n\t\treturn StartOver\n"}},
	},
	{
		rule: "a takeover is committed where its record names it, also when others have taken over", file: decideFile, seeds: 500, as: "LIE TWICE FENCE",
		edits: []edit{{"\t\tcase head.Generation() > in.Generation:\n\t\t\treturn CommittedFenced\n\t\t}\n\t\treturn Committed\n", "\t\tcase head.Generation() > in.Generation:\n\t\t\treturn StartOver\n\t\t}\n\t\treturn Committed\n"}},
	},
	{
		rule: "a takeover is open while the version is unmoved", file: decideFile, seeds: 2000, as: "LIE TWICE",
		edits: []edit{{"\t\treturn Unknown // its record has left the list\n\tcase head.Commit.ID == in.Base:\n\t\treturn Unmoved\n", "\t\treturn Unknown // its record has left the list\n\tcase head.Commit.ID == in.Base:\n\t\treturn StartOver\n"}},
	},
	{
		rule: "an append is committed where the log ends behind its events", file: decideFile, seeds: 200, as: "LIE TWICE",
		edits: []edit{{"\t\tcase head.Next >= in.End:\n\t\t\treturn Committed\n", "\t\tcase head.Next >= in.End:\n\t\t\treturn Rebase\n"}},
	},
	{
		rule: "an append is open while the version is unmoved", file: decideFile, seeds: 1000, as: "LIE TWICE",
		edits: []edit{{"\t\tcase head.Commit.ID == in.Base:\n\t\t\treturn Unmoved\n\t\t}\n\t\treturn Rebase\n", "\t\t}\n\t\treturn Rebase\n"}},
	},
	{
		rule: "an append is lost where maintenance came between", file: decideFile, seeds: 2000, as: "LOSTACK",
		edits: []edit{{"\t\tcase head.Commit.ID == in.Base:\n\t\t\treturn Unmoved\n\t\t}\n\t\treturn Rebase\n", "\t\tcase head.Commit.ID == in.Base:\n\t\t\treturn Unmoved\n\t\t}\n\t\treturn Committed\n"}},
	},
	{
		rule: "an append is committed where the next generation begins behind it", file: decideFile, seeds: 1000, as: "LIE",
		edits: []edit{{"\tcase after.First >= in.End:\n\t\treturn CommittedFenced\n", "\tcase after.First >= in.End:\n\t\treturn Fenced\n"}},
	},
	{
		rule: "an append is lost where the next generation begins with it", file: decideFile, seeds: 200, as: "LOSTACK FENCE",
		edits: []edit{{"\tcase after.First == in.Start:\n\t\treturn Fenced\n", "\tcase after.First == in.Start:\n\t\treturn CommittedFenced\n"}},
	},
	{
		rule: "a key that is there comes before fenced", file: "backend/commit.go", seeds: 3000, as: "KEYMISS",
		edits: []edit{{"\t\tif e, found, kerr := head.Record.LookupKey(op.key, op.digest); found {\n", "\t\tif e, found, kerr := head.Record.LookupKey(op.key, op.digest); found && kerr != nil {\n"}},
	},
	{
		rule: "a key is looked up in every version that a commit is conditioned on", file: "backend/commit.go", seeds: 1000, as: "TWICE", first: true,
		edits: []edit{{"\t\te, found, kerr := d.LookupKey(op.key, op.digest)\n", "\t\te, found, kerr := d.LookupKey(op.key, op.digest)\n\t\tif op.intent != nil {\n\t\t\tfound, kerr = false, nil\n\t\t}\n"}},
	},
	{
		rule: "Decide commits something itself where the version is unmoved", file: "manifest/settle.go", seeds: 500, as: "LIE",
		edits: []edit{{"\tif rules.judge(in, base) != Unmoved {\n", "\tif rules.judge(in, base) != Unknown {\n"}},
	},
	{
		rule: "a takeover notes where the log ended before its own events", file: draftFile, seeds: 500, as: "OWNER",
		edits: []edit{{"\td.own(w, kind, base.Next, at)\n", "\td.own(w, kind, max(base.Next-1, 0), at)\n"}},
	},
}
