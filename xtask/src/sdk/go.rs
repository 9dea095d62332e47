//! The SDK for Go: formats, vets and tests its modules natively, and vets what only a component
//! contains.

use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::console;

/// The message if Go is missing. The SDK names this version, because the overlay of its runtime is
/// for it.
const INSTALL: &str = "the program `go` is missing: install Go 1.26.8 from https://go.dev/dl";

/// The modules of the SDK.
const MODULES: [&str; 4] = [
    "sdk/go",
    "sdk/go/cloudprovider",
    "sdk/go/example",
    "sdk/go/template",
];

/// The official providers, whose dependencies take minutes to compile.
const PROVIDERS: [&str; 4] = [
    "plugins/go/aws",
    "plugins/go/azure",
    "plugins/go/openstack",
    "plugins/go/vsphere",
];

/// Packages of components that compile without the overlay.
const GUEST: [&str; 4] = [
    "./internal/guest",
    "./internal/memory",
    "./internal/inflight",
    "./internal/wit/...",
];

/// Vets and tests the modules of the SDK, and checks their format; with `all`, also the official
/// providers.
///
/// # Errors
/// If Go is missing, or a module is not formatted, does not compile, or fails.
pub(super) fn test(root: &Path, all: bool) -> Result<()> {
    formatted(root)?;
    let providers = if all { PROVIDERS.as_slice() } else { &[] };
    for module in MODULES.iter().chain(providers) {
        console::line(module);
        go(root, module, &["vet", "./..."], &[])?;
        go(root, module, &["test", "./..."], &[])?;
    }
    // Addresses of the host become pointers there.
    let vet: Vec<_> = ["vet", "-unsafeptr=false"]
        .into_iter()
        .chain(GUEST)
        .collect();
    go(
        root,
        "sdk/go",
        &vet,
        &[("GOOS", "wasip1"), ("GOARCH", "wasm")],
    )
}

/// Checks the format of all files with the gofmt of the installed Go.
fn formatted(root: &Path) -> Result<()> {
    let goroot = output(
        Command::new("go")
            .args(["env", "GOROOT"])
            .current_dir(root.join("sdk/go")),
    )?;
    let gofmt = Path::new(goroot.trim()).join("bin/gofmt");
    let listed = output(
        Command::new(gofmt)
            .args(["-l", "sdk/go", "plugins/go"])
            .current_dir(root),
    )?;
    let files = own(&listed);
    ensure!(
        files.is_empty(),
        "not formatted: run `gofmt -w {}`",
        files.join(" ")
    );
    Ok(())
}

/// Returns the files of a list that are not results of a build.
fn own(listed: &str) -> Vec<&str> {
    listed
        .lines()
        .filter(|file| !file.contains("/.skydock/"))
        .collect()
}

/// Runs a command of Go in the folder of a module. Its output is that of this task.
fn go(root: &Path, module: &str, words: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    let mut command = Command::new("go");
    command
        .args(words)
        .envs(variables.iter().copied())
        .current_dir(root.join(module))
        .stdin(Stdio::null());
    let status = started(command.status())?;
    ensure!(
        status.success(),
        "`go {}` failed in {module}",
        words.join(" ")
    );
    Ok(())
}

/// Returns what a command prints.
fn output(command: &mut Command) -> Result<String> {
    let Output {
        status,
        stdout,
        stderr,
    } = started(command.output())?;
    ensure!(
        status.success(),
        "{}",
        String::from_utf8_lossy(&stderr).trim()
    );
    String::from_utf8(stdout).context("the output of Go is not UTF-8")
}

/// Says what to install if a program is missing.
fn started<T>(result: io::Result<T>) -> Result<T> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!("{INSTALL}"),
        other => other.context("cannot start Go"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_says_what_to_install() {
        let error = started(Command::new("no-such-program").output())
            .unwrap_err()
            .to_string();
        assert_eq!(error, INSTALL);
        let denied = started::<()>(Err(io::ErrorKind::PermissionDenied.into()))
            .unwrap_err()
            .to_string();
        assert_eq!(denied, "cannot start Go");
    }

    #[test]
    fn a_command_that_fails_tells_why() {
        let mut command = Command::new("sh");
        assert_eq!(output(command.args(["-c", "echo ok"])).unwrap(), "ok\n");
        let mut command = Command::new("sh");
        assert_eq!(
            output(command.args(["-c", "echo why >&2; exit 1"]))
                .unwrap_err()
                .to_string(),
            "why"
        );
    }

    #[test]
    fn results_of_builds_need_no_format() {
        assert_eq!(
            own("sdk/go/types.go\nplugins/go/openstack/.skydock/build/port/x.go\n"),
            ["sdk/go/types.go"]
        );
    }

    #[test]
    fn every_go_module_of_the_repository_is_tested() {
        let mut found = Vec::new();
        let root = crate::root();
        for folder in ["sdk/go", "plugins/go"] {
            let entries = std::fs::read_dir(root.join(folder))
                .unwrap()
                .map(|entry| entry.unwrap().path());
            for path in entries
                .chain([root.join(folder)])
                .filter(|path| path.join("go.mod").is_file())
            {
                found.push(
                    path.strip_prefix(&root)
                        .unwrap()
                        .to_str()
                        .unwrap()
                        .to_owned(),
                );
            }
        }
        found.sort();
        let mut known: Vec<_> = MODULES.iter().chain(&PROVIDERS).copied().collect();
        known.sort_unstable();
        assert_eq!(found, known);
    }
}
