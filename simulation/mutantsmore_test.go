package simulation

// Names, handles, the seed path, readers and removal.
var otherMutants = []mutant{
	{
		rule: "a takeover raises the generation", file: draftFile, seeds: 100, as: "OWNER",
		edits: []edit{{"\td.next.Generations = appendCapped(d.next.Generations, MaxGenerations,\n", "\tif kind == KindAdopt {\n\t\tg--\n\t\td.next.Owner.Generation = g\n\t\td.next.Generations = slices.Clone(d.next.Generations[:len(d.next.Generations)-1])\n\t\tfirst = d.base.Generations[len(d.base.Generations)-1].First\n\t}\n\td.next.Generations = appendCapped(d.next.Generations, MaxGenerations,\n"}},
	},
	{
		rule: "maintenance keeps the owner", file: draftFile, seeds: 3000, as: "OWNER CHAIN FENCE",
		edits: []edit{{"\td, err := modify(base, IntentMaintain)\n", "\td, err := modify(base, IntentMaintain)\n\tif err == nil {\n\t\td.own(w, KindAdopt, base.Next, at)\n\t\td.next.Epoch++\n\t}\n"}},
	},
	{
		rule: "every handle has a fresh writer id", file: draftFile, seeds: 100, as: "FENCE OWNER TWICE LIE ORDER HOLE",
		edits: []edit{{"\treturn Writer{ID: uuid.NewString(), Label: label, Software: software}\n", "\t_ = uuid.NewString\n\treturn Writer{ID: \"writer\" + label, Label: label, Software: software}\n"}},
	},
	{
		rule: "every commit has a fresh id", file: draftFile, seeds: 50, as: "CHAIN CONTRACT LOSTACK LIE",
		edits: []edit{{"\treturn uuid.Must(uuid.NewV7()).String()\n", "\treturn uuid.Nil.String()\n"}},
	},
	{
		rule: "every upload has a fresh nonce", file: "manifest/names.go", seeds: 200, as: "CONTRACT NAMES",
		edits: []edit{{"\trand.Read(n[:]) // never fails\n", "\t_ = rand.Read\n"}},
	},
	{
		rule: "a segment is of the epoch that its commit results in", file: draftFile, seeds: 4000, as: "NAMES DANGLING",
		edits: []edit{{"\tif u.Ref.Name.Epoch != next.Epoch {\n", "\tif u.Ref.Name.Epoch > next.Epoch {\n"}},
	},
	// That nobody names what another has uploaded has no mutant: no code looks for
	// what others have uploaded. What a seal holds, and that it is named once, is
	// seen to twice, by whoever names it and by the rule of names.
	{
		rule: "a seal is named where the tail still begins with what it holds", file: draftFile, seeds: 8000, as: "INTERNAL MISMATCH",
		edits:  []edit{{"\tif u.TailFirst >= 0 && u.TailFirst != tailFirst {\n", "\tif u.TailFirst < 0 && u.TailFirst == tailFirst {\n"}},
		alsoIn: "backend/background.go",
		also:   []edit{{"\t\treturn t, fmt.Errorf(\"%w: %w\", manifest.ErrStaleUpload, err)\n", "\t\trest, _ = t, fmt.Errorf\n"}},
	},
	{
		rule: "a segment is named once", file: draftFile, seeds: 1000, as: "INTERNAL MISMATCH NAMES",
		edits:  []edit{{"\t\tif named(u.Ref.Name) {\n", "\t\tif named(u.Ref.Name) && u.TailFirst < -1 {\n"}},
		alsoIn: "backend/background.go",
		also:   []edit{{"\tif c.sealed != nil {\n\t\tl.sealer.clear()\n", "\tif c.sealed != nil && c.merged != nil {\n\t\tl.sealer.clear()\n"}},
	},
	{
		rule: "a barrier raises the epoch", file: draftFile, seeds: 1000, as: "BARRIER",
		edits: []edit{{"\td.next.Epoch = above + 1\n", "\td.next.Epoch = above\n"}},
	},
	{
		rule: "what a merge replaces is retired", file: draftFile, seeds: 200, as: "RETIRED",
		edits: []edit{{"\t\td.next.Retired = appendCapped(d.next.Retired, MaxRetired, Retired{Name: in, At: d.next.Commit.At})\n", ""}},
	},
	{
		rule: "a segment is there before the manifest names it", file: "backend/background.go", seeds: 100, as: "DANGLING INTERNAL",
		edits: []edit{{"\tif err := manifest.PutSegment(ctx, b.store, id, name, object, b.commitOptions()); err != nil {\n\t\treturn nil, err\n\t}\n", "\tgo manifest.PutSegment(context.WithoutCancel(ctx), b.store, id, name, object, b.commitOptions())\n"}},
	},
	{
		rule: "the tail is that of the version that a commit is conditioned on", file: "backend/commit.go", seeds: 100, as: "MISMATCH LOSTACK INTERNAL",
		edits: []edit{{"\tcase l.tailOf == base.Commit.ID:\n\t\treturn nil\n", "\tcase l.tailOf != \"\":\n\t\treturn nil\n"}},
	},
	{
		rule: "a failed handle takes nothing more", file: "backend/commit.go", seeds: 1000, as: "HOLE LIE ORDER FENCE LOSTACK",
		edits: []edit{{"\tl.err = err\n\trest := l.queue\n", "\trest := l.queue\n"}},
	},
	{
		rule: "an abandoned commit is not tried again", file: "backend/commit.go", seeds: 1000, as: "LIE",
		edits: []edit{{"\t\tif op.cancelled && op.intent != nil && !c.out[op].receipt.Duplicate {\n\t\t\treturn true\n", "\t\tif op.cancelled && op.intent != nil && !c.out[op].receipt.Duplicate {\n\t\t\treturn false\n"}},
	},
	{
		rule: "an append that was cancelled before it was sent is not sent", file: "backend/commit.go", seeds: 1000, as: "LIE",
		edits: []edit{{"\treturn op.cancelled && op.intent == nil\n", "\treturn false\n"}, {"\t\tif _, held := c.out[op]; held && op.cancelled && op.intent == nil {\n", "\t\tif _, held := c.out[op]; !held && op.cancelled && op.intent == nil {\n"}},
	},
	{
		rule: "appends are committed in the order of their calls", file: "backend/log.go", seeds: 500, as: "ORDER HOLE", first: true,
		edits: []edit{{"\tl.queue = append(l.queue, op)\n", "\tl.queue = append([]*appendOp{op}, l.queue...)\n"}},
	},
	{
		rule: "an expected seq is compared with the version that the commit is conditioned on", file: "backend/commit.go", seeds: 1000, as: "ORDER BRACKET",
		edits: []edit{{"\t\tcase op.expect != nil && *op.expect != first:\n", "\t\tcase op.expect != nil && *op.expect != first && op.intent == nil:\n"}},
	},
	{
		rule: "the boundary is made for what is there when a first commit starts over", file: "seedpath/resume.go", seeds: 1000, as: "SEED",
		edits: []edit{
			{"func Resume(w manifest.Writer, opt ResumeOptions) Opening {\n", "func Resume(w manifest.Writer, opt ResumeOptions) Opening {\n\tvar marked *bool\n"},
			{"\t\tif closers > 0 || !Marked(base.Content, base.Next) {\n", "\t\tif marked == nil {\n\t\t\tis := Marked(base.Content, base.Next)\n\t\t\tmarked = &is\n\t\t}\n\t\tif closers > 0 || !*marked {\n"},
		},
	},
	{
		rule: "closers are made for what is there when a first commit starts over", file: "seedpath/resume.go", seeds: 2000, as: "SEED",
		edits: []edit{
			{"func Resume(w manifest.Writer, opt ResumeOptions) Opening {\n", "func Resume(w manifest.Writer, opt ResumeOptions) Opening {\n\tvar first *manifest.Record\n"},
			{"\t\tturn := base.Content.Turn\n", "\t\tif first == nil {\n\t\t\tfirst = base\n\t\t}\n\t\tturn := first.Content.Turn\n"},
		},
	},
	{
		rule: "a resume always leaves a boundary", file: "seedpath/resume.go", seeds: 100, as: "SEED LOSTACK",
		edits: []edit{{"\t\tif closers > 0 || !Marked(base.Content, base.Next) {\n", "\t\tif closers > 0 {\n"}},
	},
	{
		rule: "a lease is respected", file: "seedpath/seedpath.go", seeds: 1000, as: "LEASE",
		edits: []edit{{"\tif LeaseState(base, at) == \"held\" {\n", "\tif LeaseState(base, at) == \"lost\" {\n"}},
	},
	{
		rule: "a create on a void raises the epoch", file: draftFile, seeds: 3000, as: "CHAIN NAMES DANGLING",
		edits: []edit{{"\t\tnext.Revision, next.Epoch = base.Revision+1, base.Epoch+1\n", "\t\tnext.Revision = base.Revision + 1\n"}},
	},
	{
		rule: "a tombstone is never written over", file: draftFile, seeds: 1000, as: "CHAIN",
		edits:  []edit{{"\tif base != nil && base.State != StateVoid {\n", "\tif base != nil && base.State == StateOpen {\n"}},
		alsoIn: decideFile,
		also:   []edit{{"(v == Fenced || v == Rebase || v == StartOver)", "(v == Fenced || v == Rebase)"}},
	},
	{
		rule: "a reader looks for what was replaced", file: "backend/read.go", seeds: 5000, as: "INTERNAL",
		edits: []edit{{"\t\tcase fresh.Record.Commit.ID == head.Record.Commit.ID, stillNamed(fresh.Record, err):\n", "\t\tcase fresh.Record.Commit.ID != \"\":\n"}},
	},
	{
		rule: "only what has an older epoch can never be named", file: "manifest/removal.go", seeds: 1000, as: "DANGLING",
		edits: []edit{{"\t\tcase l.Name.Epoch < epoch:\n", "\t\tcase l.Name.Epoch <= epoch:\n"}},
	},
	{
		rule: "what was replaced is spared as long as the grace", file: "manifest/removal.go", seeds: 2000, as: "DANGLING",
		edits: []edit{{"\t\tcase replaced && rm.Past(at):\n", "\t\tcase replaced && at > 0:\n"}},
	},
	{
		rule: "what was buried is spared as long as the grace", file: "manifest/removal.go", seeds: 2000, as: "DANGLING",
		edits: []edit{{"\t\tcase state == StateDeleted && rm.Past(head.Commit.At):\n", "\t\tcase state == StateDeleted && epoch > 0:\n"}},
	},
	{
		rule: "gc removes nothing that is named", file: "manifest/removal.go", seeds: 500, as: "DANGLING",
		edits: []edit{{"\t\tcase named[l.Name]:\n", "\t\tcase named[l.Name] && l.Name.Epoch == epoch:\n"}},
	},
}
