//! Builds plugins in TypeScript: esbuild bundles the modules, componentize-js makes a component of
//! them with an engine of its own, and what the host does not offer is stripped from it. Its WIT
//! and its entry points are those of the SDK that the project uses.

mod project;
mod tools;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use skydock_cloud::Capability;

use super::{Built, WORK, component::strip, inputs::Inputs, tool::Tool, wit};

const NODE: Tool = Tool {
    name: "node",
    install: "install Node.js 20 or later from https://nodejs.org",
};
const NPM: Tool = Tool {
    name: "npm",
    install: "install Node.js 20 or later, with npm, from https://nodejs.org",
};

/// The oldest version of Node.js that works.
const OLDEST: u32 = 20;

/// What a plugin is: what `bundle.mjs` prints.
#[derive(Debug, Deserialize)]
struct Description {
    /// Name in package.json.
    name: String,
    /// Capabilities that it serves, by the names of their interfaces.
    capabilities: Vec<String>,
    /// Folder of the SDK.
    sdk: PathBuf,
}

/// Builds the plugin in a folder.
///
/// # Errors
/// If Node.js is missing or too old, if something cannot be installed, if there is an error in the
/// code, or if it is not a plugin.
pub(super) fn build(dir: &Path) -> anyhow::Result<Built> {
    let version = NODE.ask(Command::new("node").arg("--version"))?;
    ensure!(
        is_supported(&version),
        "Node.js {OLDEST} or later is needed, and node is {}",
        version.trim()
    );

    let dir = fs::canonicalize(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let work = dir.join(WORK);
    fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
    project::prepare(&dir, &work)?;
    let tools = tools::folder()?;
    let plugin = bundle(&tools, &dir, &work)?;

    let wit = work.join("wit");
    let contract = wit::copy(&plugin.sdk.join("dist/wit"), &wit)?;
    let served = plugin
        .capabilities
        .iter()
        .map(String::as_str)
        .chain(["plugin"]);
    wit::write_world(&wit, &contract.interfaces(served))?;

    let app = work.join("app.js");
    let mut inputs = Inputs::new();
    inputs.add(tools::key());
    // The bundle has all modules of the plugin.
    inputs.add(fs::read(&app).with_context(|| format!("cannot read {}", app.display()))?);
    inputs.add_folder(&wit, |_| true)?;

    let file = work.join("component.wasm");
    inputs.make(&file, || {
        let whole = work.join("whole.wasm");
        NODE.run(
            Command::new("node")
                .arg(tools.join(tools::COMPONENTIZE))
                .args([&work, &whole]),
        )?;
        strip::strip(&whole, &file)
    })?;

    Ok(Built {
        name: name(&plugin.name).to_owned(),
        file,
    })
}

fn is_supported(version: &str) -> bool {
    let major = version
        .trim()
        .trim_start_matches('v')
        .split('.')
        .next()
        .and_then(|major| major.parse().ok());
    major.is_some_and(|major: u32| major >= OLDEST)
}

/// Bundles the plugin, and loads it natively to see what it is. The reason is shown if it fails.
fn bundle(tools: &Path, dir: &Path, work: &Path) -> anyhow::Result<Description> {
    let names = Capability::ALL.map(Capability::name).join(",");
    let mut node = Command::new("node");
    node.arg(tools.join(tools::BUNDLE)).args([dir, work]);
    let printed = NODE.ask(node.arg(names))?;
    // What the plugin itself prints comes before.
    let last = printed.lines().next_back().unwrap_or_default();
    serde_json::from_str(last).context("cannot read the description of the plugin")
}

/// Returns the name of a plugin: that of its package, without the scope.
fn name(package: &str) -> &str {
    package.rsplit('/').next().unwrap_or(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_are_not_supported() {
        for (version, expected) in [
            ("v20.0.0\n", true),
            ("v24.1.0", true),
            ("v18.20.4\n", false),
            ("", false),
        ] {
            assert_eq!(is_supported(version), expected, "{version}");
        }
    }

    #[test]
    fn a_plugin_is_named_after_its_package() {
        assert_eq!(name("my-cloud"), "my-cloud");
        assert_eq!(name("@example/my-cloud"), "my-cloud");
    }
}
