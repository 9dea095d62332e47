//! The contract in Rust, generated from the newest version 0.1.x when this crate is compiled.
//! Wasmtime finds the imports and exports of a plugin that was built for another one, too.

wasmtime::component::bindgen!({
    path: "../../wit/v0.1.1",
    world: "provider",
    imports: { default: trappable },
    exports: { default: async },
    additional_derives: [PartialEq, serde::Serialize, serde::Deserialize],
});
