//! Strips imports that the host does not offer from a component, for example sockets: standard
//! libraries import them, and plugins do not use them. The component is composed with another one,
//! which exports them, and whose functions trap.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context as _, ensure};
use skydock_sandbox::{ComponentType, Limits};
use wac_graph::{CompositionGraph, EncodeOptions, plug, types::Package};
use wit_component::{
    ComponentEncoder, DecodedWasm, StringEncoding, WitPrinter, dummy_module,
    embed_component_metadata,
};
use wit_parser::{LiftLowerAbi, ManglingAndAbi, Resolve};

/// Name of the world of the other component.
const WORLD: &str = "stub";

/// Writes a component without these imports.
///
/// # Errors
/// If a file cannot be read or written, or if an import cannot be stripped.
pub(crate) fn strip(component: &Path, output: &Path) -> anyhow::Result<()> {
    let bytes =
        fs::read(component).with_context(|| format!("cannot read {}", component.display()))?;
    let stripped = stripped(bytes)
        .with_context(|| format!("cannot strip imports from {}", component.display()))?;
    fs::write(output, stripped).with_context(|| format!("cannot write {}", output.display()))
}

fn stripped(component: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    let surplus = surplus(&component)?;
    if surplus.is_empty() {
        return Ok(component);
    }
    let stub = stub(&component, &surplus)?;

    let mut graph = CompositionGraph::new();
    let mut register = |name: &str, bytes: Vec<u8>| {
        let package = Package::from_bytes(name, None, bytes, graph.types_mut())?;
        anyhow::Ok(graph.register_package(package)?)
    };
    let stub = register("skydock:stub", stub)?;
    let plugin = register("skydock:plugin", component)?;

    plug(&mut graph, vec![stub], plugin)?;
    let composed = graph.encode(EncodeOptions {
        define_components: true,
        ..EncodeOptions::default()
    })?;
    let rest = self::surplus(&composed)?;
    ensure!(rest.is_empty(), "it still imports {}", rest.join(", "));
    Ok(composed)
}

/// Returns the imports that the host does not offer.
fn surplus(component: &[u8]) -> anyhow::Result<Vec<String>> {
    Ok(ComponentType::read(component, &Limits::default())?.forbidden_imports())
}

/// Returns a component that exports what another one imports.
fn stub(component: &[u8], imports: &[String]) -> anyhow::Result<Vec<u8>> {
    let DecodedWasm::Component(decoded, world) = wit_component::decode(component)? else {
        anyhow::bail!("it is not a component");
    };
    let package = decoded
        .worlds
        .get(world)
        .and_then(|world| world.package)
        .context("its world has no package")?;

    let others: Vec<_> = decoded
        .packages
        .iter()
        .map(|(id, _)| id)
        .filter(|id| *id != package)
        .collect();

    let mut printer = WitPrinter::default();
    printer.print(&decoded, package, &others)?;
    let text = with_world(&printer.output.to_string(), imports)?;

    let mut resolve = Resolve::default();
    let package = resolve.push_str("stub.wit", &text)?;
    let world = resolve.select_world(&[package], Some(WORLD))?;
    let mut module = dummy_module(&resolve, world, ManglingAndAbi::Legacy(LiftLowerAbi::Sync));
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;

    ComponentEncoder::default()
        .validate(true)
        .module(&module)?
        .encode()
}

/// Adds a world that exports these interfaces after the first line, which names the package.
fn with_world(text: &str, exports: &[String]) -> anyhow::Result<String> {
    let (package, rest) = text.split_once('\n').context("its WIT is not valid")?;
    let mut world = format!("{package}\n\nworld {WORLD} {{\n");
    for export in exports {
        // Writing to a string does not fail.
        let _ = writeln!(world, "  export {export};");
    }
    Ok(world + "}\n" + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plugin that imports sockets, whose functions use a resource of `wasi:io`, which the host
    /// offers.
    const WIT: &str = "package test:plugin;
        world plugin {
            import wasi:io/poll@0.2.9;
            import wasi:sockets/network@0.2.9;
            import wasi:sockets/tcp@0.2.9;
            export skydock:provider/plugin@0.1.0;
        }
        package wasi:io@0.2.9 { interface poll { resource pollable; poll: func(them: list<borrow<pollable>>) -> list<u32>; } }
        package wasi:sockets@0.2.9 {
            interface network { resource network; enum error-code { unknown } }
            interface tcp {
                use wasi:io/poll@0.2.9.{pollable};
                use network.{network, error-code};
                resource tcp-socket {
                    bind: func(network: borrow<network>) -> result<_, error-code>;
                    subscribe: func() -> pollable;
                }
            }
        }
        package skydock:provider@0.1.0 { interface plugin { ping: func() -> u32; } }";

    fn plugin(text: &str) -> Vec<u8> {
        let mut resolve = Resolve::default();
        let package = resolve.push_str("test.wit", text).unwrap();
        let world = resolve.select_world(&[package], Some("plugin")).unwrap();
        let mut module = dummy_module(&resolve, world, ManglingAndAbi::Legacy(LiftLowerAbi::Sync));
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
        ComponentEncoder::default()
            .validate(true)
            .module(&module)
            .unwrap()
            .encode()
            .unwrap()
    }

    #[test]
    fn imports_that_the_host_does_not_offer_are_stripped() {
        let component = plugin(WIT);
        assert_eq!(surplus(&component).unwrap().len(), 2);
        let composed = stripped(component).unwrap();
        let read = ComponentType::read(&composed, &Limits::default()).unwrap();
        assert_eq!(read.imports, ["wasi:io/poll@0.2.9"]);
        assert_eq!(read.exports, ["skydock:provider/plugin@0.1.0"]);
    }

    #[test]
    fn a_component_without_them_is_not_changed() {
        let sockets = [
            "            import wasi:sockets/network@0.2.9;\n",
            "            import wasi:sockets/tcp@0.2.9;\n",
        ];
        let component = plugin(
            &sockets
                .iter()
                .fold(WIT.to_owned(), |text, line| text.replace(line, "")),
        );
        assert_eq!(stripped(component.clone()).unwrap(), component);
    }
}
