package guest

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/internal/wit/types"
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
	got := List(Valid)([]string{"ü", "a\xffb", ""})
	if len(got) != 3 || got[0] != "ü" || got[1] != "a\uFFFDb" || got[2] != "" {
		t.Errorf("%q", got)
	}
}

func TestValuesAreFoundInEnums(t *testing.T) {
	var s Sent
	values := []string{"a", "b", "c"}
	for value, want := range map[string]uint8{"a": 0, "c": 2} {
		if got := index(&s, "letter", values, value); got != want || s.err != nil {
			t.Error(value, got, s.err)
		}
	}
	for value, want := range map[string]string{
		"other": `the provider returned the letter "other"; expected a, b, c`,
		"":      `the provider returned the letter ""; expected a, b, c`,
	} {
		// No place, because the host must not take another value for it.
		if got := index(&s, "letter", values, value); got != 3 {
			t.Error(got)
		}
		if err := s.take(); err == nil || err.Error() != want || !errors.Is(err, skydock.ErrInternal) {
			t.Error(err)
		}
	}
	index(&s, "presence", []skydock.Presence{0, 1, 2}, -1)
	index(&s, "letter", values, "later")
	if err := s.take(); err == nil || err.Error() != `the provider returned the presence "-1"; expected 0, 1, 2` {
		t.Error(err)
	}
}

func TestAnAbsentValueIsNotAnEmptyOne(t *testing.T) {
	if got := Optional(Valid)("a"); got.Some() != "a" || Optional(Valid)("").IsSome() {
		t.Error(got)
	}
	clones, valids := OptionList(Clone), OptionalList(Valid)
	if none, some := clones(types.None[[]string]()), clones(types.Some([]string{})); none != nil || some == nil {
		t.Error(none, some)
	}
	if none, some := valids(nil), valids([]string{}); none.IsSome() || !some.IsSome() {
		t.Error(none, some)
	}
	some := OptionRecord(Clone)
	if none, empty := some(types.None[string]()), some(types.Some("")); none != nil || empty == nil || *empty != "" {
		t.Error(none, empty)
	}
	if got := Optional(Same[uint64])(7); got.Some() != 7 || Optional(Same[uint64])(0).IsSome() {
		t.Error(got)
	}
	if got := Option(Clone)(types.Some("a")) + Option(Clone)(types.None[string]()); got != "a" {
		t.Error(got)
	}
}

func TestARecordThatIsRequiredIsNotNil(t *testing.T) {
	var s Sent
	name := func(n skydock.Node) string { return n.Name }
	if got := Required(&s, name)(&skydock.Node{Name: "a"}); got != "a" || s.err != nil {
		t.Error(got, s.err)
	}
	if got := OptionalRecord(name)(&skydock.Node{Name: "a"}); got.Some() != "a" || OptionalRecord(name)(nil).IsSome() {
		t.Error(got)
	}
	Required(&s, name)(nil)
	if !errors.Is(s.err, skydock.ErrInternal) {
		t.Error(s.err)
	}
}

func TestTimesAreThoseOfTheContract(t *testing.T) {
	if got := Milliseconds(90 * time.Second); got != 90000 || Milliseconds(-time.Second) != 0 {
		t.Error(got)
	}
	if got := Seconds(types.Some(uint32(90))); got != 90*time.Second || Seconds(types.None[uint32]()) != 0 {
		t.Error(got)
	}
	if got := Time(90); got.Unix() != 90 || Timestamp(got) != 90 || Timestamp(time.Time{}) != 0 {
		t.Error(got)
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
