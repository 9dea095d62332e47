//! The SDK for C: its tests, those of the template and those of the example, under sanitizers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::show;
use crate::command::succeeds_within;
use crate::console;

/// Where the SDK is.
const SDK: &str = "sdk/c";
/// What to do without a compiler.
const INSTALL: &str = "install a C compiler, for example with `apt-get install gcc libc6-dev`";
/// Warnings are errors, and so is what the sanitizers find.
const FLAGS: [&str; 8] = [
    "-std=gnu11",
    "-g",
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Werror",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
];
/// Debian packages for plugins.
const PACKAGES: [&str; 4] = ["clang", "lld", "wasi-libc", "libclang-rt-dev-wasm32"];
/// Their last files.
const FILES: [&str; 2] = ["/usr/bin/wasm-ld", "/usr/lib/wasm32-wasi/libc.a"];
/// Timeout of their installation.
const APT_LIMIT: Duration = Duration::from_secs(600);

/// What is tested: folders, and with which definitions. By default, memory is not shared by small
/// things, so that a sanitizer sees each.
const TESTS: [(&str, &[&str]); 4] = [
    ("tests", &[]),
    ("tests", &["-DSKYDOCK_BLOCK=65536"]),
    ("template", &[]),
    ("example", &[]),
];

/// Compiles and runs all tests.
pub(super) fn test(root: &Path) -> Result<()> {
    let work = root.join("target").join(SDK);
    fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
    for (at, (folder, definitions)) in TESTS.into_iter().enumerate() {
        let program = work.join(format!("test-{at}"));
        let sources = [
            sources(&root.join(SDK).join(folder))?,
            sources(&root.join(SDK).join("skydock"))?,
        ]
        .concat();
        let folder = format!("{SDK}/{folder}");
        let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        compiler
            .args(FLAGS)
            .args(definitions)
            .args(["-I", ".."])
            .args(sources)
            .arg("-o")
            .arg(&program);
        show(root, &folder, &mut compiler, INSTALL)?;
        show(root, &folder, &mut Command::new(program), INSTALL)?;
    }
    Ok(())
}

/// Tries to install what plugins are compiled with, if it is missing and there is no WASI SDK.
/// `skydock plugin build` reports what is missing nevertheless.
pub(super) fn install() {
    let complete =
        Path::new("/usr/bin/clang").exists() && FILES.iter().all(|file| Path::new(file).exists());
    if !complete && std::env::var_os("WASI_SDK_PATH").is_none() {
        console::note(format_args!("installing {}", PACKAGES.join(" ")));
        let mut apt = Command::new("apt-get");
        apt.args(["install", "--yes", "--no-install-recommends"])
            .args(PACKAGES);
        succeeds_within(&mut apt, APT_LIMIT);
    }
}

/// Returns the C files in a folder, sorted.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = || {
        fs::read_dir(folder)?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>, std::io::Error>>()
    };
    let mut files = read().with_context(|| format!("cannot read {}", folder.display()))?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "c"));
    files.sort();
    Ok(files)
}
