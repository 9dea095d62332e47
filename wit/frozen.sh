#!/usr/bin/env bash
# Compares the declarations of each frozen version of the contract with those of its commit in the table of README.md. Comments may
# differ. Prints the commit of the newest, which is the first. Needs wasm-tools, and a clone with all commits.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

# Prints version and commit of the frozen rows in a page, or in a diff of it.
frozen() {
  sed -nE 's/^[-+ ]?\| ([0-9.]+) \| .*frozen \| `([0-9a-f]{40})`.*/\1 \2/p'
}

# Prints what a folder declares.
declared() {
  wasm-tools component wit --all-features "$1" | grep -vE '^ *///'
}

rows=$(frozen <wit/README.md)
[ "$(grep -cE '^\|.*frozen' wit/README.md)" = "$(wc -l <<<"$rows")" ] ||
  fail "wit/README.md: a frozen row has a version, a link, 'frozen' at the end of its state, and a complete commit in backticks"

# A row that was frozen once does not change.
once=$(git log --no-color --format= --patch -- wit/README.md | frozen | sort --unique)
[ "$once" = "$(sort --unique <<<"$rows")" ] ||
  fail 'wit/README.md has other frozen rows than its commits; if one is new, commit it first. They have:' "$once"

old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
while read -r version commit; do
  folder=wit/v$version
  # Complete, because a version may have links to the one before.
  git archive "$commit" wit | tar -x -C "$old"
  declared "$old/$folder" >"$old/before"
  declared "$folder" >"$old/now"
  diff --unified=3 "$old/before" "$old/now" >&2 ||
    fail "$folder is frozen, and only its comments may change: put the change into a new version (wit/README.md, Versions)"
done <<<"$rows"
head -n 1 <<<"${rows#* }"
