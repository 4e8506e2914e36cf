package sessiongen

// turnStart opens a turn; the step that follows holds the user's message.
func (g *Generator) turnStart(p *stepPlan) {
	if g.turn > 0 {
		g.wait(40_000) // somebody reads and types
	}
	g.turn++
	g.step = 0
	g.stepsLeft = max(p.steps, 1)
	g.foreign = g.chance(8)
	g.words.begin(g.foreign)
	g.prompt = append(g.prompt[:0], `{"content":[{"type":"text","text":"`...)
	g.prompt = g.words.text(g.prompt, g.promptSize())
	g.prompt = append(g.prompt, `"}],"source":{"kind":"user"},"role":"user","id":"`...)
	g.prompt = append(g.appendUUID(g.prompt), `"}`...)
	if !p.bare {
		g.begin("agent/inbox/spliced")
		g.put(`{"target":"next-turn","start":0,"inserted":[`)
		g.unit = append(g.unit, g.prompt...)
		g.put(`]}`)
		g.end()
		g.wait(8)
	}
	g.begin("turn/start")
	g.put(`{"turn":`)
	g.putInt(g.turn)
	g.put(`}`)
	g.end()
	if !p.bare {
		g.small("agent/inbox/spliced", `{"target":"next-turn","start":0,"removedCount":1,"inserted":[]}`)
	}
	g.wait(3)
}

func (g *Generator) promptSize() int {
	if g.opt.Profile == Agent {
		return g.lognormal(600, 1.2, maxWhole)
	}
	return g.lognormal(120, 0.9, 20_000)
}

func (g *Generator) userMessage() {
	g.begin("user/message")
	g.unit = append(g.unit, g.prompt...)
	g.put(`,"surfaceOp":"append"`)
	g.surfaceEnd()
}

// turnEnd closes the turn for a reason.
func (g *Generator) turnEnd(kind string) {
	g.begin("turn/end")
	g.put(`{"turn":`)
	g.putInt(g.turn)
	g.put(`,"reason":{"kind":"`)
	g.put(kind)
	g.put(`"`)
	if kind == "aborted" {
		g.put(`,"reason":{"kind":"user"}`)
	}
	g.put(`}}`)
	g.end()
	g.stepsLeft = 0
}

// prelude is what comes before a request.
func (g *Generator) prelude(p *stepPlan) {
	if p.snapshot {
		const text = `Current runtime context. This snapshot supersedes earlier ones.\n\nFile policy: workspace-write. Operations may modify files under the workspace.`
		g.begin("user/message")
		g.put(`{"content":[{"type":"text","text":"` + text + `"}],"source":{"kind":"plugin","plugin":"system-prompt","form":"snapshot","sections":[{"name":"sandbox:policy","text":"` + text + `"}]},"role":"user","id":"`)
		g.putUUID()
		g.put(`"},"surfaceOp":"append"`)
		g.surfaceEnd()
	}
	if p.title {
		g.words.begin(g.foreign)
		g.begin("session/title")
		g.put(`{"title":"`)
		g.unit = g.words.text(g.unit, 24)
		g.put(`","messageSeqs":[`)
		g.putInt(g.surface[0])
		g.put(`],"source":{"kind":"fallback"}}`)
		g.end()
	}
	if p.header {
		reason := "change"
		if p.title {
			reason = "initial"
		}
		g.begin("request/header")
		g.put(`{"header":{"config":{` + provider + `,"maxTokens":256000,"reasoningEffort":"high"},"adapterDefaults":{"reasoningEffort":true,"maxTokens":true},"system":"`)
		g.unit = append(g.unit, g.system...)
		g.put(`","tools":[`)
		for i, name := range tools {
			if i > 0 && tools[i-1] == name {
				continue // the list names the frequent ones more than once
			}
			if i > 0 {
				g.put(",")
			}
			g.put(`{"name":"` + name + `","description":"Run ` + name + ` in the workspace.","parameters":{"type":"object","properties":{"command":{"type":"string"},"description":{"type":"string"}},"required":["command"]}}`)
		}
		g.put(`]},"reason":"` + reason + `"}`)
		g.end()
	}
	if p.context {
		g.small("request/context", `{`+provider+`,"contextWindow":1000000}`)
	}
}

// failedRequest is a request that had to be sent again.
func (g *Generator) failedRequest() {
	g.begin("llm/retry")
	g.put(`{"retryId":"`)
	id := len(g.unit)
	g.putUUID()
	retry := string(g.unit[id:])
	g.put(`","turn":`)
	g.putInt(g.turn)
	g.put(`,"step":`)
	g.putInt(g.step)
	g.put(`,"provider":"deepseek-official","mode":"normal","retry":1,"maxRetries":2,"delayMs":500,"failure":{"message":"the provider is overloaded","code":"RATE_LIMIT"}}`)
	g.end()
	g.now += 500
	g.begin("llm/retry-started")
	g.put(`{"retryId":"` + retry + `","turn":`)
	g.putInt(g.turn)
	g.put(`,"step":`)
	g.putInt(g.step)
	g.put(`,"retry":1}`)
	g.end()
	g.wait(600)
}

