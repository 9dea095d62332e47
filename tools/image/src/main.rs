//! Writes Skydock's image. `cargo xtask image` builds what is in it, and runs this.

#![forbid(unsafe_code)]

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;
use skydock_image::{Image, Layer, skydock, write};

/// Write Skydock's image as an archive with an OCI image layout.
#[derive(Parser)]
struct Args {
    /// The host, linked statically. Once for each architecture.
    #[arg(long, value_name = "FILE", required = true)]
    program: Vec<PathBuf>,
    /// The directory with the providers.
    #[arg(long, value_name = "DIRECTORY")]
    plugins: PathBuf,
    /// The name of the image, with a tag.
    #[arg(long, default_value = concat!("docker.io/library/skydock:", env!("CARGO_PKG_VERSION")))]
    name: String,
    /// The archive to write.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let images = args
        .program
        .iter()
        .map(|program| skydock(program, &args.plugins));
    let images: Vec<Image> = images.collect::<Result<_>>()?;
    let digest = write(&args.name, &images, Layer::Compressed, &args.output)?;
    let size = fs::metadata(&args.output)
        .context("cannot read the image")?
        .len();
    writeln!(
        std::io::stdout(),
        "{}: {:.1} MB\n{}@{digest}",
        args.output.display(),
        size as f64 / 1e6,
        args.name,
    )
    .context("cannot print the digest")
}
