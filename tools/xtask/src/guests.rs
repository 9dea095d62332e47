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

use crate::{Target, console};

const TARGET: &str = "wasm32-wasip2";

/// A component built by cargo.
#[derive(Debug, PartialEq, Eq)]
struct Guest {
    /// The file that cargo has built.
    built: PathBuf,
    /// The destination, relative to `target/plugins` and without `.wasm`.
    name: String,
}

/// Builds guests and prints their sizes: all, or those with these names. A file whose content has
/// not changed is not written, so that processes that watch it do not reload it.
///
/// # Errors
/// If there is no compiler for guests, no guest has one of the names, or a guest does not compile.
pub(crate) fn run(root: &Path, names: &[String]) -> Result<()> {
    let mut targets = crate::targets(root)?;
    targets.retain(|target| target.is_guest);
    let mut cargo = cargo_build(root)?;
    cargo.args(selection(&targets, names)?);
    cargo.args(["--profile", "guest"]);

    let plugins = root.join("target/plugins");
    let mut guests = compile(root, cargo)?;
    guests.sort_by(|one, other| one.name.cmp(&other.name));
    for Guest { built, name } in guests {
        let file = format!("{name}.wasm");
        copy_if_different(&built, &plugins.join(&file))?;
        let size = fs::metadata(&built).context("cannot read a component")?;
        let size = size.len().div_ceil(1024);
        console::line(format_args!("target/plugins/{file:35} {size:>6} KiB"));
    }
    if !names.is_empty() {
        return Ok(());
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

/// Returns the arguments with which cargo builds these guests, or all if there are no names.
///
/// # Errors
/// If no guest has one of the names.
fn selection(guests: &[Target], names: &[String]) -> Result<Vec<String>> {
    let named = |target: &Target| guest_name(&target.name, target.is_example);
    let all: Vec<_> = guests.iter().map(named).collect();
    if let Some(name) = names.iter().find(|name| !all.contains(name)) {
        bail!(
            "there is no guest {name:?}; the guests are {}",
            all.join(", ")
        );
    }

    let is_chosen = |target: &&Target| names.is_empty() || names.contains(&named(target));
    let chosen: Vec<_> = guests.iter().filter(is_chosen).collect();
    let mut packages: Vec<_> = chosen.iter().map(|target| &*target.package).collect();
    packages.dedup();

    let mut arguments = Vec::new();
    for package in packages {
        arguments.extend(["--package", package]);
    }
    if chosen.iter().any(|target| !target.is_example) {
        arguments.push("--lib");
    }
    for target in chosen.iter().filter(|target| target.is_example) {
        arguments.extend(["--example", &target.name]);
    }
    Ok(arguments.into_iter().map(str::to_owned).collect())
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
    Some(Guest {
        built: built.into(),
        name: guest_name(name, kinds.iter().any(|kind| kind == "example")),
    })
}

/// Returns the name under which a guest is found: a provider has the name of its cloud, and the
/// examples are the plugins that misbehave.
fn guest_name(target: &str, is_example: bool) -> String {
    if is_example {
        return format!("hostile/{target}");
    }
    target
        .trim_start_matches("skydock_")
        .trim_end_matches("_provider")
        .to_owned()
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
        assert_eq!(provider.as_deref(), Some("simcloud"));
        let fixture = named("good", "example", "/t/good.wasm");
        assert_eq!(fixture.as_deref(), Some("hostile/good"));
        assert_eq!(named("skydock_sdk", "lib", "/t/libskydock_sdk.rlib"), None);
        assert_eq!(guest(r#"{"reason":"build-finished","success":true}"#), None);
    }

    #[test]
    fn only_the_named_guests_are_built() {
        let guest = |package: &str, name: &str, is_example| Target {
            package: package.to_owned(),
            name: name.to_owned(),
            is_test: false,
            is_example,
            is_guest: true,
        };
        let guests = [
            guest("skydock-static", "skydock_static", false),
            guest("hostile", "good", true),
            guest("hostile", "bad_info", true),
        ];
        let chosen = |names: &[&str]| {
            let names: Vec<_> = names.iter().copied().map(str::to_owned).collect();
            selection(&guests, &names).map(|arguments| arguments.join(" "))
        };

        assert_eq!(
            chosen(&[]).unwrap(),
            "--package skydock-static --package hostile --lib --example good --example bad_info"
        );
        assert_eq!(
            chosen(&["hostile/good"]).unwrap(),
            "--package hostile --example good"
        );
        assert_eq!(
            chosen(&["static"]).unwrap(),
            "--package skydock-static --lib"
        );
        assert_eq!(
            chosen(&["statics"]).unwrap_err().to_string(),
            "there is no guest \"statics\"; the guests are static, hostile/good, hostile/bad_info"
        );
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
