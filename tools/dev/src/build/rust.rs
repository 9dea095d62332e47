//! Builds plugins in Rust, whose compiler creates components.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{Built, tool::Tool};

const CARGO: Tool = Tool {
    name: "cargo",
    install: "install Rust from https://rustup.rs",
};
const RUSTC: Tool = Tool {
    name: "rustc",
    install: CARGO.install,
};

/// The target of components.
const TARGET: &str = "wasm32-wasip2";

/// Builds the crate in a folder.
///
/// # Errors
/// If a tool is missing or fails, or if the crate is not a plugin.
pub(super) fn build(dir: &Path) -> anyhow::Result<Built> {
    let libraries = RUSTC.ask(
        Command::new("rustc")
            .args(["--print", "target-libdir", "--target", TARGET])
            .current_dir(dir),
    )?;
    ensure!(
        Path::new(libraries.trim()).is_dir(),
        "the Rust target {TARGET} is missing: run `rustup target add {TARGET}`"
    );

    let mut cargo = Command::new("cargo");
    cargo.args([
        "build",
        "--release",
        "--target",
        TARGET,
        "--message-format",
        "json-render-diagnostics",
    ]);

    let messages = CARGO.ask(cargo.current_dir(dir))?;
    messages
        .lines()
        .filter_map(component)
        // The crate in this folder comes after those that it depends on.
        .next_back()
        .with_context(|| {
            format!(
                "{} is not a plugin: expected a library with crate-type cdylib",
                dir.display()
            )
        })
}

/// Parses a line of cargo's messages. Returns `None` if it does not describe a component.
fn component(line: &str) -> Option<Built> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_library = message
        .get("target")?
        .get("kind")?
        .as_array()?
        .iter()
        .any(|kind| kind == "cdylib");

    let files = message.get("filenames")?.as_array()?;
    let file = files
        .iter()
        .filter_map(Value::as_str)
        .find(|file| file.ends_with(".wasm"))
        .filter(|_| is_library)?;

    let name = message.get("target")?.get("name")?.as_str()?.to_owned();
    Some(Built {
        name: name.replace('_', "-"),
        file: PathBuf::from(file),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_component_is_in_the_messages_of_cargo() {
        let line = r#"{"reason":"compiler-artifact","target":{"kind":["cdylib","rlib"],"name":"my_cloud"},
            "filenames":["/t/libmy_cloud.rlib","/t/my_cloud.wasm"]}"#;
        let built = component(line).unwrap();
        assert_eq!(
            (built.name.as_str(), built.file.as_path()),
            ("my-cloud", Path::new("/t/my_cloud.wasm"))
        );
        assert!(component(&line.replace("cdylib", "bin")).is_none());
        assert!(component(r#"{"reason":"build-finished","success":true}"#).is_none());
    }
}
