//! Builds of programs, for the tasks that run them.

use std::fs;
use std::io::{BufRead as _, BufReader, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::console;

/// Returns the target folder, which this program is in.
///
/// # Errors
/// If this program was moved.
pub(crate) fn target() -> Result<PathBuf> {
    let xtask = std::env::current_exe().context("cannot find this program")?;
    Ok(xtask
        .ancestors()
        .nth(2)
        .context("this program is in no target folder")?
        .to_owned())
}

/// Builds these packages in the profile `release`. Returns the folder of the programs.
///
/// # Errors
/// If something does not build.
pub(crate) fn release(root: &Path, packages: &[&str]) -> Result<PathBuf> {
    let mut programs = crate::cargo(root);
    programs
        .args(["build", "--release"])
        .args(packages.iter().flat_map(|package| ["--package", package]));
    watched("building the benchmark (minutes the first time)", programs)?;
    Ok(target()?.join("release"))
}

/// Builds the host as in the image (`deploy/Dockerfile`), with these options of rustc for the last
/// step. Returns its path.
///
/// # Errors
/// If it does not build.
pub(crate) fn image(root: &Path, options: &[&str]) -> Result<PathBuf> {
    let mut host = crate::cargo(root);
    host.env("RUSTFLAGS", "--codegen=symbol-mangling-version=v0");
    host.args([
        "rustc",
        "--profile",
        "dist",
        "--package",
        "skydock",
        "--bin",
        "skydock",
    ]);
    host.args(["--", "--codegen", "target-feature=+crt-static"])
        .args(options);
    watched(
        "building the host as in the image (more minutes the first time)",
        host,
    )?;
    Ok(target()?.join("dist/skydock"))
}

/// Builds the recorder of executed functions, which is in a workspace of its own. Returns its path.
///
/// # Errors
/// If it does not build.
pub(crate) fn recorder(root: &Path) -> Result<PathBuf> {
    let mut recorder = crate::cargo(root);
    recorder.args([
        "build",
        "--release",
        "--locked",
        "--manifest-path",
        "tests/bench/hot/Cargo.toml",
        "--target-dir",
    ]);
    recorder.arg(target()?.join("hot"));
    watched("building the recorder", recorder)?;
    Ok(target()?.join("hot/release/skydock-hot"))
}

/// Builds the plugins. Returns the command of a program that runs the host, with the paths of both.
///
/// # Errors
/// If a plugin does not build.
pub(crate) fn with_plugins(root: &Path, program: &Path, host: &Path) -> Result<Command> {
    let mut guests = Command::new(std::env::current_exe().context("cannot find this program")?);
    guests.arg("guests");
    watched("building the plugins", guests)?;
    let mut command = Command::new(program);
    command
        .arg("--skydock")
        .arg(host)
        .arg("--plugins")
        .arg(root.join("target/plugins"));
    Ok(command)
}

/// Builds the official providers of these clouds as plugins, where the tests also expect them:
/// `target/plugins/go/NAME.wasm`.
///
/// # Errors
/// If something does not build.
pub(crate) fn go_providers(root: &Path, names: &[&str]) -> Result<()> {
    let mut builder = crate::cargo(root);
    builder.args(["build", "--package", "skydock-dev"]);
    watched("building skydock-dev", builder)?;
    let folder = root.join("target/plugins/go");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for name in names {
        let mut provider = Command::new(target()?.join("debug/skydock-dev"));
        provider
            .args(["plugin", "build"])
            .arg(root.join("plugins/go").join(name));
        provider
            .arg("--output")
            .arg(folder.join(format!("{name}.wasm")));
        watched(
            &format!("building the official provider of {name} (minutes the first time)"),
            provider,
        )?;
    }
    Ok(())
}

/// Runs a build with a spinner on terminals. Its complete output is printed if it fails.
///
/// # Errors
/// If the build fails.
pub(crate) fn watched(what: &str, mut command: Command) -> Result<()> {
    if !std::io::stderr().is_terminal() {
        console::note(what);
    }
    let begin = Instant::now();
    let spinner = console::spinner(what);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {what}"))?;
    let mut output = Vec::new();
    for line in child
        .stderr
        .take()
        .into_iter()
        .flat_map(|pipe| BufReader::new(pipe).lines())
    {
        let line = line.context("cannot read the output of a build")?;
        spinner.set_message(format!("{what}: {}", line.trim()));
        output.push(line);
    }
    let status = child.wait().context("cannot wait for a build")?;
    spinner.finish_and_clear();
    if !status.success() {
        output.iter().for_each(console::note);
        bail!("{what} failed; its output is above");
    }
    if begin.elapsed().as_secs() > 1 {
        console::note(format_args!(
            "built in {}",
            console::seconds(begin.elapsed())
        ));
    }
    Ok(())
}
