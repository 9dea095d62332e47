//! Writes images. `cargo xtask image` builds what is in them, and runs this.

#![forbid(unsafe_code)]

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use skydock_image::{Image, Layer, plugin, skydock, with_shell, write};

/// Write an image as an archive with an OCI image layout.
#[derive(Parser)]
struct Args {
    /// The archive to write.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// Where packages of Debian are kept.
    #[arg(long, value_name = "DIRECTORY")]
    downloads: PathBuf,
    /// The name of the image, with a tag.
    #[arg(long)]
    name: String,
    #[command(subcommand)]
    content: Content,
}

#[derive(Subcommand)]
enum Content {
    /// Skydock's image.
    Skydock {
        /// The host, linked statically. Once for each architecture.
        #[arg(long, value_name = "FILE", required = true)]
        program: Vec<PathBuf>,
        /// The directory with the providers.
        #[arg(long, value_name = "DIRECTORY")]
        plugins: PathBuf,
        /// Add a shell.
        #[arg(long)]
        shell: bool,
    },
    /// An image with plugins.
    Plugin {
        /// The plugins, as `NAME.wasm`.
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
}

impl Args {
    fn images(&self) -> Result<Vec<Image>> {
        match &self.content {
            Content::Skydock {
                program,
                plugins,
                shell,
            } => {
                let images = program.iter().map(|program| {
                    let image = skydock(program, plugins)?;
                    if *shell {
                        with_shell(image, &self.downloads)
                    } else {
                        Ok(image)
                    }
                });
                images.collect()
            }
            Content::Plugin { files } => plugin(files, &self.downloads),
        }
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let digest = write(&args.name, &args.images()?, Layer::Compressed, &args.output)?;
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
