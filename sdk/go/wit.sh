#!/bin/sh
# Copies the contract to wit/v0.1.1, because a Go module contains only its own directory. A test in tests/sdks compares.
set -eu
cd "$(dirname "$0")"
rm -rf wit/v*
cp -RL ../../wit/v0.1.1 wit/
