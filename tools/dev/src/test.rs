//! `skydock plugin test`: checks what the contract demands of a plugin.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context as _, anyhow};
use clap::{Parser, ValueEnum};
use skydock::{blocking::blocking, file};
use skydock_conformance::{Format, Options, Report, ScenarioFile, Scenarios, Subject};

use crate::subject::{Prepared, SubjectArgs};

/// Number of calls of each function after which memory and handles must not have grown.
const CALLS: usize = 500;

/// Names of the URL and the token of the cloud of `--simcloud` in hooks of scenarios.
const SIMCLOUD: [&str; 2] = ["SIMCLOUD_URL", "SIMCLOUD_TOKEN"];

/// Check whether a plugin does what the contract demands, without a cluster and without a cloud; or
/// with --scenarios, run calls as controllers make them, with a cloud. The exit code is 1 if
/// something is not as expected.
#[derive(Debug, Parser)]
#[command(
    name = "skydock-dev",
    bin_name = "skydock plugin test",
    version,
    max_term_width = 120
)]
pub(crate) struct TestArgs {
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
    /// File with scenarios to run instead of the checks. The plugin reaches the cloud by --config
    /// or --simcloud.
    #[arg(long, value_name = "FILE")]
    pub(crate) scenarios: Option<PathBuf>,
    /// Format of the report.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = ReportFormat::Human)]
    pub(crate) format: ReportFormat,
    /// File for the report. By default, it is written to standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// A line for each check, and a summary.
    Human,
    /// One JSON object.
    Json,
    /// JUnit's XML.
    Junit,
}

impl From<ReportFormat> for Format {
    fn from(format: ReportFormat) -> Self {
        match format {
            ReportFormat::Human => Self::Human,
            ReportFormat::Json => Self::Json,
            ReportFormat::Junit => Self::Junit,
        }
    }
}

/// Checks the plugin and writes the report.
///
/// # Errors
/// If a file cannot be read or written, or the runtime cannot be started.
pub(crate) async fn run(args: TestArgs) -> anyhow::Result<ExitCode> {
    let TestArgs {
        subject,
        scenarios,
        format,
        output,
    } = args;

    // A mistake in the file is found before the cloud is started.
    let (prepared, scenarios) = blocking(async move {
        let scenarios = scenarios.map(read).transpose()?;
        // Scenarios create their servers.
        anyhow::Ok((subject.prepare(0)?, scenarios))
    })
    .await?;
    let Prepared { subject, simulated } = prepared;

    let report = match scenarios {
        None => {
            let Subject {
                source,
                limits,
                compiler,
                cache_dir,
                ..
            } = subject;

            let options = Options {
                source,
                limits,
                compiler,
                calls: CALLS,
                cache_dir,
            };
            Box::pin(skydock_conformance::run(options)).await?
        }
        Some((path, scenarios)) => {
            let values = simulated.as_ref().map(|it| [it.url(), it.token()]);
            let variables = SIMCLOUD
                .map(str::to_owned)
                .into_iter()
                .zip(values.into_iter().flatten())
                .collect();

            let file = ScenarioFile {
                scenarios,
                path,
                variables,
            };
            Box::pin(skydock_conformance::run_scenarios(subject, file)).await?
        }
    };

    write(&report, format.into(), output)?;
    Ok(if report.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Reads a file with scenarios.
///
/// # Errors
/// The mistake, with its position.
fn read(path: PathBuf) -> anyhow::Result<(PathBuf, Scenarios)> {
    let scenarios: Scenarios = file::from_yaml(&file::text(&path)?, &path)?;
    scenarios
        .check()
        .map_err(|mistake| anyhow!("{}:{mistake}", path.display()))?;
    Ok((path, scenarios))
}

fn write(report: &Report, format: Format, output: Option<PathBuf>) -> anyhow::Result<()> {
    let text = report.write(format)?;
    let Some(file) = output else {
        // Standard output may be closed.
        let _ = io::stdout().write_all(text.as_bytes());
        return Ok(());
    };

    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    let _ = writeln!(io::stdout(), "{}", report.badge());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_mistake_in_scenarios_has_its_position() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.yaml");
        let error = |text: &str| {
            fs::write(
                &path,
                format!("apiVersion: skydock.dev/v1alpha1\nkind: Scenarios\n{text}"),
            )
            .unwrap();
            read(path.clone()).unwrap_err().to_string()
        };
        let at = |place: &str| format!("{}:{place}", path.display());

        for (text, expected) in [
            (
                "scenaros: []",
                at("3:1: unknown field `scenaros`; did you mean `scenarios`?"),
            ),
            (
                "scenarios:\n- name: a\n  steps:\n  - cal: instances.check",
                at("6:5: unknown field `cal`; did you mean `call`?"),
            ),
            (
                "scenarios:\n- name: a\n  steps:\n  - call: instances.chek",
                at("6:11: unknown word `instances.chek`; did you mean `instances.check`?"),
            ),
            (
                "scenarios:\n- name: a\n  steps:\n  - {call: instances.check, kill: {}}",
                at("6:5: `kill` needs"),
            ),
        ] {
            let error = error(text);
            assert!(error.starts_with(&expected), "{error}\n{expected}");
        }
    }

    #[test]
    fn the_scenarios_of_the_example_are_valid() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../simcloud/scenarios.yaml");
        read(path).unwrap();
    }
}
