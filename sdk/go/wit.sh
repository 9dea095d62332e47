#!/bin/sh
# wit.sh DIRECTORY: puts the contract, the parts of WASI that the SDK uses, and the worlds of the SDK into one directory of WIT.
set -eu
cd "$(dirname "$0")"
mkdir -p "$1/deps/skydock"
cp wit/guest/guest.wit "$1/"
cp wit/guest/deps/*.wit "$1/deps/"
cp wit/v0.1.0/*.wit "$1/deps/skydock/"
cp wit/v0.1.0/deps/wasi-logging/*.wit "$1/deps/"
