//! The SDK for C: its tests, those of the template and those of the example, under sanitizers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::show;

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
/// What is tested: folders, and with which definitions. By default, memory is not shared by small things, so that a sanitizer sees each.
const TESTS: [(&str, &[&str]); 4] =
    [("tests", &[]), ("tests", &["-DSKYDOCK_BLOCK=65536"]), ("template", &[]), ("example", &[])];

/// Compiles and runs all tests.
pub(super) fn test(root: &Path) -> Result<()> {
    let work = root.join("target").join(SDK);
    fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
    for (at, (folder, definitions)) in TESTS.into_iter().enumerate() {
        let program = work.join(format!("test-{at}"));
        let sources = [sources(&root.join(SDK).join(folder))?, sources(&root.join(SDK).join("skydock"))?].concat();
        let folder = format!("{SDK}/{folder}");
        let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        compiler.args(FLAGS).args(definitions).args(["-I", ".."]).args(sources).arg("-o").arg(&program);
        show(root, &folder, &mut compiler, INSTALL)?;
        show(root, &folder, &mut Command::new(program), INSTALL)?;
    }
    Ok(())
}

/// Returns the C files in a folder, sorted.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = || fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>();
    let mut files = read().with_context(|| format!("cannot read {}", folder.display()))?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "c"));
    files.sort();
    Ok(files)
}
