//! `cargo xtask demo`: builds what the demo needs, and then runs it.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::build;

/// Builds the host, the plugins and the demo, and replaces this process with the demo. Returns only
/// if that fails.
///
/// The profile is that of the tests, so that both share one build; dependencies are optimized in it
/// too. The build does not write to stdout: with `--json`, stdout contains only the output of the
/// demo.
///
/// # Errors
/// If something does not build, or the demo cannot be started.
pub(crate) fn run(root: &Path, json: bool, keep: bool) -> Result<()> {
    let mut host = crate::cargo(root);
    host.args("build --package skydock --package skydock-story".split(' '));
    // For the features that tests use. Otherwise, dependencies and our own crates would be compiled
    // again for the tests.
    host.args("--package skydock-features --package skydock-controller-base".split(' '));
    host.args("--features skydock-controller-base/testing".split(' '));
    build::watched("building the host (minutes the first time)", host)?;
    let folder = build::target()?.join("debug");
    let program = folder.join("skydock-story");
    let plugins = plugins(&program)?;
    let mut story = build::with_plugins(root, &program, &folder.join("skydock"), &plugins)?;
    let error = story
        .args(json.then_some("--json"))
        .args(keep.then_some("--keep"))
        .exec();
    Err(error).context("cannot start the story")
}

/// Returns the names of the plugins that the demo shows.
fn plugins(story: &Path) -> Result<Vec<String>> {
    let output = Command::new(story)
        .arg("--list-plugins")
        .output()
        .context("cannot start the story")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "the story cannot list its plugins: {}",
        error.trim()
    );
    let names = String::from_utf8_lossy(&output.stdout);
    Ok(names.lines().map(str::to_owned).collect())
}
