"""Tests against simcloud, which `cargo build -p skydock-simcloud` builds. SKYDOCK_SIMCLOUD is the program, unless it is in target/debug."""
