package guest

import (
	"context"
	"log/slog"

	"github.com/skydock/skydock/sdk/go/internal/bindings/wasi_logging_logging"
)

func init() { slog.SetDefault(slog.New(handler{})) }

// handler writes records to wasi:logging, with their attributes after the message.
type handler struct{ line line }

// Enabled implements [slog.Handler].
func (handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler].
func (h handler) Handle(_ context.Context, record slog.Record) error {
	level := wasi_logging_logging.LevelDebug
	switch {
	case record.Level >= slog.LevelError:
		level = wasi_logging_logging.LevelError
	case record.Level >= slog.LevelWarn:
		level = wasi_logging_logging.LevelWarn
	case record.Level >= slog.LevelInfo:
		level = wasi_logging_logging.LevelInfo
	}
	wasi_logging_logging.Log(level, "provider", Valid(h.line.of(record)))
	return nil
}

// WithAttrs implements [slog.Handler].
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler { return handler{h.line.with(attrs)} }

// WithGroup implements [slog.Handler].
func (h handler) WithGroup(name string) slog.Handler { return handler{h.line.within(name)} }
