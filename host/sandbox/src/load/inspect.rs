//! Reads the type of a component (imports, exports) from its bytes, before anything is compiled.

use std::collections::BTreeSet;

use skydock_cloud::Capability;
use skydock_resources::limits::Limits;
use wasmparser::{Encoding, Parser, Payload};

use crate::{
    load::{
        error::{LoadError, LoadProblem, Stage},
        metadata::{Metadata, SECTION},
        shape::{self, Named, Shape},
    },
    words::{
        names::{CONTRACT, IMPORTS, PACKAGE},
        text::Names,
    },
};

/// All imports that are allowed: package and interfaces, and a version that must be compatible.
///
/// Clocks, random and io are harmless. Guests' standard libraries import parts of the command line
/// and the file system that they hardly use; those interfaces are linked to empty implementations,
/// except that the first argument is the plugin's name. wasi:http is subject to the egress rules.
const GRANTED: &[(&str, &str, &[&str])] = &[
    (PACKAGE, CONTRACT, IMPORTS),
    ("wasi:logging", "0.1.0-draft", &["logging"]),
    ("wasi:io", "0.2.0", &["error", "poll", "streams"]),
    ("wasi:clocks", "0.2.0", &["monotonic-clock", "wall-clock"]),
    (
        "wasi:random",
        "0.2.0",
        &["random", "insecure", "insecure-seed"],
    ),
    (
        "wasi:cli",
        "0.2.0",
        &[
            "environment",
            "exit",
            "stdin",
            "stdout",
            "stderr",
            "terminal-input",
            "terminal-output",
            "terminal-stdin",
            "terminal-stdout",
            "terminal-stderr",
        ],
    ),
    ("wasi:filesystem", "0.2.0", &["types", "preopens"]),
    ("wasi:http", "0.2.0", &["types", "outgoing-handler"]),
];

/// Imports and exports of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComponentType {
    /// Names of all imports, in the component's order.
    pub imports: Vec<String>,
    /// Names of all exports, in the component's order.
    pub exports: Vec<String>,
    /// Bytes of code of all modules.
    pub code: u64,
    /// What it says about itself, if anything.
    pub metadata: Option<Metadata>,
}

impl ComponentType {
    /// Reads the type of a component, and checks its size.
    ///
    /// # Errors
    /// At [`Stage::Type`], if the bytes are not a component, or exceed the limits of a plugin.
    pub fn read(bytes: &[u8], limits: &Limits) -> Result<Self, LoadError> {
        read(bytes, limits).map_err(|problem| LoadError::new(Stage::Type, problem))
    }

    /// Returns the capabilities of the component by the names of its exports, without checking
    /// their types.
    ///
    /// # Errors
    /// At [`Stage::Type`], if it is not a plugin, or uses an unsupported version of the contract.
    pub fn capabilities(&self) -> Result<BTreeSet<Capability>, LoadError> {
        let ours = |name: &&String| split(name).is_some_and(|(package, ..)| package == PACKAGE);
        let (served, others): (Vec<_>, Vec<_>) =
            self.exports.iter().filter(ours).partition(|name| {
                split(name).is_some_and(|(_, _, version)| same_track(version, CONTRACT))
            });

        // First, because a plugin of another version would otherwise seem to export nothing.
        if !others.is_empty() {
            let exports = others.into_iter().collect();
            return Err(LoadError::new(
                Stage::Type,
                LoadProblem::Version { exports },
            ));
        }

        let exports = |interface: &str| {
            served
                .iter()
                .any(|name| split(name).is_some_and(|(_, it, _)| it == interface))
        };

        if !exports("plugin") {
            return Err(LoadError::new(
                Stage::Type,
                LoadProblem::NoPlugin {
                    exports: self.exports.iter().collect(),
                },
            ));
        }

        Ok(Capability::ALL
            .into_iter()
            .filter(|capability| exports(capability.name()))
            .collect())
    }

    /// Returns the version of the contract that the component was built for, unless it is not a
    /// plugin.
    #[must_use]
    pub fn contract(&self) -> Option<&str> {
        self.exports.iter().find_map(|name| match split(name) {
            Some((PACKAGE, "plugin", version)) => Some(version),
            _ => None,
        })
    }

