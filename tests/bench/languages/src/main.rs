//! Develops the example provider in each language, from an empty folder to a plugin that replaces
//! another in a running cluster, and writes the figures to the page of the benchmarks.

#![forbid(unsafe_code)]

mod cluster;
mod figures;
mod language;
mod project;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use clap::Parser;
use skydock_bench::{Machine, update};

use self::{figures::Figures, language::Language};

/// Measure the development of a provider in each language: create, build and check it, run it,
/// change it.
#[derive(Parser)]
#[command(
    name = "cargo xtask bench languages",
    bin_name = "cargo xtask bench languages"
)]
struct Args {
    /// Program `skydock-dev`.
    #[arg(long, hide = true)]
    skydock_dev: PathBuf,
    /// Root of the repository.
    #[arg(long, hide = true)]
    root: PathBuf,
    /// Languages to measure. By default, all; only then, the figures are written to
    /// tests/bench/README.md.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Language>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = Args::parse();
    args.skydock_dev = std::path::absolute(&args.skydock_dev)?;
    args.root = std::path::absolute(&args.root)?;
    let languages: Vec<_> = Language::ALL
        .into_iter()
        .filter(|it| args.only.is_empty() || args.only.contains(it))
        .collect();
    let mut figures = Vec::new();
    for language in &languages {
        writeln!(std::io::stderr(), "{}", language.traits().title)?;
        figures.push(
            measure(&args, *language)
                .await
                .with_context(|| language.traits().title)?,
        );
    }
    writeln!(std::io::stdout(), "{}", figures::table(&figures))?;
    if args.only.is_empty() {
        let machine = Machine::look(&args.skydock_dev);
        update(
            &args.root.join("tests/bench/README.md"),
            "languages",
            &figures::section(&figures, &machine),
        )?;
    }
    Ok(())
}

async fn measure(args: &Args, language: Language) -> Result<Figures> {
    let dir = tempfile::tempdir()?;
    let project = project::Project::create(&args.skydock_dev, &args.root, language, dir.path())?;
    let mut figures = Figures {
        language,
        new: project.created,
        ..Figures::default()
    };
    // The provider that `skydock plugin new` creates has no load balancers. It becomes the example.
    figures.build = project.build()?;
    project.test(&[])?;
    project.become_example(&args.root)?;
    project.build()?;
    figures.test = project.test(&["--cloud-config", &cloud_config(dir.path())?])?;
    let cluster = cluster::Running::start(&args.skydock_dev, &project.plugin(), dir.path()).await?;
    (figures.node, figures.service) = cluster.serve("web").await?;
    project.change()?;
    figures.rebuild = project.build()?;
    figures.swap = cluster.swapped().await?;
    // The new plugin is at work.
    cluster.serve("web-2").await?;
    drop(cluster);
    figures.measured = project.bench()?;
    Ok(figures)
}

/// Writes a configuration for the conformance kit, which denies all requests.
fn cloud_config(dir: &Path) -> Result<String> {
    let file = dir.join("cloud.json");
    std::fs::write(
        &file,
        r#"{"url": "http://127.0.0.1:8080", "region": "sim"}"#,
    )?;
    Ok(file.display().to_string())
}
