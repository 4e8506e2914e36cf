package words

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Shell is a text as one word of a command line, which can be copied from where it
// is shown: as it is, in '…', or with $'…', as bash and zsh have it, where a
// character would not be seen.
func Shell(text string) string {
	plain, seen := text != "", true
	for i, r := range text {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("._/@%+:,-", r), r == '=' && i > 0:
		case !strconv.IsPrint(r), unicode.In(r, unicode.Other_Default_Ignorable_Code_Point):
			plain, seen = false, false
		case !unicode.IsLetter(r):
			plain = false
		}
	}
	switch {
	case plain:
		return text
	case seen:
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\'' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case !strconv.IsPrint(r), unicode.In(r, unicode.Other_Default_Ignorable_Code_Point):
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return "$'" + b.String() + "'"
}
