//! `cargo xtask sdk`: tests of the SDKs whose language is not Rust, and of the templates and the example that come with them.

mod c;

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use clap::ValueEnum;

use crate::console;

/// A language of a SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    C,
}

/// Runs the unit tests of a SDK natively; with `component`, builds the example and checks it with the conformance kit instead.
///
/// # Errors
/// If a tool is missing, or a test fails.
pub(crate) fn run(root: &Path, language: Language, component: bool) -> Result<()> {
    match language {
        // The second uses the C library.
        Language::C if component => {
            ["sdk/c/example", "sdk/c/probe"].into_iter().try_for_each(|folder| kit(root, folder))
        }
        Language::C => c::test(root),
    }
}

/// Builds a provider for simcloud, and has the conformance kit check it.
fn kit(root: &Path, folder: &str) -> Result<()> {
    let work = root.join("target").join(folder);
    let (plugin, config) = (work.join("simcloud.wasm"), work.join("cloud.json"));
    fs::create_dir_all(&work)
        .and_then(|()| fs::write(&config, r#"{"url": "http://127.0.0.1:8080", "region": "sim"}"#))
        .with_context(|| format!("cannot write {}", config.display()))?;
    let words = ["plugin", "build", folder, "--output"].map(OsString::from);
    skydock(root, words.into_iter().chain([plugin.clone().into()]))?;
    let words = ["plugin".into(), "test".into(), plugin.into(), "--cloud-config".into(), config.into()];
    skydock(root, words)
}

/// Runs `skydock-dev`, which is built if necessary.
fn skydock(root: &Path, words: impl IntoIterator<Item = OsString>) -> Result<()> {
    let mut cargo = crate::cargo(root);
    cargo.args(["run", "--quiet", "--workspace", "--bin", "skydock-dev", "--"]).args(words);
    let status = cargo.stdin(Stdio::null()).status().context("cannot start cargo")?;
    ensure!(status.success(), "skydock failed; its output is above");
    Ok(())
}

/// Runs a command in a folder. Its output is shown.
fn show(root: &Path, folder: &str, command: &mut Command, install: &str) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    console::line(folder);
    match command.current_dir(root.join(folder)).stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => bail!("tests of {folder} failed; see above"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!("{program} is missing: {install}"),
        Err(error) => Err(error).with_context(|| format!("cannot start {program}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_reported_in_one_line() {
        let error = show(&crate::root(), "sdk", &mut Command::new("/no/such/program"), "install it").unwrap_err();
        assert_eq!(format!("{error:#}"), "/no/such/program is missing: install it");
        let error = show(&crate::root(), "sdk", &mut Command::new("false"), "install it").unwrap_err();
        assert_eq!(format!("{error:#}"), "tests of sdk failed; see above");
    }
}
