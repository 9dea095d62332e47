//! Builds plugins in Go: an overlay of Go's runtime, a core module for WASI 0.1, and the component.
//! `sdk/go/BUILD.md` says why. Everything that must fit together (hashes, patches, WIT) is in the
//! version of the SDK that the project uses.

mod overlay;
mod port;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};

use super::{Built, WORK, component, tool::Tool, wit};

const GO: Tool = Tool {
    name: "go",
    install: "install Go 1.26.8 from https://go.dev/dl",
};

/// The module of the SDK.
const SDK: &str = "github.com/skydock/skydock/sdk/go";

/// A project in Go.
struct Project<'a> {
    dir: &'a Path,
    /// The folder for what is written during a build.
    work: PathBuf,
    /// The flag that selects another go.mod.
    modfile: Option<OsString>,
}

/// Builds the plugin in a folder.
///
/// # Errors
/// If Go is missing or another version, if the program does not compile, or if it is not a plugin.
pub(super) fn build(dir: &Path) -> anyhow::Result<Built> {
    // Go runs in the folder of the project, so its arguments are absolute.
    let work = dir.join(WORK);
    let work =
        std::path::absolute(&work).with_context(|| format!("cannot use {}", work.display()))?;
    fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;

    let mut project = Project {
        dir,
        work,
        modfile: None,
    };
    project.modfile = port::apply(&project)?;
    let sdk = project.module_dir(SDK)?;

    let goroot = PathBuf::from(project.ask(&["env", "GOROOT"])?);
    let overlay = overlay::write(
        &goroot,
        &project.ask(&["env", "GOVERSION"])?,
        &sdk.join("overlay"),
        &project.work,
    )?;

    let core = project.work.join("core.wasm");
    let mut go = project.go(&["build"]);
    go.env("GOOS", "wasip1")
        .env("GOARCH", "wasm")
        .args(&project.modfile);
    go.arg("-overlay").arg(overlay);
    go.args([
        "-trimpath",
        "-buildvcs=false",
        "-buildmode=c-shared",
        "-ldflags=-s -w -buildid=",
        "-o",
    ]);
    GO.run(go.arg(&core).arg("."))?;

    let wit = project.work.join("wit");
    wit::copy(&sdk.join("wit"), &wit)?;
    let file = project.work.join("component.wasm");
    component::make(&core, &wit, &file)?;

    Ok(Built {
        name: name(&project.module()?),
        file,
    })
}

impl Project<'_> {
    /// Returns a command of Go in the folder of the project.
    fn go(&self, words: &[&str]) -> Command {
        let mut go = Command::new("go");
        go.args(words).current_dir(self.dir);
        go
    }

    /// Returns what a command of Go prints, without the line break.
    fn ask(&self, words: &[&str]) -> anyhow::Result<String> {
        Ok(GO.ask(&mut self.go(words))?.trim_end().to_owned())
    }

    /// Returns the path of the module. In a workspace, there are others.
    fn module(&self) -> anyhow::Result<String> {
        Ok(GO
            .ask(self.go(&["list", "-m"]).env("GOWORK", "off"))?
            .trim_end()
            .to_owned())
    }

    /// Returns the folder of a module that the project uses, which is downloaded if necessary.
    fn module_dir(&self, module: &str) -> anyhow::Result<PathBuf> {
        GO.run(&mut self.go(&["mod", "download", module]))?;
        let dir = self.ask(&["list", "-m", "-f", "{{.Dir}}", module])?;
        ensure!(
            !dir.is_empty(),
            "go.mod does not require {module}: run `go get {module}`"
        );
        Ok(PathBuf::from(dir))
    }
}

/// Returns the name of a plugin: the last part of its module path, without the major version.
fn name(module: &str) -> String {
    let is_version = |part: &str| {
        part.strip_prefix('v')
            .is_some_and(|rest| rest.parse::<u32>().is_ok())
    };

    let module = module
        .rsplit_once('/')
        .filter(|(_, last)| is_version(last))
        .map_or(module, |(rest, _)| rest);
    module.rsplit('/').next().unwrap_or(module).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_the_end_of_the_module() {
        assert_eq!(name("example.com/clouds/my-cloud"), "my-cloud");
        assert_eq!(name("my-cloud"), "my-cloud");
        assert_eq!(name("example.com/my-cloud/v2"), "my-cloud");
        assert_eq!(name("example.com/vmware"), "vmware");
    }
}
