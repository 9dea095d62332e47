package guest

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	skydock "github.com/skydock/skydock/sdk/go"
)

func TestMessagesAreCutBetweenCharacters(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, strings.Repeat("a", longest): longest, strings.Repeat("a", longest+1): longest, strings.Repeat("é", longest): longest,
		"a" + strings.Repeat("é", longest): longest - 1, strings.Repeat("a", longest-3) + "😀": longest - 3, strings.Repeat("a", longest-4) + "😀b": longest,
		strings.Repeat("\x80", longest+10): longest - utf8.UTFMax,
	} {
		if got := shorten(text); len(got) != want || !strings.HasPrefix(text, got) || utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%d bytes, not %d", len(got), want)
		}
	}
}

func TestBytesThatAreNotUTF8AreReplaced(t *testing.T) {
	got := Valids([]string{"ü", "a\xffb", ""})
	if len(got) != 3 || got[0] != "ü" || got[1] != "a\uFFFDb" || got[2] != "" {
		t.Errorf("%q", got)
	}
}

func TestValuesAreFoundInEnums(t *testing.T) {
	values := []string{"a", "b", "c"}
	for value, want := range map[string]uint8{"a": 0, "c": 2} {
		if got, err := index("letter", values, value); got != want || err != nil {
			t.Error(value, got, err)
		}
	}
	_, err := index("letter", values, "other")
	if err == nil || err.Error() != `the provider returned the letter "other"; expected a, b, c` {
		t.Error(err)
	}
	if got, err := Ordinal("presence", skydock.Absent, 3); got != 2 || err != nil {
		t.Error(got, err)
	}
	for _, value := range []skydock.Presence{-1, 3} {
		if _, err := Ordinal("presence", value, 3); !errors.Is(err, skydock.ErrInternal) {
			t.Error(value, err)
		}
	}
}

func TestAttributesFollowTheMessage(t *testing.T) {
	record := slog.NewRecord(time.Time{}, slog.LevelInfo, "created", 0)
	record.AddAttrs(slog.String("name", "web"), slog.Group("node", slog.Int("ports", 2), slog.Group("zone", slog.String("id", "z"))), slog.Group("", slog.Bool("ok", true)))
	for want, l := range map[string]line{
		"created name=web node.ports=2 node.zone.id=z ok=true":                   {},
		"created a=1 name=web node.ports=2 node.zone.id=z ok=true":               line{}.with([]slog.Attr{slog.Int("a", 1)}),
		"created g.name=web g.node.ports=2 g.node.zone.id=z g.ok=true":           line{}.within("g").within(""),
		"created a=1 g.b=2 g.name=web g.node.ports=2 g.node.zone.id=z g.ok=true": line{}.with([]slog.Attr{slog.Int("a", 1)}).within("g").with([]slog.Attr{slog.Int("b", 2)}),
	} {
		if got := l.of(record); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
