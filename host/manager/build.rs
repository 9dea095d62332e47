//! Linker options of the binary, and what it is built with.

use std::{env::var, fs, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| var(name).is_ok_and(|it| it == value);
    // Only for the image, which is optimized for size: 40,000 relocations take 16 KiB of memory
    // instead of 0.9 MiB. This requires glibc 2.36 or later, so other builds do not use it.
    if is("OPT_LEVEL", "z")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
    {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }

    println!("cargo::rerun-if-changed={LOCK}");
    println!("cargo::rustc-env=SKYDOCK_WASMTIME={}", wasmtime());
    println!("cargo::rustc-env=SKYDOCK_RUSTC={}", rustc());
}

/// The versions of all dependencies.
const LOCK: &str = "../../Cargo.lock";

/// Returns the version of Wasmtime.
fn wasmtime() -> String {
    let lock = fs::read_to_string(LOCK).unwrap_or_default();
    let found = lock.split_once("name = \"wasmtime\"\nversion = \"");
    let version = found.and_then(|(_, rest)| rest.split('"').next());
    version.unwrap_or_default().to_owned()
}

/// Returns the version of the compiler.
fn rustc() -> String {
    let compiler = var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let told = Command::new(compiler).arg("--version").output();
    let text = told.map(|told| told.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    // Such as `rustc 1.95.0 (…)`.
    text.split(' ').nth(1).unwrap_or_default().to_owned()
}
