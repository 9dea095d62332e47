//! The contract in Rust, generated from `wit/v0.1.0` when this crate is compiled.

wasmtime::component::bindgen!({
    path: "../../wit/v0.1.0",
    world: "provider",
    imports: { default: trappable },
    exports: { default: async },
    additional_derives: [serde::Serialize, serde::Deserialize],
});
