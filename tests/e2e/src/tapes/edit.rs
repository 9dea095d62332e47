//! Builds a provider in Rust with one changed line.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use skydock_support::{build_of_plugin, checkout, copy_folder};
use tokio::process::Command;

/// A changed line.
struct Edit {
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

/// The change of each provider: one of a request that is sent in the middle of a run, so that much
/// before it is still the same.
fn edit(provider: &str) -> Result<Edit> {
    Ok(match provider {
        "aws" => Edit {
            file: "plugins/aws/src/client/api/elbv2.rs",
            from: r#".with("Type", "network")"#,
            to: r#".with("Type", "gateway")"#,
        },
        _ => bail!("no changed line is known for {provider}"),
    })
}

/// Copies the source of a provider, changes one line, and builds it. Returns the component.
///
/// # Errors
/// Fails if the source does not have the line exactly once, or does not compile.
pub async fn edited(provider: &str) -> Result<PathBuf> {
    let root = checkout();
    // In the same place each time, because cargo keeps what it has built there.
    let copy = root.join("target/edited").join(provider);
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    // Only the provider itself is copied: the rest of the workspace is where it was.
    let (folder, parent) = (Path::new("plugins").join(provider), copy.join("plugins"));
    fs::create_dir_all(&parent)?;
    link(&root, &copy, &["plugins", "target", ".git"])?;
    link(&root.join("plugins"), &parent, &[provider])?;
    fs::remove_file(copy.join("Cargo.lock"))?;
    fs::copy(root.join("Cargo.lock"), copy.join("Cargo.lock"))?;
    copy_folder(&root.join(&folder), &copy.join(&folder))?;

    let Edit { file, from, to } = edit(provider)?;
    let path = copy.join(file);
    let source = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    ensure!(
        source.matches(from).count() == 1,
        "{file} does not have this line exactly once: {from}"
    );
    fs::write(&path, source.replace(from, to))?;

    let (build, components) = build_of_plugin(&copy.join(&folder));
    let mut build = Command::from(build);
    let output = build
        .kill_on_drop(true)
        .output()
        .await
        .context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "the changed {provider} cannot be built: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(components.join(format!("skydock_{provider}.wasm")))
}

/// Links everything in a folder except these.
fn link(from: &Path, to: &Path, except: &[&str]) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if !except.iter().any(|name| entry.file_name() == *name) {
            symlink(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
