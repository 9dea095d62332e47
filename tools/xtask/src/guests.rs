//! `cargo xtask guests`: builds the plugins and the test fixtures, all of which are WebAssembly
//! components.
//!
//! They use a separate target directory, `target/guests`, so that builds of host and guests do not
//! wait for each other. The results are copied to where the host looks for them:
//! `target/plugins/NAME.wasm`, fixtures below `hostile`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::console;

const TARGET: &str = "wasm32-wasip2";

/// A component built by cargo.
#[derive(Debug, PartialEq, Eq)]
struct Guest {
    /// The file that cargo has built.
    built: PathBuf,
    /// The destination, relative to `target/plugins`.
    name: String,
}

/// Builds all guests and prints their sizes. A file whose content has not changed is not written,
/// so that processes that watch it do not reload it.
///
/// # Errors
/// If there is no compiler for guests, or a guest does not compile.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut cargo = cargo_build(root)?;
    let mut packages: Vec<_> = crate::targets(root)?
        .into_iter()
        .filter(|target| target.is_guest)
        .map(|target| target.package)
        .collect();
    packages.dedup();
    for package in packages {
        cargo.args(["--package", &package]);
    }
    cargo.args(["--lib", "--examples", "--profile", "guest"]);

    let plugins = root.join("target/plugins");
    let mut guests = compile(root, cargo)?;
    guests.sort_by(|one, other| one.name.cmp(&other.name));
    for Guest { built, name } in guests {
        copy_if_different(&built, &plugins.join(&name))?;
        let size = fs::metadata(&built).context("cannot read a component")?;
        let size = size.len().div_ceil(1024);
        console::line(format_args!("target/plugins/{name:35} {size:>6} KiB"));
    }

    // The fixtures that a compiler cannot produce.
    let status = crate::cargo(root)
        .args(["run", "--quiet", "--package", "skydock-test-plugin-raw"])
        .arg("--")
        .arg(plugins.join("hostile/raw"))
        .status()
        .context("cannot start cargo")?;
    ensure!(
        status.success(),
        "the fixtures of tests/plugin/raw cannot be made; the reason is above"
    );
    Ok(())
}

/// Returns a command that builds for WebAssembly.
fn cargo_build(root: &Path) -> Result<Command> {
    add_target(root, TARGET)?;
    let mut cargo = crate::cargo(root);
    cargo.args(["build", "--target", TARGET]);
    Ok(cargo)
}

/// Installs Rust's library for a target, if it is missing.
///
/// rustup installs the targets in `rust-toolchain.toml` only together with a toolchain, and not
/// into one that is already there.
///
/// # Errors
/// If rustup cannot install it.
pub(crate) fn add_target(root: &Path, target: &str) -> Result<()> {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", target])
        .current_dir(root)
        .output()
        .context("cannot start rustc")?;
    let library = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if !library.is_dir() {
        let add = ["target", "add", target];
        let status = Command::new("rustup").args(add).current_dir(root).status();
        if !status.is_ok_and(|status| status.success()) {
            bail!("Rust's library for {target} is missing: run `rustup target add {target}`");
        }
    }
    Ok(())
}

/// Runs a build, and returns its guests, including those that were already up to date.
fn compile(root: &Path, mut cargo: Command) -> Result<Vec<Guest>> {
    cargo
        .args(["--message-format", "json-render-diagnostics"])
        .arg("--target-dir")
        .arg(root.join("target/guests"));
    let output = cargo
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "a plugin or a fixture does not compile; the compiler's words are above"
    );
    let messages = String::from_utf8_lossy(&output.stdout);
    Ok(messages.lines().filter_map(guest).collect())
}

/// Parses a line of cargo's JSON messages. Returns `None` if it does not describe a component.
fn guest(line: &str) -> Option<Guest> {
    let message: Value = serde_json::from_str(line).ok()?;
    let name = message.pointer("/target/name")?.as_str()?;
    let kinds = message.pointer("/target/kind")?.as_array()?;
    let mut files = message.get("filenames")?.as_array()?.iter();
    let built = files.find_map(|file| file.as_str().filter(|file| file.ends_with(".wasm")))?;
    let name = if kinds.iter().any(|kind| kind == "example") {
        format!("hostile/{name}.wasm")
    } else {
        // The cloud that it is for has the shorter name.
        let name = name
            .trim_start_matches("skydock_")
            .trim_end_matches("_provider");
        format!("{name}.wasm")
    };
    Some(Guest {
        built: built.into(),
        name,
    })
}

/// Copies a file atomically, unless the destination has the same content.
fn copy_if_different(from: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    if fs::read(to).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let write = || {
        to.parent().map_or(Ok(()), fs::create_dir_all)?;
        // Written to a temporary file first, so that readers never see an incomplete file.
        let aside = to.with_extension("wasm.new");
        fs::write(&aside, bytes)?;
        fs::rename(&aside, to)
    };
    write().with_context(|| format!("cannot write {}", to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_named_after_crates_and_fixtures_are_in_hostile() {
        let named = |name: &str, kind: &str, file: &str| {
            let target = serde_json::json!({"kind": [kind], "name": name});
            let line = serde_json::json!({"target": target, "filenames": [file]}).to_string();
            guest(&line).map(|guest| guest.name)
        };
        let provider = named("skydock_simcloud_provider", "cdylib", "/t/a.wasm");
        assert_eq!(provider.as_deref(), Some("simcloud.wasm"));
        let fixture = named("good", "example", "/t/good.wasm");
        assert_eq!(fixture.as_deref(), Some("hostile/good.wasm"));
        assert_eq!(named("skydock_sdk", "lib", "/t/libskydock_sdk.rlib"), None);
        assert_eq!(guest(r#"{"reason":"build-finished","success":true}"#), None);
    }

    #[test]
    fn a_file_is_written_only_if_its_bytes_differ() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (
            folder.path().join("from"),
            folder.path().join("below/to.wasm"),
        );
        let modified = || fs::metadata(&to).unwrap().modified().unwrap();
        fs::write(&from, "one").unwrap();
        copy_if_different(&from, &to).unwrap();
        let before = modified();
        copy_if_different(&from, &to).unwrap();
        assert_eq!(modified(), before);
        fs::write(&from, "two").unwrap();
        copy_if_different(&from, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"two");
        let left = fs::read_dir(to.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "nothing is left aside");
    }
}
