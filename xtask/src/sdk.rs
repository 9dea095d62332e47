//! `cargo xtask sdk`: tests of the SDKs whose language is not Rust, and of the templates and the
//! example that come with them.

mod c;
mod go;
mod python;
mod typescript;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use clap::ValueEnum;

use crate::console;

/// A language of a SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    Go,
    Python,
    #[value(name = "typescript")]
    TypeScript,
    C,
}

/// Runs the unit tests of a SDK, or of all, natively; with `providers`, also those of the official
/// providers in Go; with `component`, builds the example with the packed SDK, and has the
/// conformance kit check it instead.
///
/// # Errors
/// If a tool is missing, or a test fails.
pub(crate) fn run(
    root: &Path,
    language: Option<Language>,
    component: bool,
    providers: bool,
) -> Result<()> {
    for language in Language::value_variants()
        .iter()
        .filter(|it| language.is_none_or(|wanted| wanted == **it))
    {
        match language {
            Language::Go if component => kit(root, &root.join("sdk/go/example"))?,
            Language::Go => go::test(root, providers)?,
            Language::Python if component => kit(root, &python::packed_example(root)?)?,
            Language::Python => python::test(root)?,
            Language::TypeScript if component => kit(root, &typescript::packed_example(root)?)?,
            Language::TypeScript => typescript::test(root)?,
            Language::C if component => {
                c::install();
                kit(root, &root.join("sdk/c/example"))?;
                // It uses the C library.
                conforms(root, &root.join("sdk/c/probe"))?;
            }
            Language::C => c::test(root)?,
        }
    }
    Ok(())
}

/// Builds a provider for simcloud, and has the conformance kit check it: without a cloud, and with
/// simcloud.
fn kit(root: &Path, folder: &Path) -> Result<()> {
    let plugin = conforms(root, folder)?;
    let scenarios = root.join("simcloud/scenarios.yaml");
    let words = [
        "plugin".into(),
        "test".into(),
        plugin.into(),
        "--simcloud".into(),
        "--scenarios".into(),
    ];
    skydock(words.into_iter().chain([scenarios.into()]))
}

/// Builds a plugin, and has the conformance kit check it without a cloud. Returns the plugin.
fn conforms(root: &Path, folder: &Path) -> Result<PathBuf> {
    console::line(folder.strip_prefix(root).unwrap_or(folder).display());
    let work = root.join("target/sdk");
    fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
    let (plugin, config) = (work.join("plugin.wasm"), work.join("cloud.json"));
    fs::write(
        &config,
        r#"{"url": "http://127.0.0.1:8080", "region": "sim"}"#,
    )
    .with_context(|| format!("cannot write {}", config.display()))?;
    skydock([
        "plugin".into(),
        "build".into(),
        folder.into(),
        "--output".into(),
        plugin.clone().into(),
    ])?;
    skydock([
        "plugin".into(),
        "test".into(),
        plugin.clone().into(),
        "--cloud-config".into(),
        config.into(),
    ])?;
    Ok(plugin)
}

/// Runs `skydock-dev`.
fn skydock(words: impl IntoIterator<Item = OsString>) -> Result<()> {
    let status = Command::new(program("skydock-dev")?)
        .args(words)
        .stdin(Stdio::null())
        .status();
    ensure!(
        status.context("cannot start skydock-dev")?.success(),
        "skydock failed; its output is above"
    );
    Ok(())
}

/// Returns a program of the workspace, which the step `build` builds.
fn program(name: &str) -> Result<PathBuf> {
    let program = crate::build::target()?.join("debug").join(name);
    ensure!(
        program.is_file(),
        "{} is missing: run `cargo xtask test --only build`",
        program.display()
    );
    Ok(program)
}

/// Runs a command in a folder. Its output is shown.
fn show(root: &Path, folder: &str, command: &mut Command, install: &str) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    console::line(folder);
    match command
        .current_dir(root.join(folder))
        .stdin(Stdio::null())
        .status()
    {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => bail!("tests of {folder} failed; see above"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("{program} is missing: {install}")
        }
        Err(error) => Err(error).with_context(|| format!("cannot start {program}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_reported_in_one_line() {
        let error = show(
            &crate::root(),
            "sdk",
            &mut Command::new("/no/such/program"),
            "install it",
        )
        .unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "/no/such/program is missing: install it"
        );
        let error = show(
            &crate::root(),
            "sdk",
            &mut Command::new("false"),
            "install it",
        )
        .unwrap_err();
        assert_eq!(format!("{error:#}"), "tests of sdk failed; see above");
    }
}
