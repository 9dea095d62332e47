//! Writes images. `cargo xtask image` builds what is in them, and runs this.

#![forbid(unsafe_code)]

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use skydock_image::{Image, Layer, Written, pin, plugin, skydock, with_shell, write};

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
        /// A `kustomization.yaml` in which the tag and the digest are written.
        #[arg(long, value_name = "FILE")]
        pin: Option<PathBuf>,
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
                ..
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

/// Writes the tag and the digest into the file that wants them.
fn pin_in(args: &Args, digest: &str) -> Result<()> {
    let Content::Skydock {
        pin: Some(file), ..
    } = &args.content
    else {
        return Ok(());
    };
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let pinned = pin(&text, &args.name, digest).with_context(|| file.display().to_string())?;
    fs::write(file, pinned).with_context(|| format!("cannot write {}", file.display()))
}

/// Returns what is printed about an image: its sizes, as rows of `tests/bench/README.md`, and its
/// digest.
fn report(name: &str, written: &Written) -> String {
    let megabytes = |bytes: usize| format!("{:.1} MB", bytes as f64 / 1e6);
    let mut report = String::new();
    for size in &written.sizes {
        report += &format!(
            "| size of the image, {} | {}, {} without compression |\n",
            size.architecture,
            megabytes(size.stored),
            megabytes(size.plain)
        );
    }
    report + &format!("{name}@{}", written.digest)
}

fn main() -> Result<()> {
    let args = Args::parse();
    let written = write(&args.name, &args.images()?, Layer::Compressed, &args.output)?;
    pin_in(&args, &written.digest)?;
    let report = report(&args.name, &written);
    writeln!(std::io::stdout(), "{}\n{report}", args.output.display())
        .context("cannot print the digest")
}

#[cfg(test)]
mod tests {
    use skydock_image::Size;

    use super::*;

    #[test]
    fn sizes_and_digest_are_printed() {
        let size = |architecture, stored, plain| Size {
            architecture,
            stored,
            plain,
        };
        let written = Written {
            digest: "sha256:0".to_owned(),
            sizes: vec![
                size("amd64", 31_449_999, 98_000_001),
                size("arm64", 29_000_000, 91_960_000),
            ],
        };
        assert_eq!(
            report("registry.example.com/skydock:0.1.0", &written),
            "| size of the image, amd64 | 31.4 MB, 98.0 MB without compression |\n\
             | size of the image, arm64 | 29.0 MB, 92.0 MB without compression |\n\
             registry.example.com/skydock:0.1.0@sha256:0"
        );
    }
}
