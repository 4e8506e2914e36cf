// Package sessionfile reads and writes the session files of agent harnesses:
// a header line and then one JSON event per line, plain or inside concatenated
// zstd frames.
//
// A [Reader] streams. It finds out by magic numbers whether the input is
// compressed, keeps the header line apart and yields the event lines with their
// line numbers. Runs of streamed output that a harness packed into one row are
// expanded to the events they stand for; strings are copied as the JSON
// literals they are, so that escapes and lone surrogates survive to the byte. A
// [Writer] does the reverse, and packs only what expands to identical bytes.
// [WrapLine] makes events of the lines of files in other formats.
//
// What a file may look like:
//
//   - The first line is the header if it is an object with "type":"session" and
//     without "data" (an event has data, a header has none). A file without a
//     header is fine; a second header is an error.
//   - Every other line is one JSON object. What makes it a valid event is not
//     checked here, but if two neighbours carry a seq, the second must be the
//     next one.
//   - Lines end in LF or CR LF; white space around a line is cut. A line of
//     nothing but white space is passed over, wherever it is, and counts as a
//     line.
//   - A UTF-8 byte order mark before the first line is passed over. Anywhere
//     else it is an error.
//   - A last line that lacks its LF counts if it is a JSON object; else it is
//     torn ([ErrTorn]), as is an input that ends within a zstd frame.
//   - A line has at most [DefaultMaxLine] bytes, unless options say otherwise.
//     Memory is bounded by a small multiple of the longest line, however many
//     events its row stands for, and by the window of the zstd frames.
//
// The package knows nothing of logs, stores or the meaning of events.
package sessionfile
