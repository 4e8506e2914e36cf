package sessiongen

import "strconv"

const (
	provider = `"provider":"deepseek-official","model":"deepseek-v4-flash"`
	maxWhole = 200_000 // bytes of text in one event
)

// writeStep makes a step's events.
func (g *Generator) writeStep(p *stepPlan) {
	if p.first {
		g.turnStart(p)
	}
	g.step++
	g.begin("step/start")
	g.putPlace()
	g.put("}")
	g.end()
	if p.first {
		g.userMessage()
	}
	g.prelude(p)
	g.wait(400)
	if p.retry {
		g.failedRequest()
	}
	source := g.seq
	output := g.answer(p)
	g.assistantMessage(p, source, output)
	for i := range p.calls {
		if !g.toolCall(i, &p.call[i], p.unanswered && i == p.calls-1) {
			return
		}
	}
	g.begin("step/end")
	g.putPlace()
	g.put("}")
	g.end()
	g.wait(5)
	if p.last {
		g.turnEnd(g.outcome())
	} else {
		g.stepsLeft--
	}
}

// outcome is why a turn ended.
func (g *Generator) outcome() string {
	switch r := g.rng.IntN(100); {
	case r < 3:
		return "aborted"
	case r < 4:
		return "max-tokens"
	}
	return "completed"
}

// answer streams the blocks of the model's answer and collects them for the
// message. It returns the number of output tokens.
func (g *Generator) answer(p *stepPlan) int {
	g.content = g.content[:0]
	index, tokens := 0, 0
	if p.reasoning > 0 {
		tokens += g.textBlock(p, index, "reasoning", p.reasoning)
		index++
	}
	if p.text > 0 {
		tokens += g.textBlock(p, index, "text", p.text)
		index++
	}
	for i := range p.calls {
		tokens += g.callBlock(p, index, i)
		index++
	}
	if p.streamed {
		g.chunk("usage")
		g.put(`,"usage":`)
		g.putUsage(tokens)
		g.endChunk()
		g.chunk("finish")
		if p.calls > 0 {
			g.put(`,"reason":{"kind":"tool-calls"}`)
		} else {
			g.put(`,"reason":{"kind":"stop"}`)
		}
		g.endChunk()
	}
	return tokens
}

// chunk starts an assistant/chunk of a kind.
func (g *Generator) chunk(kind string) {
	g.begin("assistant/chunk")
	g.putPlace()
	g.put(`,"chunk":{"type":"`)
	g.put(kind)
	g.put(`"`)
}

func (g *Generator) endChunk() {
	g.put("}}")
	g.end()
}

func (g *Generator) blockStart(index int, kind string) {
	g.chunk("block-start")
	g.put(`,"index":`)
	g.putInt(int64(index))
	g.put(`,"blockType":"`)
	g.put(kind)
	g.put(`"`)
	g.endChunk()
	g.now++
}

// blockEnd repeats the block that begins at from in the content.
func (g *Generator) blockEnd(index, from int) {
	g.chunk("block-end")
	g.put(`,"index":`)
	g.putInt(int64(index))
	g.put(`,"block":`)
	g.unit = append(g.unit, g.content[from:]...)
	g.endChunk()
}

// nextBlock separates a block from the ones before and returns where it begins.
func (g *Generator) nextBlock() int {
	if len(g.content) > 0 {
		g.content = append(g.content, ',')
	}
	return len(g.content)
}

// textBlock makes a block of so many deltas. It returns its tokens.
func (g *Generator) textBlock(p *stepPlan, index int, kind string, deltas int) int {
	from := g.nextBlock()
	g.content = append(g.content, `{"type":"`...)
	g.content = append(g.content, kind...)
	g.content = append(g.content, `","text":"`...)
	g.words.begin(g.foreign && kind == "text")
	if p.streamed {
		g.blockStart(index, kind)
		for range deltas {
			token := len(g.content)
			g.content = g.words.token(g.content)
			g.chunk(kind + "-delta")
			g.put(`,"index":`)
			g.putInt(int64(index))
			g.put(`,"text":"`)
			g.unit = append(g.unit, g.content[token:]...)
			g.put(`"`)
			g.endChunk()
			g.pace()
		}
		g.words.rest = ""
	} else {
		before := len(g.content)
		g.content = g.words.text(g.content, g.lognormal(700, 1, maxWhole))
		deltas = (len(g.content) - before) / 4
	}
	g.content = append(g.content, `"}`...)
	if p.streamed {
		g.blockEnd(index, from)
	}
	return deltas
}

// callBlock makes the block of the i-th tool call. It returns its tokens.
func (g *Generator) callBlock(p *stepPlan, index, i int) int {
	from := g.nextBlock()
	g.callIDs[i] = g.appendCallID(g.callIDs[i][:0], i)
	name := tools[g.rng.IntN(len(tools))]
	g.callNames[i] = name
	g.content = append(g.content, `{"type":"tool-call","id":"`...)
	g.content = append(g.content, g.callIDs[i]...)
	g.content = append(g.content, `","name":"`...)
	g.content = append(g.content, name...)
	g.content = append(g.content, `","arguments":"`...)
	begin := len(g.content)
	g.words.begin(false)
	g.words.capital, g.words.inline = false, true
	deltas := p.call[i].deltas
	if p.streamed {
		g.blockStart(index, "tool-call")
		for k := range deltas {
			token := len(g.content)
			g.content = g.argument(g.content, k, deltas)
			g.chunk("tool-call-delta")
			g.put(`,"index":`)
			g.putInt(int64(index))
			g.put(`,"id":"`)
			g.unit = append(g.unit, g.callIDs[i]...)
			g.put(`","name":"`)
			g.put(name)
			g.put(`","argumentsDelta":"`)
			g.unit = append(g.unit, g.content[token:]...)
			g.put(`"`)
			g.endChunk()
			g.pace()
		}
		g.words.rest = ""
	} else {
		g.content = g.argument(g.content, 0, 2)
		g.content = g.words.text(g.content, g.lognormal(500, 1.1, maxWhole))
		g.content = g.argument(g.content, 1, 2)
		deltas = (len(g.content) - begin) / 4
	}
	g.words.inline = false
	g.callArgs[i] = append(g.callArgs[i][:0], g.content[begin:]...)
	g.content = append(g.content, `"}`...)
	if p.streamed {
		g.blockEnd(index, from)
	}
	return deltas
}

