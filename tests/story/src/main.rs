//! `skydock-story`: runs the story with output for a person or a program, and prints the figures.

#![forbid(unsafe_code)]

use std::{
    io::Write as _,
    path::{PathBuf, absolute},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use skydock_clusters::Plane;
use skydock_story::{
    PLUGINS, Stage,
    figures::Figures,
    narrator::{Audience, Narrator},
};
use skydock_support::Paths;

/// Tells the story of a cluster served by a plugin; each step is checked through the API.
#[derive(Debug, Parser)]
struct Args {
    /// Where the story plays.
    #[arg(long, value_enum, default_value_t = Where::Embedded)]
    plane: Where,
    /// One JSON object a line, for machines.
    #[arg(long)]
    json: bool,
    /// Print the names of the plugins that the story needs, and end.
    #[arg(long)]
    list_plugins: bool,
    /// Leave it running at the end, for kubectl.
    #[arg(long)]
    keep: bool,
    /// The `skydock` binary [default: that of the checkout].
    #[arg(long, requires = "plugins")]
    skydock: Option<PathBuf>,
    /// Directory of the built plugins [default: that of the checkout].
    #[arg(long, requires = "skydock")]
    plugins: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Where {
    /// On the embedded control plane.
    Embedded,
    /// On a real one.
    Real,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "\nskydock-story: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> anyhow::Result<()> {
    if args.list_plugins {
        let mut out = std::io::stdout().lock();
        return PLUGINS
            .iter()
            .try_for_each(|name| writeln!(out, "{name}"))
            .context("cannot print the names");
    }
    let paths = match (args.skydock, args.plugins) {
        // The programs run in directories of their own.
        (Some(skydock), Some(plugins)) => Paths {
            skydock: absolute(skydock)?,
            plugins: absolute(plugins)?,
        },
        _ => Paths::of_checkout()?,
    };
    let audience = if args.json {
        Audience::Machine
    } else {
        Audience::Person
    };
    let mut narrator = Narrator::new(audience);
    let plane: Box<dyn Plane> = match args.plane {
        Where::Embedded => Box::new(skydock_clusters::EmbeddedPlane::start().await?),
        Where::Real => Box::new(skydock_clusters::RealPlane::start().await?),
    };
    narrator.title(
        "Skydock: one cloud controller manager for every cloud",
        &format!("({} control plane)", plane.name()),
    );
    let mut stage = Stage::set(plane, paths).await?;
    let told = skydock_story::tell(&mut stage, &mut narrator).await;
    if let Err(error) = told {
        stage.keep_files();
        return Err(error.context(format!("the logs are in {}", stage.dir().display())));
    }
    let figures = Figures::measure(&mut stage, &mut narrator).await?;
    narrator.aside(&figures.to_string());
    narrator.record(&figures);
    narrator.end();
    if args.keep {
        stage.open_to_visitors(&narrator).await?;
    }
    Ok(())
}
