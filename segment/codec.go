package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

const (
	// FrameRaw is up to how many raw bytes a frame of the tail or of a sealed
	// segment holds, and MergedFrameRaw one of a merged segment, unless a single
	// event is larger.
	FrameRaw       = 256 << 10
	MergedFrameRaw = 1 << 20
	// MaxFrameRaw bounds the raw bytes of any frame. An event and its LF must
	// fit in one, so no limit on events may be set as high as this.
	MaxFrameRaw = 64 << 20
)

// Level is how much work goes into compression.
type Level int

const (
	LevelFast   Level = iota // appends: the frames of the tail
	LevelBetter              // sealing
	LevelBest                // merging
)

func (l Level) zstd() zstd.EncoderLevel {
	switch l {
	case LevelFast:
		return zstd.SpeedDefault
	case LevelBetter:
		return zstd.SpeedBetterCompression
	case LevelBest:
		return zstd.SpeedBestCompression
	}
	panic(fmt.Sprintf("segment: level %d", int(l)))
}

// Codec compresses and decompresses frames. It holds the tables of what was
// used, made when first needed: for decoding less than 1 MiB, for LevelFast 2 to
// 3 MiB, LevelBetter 6 MiB, LevelBest 36 MiB. Who merges now and then takes a
// codec for that and drops it. A codec starts no goroutines and must not be used
// by two at a time; what decodes in parallel takes one each.
type Codec struct {
	encoders map[encoderKey]*zstd.Encoder
	decoder  *zstd.Decoder
}

// encoderKey tells the encoders of a codec apart: whether a frame is a single
// segment is fixed when an encoder is made.
type encoderKey struct {
	level Level
	large bool
}

// NewCodec returns a codec that holds no memory yet.
func NewCodec() *Codec { return &Codec{encoders: make(map[encoderKey]*zstd.Encoder)} }

// encoder returns the encoder for a frame of n raw bytes.
func (c *Codec) encoder(level Level, n int) *zstd.Encoder {
	key := encoderKey{level, n > maxWindow}
	enc := c.encoders[key]
	if enc == nil {
		// No frame that is written in bulk is larger than MergedFrameRaw, so the
		// window of the usual encoder is no larger either. What a rare larger
		// event loses by it is not worth eight times the memory in every handle.
		window := MergedFrameRaw
		if key.large {
			window = maxWindow
		}
		var err error
		enc, err = zstd.NewWriter(nil,
			zstd.WithEncoderLevel(level.zstd()),
			zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(true),
			zstd.WithWindowSize(window),
			zstd.WithSingleSegment(!key.large),
			zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic("segment: zstd encoder: " + err.Error()) // the options are constants
		}
		c.encoders[key] = enc
	}
	return enc
}

// EncodeFrame appends raw, one or more whole lines each with its LF, as one
// frame with content size and checksum. It is ErrTooLarge beyond MaxFrameRaw.
func (c *Codec) EncodeFrame(dst, raw []byte, level Level) ([]byte, error) {
	switch {
	case len(raw) > MaxFrameRaw:
		return dst, fmt.Errorf("%w: a frame of %d raw bytes, at most %d are allowed", ErrTooLarge, len(raw), MaxFrameRaw)
	case len(raw) == 0 || raw[len(raw)-1] != '\n':
		return dst, fmt.Errorf("%w: a frame holds whole lines, at least one", ErrInvalidEvent)
	}
	return c.encoder(level, len(raw)).EncodeAll(raw, dst), nil
}

// EncodeFrames appends raw, whole lines, as frames of up to frameRaw raw bytes
// or of one line that is larger. Of no bytes it makes no frame.
func (c *Codec) EncodeFrames(dst, raw []byte, level Level, frameRaw int) ([]byte, error) {
	out := dst
	for len(raw) > 0 {
		n := len(raw)
		if n > frameRaw {
			n = bytes.LastIndexByte(raw[:frameRaw], '\n') + 1
			if n == 0 {
				n = bytes.IndexByte(raw, '\n') + 1
			}
			if n == 0 {
				n = len(raw)
			}
		}
		var err error
		if out, err = c.EncodeFrame(out, raw[:n], level); err != nil {
			return dst, err
		}
		raw = raw[n:]
	}
	return out, nil
}