// argument appends the k-th of n deltas of a call's arguments; together they
// are the text of one JSON object, as JSON string content.
func (g *Generator) argument(dst []byte, k, n int) []byte {
	if k == 0 && n > 3 {
		return dst // providers begin with an empty one
	}
	if k == 0 || k == 1 && n > 3 {
		dst = append(dst, `{\"command\": \"`...)
		if n > 1 {
			return append(dst, shells[g.rng.IntN(len(shells))]...)
		}
	}
	if k == n-1 {
		if g.words.rest != "" {
			dst = g.words.token(dst)
		}
		return append(dst, `\"}`...)
	}
	if k == 2 {
		return g.words.path(dst)
	}
	return g.words.token(dst)
}

func (g *Generator) putUsage(output int) {
	g.put(`{"inputTokens":`)
	g.putInt(int64(output)*3%700 + 80)
	g.put(`,"outputTokens":`)
	g.putInt(int64(output))
	g.put(`,"cacheReadTokens":`)
	g.putInt(g.cached())
	g.put(`,"reasoningTokens":`)
	g.putInt(int64(output / 3))
	g.put("}")
}

// cached grows with what the model has been told since the last compaction.
func (g *Generator) cached() int64 { return int64(len(g.surface)) * 256 }

// assistantMessage makes the message of the blocks streamed since seq source.
func (g *Generator) assistantMessage(p *stepPlan, source int64, output int) {
	end := g.seq
	g.begin("assistant/message")
	g.putPlace()
	g.put(`,"message":{"role":"assistant","content":[`)
	g.unit = append(g.unit, g.content...)
	g.put(`],"source":{"kind":"model",` + provider + `},"id":"`)
	g.putUUID()
	g.put(`"},"usage":`)
	g.putUsage(output)
	g.put(`},"sourceEventSeqs":[`)
	if p.streamed {
		g.putSeqs(source, end-1)
	}
	g.put(`],"surfaceOp":"append"`)
	g.surfaceEnd()
	g.wait(3)
}

// surfaceEnd ends an event of which the model is told.
func (g *Generator) surfaceEnd() {
	g.surface = append(g.surface, g.seq)
	g.end()
}

// toolCall makes the events of the i-th call. It reports false if the call is
// to have no result.
func (g *Generator) toolCall(i int, p *callPlan, unanswered bool) bool {
	call := g.seq
	g.begin("tool/call")
	g.putPlace()
	g.put(`,"callId":"`)
	g.unit = append(g.unit, g.callIDs[i]...)
	g.put(`","name":"`)
	g.put(g.callNames[i])
	g.put(`","arguments":"`)
	g.unit = append(g.unit, g.callArgs[i]...)
	g.put(`"}`)
	g.end()
	if !unanswered && p.approval {
		g.approval(i)
	}
	for k := range p.progress {
		g.progress(i, k)
	}
	if unanswered {
		return false
	}
	g.wait(float64(g.lognormal(60, 1.5, 600_000)))
	if p.hook {
		g.hook()
	}
	if p.todo {
		g.todoWrite()
	}
	g.toolResult(i, call)
	return true
}

func (g *Generator) toolResult(i int, call int64) {
	g.begin("tool/result")
	g.putPlace()
	g.put(`,"message":{"source":{"kind":"tool","callId":"`)
	g.unit = append(g.unit, g.callIDs[i]...)
	g.put(`"},"content":[{"type":"tool-result","toolCallId":"`)
	g.unit = append(g.unit, g.callIDs[i]...)
	g.put(`","content":[{"type":"text","text":"`)
	g.unit = g.words.output(g.unit, g.resultSize())
	failed := g.chance(4)
	g.put(`"}],"isError":`)
	g.unit = strconv.AppendBool(g.unit, failed)
	g.put(`}],"role":"user","id":"`)
	g.putUUID()
	g.put(`"}`)
	if failed {
		g.put(`,"error":{"name":"CommandFailed","code":"EXIT_STATUS"}`)
	}
	g.put(`},"sourceEventSeqs":[`)
	g.putInt(call)
	g.put(`],"surfaceOp":"append"`)
	g.surfaceEnd()
	g.wait(4)
}

// resultSize is how much a tool prints, in bytes.
func (g *Generator) resultSize() int {
	switch {
	case g.opt.Profile != Agent:
		return g.lognormal(110, 0.9, 60_000)
	case g.chance(7):
		// The tail: few results, and most of the bytes.
		return min(50_000*100/(100-g.rng.IntN(76)), maxWhole)
	}
	return g.lognormal(3000, 1, 45_000)
}
