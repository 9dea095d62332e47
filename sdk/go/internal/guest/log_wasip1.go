package guest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/skydock/skydock/sdk/go/internal/bindings/wasi_logging_logging"
)

func init() { slog.SetDefault(slog.New(handler{})) }

// handler writes records to wasi:logging, with their attributes after the message.
type handler struct {
	prefix string // of keys
	suffix string // attributes of the logger
}

// Enabled implements [slog.Handler].
func (handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler].
func (h handler) Handle(_ context.Context, record slog.Record) error {
	var line strings.Builder
	line.WriteString(record.Message)
	line.WriteString(h.suffix)
	record.Attrs(func(attr slog.Attr) bool {
		h.write(&line, attr)
		return true
	})
	level := wasi_logging_logging.LevelDebug
	switch {
	case record.Level >= slog.LevelError:
		level = wasi_logging_logging.LevelError
	case record.Level >= slog.LevelWarn:
		level = wasi_logging_logging.LevelWarn
	case record.Level >= slog.LevelInfo:
		level = wasi_logging_logging.LevelInfo
	}
	wasi_logging_logging.Log(level, "provider", line.String())
	return nil
}

func (h handler) write(line *strings.Builder, attr slog.Attr) {
	value := attr.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		group := handler{prefix: h.prefix + attr.Key + "."}
		for _, member := range value.Group() {
			group.write(line, member)
		}
		return
	}
	fmt.Fprintf(line, " %s%s=%v", h.prefix, attr.Key, value)
}

// WithAttrs implements [slog.Handler].
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var suffix strings.Builder
	suffix.WriteString(h.suffix)
	for _, attr := range attrs {
		h.write(&suffix, attr)
	}
	return handler{prefix: h.prefix, suffix: suffix.String()}
}

// WithGroup implements [slog.Handler].
func (h handler) WithGroup(name string) slog.Handler {
	return handler{prefix: h.prefix + name + ".", suffix: h.suffix}
}
