#!/bin/sh
# port.sh PLUGIN DIRECTORY: copies the modules that PLUGIN/port/modules lists to DIRECTORY, applies their patches, and writes a go.mod
# and go.sum there that use the copies. Each line of the list is a module and a patch.
set -eu
plugin=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
cd "$plugin"
cp go.mod go.sum "$out/"
while read -r module patch; do
    go mod download "$module"
    source=$(go list -m -f '{{.Dir}}' "$module")
    copy=$out/$(basename "$patch" .diff)
    cp -r "$source" "$copy"
    chmod -R u+w "$copy"
    patch --quiet --strip=1 --directory="$copy" <"port/$patch"
    [ -f "$copy/go.mod" ] || echo "module $module" >"$copy/go.mod"
    go mod edit -replace "$module=$copy" "$out/go.mod"
done <port/modules