// approval asks somebody before the i-th call.
func (g *Generator) approval(i int) {
	g.begin("approval/asked")
	g.put(`{"id":"`)
	id := len(g.unit)
	g.putUUID()
	asked := string(g.unit[id:])
	g.put(`","toolName":"` + g.callNames[i] + `","callId":"`)
	g.unit = append(g.unit, g.callIDs[i]...)
	g.put(`","reason":"needs manual approval in this session"}`)
	g.end()
	g.wait(4000)
	g.small("approval/decided", `{"id":"`+asked+`","outcome":"allowed-once"}`)
}

func (g *Generator) hook() {
	g.begin("hook/invoked")
	g.put(`{"turn":`)
	g.putInt(g.turn)
	g.put(`,"point":"PostToolUse","dialect":"claude-code","handlerId":"claude-code:PostToolUse:1","matcher":"bash"}`)
	g.end()
	g.wait(20)
	g.begin("hook/result")
	g.put(`{"turn":`)
	g.putInt(g.turn)
	g.put(`,"point":"PostToolUse","handlerId":"claude-code:PostToolUse:1","decision":"pass","exitCode":0,"durationMs":`)
	g.putInt(int64(g.between(2, 90)))
	g.put(`.5}`)
	g.end()
}

// progress is a foreign event in the course of the i-th call: one that a reader
// may pass over.
func (g *Generator) progress(i, k int) {
	g.wait(900)
	g.begin("tool/progress")
	g.putPlace()
	g.put(`,"callId":"`)
	g.unit = append(g.unit, g.callIDs[i]...)
	g.put(`","n":`)
	g.putInt(int64(k))
	g.put(`,"output":"`)
	g.unit = g.words.output(g.unit, g.lognormal(800, 0.5, maxWhole))
	g.put(`"},"ignorable":true`)
	g.end()
}

// todoWrite changes the list of things to do; it may come between turns.
func (g *Generator) todoWrite() {
	g.words.begin(false)
	g.begin("todo/write")
	g.put(`{"todos":[{"content":"`)
	g.unit = g.words.text(g.unit, 24)
	g.put(`","status":"in_progress"},{"content":"`)
	g.words.begin(false)
	g.unit = g.words.text(g.unit, 24)
	g.put(`","status":"pending"}]}`)
	g.end()
	g.wait(20)
}

// command is something that the user does between turns.
func (g *Generator) command() {
	g.wait(20_000)
	g.begin("command/run")
	g.put(`{"commandId":"cmd-`)
	g.putInt(g.seq)
	g.put(`","name":"status","args":"","source":{"kind":"user"}}`)
	g.end()
	g.wait(3)
	g.begin("command/done")
	g.put(`{"commandId":"cmd-`)
	g.putInt(g.seq - 1)
	g.put(`","kind":"success","text":"`)
	g.unit = g.words.text(g.unit, 60)
	g.put(`"}`)
	g.end()
}

// compactionStart opens a compaction, the last event of a session.
func (g *Generator) compactionStart(inTurn bool) {
	g.begin("compaction/start")
	g.put(`{"compactionId":"`)
	g.compactionID = g.appendUUID(g.compactionID[:0])
	g.unit = append(g.unit, g.compactionID...)
	g.putCompactionTurn(inTurn)
	g.put("}")
	g.end()
}

func (g *Generator) putCompactionTurn(inTurn bool) {
	if inTurn {
		g.put(`","turn":`)
		g.putInt(g.turn)
	} else {
		g.put(`","turn":null`)
	}
}

// compaction replaces everything that the model has been told by a summary.
func (g *Generator) compaction() {
	g.wait(9000)
	first, last := g.surface[0], g.surface[len(g.surface)-1]
	start := g.seq
	g.compactionStart(false)
	g.wait(9000)
	g.words.begin(false)
	summary := g.words.text(nil, 900)
	text := `[{"type":"text","text":"` + string(summary) + `"}]`

	g.begin("compaction/summary")
	g.put(`{"compactionId":"`)
	g.unit = append(g.unit, g.compactionID...)
	g.put(`","summary":` + text + `,"shadowedRange":{"start":`)
	g.putInt(first)
	g.put(`,"end":`)
	g.putInt(last)
	g.put(`},"shadowedSeqs":[`)
	g.putList(g.surface)
	g.put(`],"shadowedTokenCount":`)
	g.putInt(g.cached())
	g.put(`,` + provider + `,"usage":{"inputTokens":`)
	g.putInt(g.cached())
	g.put(`,"outputTokens":240}}`)
	g.end()

	g.begin("user/message")
	g.put(`{"content":` + text + `,"source":{"kind":"plugin","plugin":"compact","compactionId":"`)
	g.unit = append(g.unit, g.compactionID...)
	g.put(`"},"role":"user","id":"`)
	g.putUUID()
	g.put(`"},"sourceEventSeqs":[`)
	g.putSeqs(start, start+1)
	g.put(`,`)
	g.putList(g.surface)
	g.put(`],"surfaceOp":{"op":"replace","start":`)
	g.putInt(first)
	g.put(`,"end":`)
	g.putInt(last)
	g.put(`}`)
	g.surface = g.surface[:0]
	g.surfaceEnd()

	g.begin("compaction/end")
	g.put(`{"compactionId":"`)
	g.unit = append(g.unit, g.compactionID...)
	g.putCompactionTurn(false)
	g.put("}")
	g.end()
}
