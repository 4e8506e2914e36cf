package sessiongen

import "strings"

// The vocabulary, most frequent words first: what agents and their users write.
var (
	english = spaced(`the to a and is of in it this that for with on I be not we as from let file so now
		should have need will can are if first then test but use see what code check by an new only all
		which run function at value there return already because when no also or read line next does was
		has error result call type one add more list state config set change after before write same
		between look using work would make like its tests each still user current right output instead
		path name into just where data object could message without case build here failing how two
		rather step turn any other both fix every default request index option against update cache
		parser than string module empty once find handler time issue field lock queue missing seems
		actually method version buffer token left old returns cannot number means another client server
		expects cleaner through must until last their command branch works exists root whether keeps
		probably simple happens table event written compare order stream schema keep later explicit
		size passes retry while loader session argument contract helper folder under explains second
		earlier caller response package import worker limit search reader expected unless shape safe
		timeout pattern separate edge log batch directory enough possible covered small large lines
		offset layout inside worth flag race docs commit describe boundary handle invalid matching
		reason given migration flow suite lookup clear original key fails parse render wrong target
		encoding relevant structure summary details dependency consumer producer straight verified
		assumption consistent regression allocate serialize overwrite refactor snapshot lifecycle
		concurrency deterministic workspace permission validation integration compatibility header
		trailing leading duplicate comment warning approach confirm remove rename replace inspect
		narrow widen measure latency memory payload checksum segment manifest iterate collect reuse
		guard nested outer inner shared private public static dynamic sequence counter threshold
		platform environment variable scope closure channel mutex thread process signal socket port
		proxy header route endpoint scheduler interval backoff jitter attempt outcome receipt owner
		generation lease marker cursor window frame block chunk delta reasoning transcript replay`)

	chinese = strings.Fields(`的 了 是 我 在 这个 需要 文件 测试 然后 可以 先 看 一下 函数 代码 没有 就 如果 运行 结果 会
		问题 修改 所以 不 也 现在 检查 实现 已经 还是 错误 返回 目录 用户 配置 因为 输出 之前 里面 应该 读取 命令
		第一 步 继续 完成 接口 数据 类型 逻辑 参数 模块 变量 确认 添加 调用 处理 状态 时间 内容 更新 再 把 对 和
		与 或者 但是 其中 一个 两个 全部 保留 删除 行 列表 缓存 请求 事件 日志 会话 写入 版本 默认 为空 一致`)

	emoji = []string{" ✅", " 🎉", " 🚀", " ⚠️", " 🔧", " 📦"}

	verbs = strings.Fields(`parse build load open merge write read find check apply render resolve create update
		validate encode decode fetch flush split append`)
	nouns = strings.Fields(`Config Index Session Event Buffer Header Frame Record Token Store Cache Path Query
		Result Batch Segment Schema Client Worker Range`)
	folders = strings.Fields(`src/core src/core/util src/server/routes src/client/views packages/session/src
		packages/store/src packages/store/tests cmd/tool internal/codec internal/codec/testdata docs scripts`)
	endings = strings.Fields(`.go .ts .ts .tsx .py .md .json _test.go .spec.ts .yaml`)
	shells  = []string{"go test ./", "rg -n ", "ls -la ", "cat ", "git diff -- ", "npm run test -- ", "sed -n 1,80p "}
	tools   = []string{"bash", "bash", "bash", "read", "read", "edit", "grep", "glob", "write", "web_fetch"}
)

// spaced returns the words with a space before each, as a model streams them.
func spaced(words string) []string {
	fields := strings.Fields(words)
	for i, w := range fields {
		fields[i] = " " + w
	}
	return fields
}