    /// Returns the imports from a newer version of the contract, if there are any.
    pub(crate) fn newer_imports(&self) -> Option<Names> {
        let is_newer = |name: &&String| {
            split(name).is_some_and(|(package, _, version)| {
                package == PACKAGE && patch(version) > patch(CONTRACT)
            })
        };
        let mut newer = self.imports.iter().filter(is_newer).peekable();
        newer.peek()?;
        Some(newer.collect())
    }

    /// Returns the imports that plugins may not have.
    #[must_use]
    pub fn forbidden_imports(&self) -> Vec<String> {
        self.imports
            .iter()
            .filter(|name| !granted(name))
            .cloned()
            .collect()
    }
}

fn read(bytes: &[u8], limits: &Limits) -> Result<ComponentType, LoadProblem> {
    let mut found = ComponentType::default();
    let mut shape = Shape::new(limits);
    let mut depth = 0_usize;

    for (index, payload) in Parser::new(0).parse_all(bytes).enumerate() {
        let payload = match payload {
            // An error in the first payload means that the header is wrong.
            Err(_) if index == 0 => return Err(LoadProblem::NotWasm),
            other => other.map_err(LoadProblem::Malformed)?,
        };

        // Counted first, because what is kept of a payload takes memory.
        shape.see(&payload)?;

        match payload {
            Payload::Version {
                encoding: Encoding::Module,
                ..
            } if depth == 0 => return Err(LoadProblem::CoreModule),
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            // Imports and exports of nested components are connected within the outermost one.
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    let name = import.map_err(LoadProblem::Malformed)?.name.name;
                    shape::name(Named::Import, found.imports.len(), name)?;
                    found.imports.push(name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    let name = export.map_err(LoadProblem::Malformed)?.name.name;
                    shape::name(Named::Export, found.exports.len(), name)?;
                    found.exports.push(name.to_owned());
                }
            }
            // Tools write it into the component, and compilers into the module.
            Payload::CustomSection(section)
                if section.name() == SECTION && found.metadata.is_none() =>
            {
                let metadata = Metadata::parse(section.data()).map_err(LoadProblem::Metadata)?;
                found.metadata = Some(metadata);
            }
            _ => {}
        }
    }

    found.code = shape.code();
    Ok(found)
}

fn granted(name: &str) -> bool {
    let Some((package, interface, version)) = split(name) else {
        return false;
    };
    GRANTED.iter().any(|(known, track, interfaces)| {
        *known == package && same_track(version, track) && interfaces.contains(&interface)
    })
}

/// Splits `ns:package/interface@version` into its three parts.
fn split(name: &str) -> Option<(&str, &str, &str)> {
    let (package, rest) = name.split_once('/')?;
    let (interface, version) = rest.split_once('@')?;
    Some((package, interface, version))
}

/// Returns true if two versions are compatible: the same major version, and the same minor version
/// below 1.0. A pre-release is only compatible with itself.
fn same_track(one: &str, other: &str) -> bool {
    fn track(version: &str) -> Option<(u32, u32)> {
        let mut parts = version.splitn(3, '.');
        let major = parts.next()?;
        let minor = parts.next()?;
        let patch = parts.next()?;
        let major = major.parse().ok()?;
        let minor = minor.parse().ok()?;
        patch.parse::<u32>().ok()?;

        Some((major, if major == 0 { minor } else { 0 }))
    }
    one == other || matches!((track(one), track(other)), (Some(one), Some(other)) if one == other)
}

