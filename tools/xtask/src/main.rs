//! All development tasks of the repository: `cargo xtask --help`.

mod bench;
mod build;
mod console;
mod demo;
mod guests;
mod image;
mod parity;
mod test;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use owo_colors::Style;
use serde_json::Value;

/// Development tasks: demo, tests, plugins, image, benchmarks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Run the demo: a cluster, a provider, and how Skydock handles failures.
    Demo {
        /// Print JSON, one object per line; the last one has the figures.
        #[arg(long)]
        json: bool,
        /// Keep the cluster running at the end, and print how to reach it.
        #[arg(long)]
        keep: bool,
    },
    /// Run all checks and tests in steps, and stop at the first step that fails.
    /// tests/README.md says how long they take.
    Test {
        /// Omit the steps that need real Kubernetes, a cloud, other languages or a network, and the
        /// examples in documentation.
        #[arg(long)]
        quick: bool,
        /// Run a single step, for example `tests`. The error for an unknown name lists all steps.
        #[arg(long, value_name = "STEP", conflicts_with = "quick")]
        only: Option<String>,
    },
    /// Check that each statement about upstream's behavior and each promise of SECURITY.md has a
    /// test, and list them with their numbers of tests.
    Parity,
    /// Build the providers and the plugins that tests use into `target/plugins`.
    Guests {
        /// Only these, for example `static` or `hostile/good`.
        names: Vec<String>,
    },
    /// Write Skydock's image, with the providers, to `target/image.tar`: an archive with an OCI
    /// image layout. Needs no container runtime. Or write another image.
    Image {
        /// Build the host for this target of Rust, instead of this machine's. Once for each
        /// architecture of the image. Another architecture needs a C compiler for it: Debian's
        /// package gcc-aarch64-linux-gnu.
        #[arg(long, value_name = "TARGET")]
        target: Vec<String>,
        /// Add a shell, and write the image to `target/image-shell.tar`. Needs curl and dpkg-deb.
        #[arg(long)]
        shell: bool,
        /// Write an image with this plugin, `NAME.wasm`, and a program that copies it to `/plugins`,
        /// to `target/image-plugin.tar`. Needs curl and dpkg-deb.
        #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "shell"], requires = "name")]
        plugin: Vec<PathBuf>,
        /// The name of the image, with a tag, for example `registry.example.com/skydock:0.1.0`.
        #[arg(long)]
        name: Option<String>,
    },
    /// Run a benchmark. Each has options of its own: `cargo xtask bench controllers --help`.
    Bench {
        /// What is measured.
        what: bench::What,
        /// Options of the benchmark.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    match run(Task::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let word = console::paint("error:", Style::new().red().bold());
            console::note(format_args!("{word} {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let root = root();
    match task {
        Task::Demo { json, keep } => demo::run(&root, json, keep),
        Task::Test { quick, only } => test::run(&root, quick, only.as_deref()),
        Task::Parity => parity::run(&root),
        Task::Guests { names } => guests::run(&root, &names),
        Task::Image {
            target,
            shell,
            plugin,
            name,
        } => match name {
            Some(name) if !plugin.is_empty() => image::plugin(&root, &plugin, &name),
            name => image::skydock(&root, &target, shell, name.as_deref()),
        },
        Task::Bench { what, arguments } => bench::run(&root, what, &arguments),
    }
}

/// Returns the root of the workspace. Cargo sets the directory of this package, even if the
/// checkout was moved.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package
        .ancestors()
        .nth(2)
        .map_or_else(|| package.clone(), Path::to_path_buf)
}

/// Returns a command for the cargo that runs this task, in the root of the workspace.
fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    // What cargo has set for this task is removed. The build script of `ring` runs again if these
    // variables change, so that every build by a task and then every one from a shell would compile
    // `ring` and everything above it again.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        }) {
            command.env_remove(name);
        }
    }
    command
}

/// A target of a package of the workspace: a library, a program, an example, a test.
struct Target {
    package: String,
    name: String,
    is_test: bool,
    is_example: bool,
    /// It is a plugin.
    is_guest: bool,
}

/// Returns the targets of the workspace.
///
/// # Errors
/// If cargo cannot list them.
fn targets(root: &Path) -> Result<Vec<Target>> {
    let output = cargo(root)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("cannot start cargo")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata failed: {error}");
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .context("cannot read the answer of cargo metadata")?;

    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let is = |target: &Value, key: &str, word: &str| list(target, key).iter().any(|it| it == word);
    let mut targets = Vec::new();
    for package in list(&metadata, "packages") {
        targets.extend(list(&package, "targets").iter().map(|target| Target {
            package: text(&package),
            name: text(target),
            is_test: is(target, "kind", "test"),
            is_example: is(target, "kind", "example"),
            is_guest: is(target, "crate_types", "cdylib"),
        }));
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_run_as_from_a_shell() {
        // Cargo sets these for tests too.
        assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
        let command = cargo(&root());
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION"] {
            let is_removed = |(other, value): (_, Option<_>)| other == name && value.is_none();
            assert!(command.get_envs().any(is_removed), "{name}");
        }
    }
}
