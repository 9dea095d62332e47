//! Builds of programs, for the tasks that run them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

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

/// Builds the host as in the image, for this target of Rust or for this machine, and starts it once.
/// Returns its path.
///
/// It is linked statically, with the C library of GNU: that of musl would need another compiler for
/// the C code of `ring`, and its allocator is slower.
///
/// # Errors
/// If it does not build or does not start.
pub(crate) fn image(root: &Path, target: Option<&str>) -> Result<PathBuf> {
    let mut host = crate::cargo(root);
    host.args("rustc --locked --profile dist --package skydock --bin skydock".split(' '));
    let mut folder = self::target()?;
    if let Some(target) = target {
        host.args(["--target", target]);
        folder.push(target);
        let (name, compiler) = linker(target);
        if std::env::var_os(&name).is_none() {
            host.env(name, compiler);
        }
    }
    host.args(["--", "--codegen", "target-feature=+crt-static"]);
    watched("building the host as in the image (minutes)", host)?;
    let program = folder.join("dist/skydock");
    start(&program, target)?;
    Ok(program)
}

/// Starts a program that was built for this target, and prints its version, so that no image has
/// one that cannot start.
fn start(program: &Path, target: Option<&str>) -> Result<()> {
    let emulator = target.and_then(|target| emulator(target, std::env::consts::ARCH));
    let mut command = match &emulator {
        None => Command::new(program),
        Some(emulator) => {
            let mut command = Command::new(emulator);
            command.arg(program);
            command
        }
    };
    let output = command.arg("--version").output().with_context(|| {
        let name = command.get_program().display();
        match &emulator {
            None => format!("cannot start {name}"),
            Some(_) => format!("cannot start {name}: install Debian's package qemu-user-static"),
        }
    })?;
    ensure!(
        output.status.success(),
        "{} does not start: {}{}",
        program.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let version = String::from_utf8_lossy(&output.stdout);
    console::note(format_args!("{}: {}", program.display(), version.trim()));
    Ok(())
}

/// Returns what runs programs for this target on a machine of this architecture: QEMU, if the
/// machine does not run them itself.
fn emulator(target: &str, machine: &str) -> Option<String> {
    let (architecture, _) = target.split_once('-')?;
    (architecture != machine).then(|| format!("qemu-{architecture}-static"))
}

/// Returns cargo's variable for the linker of a target, and Debian's name of the compiler that
/// links for it, for example `aarch64-linux-gnu-gcc`. On a machine of that architecture, it is the
/// usual one.
fn linker(target: &str) -> (String, String) {
    let name = target.to_uppercase().replace('-', "_");
    let gnu = target.replace("-unknown-", "-");
    (format!("CARGO_TARGET_{name}_LINKER"), format!("{gnu}-gcc"))
}

/// Builds the plugins, or only those with these names, in another process of this program: their
/// sizes are not printed. Returns their folder.
///
/// # Errors
/// If a plugin does not build.
pub(crate) fn guests(root: &Path, names: &[String]) -> Result<PathBuf> {
    let mut guests = Command::new(std::env::current_exe().context("cannot find this program")?);
    guests.arg("guests").args(names);
    watched("building the plugins", guests)?;
    Ok(root.join("target/plugins"))
}

/// Builds the plugins, or only those with these names. Returns the command of a program that runs
/// the host, with the paths of both.
///
/// # Errors
/// If a plugin does not build.
pub(crate) fn with_plugins(
    root: &Path,
    program: &Path,
    host: &Path,
    names: &[String],
) -> Result<Command> {
    let plugins = guests(root, names)?;
    let mut command = Command::new(program);
    command
        .arg("--skydock")
        .arg(host)
        .arg("--plugins")
        .arg(plugins);
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
            .arg(root.join("plugins/go").join(name))
            .arg("--output")
            .arg(folder.join(format!("{name}.wasm")));
        watched(&format!("building the official {name} (minutes)"), provider)?;
    }
    Ok(())
}

/// Runs a build. Its progress is shown on stderr, which cargo does best itself.
///
/// # Errors
/// If the build fails.
pub(crate) fn watched(what: &str, mut command: Command) -> Result<()> {
    console::note(what);
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {what}"))?;
    ensure!(status.success(), "{what} failed; its output is above");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_linked_by_its_compiler() {
        let (name, compiler) = linker("aarch64-unknown-linux-gnu");
        assert_eq!(name, "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER");
        assert_eq!(compiler, "aarch64-linux-gnu-gcc");
    }

    #[test]
    fn programs_of_another_architecture_are_emulated() {
        let arm = emulator("aarch64-unknown-linux-gnu", "x86_64");
        assert_eq!(arm.as_deref(), Some("qemu-aarch64-static"));
        let intel = emulator("x86_64-unknown-linux-gnu", "aarch64");
        assert_eq!(intel.as_deref(), Some("qemu-x86_64-static"));
        assert_eq!(emulator("x86_64-unknown-linux-gnu", "x86_64"), None);
    }

    #[test]
    fn a_program_that_does_not_start_is_an_error() {
        start(Path::new("true"), None).unwrap();
        let error = start(Path::new("false"), None).unwrap_err().to_string();
        assert!(error.starts_with("false does not start: "), "{error}");
        let error = start(Path::new("true"), Some("none-unknown-linux-gnu"));
        let error = error.unwrap_err().to_string();
        assert!(
            error.starts_with("cannot start qemu-none-static: "),
            "{error}"
        );
    }
}
