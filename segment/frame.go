package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A frame is a standard zstd frame (RFC 8878), of which s3log writes and reads
// only one shape:
//
//	magic        4 bytes   28 b5 2f fd
//	descriptor   1 byte    content size flag (2 bits) · single segment · 0 · 0 ·
//	                       checksum (1) · no dictionary (00)
//	window       1 byte    only without the single segment flag; at most 8 MiB
//	content size 1, 2, 4 or 8 bytes; always there; at most 8 MiB in a single segment
//	blocks       3 bytes each (last flag, type, size) and their data
//	checksum     4 bytes   the low half of XXH64 of the content
//
// What comes after a frame can only be told by walking it, and what it needs in
// memory only by its header; so both are read here, before a decoder sees it.

// maxWindow is the greatest window a decoder has to provide. A frame of no more
// raw bytes is a single segment, whose window is its content.
const maxWindow = 8 << 20

const (
	zstdMagic     = 0xFD2FB528
	skippableMask = 0xFFFFFFF0
	skippableAny  = 0x184D2A50 // the first of the sixteen magics of skippable frames

	maxBlock = 128 << 10 // content of a block
	minFrame = 4 + 1 + 1 + 3 + 1 + 4
)

// frameInfo is what a frame's headers say about it.
type frameInfo struct {
	length  int // bytes of the frame
	content int // raw bytes it declares
}

// fits checks the declared content against a bound of raw bytes.
func (f frameInfo) fits(maxRaw int) error {
	if limit := min(maxRaw, MaxFrameRaw); f.content > limit {
		return fmt.Errorf("it declares %d raw bytes, at most %d are allowed here", f.content, limit)
	}
	return nil
}

var (
	errCutOff = errors.New("it is cut off")
	errNoLF   = errors.New("its content does not end with a line feed")
)

// scanFrame walks the frame that b begins with. It looks at headers only: the
// content may still be damaged.
func scanFrame(b []byte) (frameInfo, error) {
	if len(b) < 5 {
		return frameInfo{}, errCutOff
	}
	switch magic := binary.LittleEndian.Uint32(b); {
	case magic == zstdMagic:
	case magic&skippableMask == skippableAny:
		return frameInfo{}, errors.New("a skippable frame where events are expected")
	default:
		return frameInfo{}, fmt.Errorf("no frame begins with %x", b[:4])
	}
	descriptor := b[4]
	at := 5
	single := descriptor&(1<<5) != 0
	switch {
	case descriptor&(1<<4|1<<3) != 0:
		return frameInfo{}, errors.New("reserved bits are set")
	case descriptor&(1<<2) == 0:
		return frameInfo{}, errors.New("it has no checksum")
	case descriptor&3 != 0:
		return frameInfo{}, errors.New("it needs a dictionary")
	}
	if !single {
		if len(b) <= at {
			return frameInfo{}, errCutOff
		}
		exponent, mantissa := b[at]>>3, uint64(b[at]&7)
		at++
		if base := uint64(1) << (10 + exponent); base+base/8*mantissa > maxWindow {
			return frameInfo{}, fmt.Errorf("it needs a window of %d bytes, at most %d are allowed", base+base/8*mantissa, maxWindow)
		}
	}
	content, n, err := contentSize(b[at:], descriptor>>6, single)
	if err != nil {
		return frameInfo{}, err
	}
	at += n
	switch {
	case content == 0:
		return frameInfo{}, errors.New("it is empty")
	case content > MaxFrameRaw:
		return frameInfo{}, fmt.Errorf("it declares %d raw bytes, at most %d are allowed", content, MaxFrameRaw)
	case single && content > maxWindow:
		return frameInfo{}, fmt.Errorf("a single segment of %d bytes, at most %d are allowed", content, maxWindow)
	}
	n, most, err := scanBlocks(b[at:])
	if err != nil {
		return frameInfo{}, err
	}
	if at += n; len(b)-at < 4 {
		return frameInfo{}, errCutOff
	}
	if content > most {
		return frameInfo{}, fmt.Errorf("it declares %d raw bytes, its blocks hold at most %d", content, most)
	}
	return frameInfo{length: at + 4, content: int(content)}, nil
}

// scanWhole is scanFrame for bytes that must be one frame and nothing else.
func scanWhole(b []byte) (frameInfo, error) {
	info, err := scanFrame(b)
	if err == nil && info.length != len(b) {
		err = fmt.Errorf("%d bytes follow it", len(b)-info.length)
	}
	return info, err
}

// contentSize reads the content size that b begins with, and says how many
// bytes it takes.
func contentSize(b []byte, flag byte, single bool) (content uint64, n int, err error) {
	n = 1 << flag
	if flag == 0 && !single {
		return 0, 0, errors.New("it does not declare its content size")
	}
	if len(b) < n {
		return 0, 0, errCutOff
	}
	switch n {
	case 1:
		content = uint64(b[0])
	case 2:
		content = uint64(binary.LittleEndian.Uint16(b)) + 256
	case 4:
		content = uint64(binary.LittleEndian.Uint32(b))
	case 8:
		content = binary.LittleEndian.Uint64(b)
	}
	return content, n, nil
}

// scanBlocks walks the blocks that b begins with: their bytes, and how many raw
// bytes they can hold at most.
func scanBlocks(b []byte) (n int, most uint64, err error) {
	for last := false; !last; {
		if len(b)-n < 3 {
			return 0, 0, errCutOff
		}
		header := int(b[n]) | int(b[n+1])<<8 | int(b[n+2])<<16
		n += 3
		last = header&1 != 0
		size := header >> 3
		if size > maxBlock {
			return 0, 0, fmt.Errorf("a block of %d bytes, at most %d are allowed", size, maxBlock)
		}
		switch header >> 1 & 3 {
		case 0: // raw
			most += uint64(size)
		case 1: // one byte, repeated
			most += uint64(size)
			size = 1
		case 2: // compressed
			most += maxBlock
		default:
			return 0, 0, errors.New("a block of a reserved type")
		}
		if len(b)-n < size {
			return 0, 0, errCutOff
		}
		n += size
	}
	return n, most, nil
}
