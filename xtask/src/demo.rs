//! `cargo xtask demo`: builds what the demo needs, and then runs it.

use std::io::{BufRead as _, BufReader, IsTerminal as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::console;

/// Builds the host, the plugins and the demo, and replaces this process with the demo. Returns only if that fails.
///
/// The profile is that of the tests, so that both share one build; dependencies are optimized in it too. The build does not write to
/// stdout: with `--json`, stdout contains only the output of the demo.
///
/// # Errors
/// If something does not build, or the demo cannot be started.
pub(crate) fn run(root: &Path, json: bool, keep: bool) -> Result<()> {
    let mut host = crate::cargo(root);
    host.args(["build", "--package", "skydock", "--package", "skydock-story"]);
    // For the features that tests use. Otherwise, dependencies and our own crates would be compiled again for the tests.
    host.args(["--package", "skydock-features", "--package", "skydock-kube", "--features", "skydock-kube/testing"]);
    watched("building the host (minutes the first time)", host)?;
    let mut story = with_plugins(root, "skydock-story", "debug", "debug")?;
    let error = story.args(json.then_some("--json")).args(keep.then_some("--keep")).exec();
    Err(error).context("cannot start the story")
}

/// Builds a benchmark, the host with this profile, and the plugins. Returns the command of the benchmark with their paths.
///
/// # Errors
/// If something does not build.
pub(crate) fn benchmark(root: &Path, program: &str, profile: &str) -> Result<Command> {
    let mut host = crate::cargo(root);
    host.args(["build", "--release", "--package", "skydock", "--package", program]);
    watched("building the host and the benchmark (minutes the first time)", host)?;
    if profile != "release" {
        let mut host = crate::cargo(root);
        host.args(["rustc", "--profile", profile, "--package", "skydock", "--bin", "skydock"]);
        host.args(["--", "--codegen", "target-feature=+crt-static"]);
        watched("building the host as in the image (more minutes the first time)", host)?;
    }
    with_plugins(root, program, "release", profile)
}

/// Builds the plugins. Returns the command of a program, with their paths and that of the host. `folder` and `host` are the folders
/// for the profiles of the program and of the host.
fn with_plugins(root: &Path, program: &str, folder: &str, host: &str) -> Result<Command> {
    let xtask = std::env::current_exe().context("cannot find this program")?;
    let mut guests = Command::new(&xtask);
    guests.arg("guests");
    watched("building the plugins", guests)?;

    let target = xtask.ancestors().nth(2).context("this program is in no target folder")?;
    let mut command = Command::new(target.join(folder).join(program));
    command.arg("--skydock").arg(target.join(host).join("skydock")).arg("--plugins").arg(root.join("target/plugins"));
    Ok(command)
}

/// Runs a build with a spinner on terminals. Its complete output is printed if it fails.
fn watched(what: &str, mut command: Command) -> Result<()> {
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
    for line in child.stderr.take().into_iter().flat_map(|pipe| BufReader::new(pipe).lines()) {
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
        console::note(format_args!("built in {}", console::seconds(begin.elapsed())));
    }
    Ok(())
}
