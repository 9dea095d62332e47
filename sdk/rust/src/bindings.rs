//! Bindings that `wit-bindgen` generates from the contract. The files in `wit` are copies, so that the package contains them;
//! `cargo xtask tidy` makes them. This is the only module with `unsafe` code, all of which is generated.
//!
//! A plugin must export everything that its world names. Each capability therefore has its own world and module, and a plugin exports
//! those that it implements. All of them share the types and host interfaces of [`imports`]; the linker merges the worlds.
#![allow(unsafe_code, reason = "generated: lifting and lowering of the canonical ABI")]
#![allow(missing_docs, unreachable_pub, unused_qualifications, rust_2018_idioms, reason = "generated")]
#![allow(
    clippy::needless_pass_by_value,
    clippy::uninlined_format_args,
    clippy::semicolon_if_nothing_returned,
    reason = "generated"
)]

/// Shared types, and the interfaces that the host provides.
pub mod imports {
    wit_bindgen::generate!({
        path: "wit/v0.1.0",
        world: "imports",
        generate_all,
        generate_unused_types: true,
        additional_derives: [PartialEq, Eq],
        // The defaults of Kubernetes, so that tests and examples only set the fields that matter to them.
        additional_type_attributes: {
            "skydock:provider/types@0.1.0/node": [#[derive(Default)]],
            "skydock:provider/types@0.1.0/service": [#[derive(Default)]],
            "skydock:provider/types@0.1.0/ingress": [#[derive(Default)]],
            "skydock:provider/types@0.1.0/load-balancer-status": [#[derive(Default)]],
            "skydock:provider/types@0.1.0/traffic-policy": [#[derive(Default)]],
            "skydock:provider/types@0.1.0/ip-family-policy": [#[derive(Default)]],
        },
        additional_member_attributes: {
            "skydock:provider/types@0.1.0/traffic-policy.cluster": [#[default]],
            "skydock:provider/types@0.1.0/ip-family-policy.single-stack": [#[default]],
        },
    });
}

/// Generates the module of a capability from its world, its derives, and the name of its export macro.
macro_rules! capability {
    ($(#[$doc:meta])* $name:ident, $world:literal, $macro:literal, { $($attributes:tt)* } $(, { $($members:tt)* })?) => {
        $(#[$doc])*
        pub mod $name {
            wit_bindgen::generate!({
                path: "wit/v0.1.0",
                world: $world,
                pub_export_macro: true,
                export_macro_name: $macro,
                additional_derives: [PartialEq, Eq],
                additional_type_attributes: { $($attributes)* },
                $(additional_member_attributes: { $($members)* },)?
                with: {
                    "skydock:provider/types@0.1.0": crate::bindings::imports::skydock::provider::types,
                    "skydock:provider/cache@0.1.0": crate::bindings::imports::skydock::provider::cache,
                    "skydock:provider/calls@0.1.0": crate::bindings::imports::skydock::provider::calls,
                    "skydock:provider/cluster@0.1.0": crate::bindings::imports::skydock::provider::cluster,
                    "skydock:provider/events@0.1.0": crate::bindings::imports::skydock::provider::events,
                    "skydock:provider/node-sets@0.1.0": crate::bindings::imports::skydock::provider::node_sets,
                    "skydock:provider/objects@0.1.0": crate::bindings::imports::skydock::provider::objects,
                    "wasi:logging/logging@0.1.0-draft": crate::bindings::imports::wasi::logging::logging,
                },
            });
        }
    };
}

capability! {
    /// The interface `plugin`, which every plugin exports.
    plugin, "plugin-base", "export_plugin",
    { "skydock:provider/plugin@0.1.0/plugin-info": [#[derive(Default)]],
      "skydock:provider/plugin@0.1.0/settings": [#[derive(Default)]],
      "skydock:provider/plugin@0.1.0/overlap": [#[derive(Default)]] },
    { "skydock:provider/plugin@0.1.0/overlap.any": [#[default]] }
}
capability! {
    /// The interface `instances`.
    instances, "with-instances", "export_instances",
    { "skydock:provider/instances@0.1.0/instance": [#[derive(Default)]] }
}
capability! {
    /// The interface `load-balancers`.
    load_balancers, "with-load-balancers", "export_load_balancers", {}
}
capability! {
    /// The interface `routes`.
    routes, "with-routes", "export_routes", {}
}
capability! {
    /// The interface `zones`.
    zones, "with-zones", "export_zones",
    { "skydock:provider/zones@0.1.0/zone": [#[derive(Default)]] }
}
capability! {
    /// The interface `maintenance`.
    maintenance, "with-maintenance", "export_maintenance", {}
}