// DecodeFrame appends the content of frame, which must be exactly one frame of
// at most maxRaw raw bytes. Nothing is allocated for a
// frame that declares more than it can hold. On an error, which is ErrCorrupt,
// dst is returned as it was: damaged content is never handed out.
func (c *Codec) DecodeFrame(dst, frame []byte, maxRaw int) ([]byte, error) {
	info, err := scanWhole(frame)
	if err == nil {
		err = info.fits(maxRaw)
	}
	if err != nil {
		return dst, corruptf("zstd frame: %w", err)
	}
	out, err := c.decode(grow(dst, info.content), frame, info)
	if err != nil {
		return dst, corruptf("zstd frame: %w", err)
	}
	return out, nil
}

// DecodeFrames returns the content of frames that follow each other without
// anything between or behind them, as a tail holds them; of no bytes at all no
// content. Together they may have at most maxRaw raw bytes, which is checked
// before anything is allocated. Each frame must end with a whole line. The
// error is ErrCorrupt and says which frame and where; no content comes with it.
func (c *Codec) DecodeFrames(frames []byte, maxRaw int) ([]byte, error) {
	var infos []frameInfo
	total := 0
	for at := 0; at < len(frames); {
		info, err := scanFrame(frames[at:])
		if err == nil {
			err = info.fits(maxRaw - total)
		}
		if err != nil {
			return nil, corruptf("zstd frame %d at byte %d: %w", len(infos), at, err)
		}
		infos = append(infos, info)
		total += info.content
		at += info.length
	}
	raw := grow(nil, total)
	at := 0
	for i, info := range infos {
		var err error
		raw, err = c.decode(raw, frames[at:at+info.length], info)
		if err == nil && raw[len(raw)-1] != '\n' {
			err = errNoLF
		}
		if err != nil {
			return nil, corruptf("zstd frame %d at byte %d: %w", i, at, err)
		}
		at += info.length
	}
	return raw, nil
}

// IntactFrames finds what is left of damaged frames that followed each other: the
// contents of those that are intact, whole lines, as many in one as follow each
// other. It reports whether that is all. Together they have at most maxRaw raw
// bytes; what looks like a frame and is none costs time for four times as many.
func (c *Codec) IntactFrames(frames []byte, maxRaw int) (runs [][]byte, all bool) {
	var run []byte
	left, tries := maxRaw, 4*maxRaw
	all = true
	for len(frames) > 0 {
		info, err := scanFrame(frames)
		if err == nil {
			err = info.fits(min(left, tries))
		}
		before := len(run)
		if err == nil {
			tries -= info.content
			run, err = c.decode(grow(run, info.content), frames[:info.length], info)
		}
		if err == nil {
			_, err = AppendLineEnds(nil, run[before:])
		}
		if err == nil {
			left -= info.content
			frames = frames[info.length:]
			continue
		}
		if all = false; before > 0 {
			runs = append(runs, run[:before])
		}
		run = nil
		next := bytes.Index(frames[1:], frameMagic)
		if next < 0 {
			return runs, false
		}
		frames = frames[1+next:]
	}
	if len(run) > 0 {
		runs = append(runs, run)
	}
	return runs, all
}

var frameMagic = binary.LittleEndian.AppendUint32(nil, zstdMagic)

// decode appends the content of one frame to dst, which has room for it.
func (c *Codec) decode(dst, frame []byte, info frameInfo) ([]byte, error) {
	if c.decoder == nil {
		var err error
		c.decoder, err = zstd.NewReader(nil,
			zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow),
			zstd.WithDecoderMaxMemory(MaxFrameRaw))
		if err != nil {
			panic("segment: zstd decoder: " + err.Error()) // the options are constants
		}
	}
	// The decoder gets an empty slice, so that no frame can reach back into the
	// content of the one before it.
	n := len(dst)
	out, err := c.decoder.DecodeAll(frame, dst[n:n])
	switch {
	case err != nil:
		return dst, err
	case len(out) != info.content:
		return dst, fmt.Errorf("%d bytes of content, its header says %d", len(out), info.content)
	}
	if dst = dst[:n+len(out)]; &dst[n] != &out[0] {
		copy(dst[n:], out)
	}
	return dst, nil
}

// grow makes room for n bytes of content, and for what the decoder may write
// beyond them before it is done. A buffer that was too small for a frame is made
// larger than this one needs, as the next may be a little longer.
func grow(dst []byte, n int) []byte {
	const slack = 32
	if n == 0 || cap(dst)-len(dst) >= n+slack {
		return dst
	}
	return append(make([]byte, 0, max(len(dst)+n+slack, cap(dst)+cap(dst)/8)), dst...)
}
