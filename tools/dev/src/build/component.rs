//! Makes a component of a core module of WASI 0.1: the type is added, and the adapter of WASI.
//! What changes a component that is complete is in the modules below.

pub(super) mod metadata;
pub(super) mod strip;

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, ensure};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as ADAPTER_NAME,
    WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as ADAPTER,
};
use wasmparser::{Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use super::{
    inputs::Inputs,
    wit::{self, WORLD},
};

/// What the exports of a plugin start with.
const PACKAGE: &str = "skydock:provider/";

/// Makes the component of the core module, unless it was made of the same inputs. `wit` is a folder
/// with the WIT of the language, whose package has a world `imports`; the world of the plugin is
/// added to it.
///
/// # Errors
/// If a file cannot be read or written, or if the module is not a plugin.
pub(super) fn make(core: &Path, wit: &Path, output: &Path) -> anyhow::Result<()> {
    let module = fs::read(core).with_context(|| format!("cannot read {}", core.display()))?;
    let exports = exports(&module)?;

    ensure!(
        exports
            .iter()
            .any(|name| name.starts_with("skydock:provider/plugin@")),
        "the program is not a plugin: it does not export skydock:provider/plugin"
    );

    wit::write_world(wit, &exports)?;

    let mut inputs = Inputs::new();
    inputs.add(&module);
    inputs.add(ADAPTER);
    inputs.add_folder(wit, |_| true)?;
    inputs.make(output, || {
        let component = encode(module, wit)?;
        fs::write(output, component).with_context(|| format!("cannot write {}", output.display()))
    })
}

/// Returns the interfaces that a core module exports, by the names of its functions:
/// `skydock:provider/INTERFACE@VERSION#FUNCTION`.
fn exports(module: &[u8]) -> anyhow::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for payload in Parser::new(0).parse_all(module) {
        let Payload::ExportSection(section) = payload.context("the core module is not valid")?
        else {
            continue;
        };
        for export in section {
            let name = export.context("the core module is not valid")?.name;
            let interface = name.split_once('#').map(|(interface, _)| interface);
            found.extend(
                interface
                    .filter(|interface| interface.starts_with(PACKAGE))
                    .map(str::to_owned),
            );
        }
    }

    Ok(found)
}

fn encode(mut module: Vec<u8>, wit: &Path) -> anyhow::Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve
        .push_dir(wit)
        .context("the WIT of the SDK is not valid")?;
    let world = resolve
        .select_world(&[package], Some(WORLD))
        .context("the WIT of the SDK is not valid")?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .context("cannot add the type to the core module")?;

    ComponentEncoder::default()
        .validate(true)
        .module(&module)
        .and_then(|encoder| encoder.adapter(ADAPTER_NAME, ADAPTER))
        .and_then(ComponentEncoder::encode)
        .context("cannot create a component from the core module")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIT: &str = "package skydock:go;\nworld imports {}\n";
    const CONTRACT: &str =
        "package skydock:provider@0.1.0;\ninterface plugin { ping: func() -> u32; }\n";

    fn core() -> Vec<u8> {
        let text = r#"(module
            (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
            (memory (export "memory") 1)
            (func (export "skydock:provider/plugin@0.1.0#ping") (result i32)
                (call $random (i32.const 0) (i32.const 4)))
            (func (export "other#x")))"#;
        wat::parse_str(text).unwrap()
    }

    #[test]
    fn exported_interfaces_are_found() {
        assert_eq!(
            exports(&core()).unwrap(),
            BTreeSet::from(["skydock:provider/plugin@0.1.0".to_owned()])
        );
        assert!(exports(b"not wasm").is_err());
    }

    #[test]
    fn a_component_is_made_once_of_the_same_inputs() {
        let dir = tempfile::tempdir().unwrap();
        let (module, wit, output) = (
            dir.path().join("core.wasm"),
            dir.path().join("wit"),
            dir.path().join("a.wasm"),
        );
        fs::create_dir_all(wit.join("deps")).unwrap();
        fs::write(wit.join("deps/provider.wit"), CONTRACT).unwrap();
        fs::write(wit.join("guest.wit"), WIT).unwrap();
        fs::write(&module, core()).unwrap();
        make(&module, &wit, &output).unwrap();
        let component = fs::read(&output).unwrap();
        let typed =
            skydock_sandbox::ComponentType::read(&component, &skydock_sandbox::Limits::default())
                .unwrap();
        assert_eq!(typed.exports, ["skydock:provider/plugin@0.1.0"]);
        assert!(
            typed
                .imports
                .iter()
                .any(|name| name.starts_with("wasi:random/random@0.2")),
            "{:?}",
            typed.imports
        );

        fs::write(&output, "kept").unwrap();
        make(&module, &wit, &output).unwrap();
        assert_eq!(fs::read(&output).unwrap(), b"kept");
        fs::write(wit.join("guest.wit"), format!("{WIT}// changed\n")).unwrap();
        make(&module, &wit, &output).unwrap();
        assert_eq!(fs::read(&output).unwrap().get(..4), Some(&b"\0asm"[..]));
    }

    #[test]
    fn a_program_that_is_not_a_plugin_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let core = dir.path().join("core.wasm");
        fs::write(&core, wat::parse_str("(module)").unwrap()).unwrap();
        let error = make(&core, dir.path(), &dir.path().join("a.wasm"))
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "the program is not a plugin: it does not export skydock:provider/plugin"
        );
    }
}
