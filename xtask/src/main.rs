//! All development tasks of the repository: `cargo xtask --help`.

mod audit;
mod bench;
mod build;
mod checkout;
mod command;
mod console;
mod contract;
mod demo;
mod docs;
mod guests;
mod hot;
mod mutants;
mod parity;
mod semver;
mod source;
mod step;
mod test;
mod tidy;
mod tool;
mod workflows;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use owo_colors::Style;

/// Development tasks: tests, builds of plugins, generated documents, benchmarks.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    disable_help_subcommand = true
)]
enum Chore {
    /// Run the demo: a cluster, a provider, and how Skydock handles failures.
    Demo {
        /// Print JSON, one object per line; the last one has the figures.
        #[arg(long)]
        json: bool,
        /// Keep the cluster running at the end, and print how to reach it.
        #[arg(long)]
        keep: bool,
    },
    /// Run all checks and tests in steps, and stop at the first step that fails. Takes about 30
    /// minutes on two cores, the first time 50 to 55.
    Test {
        /// Omit the steps that need real Kubernetes, a cloud or a network, and the examples in
        /// documentation. Takes 2 to 3 minutes once everything is built.
        #[arg(long)]
        quick: bool,
        /// Run a single step, for example `tests`. The error for an unknown name lists all steps.
        #[arg(long, value_name = "STEP", conflicts_with = "quick")]
        only: Option<String>,
        /// Print the output of every step. By default, only that of a failed step is printed.
        #[arg(long, short)]
        verbose: bool,
    },
    /// Build the providers and the plugins that tests use into `target/plugins`.
    Guests {
        /// Instead, build the plugin in this folder, which is not part of the workspace, and print
        /// the path of its component.
        #[arg(long = "crate", value_name = "DIR")]
        folder: Option<PathBuf>,
    },
    /// Check that tests verify every statement about upstream's behavior and every promise of the
    /// documentation, and write docs/parity.md and docs/promises.md.
    Parity {
        /// Write nothing, and fail if a page is outdated.
        #[arg(long)]
        check: bool,
    },
    /// Run the examples in documentation, and build the documentation of all items without
    /// warnings.
    Docs,
    /// Write the texts of all messages to docs/messages.txt, all modules to docs/modules.md, all
    /// flags to docs/flags.md and the copies of the contract to the SDKs, and reject words that
    /// docs/style.md retires, modules that use each other in a circle, changes of frozen versions
    /// of the contract, and paths in ARCHITECTURE.md that do not exist.
    Tidy {
        /// Write nothing, and fail if the list or the copy is outdated. A unit test compares
        /// docs/flags.md.
        #[arg(long)]
        check: bool,
    },
    /// Run mutation tests: change the modules with rules in small ways, one at a time, and fail if
    /// no test notices. Writes docs/mutants.md. Takes hours; an interrupted run continues where it
    /// stopped.
    Mutants(mutants::Selection),
    /// Run a benchmark. Each has options of its own: `cargo xtask bench controllers --help`.
    #[command(subcommand)]
    Bench(Bench),
    /// Record which functions of Skydock are executed, and write them to
    /// `deploy/hot-functions.txt`. In the image, they are side by side, which saves memory. Needs
    /// Linux on x86_64, and takes 40 minutes.
    Hot,
    /// Check the dependencies (licenses, banned crates, sources, security advisories) and the
    /// workflows of GitHub.
    Audit,
    /// Check that the version of the SDK allows the changes of its interface since the contract was
    /// frozen. Needs a complete clone.
    Semver {
        /// Compare with the newest version on crates.io instead.
        #[arg(long)]
        released: bool,
    },
}

/// Run a benchmark.
#[derive(Subcommand)]
enum Bench {
    /// Compare Skydock's controllers with Kubernetes' framework. Takes 40 minutes, 2 with
    /// `--quick`.
    #[command(disable_help_flag = true)]
    Controllers {
        /// Options of the benchmark; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Compare Skydock with the official cloud-controller-managers of OpenStack and AWS. Takes 70
    /// minutes, 20 with `--quick`.
    #[command(disable_help_flag = true)]
    Clouds {
        /// Options of the benchmark; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Measure Skydock with ten times the nodes and Services. Takes 30 minutes, 5 with `--quick`.
    #[command(disable_help_flag = true)]
    Scale {
        /// Options of the benchmark; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Develop the example provider in each language of the SDKs, and measure each step. Takes 5
    /// minutes.
    #[command(disable_help_flag = true)]
    Languages {
        /// Options of the benchmark; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    match run(&Chore::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            console::note(format_args!(
                "{} {error:#}",
                console::paint("error:", Style::new().red().bold())
            ));
            ExitCode::FAILURE
        }
    }
}

fn run(chore: &Chore) -> Result<()> {
    let root = root();
    match chore {
        Chore::Demo { json, keep } => demo::run(&root, *json, *keep),
        Chore::Test {
            quick,
            only,
            verbose,
        } => test::run(&root, *quick, only.as_deref(), *verbose),
        Chore::Guests { folder: None } => guests::run(&root),
        Chore::Guests {
            folder: Some(folder),
        } => guests::run_crate(&root, folder),
        Chore::Parity { check } => parity::run(&root, *check),
        Chore::Docs => docs::run(&root),
        Chore::Tidy { check } => tidy::run(&root, *check),
        Chore::Mutants(selection) => mutants::run(&root, selection),
        Chore::Bench(Bench::Controllers { arguments }) => {
            bench::run(&root, "skydock-bench", arguments)
        }
        Chore::Bench(Bench::Clouds { arguments }) => bench::clouds(&root, arguments),
        Chore::Bench(Bench::Scale { arguments }) => {
            bench::run(&root, "skydock-bench-scale", arguments)
        }
        Chore::Bench(Bench::Languages { arguments }) => bench::languages(&root, arguments),
        Chore::Hot => hot::run(&root),
        Chore::Audit => audit::run(&root),
        Chore::Semver { released } => semver::run(&root, *released),
    }
}

/// Returns the root of the workspace. Cargo sets the directory of this package, even if the
/// checkout was moved.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package
        .parent()
        .map_or_else(|| package.clone(), Path::to_path_buf)
}

/// Returns a command for the cargo that runs this task, in the root of the workspace.
fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    like_a_shell(&mut command);
    command.current_dir(root);
    command
}

/// Removes the variables that cargo has set for this task. The build script of `ring` runs again if
/// they change, so that every build by a task and then every one from a shell would compile `ring`
/// and everything above it again.
fn like_a_shell(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        }) {
            command.env_remove(name);
        }
    }
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
            assert!(
                command
                    .get_envs()
                    .any(|(other, value)| other == name && value.is_none()),
                "{name}"
            );
        }
    }
}
