#!/bin/sh
# check.sh: formats, vets and tests all modules of the SDK natively. With --all, the providers in plugins/go too, whose dependencies
# take minutes to compile.
set -eu
cd "$(dirname "$0")"
unformatted=$(gofmt -l . ../../plugins/go | grep -v /.skydock/ || true)
[ -z "$unformatted" ] || { echo "check.sh: run gofmt -w $unformatted" >&2; exit 1; }
modules='. cloudprovider example template'
[ "${1:-}" != --all ] || modules="$modules ../../plugins/go/aws ../../plugins/go/openstack ../../plugins/go/vsphere"
for module in $modules; do
    (cd "$module" && go vet ./... && go test ./...)
done
GOOS=wasip1 GOARCH=wasm go vet -unsafeptr=false ./internal/guest ./internal/memory ./internal/inflight
