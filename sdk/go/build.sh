#!/bin/sh
# build.sh DIRECTORY OUTPUT.wasm: builds the component of the plugin whose package main is in DIRECTORY. BUILD.md explains the
# steps. Needs Go 1.26, wasm-tools and patch; the adapter of WASI is $WASI_ADAPTER, or in the registry of cargo.
set -eu
sdk=$(cd "$(dirname "$0")" && pwd)
plugin=$(cd "$1" && pwd)
mkdir -p "$(dirname "$2")"
output=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
module=github.com/skydock/skydock/sdk/go
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "build.sh: $*" >&2; exit 1; }

# 1. The overlay: patched copies of three files of the installed Go.
goroot=$(go env GOROOT)
(cd "$goroot" && sha256sum --quiet --check "$sdk/overlay/SHA256SUMS") >"$work/sums" 2>&1 ||
    fail "$(go env GOVERSION) in $goroot is not supported: $(cat "$work/sums")"
replace=
while read -r _ file; do
    name=$(basename "$file" .go)
    patch --quiet --output="$work/$name.go" "$goroot/$file" "$sdk/overlay/$name.diff"
    replace="$replace,\"$goroot/$file\":\"$work/$name.go\""
done <"$sdk/overlay/SHA256SUMS"
echo "{\"Replace\":{${replace#,}}}" >"$work/overlay.json"

# 2. Patched copies of modules, if the plugin has patches for modules that do not compile for WASI.
set --
if [ -d "$plugin/port" ]; then
    "$sdk/port.sh" "$plugin"
    set -- "-modfile=$plugin/.port/go.mod"
fi

# 3. The core module.
cd "$plugin"
export GOOS=wasip1 GOARCH=wasm
go build "$@" -overlay "$work/overlay.json" -trimpath -buildvcs=false -buildmode=c-shared -ldflags='-s -w -buildid=' -o "$work/core.wasm" .

# 4. The world: the plugin exports the interfaces whose packages it imports.
"$sdk/wit.sh" "$work/wit"
{
    echo 'package skydock:go;'
    echo 'world built { include imports; export skydock:provider/plugin@0.1.0;'
    go list "$@" -deps . | sed -n "s,^$module/internal/bindings/exports_,,p" | tr _ - | while read -r interface; do
        [ "$interface" = plugin ] || echo "export skydock:provider/$interface@0.1.0;"
    done
    echo '}'
} >"$work/wit/built.wit"

# 5. The component.
adapter=${WASI_ADAPTER:-$(ls "$HOME"/.cargo/registry/src/*/wasi-preview1-component-adapter-provider-48.0.8/artefacts/wasi_snapshot_preview1.reactor.wasm 2>/dev/null | head -n 1)}
[ -f "$adapter" ] || fail "set WASI_ADAPTER to wasi_snapshot_preview1.reactor.wasm"
wasm-tools component embed "$work/wit" "$work/core.wasm" --world built -o "$work/embedded.wasm"
wasm-tools component new "$work/embedded.wasm" --adapt "wasi_snapshot_preview1=$adapter" -o "$work/component.wasm"
mv "$work/component.wasm" "$output"
