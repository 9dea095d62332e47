//! Builds plugins in Python: componentize-py makes a component of the modules, with an interpreter
//! of its own, and what the host does not offer is stripped from it. Its WIT and its entry points
//! are those of the SDK that the project uses.

mod project;
mod tools;

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use self::project::Project;
use super::{Built, WORK, component::strip, inputs::Inputs, tool::Tool, wit};

const PYTHON: Tool = Tool {
    name: "python3",
    install: "install Python 3.11 or later from https://python.org",
};
const COMPONENTIZE: Tool = Tool {
    name: "componentize-py",
    install: "delete its folder, and build again",
};

/// The oldest version that the SDK supports.
const OLDEST: (u32, u32) = (3, 11);

/// Imports the module of the plugin, and prints a [`Description`].
const DESCRIBE: &str = include_str!("python/describe.py");

/// The module that componentize-py starts with.
const APP: &str = "skydock_app";

/// What a plugin is.
#[derive(Debug, Deserialize)]
struct Description {
    /// Capabilities that it serves, by the names of their interfaces.
    capabilities: Vec<String>,
    /// Folder of the package of the SDK.
    sdk: PathBuf,
}

/// Builds the plugin in a folder.
///
/// # Errors
/// If Python is missing or too old, if something cannot be installed, or if the program is not a
/// plugin.
pub(super) fn build(dir: &Path) -> anyhow::Result<Built> {
    let version = PYTHON
        .ask(Command::new("python3").args(["-c", "import sys; print(*sys.version_info[:2])"]))?;
    ensure!(
        is_supported(&version),
        "Python 3.11 or later is needed, and python3 is {}",
        version.trim().replace(' ', ".")
    );

    let work = dir.join(WORK);
    fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
    let project = Project::read(dir)?;
    let paths = project.paths(&work)?;
    let plugin = describe(dir, &project.module, &paths)?;

    let wit = work.join("wit");
    let contract = wit::copy(&plugin.sdk.join("wit"), &wit)?;
    let served = plugin
        .capabilities
        .iter()
        .map(String::as_str)
        .chain(["plugin"]);
    wit::write_world(&wit, &contract.interfaces(served))?;

    let code = app(&project.module, &plugin.capabilities);
    let folder = work.join("app");
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join(APP).with_extension("py"), &code))
        .with_context(|| format!("cannot write {}", folder.display()))?;

    let mut inputs = Inputs::new();
    inputs.add(tools::VERSION);
    inputs.add(&code);
    inputs.add_folder(&wit, |_| true)?;
    for path in &paths {
        // Only the package of the SDK in its folder: there are projects below it.
        let sdk = plugin.sdk.parent() == Some(path.as_path());
        inputs.add_folder(path, |file| {
            matters(file) && (!sdk || file.starts_with("skydock"))
        })?;
    }

    let file = work.join("component.wasm");
    inputs.make(&file, || {
        let whole = work.join("whole.wasm");
        componentize(&wit, &folder, &paths, &whole)?;
        strip::strip(&whole, &file)
    })?;

    Ok(Built {
        name: project.name,
        file,
    })
}

fn is_supported(version: &str) -> bool {
    let mut parts = version.split_whitespace().map(str::parse::<u32>);
    matches!((parts.next(), parts.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= OLDEST)
}

/// Imports the plugin natively. Its output, and the reason if it fails, are shown.
fn describe(dir: &Path, module: &str, paths: &[PathBuf]) -> anyhow::Result<Description> {
    let mut python = Command::new("python3");
    python.args(["-c", DESCRIBE, module]).current_dir(dir);
    python
        .env("PYTHONPATH", std::env::join_paths(paths)?)
        .env("PYTHONDONTWRITEBYTECODE", "1");

    let printed = PYTHON.ask(&mut python)?;
    // What the module itself prints comes before.
    let last = printed.lines().next_back().unwrap_or_default();
    serde_json::from_str(last).with_context(|| format!("cannot read the description of {module}"))
}

/// Returns the code of the first module: it imports the plugin, and the entry points of what it
/// serves.
fn app(module: &str, capabilities: &[String]) -> String {
    let entry = |name: &String| {
        let module = name.replace('-', "_");
        format!("from skydock._guest.generated.{module} import *\n")
    };
    let entries: String = capabilities.iter().map(entry).collect();

    // Everything that exists lives as long as the instance, and need not be looked at by the
    // collector again.
    format!(
        "import gc\n\nfrom skydock._guest.plugin import *\nimport {module}\n{entries}\n\
         gc.collect()\ngc.freeze()\n"
    )
}

/// True for files of which a component may be made: not for hidden ones, caches and components.
fn matters(file: &Path) -> bool {
    let name = file
        .file_name()
        .map(OsStr::to_string_lossy)
        .unwrap_or_default();
    !name.starts_with('.')
        && name != "__pycache__"
        && !name.ends_with(".wasm")
        && !name.ends_with(".egg-info")
}

/// Makes the component, which imports everything that an interpreter can use.
fn componentize(wit: &Path, app: &Path, paths: &[PathBuf], output: &Path) -> anyhow::Result<()> {
    let tools = tools::folder()?;
    let mut command = Command::new(tools.join("bin/componentize-py"));
    command
        .args([
            "--quiet",
            "--full-names",
            "--world",
            wit::WORLD,
            "--wit-path",
        ])
        .arg(wit)
        .args(["componentize", APP]);

    for path in [app].into_iter().chain(paths.iter().map(PathBuf::as_path)) {
        command.arg("--python-path").arg(path);
    }

    // Otherwise, the packages of the Python that is installed would be in the component, too.
    COMPONENTIZE.run(
        command
            .arg("--output")
            .arg(output)
            .env("VIRTUAL_ENV", &tools),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_are_not_supported() {
        for (version, expected) in [
            ("3 11\n", true),
            ("3 14\n", true),
            ("4 0\n", true),
            ("3 9\n", false),
            ("", false),
        ] {
            assert_eq!(is_supported(version), expected, "{version}");
        }
    }

    #[test]
    fn a_component_exports_what_the_plugin_serves() {
        let code = app("provider", &["load-balancers".to_owned()]);
        let expected = "import gc\n\nfrom skydock._guest.plugin import *\nimport provider\n\
                        from skydock._guest.generated.load_balancers import *\n\ngc.collect()\ngc.freeze()\n";
        assert_eq!(code, expected);
    }

    #[test]
    fn caches_and_components_do_not_matter() {
        let files = [
            "provider.py",
            "a/data.json",
            ".venv",
            "a/__pycache__",
            "my-cloud.wasm",
            "my_cloud.egg-info",
        ];

        assert_eq!(
            files.map(|file| matters(Path::new(file))),
            [true, true, false, false, false, false]
        );
    }
}
