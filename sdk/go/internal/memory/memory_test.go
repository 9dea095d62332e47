package memory

import "testing"

func TestSizesAreThoseOfKubernetes(t *testing.T) {
	for text, want := range map[string]int64{"": 128 << 20, "1024": 1024, "256Mi": 256 << 20, "1Gi": 1 << 30, "64Ki": 64 << 10} {
		if got, err := parse(text); err != nil || got != want {
			t.Errorf("%q: %d %v", text, got, err)
		}
	}
	for _, text := range []string{"x", "-1", "0", "1.5Gi", "5Gi", "1GB"} {
		if _, err := parse(text); err == nil {
			t.Error(text)
		}
	}
}
