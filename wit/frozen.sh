#!/usr/bin/env bash
# Compares the declarations of each frozen version of the contract with those of its commit in the table of README.md. Comments may
# differ. Prints the commit of the newest. Needs wasm-tools, and a clone with that commit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Prints version and commit of the frozen rows in a page, or in a diff of it.
frozen() {
  sed -nE 's/^[-+ ]?\| ([0-9.]+) \| .*frozen \| `([0-9a-f]{40})`.*/\1 \2/p'
}

# Prints what a folder declares. Comments are in custom sections, which are left out.
declared() {
  wasm-tools component wit --wasm "$1" | wasm-tools strip --all | wasm-tools print
}

old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
newest=
while read -r version commit; do
  folder=wit/v$version
  git archive "$commit" "$folder" | tar -x -C "$old"
  if ! diff --unified=3 <(declared "$old/$folder") <(declared "$folder") >&2; then
    echo "$folder is frozen, and only its comments may change: put the change into a new version (wit/README.md, Versions)" >&2
    exit 1
  fi
  newest=${newest:-$commit}
done < <(frozen <wit/README.md)

# A row that was frozen once does not change either.
once=$(git log --format= --patch -- wit/README.md | frozen | sort --unique)
if [ "$once" != "$(frozen <wit/README.md | sort --unique)" ]; then
  printf 'wit/README.md has other commits for frozen versions than it had before:\n%s\n' "$once" >&2
  exit 1
fi
echo "$newest"
