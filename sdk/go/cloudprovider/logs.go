package cloudprovider

import (
	"context"
	"flag"
	"log/slog"
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	skydock "github.com/skydock/skydock/sdk/go"
)

// logOptions are the options of the operator for logs.
type logOptions struct {
	level     string
	verbosity string
}

// apply has klog write to log/slog, and panic instead of exiting; client-go survives panics.
func (o logOptions) apply() error {
	levels := map[string]slog.Level{"info": slog.LevelInfo, "warning": slog.LevelWarn, "error": slog.LevelError}
	least, ok := levels[o.level]
	if !ok {
		return skydock.Invalid("option log-level: expected info, warning or error")
	}
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{
		"logtostderr": "false", "alsologtostderr": "false", "one_output": "true", "stderrthreshold": "FATAL", "skip_headers": "false",
		"v": o.verbosity,
	} {
		if err := flags.Set(name, value); err != nil {
			return skydock.Invalid("option %s: %w", name, err)
		}
	}
	klog.SetOutput(klogWriter{least})
	klog.OsExit = func(int) { panic("the provider logged a fatal error") }
	utilruntime.ReallyCrash = false // a panic in a goroutine of client-go is logged, and does not end the instance
	return nil
}

// klogWriter writes the lines of klog to log/slog.
type klogWriter struct{ least slog.Level }

// Write writes one line: severity and date, time, thread and place up to a bracket, and the message.
func (w klogWriter) Write(line []byte) (int, error) {
	level := slog.LevelInfo
	if len(line) > 0 {
		switch line[0] {
		case 'W':
			level = slog.LevelWarn
		case 'E', 'F':
			level = slog.LevelError
		}
	}
	if level >= w.least {
		head, message, ok := strings.Cut(strings.TrimSpace(string(line)), "] ")
		if !ok {
			head, message = "", head
		}
		place := head[strings.LastIndexByte(head, ' ')+1:]
		slog.Log(context.Background(), level, message, "at", place)
	}
	return len(line), nil
}
