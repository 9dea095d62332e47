//! `skydock plugin bench`: measures the calls of a plugin.

use std::io::{self, Write as _};

use clap::{Parser, ValueEnum};
use skydock::blocking::blocking;
use skydock_conformance::{BenchOptions, bench};

use crate::subject::{Prepared, SubjectArgs};

/// Measure the calls of a plugin, one after the other: time, CPU time, memory and requests. Without
/// --config or --simcloud, its requests are denied.
#[derive(Debug, Parser)]
#[command(
    name = "skydock-dev",
    bin_name = "skydock plugin bench",
    version,
    max_term_width = 120
)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
    /// Number of calls of each function.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) calls: u32,
    /// Names of the nodes to ask about, which the cloud must know.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "node-1,node-2,node-3"
    )]
    pub(crate) nodes: Vec<String>,
    /// Measure functions that change the cloud, too: a load balancer and routes are created, and
    /// then deleted. With --simcloud, this is the default.
    #[arg(long)]
    pub(crate) allow_cloud_writes: bool,
    /// Format of the figures.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = FiguresFormat::Human)]
    pub(crate) format: FiguresFormat,
}

/// Formats of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FiguresFormat {
    /// A table.
    Human,
    /// One JSON object.
    Json,
}

/// Measures the plugin and writes the figures.
///
/// # Errors
/// If a file cannot be read, or the plugin cannot be loaded.
pub(crate) async fn run(args: BenchArgs) -> anyhow::Result<()> {
    let BenchArgs {
        subject,
        calls,
        nodes,
        allow_cloud_writes,
        format,
    } = args;

    let servers = u16::try_from(nodes.len()).unwrap_or(u16::MAX);
    let has_cloud = subject.config.is_some();
    let Prepared {
        mut subject,
        simulated,
    } = blocking(async move { subject.prepare(servers) }).await?;

    // Without a cloud, all requests are denied anyway.
    let writes = allow_cloud_writes || !has_cloud;
    subject.source.only_reads = !writes;

    let figures = Box::pin(bench(BenchOptions {
        subject,
        calls: calls as usize,
        nodes,
        writes,
        on_wait: |function, error| {
            // Standard error may be closed.
            let _ = writeln!(io::stderr(), "waiting for the cloud: {function}: {error}");
        },
    }))
    .await?;

    // The cloud has to run until all calls are measured.
    drop(simulated);
    let text = match format {
        FiguresFormat::Human => figures.table(),
        FiguresFormat::Json => figures.json()?,
    };

    // Standard output may be closed.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(())
}