/// Returns the last number of a version of the contract.
fn patch(version: &str) -> Option<u32> {
    version.rsplit('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(text: &str) -> Result<ComponentType, LoadError> {
        ComponentType::read(&wat::parse_str(text).expect("WAT"), &Limits::default())
    }

    #[test]
    fn distinguishes_garbage_core_modules_and_malformed_files() {
        let garbage =
            ComponentType::read(b"#!/bin/sh\necho hello\n", &Limits::default()).unwrap_err();
        assert!(matches!(garbage.source, LoadProblem::NotWasm), "{garbage}");
        let empty = ComponentType::read(b"", &Limits::default()).unwrap_err();
        assert!(matches!(empty.source, LoadProblem::NotWasm), "{empty}");
        let module = component("(module)").unwrap_err();
        assert!(matches!(module.source, LoadProblem::CoreModule), "{module}");
        let whole = wat::parse_str("(component (core module (func)))").unwrap();
        let cut = ComponentType::read(&whole[..whole.len() - 3], &Limits::default()).unwrap_err();
        assert!(matches!(cut.source, LoadProblem::Malformed(_)), "{cut}");
    }

    #[test]
    fn metadata_is_read_from_the_component_or_a_module() {
        let named = |found: ComponentType| found.metadata.map(|metadata| metadata.name);
        let section =
            |name: &str| format!(r#"(@custom "{SECTION}" "{{\22name\22: \22{name}\22}}")"#);
        let (a, b) = (section("a"), section("b"));
        for (text, name) in [
            ("(component)".to_owned(), None),
            (format!("(component {a})"), Some("a")),
            (format!("(component (core module {a}) {b})"), Some("a")),
        ] {
            assert_eq!(named(component(&text).unwrap()).as_deref(), name, "{text}");
        }
        let wrong = component(&format!(r#"(component (@custom "{SECTION}" "x"))"#)).unwrap_err();
        assert!(matches!(wrong.source, LoadProblem::Metadata(_)), "{wrong}");
    }

    #[test]
    fn names_of_nested_components_do_not_count() {
        let found = component(
            r#"(component
                (import "wasi:io/poll@0.2.6" (instance $i))
                (component (import "wasi:sockets/tcp@0.2.0" (instance)) (export "hidden" (instance 0)))
                (export "skydock:provider/plugin@0.1.0" (instance $i)))"#,
        )
        .unwrap();
        assert_eq!(found.imports, ["wasi:io/poll@0.2.6"]);
        assert_eq!(found.exports, ["skydock:provider/plugin@0.1.0"]);
        assert!(found.forbidden_imports().is_empty());
        assert!(found.capabilities().unwrap().is_empty());
    }

    #[test]
    fn a_capability_is_an_exported_interface() {
        let exports = |names: &[&str]| ComponentType {
            exports: names.iter().map(ToString::to_string).collect(),
            ..ComponentType::default()
        };
        let good = exports(&[
            "skydock:provider/plugin@0.1.0",
            "skydock:provider/routes@0.1.7",
            "other:package/zones@0.1.0",
        ]);
        assert_eq!(
            good.capabilities().unwrap(),
            BTreeSet::from([Capability::Routes])
        );

        assert_eq!(good.contract(), Some("0.1.0"));

        let none = exports(&["skydock:provider/instances@0.1.0"])
            .capabilities()
            .unwrap_err();
        assert!(
            matches!(none.source, LoadProblem::NoPlugin { .. }),
            "{none}"
        );

        let newer = exports(&["skydock:provider/plugin@0.2.0"])
            .capabilities()
            .unwrap_err();
        assert!(
            matches!(newer.source, LoadProblem::Version { .. }),
            "{newer}"
        );
        assert!(
            newer.to_string().contains("skydock:provider/plugin@0.2.0"),
            "{newer}"
        );
    }

    // Holds: SEC-01, SEC-02, SEC-03
    #[test]
    fn imports_are_denied_unless_they_are_granted() {
        let table = [
            ("wasi:cli/environment@0.2.3", true),
            ("wasi:http/outgoing-handler@0.2.0", true),
            ("wasi:logging/logging@0.1.0-draft", true),
            ("skydock:provider/cache@0.1.2", true),
            ("wasi:http/incoming-handler@0.2.0", false),
            ("wasi:sockets/tcp@0.2.0", false),
            ("wasi:cli/environment@0.3.0", false),
            ("wasi:keyvalue/store@0.2.0-draft", false),
            ("skydock:provider/cache@0.2.0", false),
            ("wasi:logging/logging@0.1.0", false),
            ("some-function", false),
        ];
        for (name, expected) in table {
            assert_eq!(granted(name), expected, "{name}");
        }
    }
}
