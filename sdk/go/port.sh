#!/bin/sh
# port.sh PLUGIN: copies the modules that PLUGIN/port/modules lists to PLUGIN/.port, applies their patches, and writes a go.mod and
# go.sum there that use the copies. Each line of the list is a module and a patch. Paths in go.mod are part of the program, so they
# are relative: the result does not depend on where it is built.
set -eu
cd "$1"
rm -rf .port
mkdir .port
cp go.mod go.sum .port/
while read -r module patch; do
    go mod download "$module"
    copy=.port/$(basename "$patch" .diff)
    cp -r "$(go list -m -f '{{.Dir}}' "$module")" "$copy"
    chmod -R u+w "$copy"
    patch --quiet --strip=1 --directory="$copy" <"port/$patch"
    [ -f "$copy/go.mod" ] || echo "module $module" >"$copy/go.mod"
    go mod edit -replace "$module=./$copy" .port/go.mod
done <port/modules
