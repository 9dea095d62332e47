//! `cargo xtask guests`: builds the plugins and the test fixtures, all of which are WebAssembly
//! components.
//!
//! They use a separate target directory, `target/guests`, so that builds of host and guests do not
//! wait for each other. The results are copied to where the host looks for them:
//! `target/plugins/NAME.wasm`, fixtures below `hostile`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::console;

mod toolchain;

/// The packages that are guests or contain some.
const PACKAGES: [&str; 6] = [
    "skydock-aws",
    "skydock-openstack",
    "skydock-simcloud-provider",
    "skydock-static",
    "skydock-test-plugin",
    "skydock-bench-plugin",
];

/// A component built by cargo.
#[derive(Debug, PartialEq, Eq)]
struct Guest {
    /// The file that cargo has built.
    built: PathBuf,
    /// The destination, relative to `target/plugins`.
    name: String,
}

/// Builds all guests and prints their sizes.
///
/// # Errors
/// If there is no compiler for guests, or a guest does not compile.
pub(crate) fn run(root: &Path) -> Result<()> {
    for path in build(root)? {
        let size = fs::metadata(&path)
            .with_context(|| format!("cannot read {}", path.display()))?
            .len();
        let name = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .display()
            .to_string();
        console::line(format_args!("{name:50} {:>6} KiB", size.div_ceil(1024)));
    }
    Ok(())
}

/// Builds all guests and returns their paths. A file whose content has not changed is not written,
/// so that processes that watch it do not reload it.
///
/// # Errors
/// See [`run`].
pub(crate) fn build(root: &Path) -> Result<Vec<PathBuf>> {
    let plugins = root.join("target/plugins");
    let mut paths = Vec::new();
    for guest in compile_all(root)? {
        let path = plugins.join(&guest.name);
        copy_if_different(&guest.built, &path)?;
        paths.push(path);
    }
    paths.sort();
    write_raw(root, &plugins.join("hostile/raw"))?;
    Ok(paths)
}

/// Generates the fixtures that a compiler cannot produce.
fn write_raw(root: &Path, dir: &Path) -> Result<()> {
    let mut cargo = crate::cargo(root);
    cargo
        .args([
            "run",
            "--quiet",
            "--package",
            "skydock-test-plugin-raw",
            "--",
        ])
        .arg(dir);
    let status = cargo.status().context("cannot start cargo")?;
    if !status.success() {
        bail!("the fixtures of tests/plugin/raw cannot be made; the reason is above");
    }
    Ok(())
}

/// Builds a crate that is not part of the workspace, and prints the path of its component.
///
/// # Errors
/// If there is no compiler for guests, or the crate does not compile, or is not a plugin.
pub(crate) fn run_crate(root: &Path, folder: &Path) -> Result<()> {
    let mut cargo = toolchain::find(root)?;
    cargo
        .arg("--manifest-path")
        .arg(folder.join("Cargo.toml"))
        .arg("--release");
    let guests = compile(root, cargo)?;
    let guest = guests
        .first()
        .with_context(|| format!("{} is not a plugin: it has no cdylib", folder.display()))?;
    console::line(guest.built.display());
    Ok(())
}

/// Builds all guests of the workspace with cargo.
fn compile_all(root: &Path) -> Result<Vec<Guest>> {
    let mut cargo = toolchain::find(root)?;
    for package in PACKAGES {
        cargo.args(["--package", package]);
    }
    cargo.args(["--lib", "--examples", "--profile", "guest"]);
    compile(root, cargo)
}

/// Runs a build, and returns its guests, including those that were already up to date.
fn compile(root: &Path, mut cargo: Command) -> Result<Vec<Guest>> {
    cargo
        .args([
            "--message-format",
            "json-render-diagnostics",
            "--target-dir",
        ])
        .arg(root.join("target/guests"));
    let output = cargo
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("a plugin or a fixture does not compile; the compiler's words are above");
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(guest)
        .collect())
}

/// Parses a line of cargo's JSON messages. Returns `None` if it does not describe a component.
fn guest(line: &str) -> Option<Guest> {
    let message: Value = serde_json::from_str(line).ok()?;
    let target = message.get("target")?;
    let name = target.get("name")?.as_str()?;
    let is_example = target
        .get("kind")?
        .as_array()?
        .iter()
        .any(|kind| kind == "example");
    let built = message
        .get("filenames")?
        .as_array()?
        .iter()
        .filter_map(Value::as_str)
        .find(|file| file.ends_with(".wasm"))?;
    let name = if is_example {
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

/// Copies a file atomically, unless the destination has the same content. Returns true if it was
/// copied.
fn copy_if_different(from: &Path, to: &Path) -> Result<bool> {
    let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    if fs::read(to).is_ok_and(|there| there == bytes) {
        return Ok(false);
    }
    let folder = to
        .parent()
        .with_context(|| format!("{} is in no folder", to.display()))?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    // Written to a temporary file first, so that readers never see an incomplete file.
    let aside = to.with_extension("wasm.new");
    fs::write(&aside, bytes).with_context(|| format!("cannot write {}", aside.display()))?;
    fs::rename(&aside, to).with_context(|| format!("cannot write {}", to.display()))?;
    Ok(true)
}

/// Formats the command for messages as it would be typed.
fn shown(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        let _ = write!(text, " {}", arg.to_string_lossy());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(name: &str, kind: &str, file: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","target":{{"kind":["{kind}"],"name":"{name}"}},"filenames":["{file}"]}}"#
        )
    }

    #[test]
    fn plugins_are_named_after_crates_and_fixtures_are_in_hostile() {
        let named = |line: &str| guest(line).map(|guest| guest.name);
        assert_eq!(
            named(&artifact(
                "skydock_static",
                "cdylib",
                "/t/skydock_static.wasm"
            )),
            Some("static.wasm".into())
        );
        let provider = artifact(
            "skydock_simcloud_provider",
            "cdylib",
            "/t/skydock_simcloud_provider.wasm",
        );
        assert_eq!(named(&provider), Some("simcloud.wasm".into()));
        assert_eq!(
            named(&artifact("good", "example", "/t/good.wasm")),
            Some("hostile/good.wasm".into())
        );
        assert_eq!(
            named(&artifact("skydock_sdk", "lib", "/t/libskydock_sdk.rlib")),
            None
        );
        assert_eq!(named(r#"{"reason":"build-finished","success":true}"#), None);
    }

    #[test]
    fn a_file_is_written_only_if_its_bytes_differ() {
        let folder = std::env::temp_dir().join(format!("xtask-guests-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("below/to.wasm"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(&from, "one").unwrap();
        assert!(copy_if_different(&from, &to).unwrap());
        assert!(!copy_if_different(&from, &to).unwrap());
        fs::write(&from, "two").unwrap();
        assert!(copy_if_different(&from, &to).unwrap());
        assert_eq!(fs::read(&to).unwrap(), b"two");
        assert_eq!(
            fs::read_dir(to.parent().unwrap()).unwrap().count(),
            1,
            "nothing is left aside"
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
