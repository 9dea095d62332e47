package skydock_test

import (
	"crypto/sha256"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
)

// hashes returns the hashes of all files in a directory.
func hashes(t *testing.T, directory string) map[string][32]byte {
	t.Helper()
	out := map[string][32]byte{}
	files := os.DirFS(directory)
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		out[name] = sha256.Sum256(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestGenerateRejectsUnknownArguments(t *testing.T) {
	before := hashes(t, path.Join("internal", "bindings"))
	out, err := exec.Command("sh", "generate.sh", "--chek").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "usage: generate.sh [--check]") {
		t.Errorf("%v: %s", err, out)
	}
	if !maps.Equal(before, hashes(t, path.Join("internal", "bindings"))) {
		t.Error("internal/bindings was generated anew")
	}
}
