#!/bin/sh
# Generates internal/bindings from wit/ with wit-bindgen 0.61.0:
#   cargo install wit-bindgen-cli --version 0.61.0 --locked --no-default-features --features go,async
# The result is committed, because users of this module have no wit-bindgen. With --check, it is only compared.
set -eu
case "$*" in
'' | --check) ;;
*) echo "usage: generate.sh [--check]" >&2; exit 2 ;;
esac
cd "$(dirname "$0")"
module=github.com/skydock/skydock/sdk/go
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

case "$(wit-bindgen --version)" in
*' 0.61.0'*) ;;
*) echo "generate.sh: wit-bindgen 0.61.0 is required" >&2; exit 1 ;;
esac

# One directory with the contract, the parts of WASI that the SDK uses, and a world for each interface that plugins export. Comments
# would be part of the result.
mkdir -p "$work/wit/deps/skydock"
cp wit/guest/guest.wit "$work/wit/"
cp wit/guest/deps/*.wit wit/v0.1.1/deps/wasi-logging/*.wit "$work/wit/deps/"
cp wit/v0.1.1/*.wit "$work/wit/deps/skydock/"
exported=$(awk '$1 == "export" && !seen[$2]++ { sub(";", "", $2); print $2 }' wit/v0.1.1/worlds.wit | while read -r name; do
    # The bindings of others would call functions that the SDK does not have.
    [ ! -d "internal/guest/serve_$(echo "$name" | tr - _)" ] || echo "$name"
done)
for name in $exported; do
    printf '\nworld %s {\n    include imports;\n    export skydock:provider/%s@0.1.1;\n}\n' "$name" "$name" >>"$work/wit/guest.wit"
done
for file in $(find "$work/wit" -name '*.wit'); do
    sed '/^ *\/\//d' "$file" >"$work/stripped"
    mv "$work/stripped" "$file"
done
for capability in $exported; do
    wit-bindgen go --world $capability --out-dir "$work/go" "$work/wit" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
    name=exports_$(echo $capability | tr - _)
    mkdir "$work/go/$name"
    sed -e "s/^package main$/package $name/" -e '/^\/\/ Unused, but present/d' -e '/^func main() {}$/d' \
        "$work/go/wit_exports.go" >"$work/go/$name/bindings.go"
    rm "$work/go/wit_exports.go"
done

# What an import returns is kept until its function returns: internal/wit/runtime.
mkdir "$work/bindings"
for file in "$work"/go/*/*.go; do
    package=$(basename "$(dirname "$file")")
    mkdir -p "$work/bindings/$package"
    sed -e "s,\"go.bytecodealliance.org/pkg/wit/runtime\",\"$module/internal/wit/runtime\"," \
        -e "s,\"go.bytecodealliance.org/pkg/wit/types\",\"$module/internal/wit/types\"," \
        -e "s,\"wit_component/export_skydock_provider_\(.*\)\",export_skydock_provider_\1 \"$module/internal/guest/serve_\1\"," \
        -e "s,\"wit_component/,\"$module/internal/bindings/," \
        -e 's/^\(\t*\)\(wasm_import_.*\)returnArea)$/\1received := witRuntime.Receiver(pinner)\n\1\2witRuntime.Receive(received, returnArea))\n\1witRuntime.Done()/' \
        "$file" | gofmt >"$work/bindings/$package/bindings_wasip1.go"
done

if [ "${1:-}" = --check ]; then
    diff -r "$work/bindings" internal/bindings || { echo "generate.sh: internal/bindings is not current: run generate.sh" >&2; exit 1; }
    echo "internal/bindings is current"
else
    rm -rf internal/bindings
    cp -r "$work/bindings" internal/bindings
fi
