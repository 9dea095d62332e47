//! Imports of components that `cargo xtask guests` has built.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::path::PathBuf;

use wasmparser::{Parser, Payload};

/// Returns the names of the imports of a component in `target/plugins`.
fn imports(plugin: &str) -> Vec<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/plugins")
        .join(plugin);
    let bytes = std::fs::read(&path)
        .unwrap_or_else(|_| panic!("no {}: run `cargo xtask guests`", path.display()));
    let mut depth = 0;
    let mut names = Vec::new();
    for payload in Parser::new(0).parse_all(&bytes) {
        match payload.unwrap() {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 0 => {
                names.extend(
                    section
                        .into_iter()
                        .map(|import| import.unwrap().name.name.to_owned()),
                );
            }
            _ => {}
        }
    }
    names
}

#[test]
fn only_a_plugin_that_makes_requests_imports_wasi_http() {
    let of_http = |plugin| {
        imports(plugin)
            .into_iter()
            .filter(|name| name.starts_with("wasi:http/"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of_http("hostile/http.wasm"),
        [
            "wasi:http/types@0.2.12",
            "wasi:http/outgoing-handler@0.2.12"
        ]
    );
    assert_eq!(of_http("static.wasm"), [""; 0]);
}
