package guest

import (
	"fmt"
	"log/slog"
	"strings"
)

// line writes attributes of records behind their messages.
type line struct {
	prefix string // of keys
	suffix string // attributes of the logger
}

// of returns a record as text.
func (l line) of(record slog.Record) string {
	var out strings.Builder
	out.WriteString(record.Message)
	out.WriteString(l.suffix)
	record.Attrs(func(attr slog.Attr) bool {
		l.write(&out, attr)
		return true
	})
	return out.String()
}

func (l line) write(out *strings.Builder, attr slog.Attr) {
	value := attr.Value.Resolve()
	if value.Kind() != slog.KindGroup {
		fmt.Fprintf(out, " %s%s=%v", l.prefix, attr.Key, value)
		return
	}
	group := line{prefix: l.prefix}
	if attr.Key != "" {
		group.prefix += attr.Key + "."
	}
	for _, member := range value.Group() {
		group.write(out, member)
	}
}

// with returns a line with more attributes.
func (l line) with(attrs []slog.Attr) line {
	var suffix strings.Builder
	suffix.WriteString(l.suffix)
	for _, attr := range attrs {
		l.write(&suffix, attr)
	}
	return line{prefix: l.prefix, suffix: suffix.String()}
}

// within returns a line whose further attributes are in a group.
func (l line) within(group string) line {
	if group == "" {
		return l
	}
	return line{prefix: l.prefix + group + ".", suffix: l.suffix}
}
