//! What a plugin in C serves, which follows from the functions that it defines.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use skydock_cloud::Capability;
use wasmparser::{KnownCustom, Linking, Parser, Payload, SymbolFlags, SymbolInfo};
use wit_parser::{Interface, Resolve};

/// The interface that every plugin has.
const BASE: &str = "plugin";

/// Returns the capabilities that object files define, according to the contract in a folder.
///
/// # Errors
/// If something cannot be read, if a function of a capability is missing, or if it is not a plugin.
pub(super) fn of_objects(objects: &[PathBuf], contract: &Path) -> anyhow::Result<Vec<Capability>> {
    let mut resolve = Resolve::default();
    let read = resolve.push_dir(contract);
    read.context("the WIT of the SDK is not valid")?;

    let mut defined = BTreeSet::new();
    for object in objects {
        defined.extend(functions(object)?);
    }
    of(&resolve, &defined)
}

fn of(contract: &Resolve, defined: &BTreeSet<String>) -> anyhow::Result<Vec<Capability>> {
    for function in functions_of(contract, BASE) {
        ensure!(
            defined.contains(&function),
            "the program is not a plugin: it does not define {function}"
        );
    }

    let mut served = Vec::new();
    for capability in Capability::ALL {
        let functions = functions_of(contract, capability.name());
        // A capability without any of its functions is not served.
        if !functions.iter().any(|function| defined.contains(function)) {
            continue;
        }

        if let Some(missing) = functions
            .iter()
            .find(|function| !defined.contains(*function))
        {
            bail!(
                "the capability {} is incomplete: {missing} is not defined",
                capability.name()
            );
        }
        served.push(capability);
    }

    Ok(served)
}

/// Returns the functions in C of an interface. They begin with its name, instead of ending with it:
/// `routes_list` is `list-routes` of `routes`.
fn functions_of(contract: &Resolve, interface: &str) -> Vec<String> {
    let is_named = |found: &&Interface| found.name.as_deref() == Some(interface);
    let found = contract.interfaces.iter().map(|(_, found)| found);
    let functions = found.filter(is_named).flat_map(|it| it.functions.keys());

    let short = |name: &str| {
        let own = name.strip_suffix(interface)?.strip_suffix('-')?;
        Some(own.to_owned())
    };
    let name = |name: &String| {
        let short = short(name).unwrap_or_else(|| name.clone());
        format!("{interface}_{short}").replace('-', "_")
    };
    functions.map(name).collect()
}

/// Returns the macro with which the SDK compiles what belongs to a capability.
pub(super) fn macro_name(capability: Capability) -> String {
    format!(
        "SKYDOCK_SERVES_{}",
        capability.name().replace('-', "_").to_uppercase()
    )
}

/// Returns the functions that an object file defines for others.
fn functions(object: &Path) -> anyhow::Result<Vec<String>> {
    let bytes = fs::read(object).with_context(|| format!("cannot read {}", object.display()))?;
    read(&bytes)
        .with_context(|| format!("{} is not an object file for WebAssembly", object.display()))
}

fn read(object: &[u8]) -> wasmparser::Result<Vec<String>> {
    let mut found = Vec::new();
    for payload in Parser::new(0).parse_all(object) {
        let Payload::CustomSection(section) = payload? else {
            continue;
        };
        let KnownCustom::Linking(linking) = section.as_known() else {
            continue;
        };
        for part in linking {
            let Linking::SymbolTable(symbols) = part? else {
                continue;
            };
            for symbol in symbols {
                if let SymbolInfo::Func {
                    flags,
                    name: Some(name),
                    ..
                } = symbol?
                    && !flags.intersects(SymbolFlags::UNDEFINED | SymbolFlags::BINDING_LOCAL)
                {
                    found.push(name.to_owned());
                }
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(functions: &[&str]) -> Result<Vec<Capability>, String> {
        let defined = functions.iter().copied().map(str::to_owned).collect();
        let mut contract = Resolve::default();
        contract.push_dir("../../wit/v0.1.1").unwrap();
        super::of(&contract, &defined).map_err(|error| error.to_string())
    }

    #[test]
    fn the_functions_of_a_plugin_are_its_capabilities() {
        let base = ["plugin_info", "plugin_configure"];
        assert_eq!(of(&base), Ok(vec![]));
        let more = [
            &base[..],
            &["zones_locate", "instances_check", "instances_describe"],
        ]
        .concat();

        assert_eq!(
            of(&more),
            Ok(vec![Capability::Instances, Capability::Zones])
        );
        let volumes = [
            &base[..],
            &[
                "volumes_driver",
                "volumes_create",
                "volumes_get",
                "volumes_list",
                "volumes_delete",
                "attachments_attach_volumes",
                "attachments_detach_volumes",
                "storage_capacity_get_capacities",
            ],
        ]
        .concat();

        assert_eq!(
            of(&volumes),
            Ok(vec![
                Capability::Volumes,
                Capability::Attachments,
                Capability::StorageCapacity
            ])
        );
        assert_eq!(
            macro_name(Capability::LoadBalancers),
            "SKYDOCK_SERVES_LOAD_BALANCERS"
        );
    }

    #[test]
    fn an_incomplete_plugin_is_rejected_in_one_line() {
        let error = of(&["plugin_info"]).unwrap_err();
        assert_eq!(
            error,
            "the program is not a plugin: it does not define plugin_configure"
        );

        let error = of(&[
            "plugin_info",
            "plugin_configure",
            "routes_list",
            "routes_delete",
        ])
        .unwrap_err();

        assert_eq!(
            error,
            "the capability routes is incomplete: routes_create is not defined"
        );
    }

    #[test]
    fn only_functions_for_others_are_read_from_an_object() {
        // A module with a function, and a linking section (version 2) whose symbol table
        // (subsection 8) has three symbols: the function as a global and as a local one, and an
        // import.
        let mut symbols = vec![3];
        for (flags, index, name) in [
            (0x00, 1, Some("ours")),
            (0x02, 1, Some("hidden")),
            (0x10, 0, None),
        ] {
            symbols.extend([0, flags, index]);
            if let Some(name) = name {
                symbols.push(u8::try_from(name.len()).unwrap());
                symbols.extend(name.as_bytes());
            }
        }
        let mut linking = vec![2, 8, u8::try_from(symbols.len()).unwrap()];
        linking.extend(symbols);
        let mut object =
            wat::parse_str(r#"(module (import "env" "theirs" (func)) (func))"#).unwrap();
        let mut section = vec![7];
        section.extend(b"linking");
        section.extend(linking);
        object.extend([0, u8::try_from(section.len()).unwrap()]);
        object.extend(section);
        assert_eq!(read(&object).unwrap(), ["ours"]);
        assert!(read(b"no object").is_err());
    }
}
