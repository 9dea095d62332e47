//! Builds plugins in C with clang: the functions that the plugin defines say what it exports, the
//! bindings for these are generated, and everything is linked to a core module for WASI 0.1, of
//! which the component is made.

mod bindings;
mod capability;
mod compiler;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

use self::compiler::Compiler;
use super::{Built, WORK, component, wit};

/// The folder of the SDK, in that of the project or beside it.
const SDK: &str = "skydock";
/// End of the names of files with unit tests.
const TEST: &str = "_test.c";

/// Builds the plugin in a folder.
///
/// # Errors
/// If a tool is missing, if the program does not compile, or if it is not a plugin.
pub(super) fn build(dir: &Path) -> anyhow::Result<Built> {
    let sdk = sdk(dir)?;
    let work = dir.join(WORK);
    let objects = work.join("objects");
    fs::create_dir_all(&objects).with_context(|| format!("cannot create {}", objects.display()))?;
    let compiler = Compiler::find(std::env::var_os("WASI_SDK_PATH").as_deref().map(Path::new))?;

    // The plugin says `#include "skydock/skydock.h"`.
    let include = sdk.parent().unwrap_or(Path::new("")).to_owned();
    let mut linked = Vec::new();

    for source in sources(dir)?.into_iter().filter(|source| !is_test(source)) {
        let object = object(&objects, "plugin", &source);
        compiler.compile(&source, &object, &["-Wall", "-Wextra"], &[&include])?;
        linked.push(object);
    }

    let folder = work.join("wit");
    let generated = work.join("bindings");
    let contract = wit::copy(&sdk.join("wit"), &folder)?;
    let declared = sdk.join("wit").join(&contract.folder);
    let capabilities = capability::of_objects(&linked, &declared)?;
    let bindings = bindings::write(&folder, &contract, &capabilities, &generated)?;
    let bindings_object = object(&objects, "bindings", &bindings);

    // Memory is freed as a whole when a call has ended.
    compiler.compile(
        &bindings,
        &bindings_object,
        &["-w", "-Dfree=skydock_free_nothing"],
        &[],
    )?;
    linked.push(bindings_object);

    let served: Vec<_> = capabilities
        .iter()
        .map(|it| format!("-D{}", capability::macro_name(*it)))
        .collect();
    let served: Vec<_> = served.iter().map(String::as_str).collect();

    for (prefix, folder) in [("sdk", sdk.clone()), ("guest", sdk.join("guest"))] {
        for source in sources(&folder)? {
            let object = object(&objects, prefix, &source);
            compiler.compile(&source, &object, &served, &[&generated])?;
            linked.push(object);
        }
    }

    let core = work.join("core.wasm");
    let file = work.join("component.wasm");
    compiler.link(&linked, &core)?;
    component::make(&core, &folder, &file)?;

    Ok(Built {
        name: name(dir)?,
        file,
    })
}

/// Returns the folder of the SDK.
fn sdk(dir: &Path) -> anyhow::Result<PathBuf> {
    let is_sdk = |folder: &PathBuf| folder.join("skydock.h").is_file();
    let found = [dir.join(SDK), dir.join("..").join(SDK)]
        .into_iter()
        .find(is_sdk);

    found.with_context(|| {
        format!(
            "the SDK is missing: copy its folder `{SDK}` into {} or beside it",
            dir.display()
        )
    })
}

/// Returns the C files in a folder, sorted.
fn sources(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let read = || {
        fs::read_dir(folder)?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>, std::io::Error>>()
    };

    let mut files = read().with_context(|| format!("cannot read {}", folder.display()))?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "c"));
    files.sort();
    Ok(files)
}

fn is_test(source: &Path) -> bool {
    source
        .file_name()
        .is_some_and(|name| name.to_string_lossy().ends_with(TEST))
}

/// Returns the object file for a source. The prefix keeps those of different folders apart.
fn object(objects: &Path, prefix: &str, source: &Path) -> PathBuf {
    let name = source.file_stem().unwrap_or_default().to_string_lossy();
    objects.join(format!("{prefix}-{name}.o"))
}

/// Returns the name of a plugin: that of its folder.
fn name(dir: &Path) -> anyhow::Result<String> {
    let folder = fs::canonicalize(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let name = folder
        .file_name()
        .context("the root of the file system is not the folder of a plugin")?;
    let name = name.to_str().filter(|name| !name.is_empty());

    Ok(name
        .with_context(|| format!("the name of {} is not valid text", folder.display()))?
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sdk_is_in_the_project_or_beside_it() {
        let root = tempfile::tempdir().unwrap();
        let project = root.path().join("my-cloud");
        fs::create_dir_all(&project).unwrap();
        let error = sdk(&project).unwrap_err().to_string();

        assert!(
            error.starts_with("the SDK is missing: copy its folder `skydock` into "),
            "{error}"
        );
        for folder in [root.path().join("skydock"), project.join("skydock")] {
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("skydock.h"), "").unwrap();
            assert_eq!(
                fs::canonicalize(sdk(&project).unwrap()).unwrap(),
                fs::canonicalize(folder).unwrap()
            );
        }
        assert_eq!(name(&project).unwrap(), "my-cloud");
    }

    #[test]
    fn unit_tests_are_not_part_of_a_plugin() {
        let dir = tempfile::tempdir().unwrap();
        for file in ["plugin.c", "plugin_test.c", "api.c", "api.h", "README.md"] {
            fs::write(dir.path().join(file), "").unwrap();
        }
        let all = sources(dir.path()).unwrap();
        let built: Vec<_> = all
            .iter()
            .filter(|source| !is_test(source))
            .filter_map(|file| file.file_name())
            .collect();
        assert_eq!(built, ["api.c", "plugin.c"]);

        assert_eq!(
            object(Path::new("o"), "plugin", &all[0]),
            Path::new("o/plugin-api.o")
        );
    }
}
