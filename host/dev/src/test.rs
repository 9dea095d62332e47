//! `skydock plugin test`: checks what the contract demands of a plugin.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use skydock::cli::{COMPILER, parse_option, plugin_limits};
use skydock_conformance::{Format, Options, Report};
use skydock_controllers::service::ServiceOptions;
use skydock_plugin::{Compiler, PluginSource};

/// Number of calls after which memory and handles must not have grown.
const CALLS: usize = 1000;

/// Check whether a plugin does what the contract demands, without a cluster and without a cloud. The exit code is 1 if it does not.
#[derive(Debug, Parser)]
#[command(name = "skydock-dev", bin_name = "skydock plugin test", version, max_term_width = 120)]
pub(crate) struct TestArgs {
    /// The plugin: a WebAssembly component.
    pub(crate) plugin: PathBuf,
    /// Provider configuration to use.
    #[arg(long, value_name = "FILE")]
    pub(crate) cloud_config: Option<PathBuf>,
    /// Option of the provider; see its documentation. May be repeated.
    #[arg(long = "plugin-option", value_name = "KEY=VALUE", value_parser = parse_option)]
    pub(crate) plugin_options: Vec<(String, String)>,
    /// Resource limit of the plugin, for example memory=256Mi. May be repeated; --help lists all.
    #[arg(long = "plugin-limit", value_name = "KEY=VALUE", value_parser = plugin_limits::parse,
          long_help = plugin_limits::help())]
    pub(crate) plugin_limits: Vec<plugin_limits::PluginLimit>,
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
    for file in [Some(&args.plugin), args.cloud_config.as_ref()].into_iter().flatten() {
        skydock_plugin::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    let source = PluginSource {
        name: args.plugin.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default(),
        component: args.plugin,
        cloud_config: args.cloud_config,
        cluster_name: "conformance".to_owned(),
        cluster_cidrs: vec!["10.244.0.0/16".to_owned()],
        options: args.plugin_options.into_iter().collect(),
        ..PluginSource::default()
    };
    let limits = plugin_limits::limits(ServiceOptions::default().concurrent_syncs, &args.plugin_limits)?;
    let compiler = Compiler::this_program(COMPILER)?;
    let report = Box::pin(skydock_conformance::run(Options { source, limits, compiler, calls: CALLS })).await?;
    write(&report, args.format.into(), args.output)?;
    Ok(if report.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
