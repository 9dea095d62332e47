//! What `wit-bindgen` makes of the contract. The only module with `unsafe` in it, and all of that is generated.
//!
//! A world must export everything it names, so each capability has a world and a module of its own, and a plugin exports
//! those it has. All of them share the types and the host's interfaces of [`imports`]; the linker merges what they say.
#![allow(unsafe_code, reason = "generated: lifting and lowering of the canonical ABI")]
#![allow(missing_docs, unreachable_pub, unused_qualifications, rust_2018_idioms, reason = "generated")]
#![allow(
    clippy::needless_pass_by_value,
    clippy::uninlined_format_args,
    clippy::semicolon_if_nothing_returned,
    reason = "generated"
)]

/// Shared types, and what the host offers.
pub mod imports {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "imports",
        generate_all,
        generate_unused_types: true,
        additional_derives: [PartialEq, Eq],
        // What Kubernetes defaults to, so that tests and examples name only the fields they are about.
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

/// One module per capability: its world, its derives, and the name of its export macro.
macro_rules! capability {
    ($(#[$doc:meta])* $name:ident, $world:literal, $macro:literal, { $($attributes:tt)* } $(, { $($members:tt)* })?) => {
        $(#[$doc])*
        pub mod $name {
            wit_bindgen::generate!({
                path: "../../wit/v0.1.0",
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
    /// `plugin`, which every plugin exports.
    plugin, "plugin-base", "export_plugin",
    { "skydock:provider/plugin@0.1.0/plugin-info": [#[derive(Default)]],
      "skydock:provider/plugin@0.1.0/settings": [#[derive(Default)]],
      "skydock:provider/plugin@0.1.0/overlap": [#[derive(Default)]] },
    { "skydock:provider/plugin@0.1.0/overlap.any": [#[default]] }
}
capability! {
    /// `instances`.
    instances, "with-instances", "export_instances",
    { "skydock:provider/instances@0.1.0/instance": [#[derive(Default)]] }
}
capability! {
    /// `load-balancers`.
    load_balancers, "with-load-balancers", "export_load_balancers", {}
}
capability! {
    /// `routes`.
    routes, "with-routes", "export_routes", {}
}
capability! {
    /// `zones`.
    zones, "with-zones", "export_zones",
    { "skydock:provider/zones@0.1.0/zone": [#[derive(Default)]] }
}
capability! {
    /// `maintenance`.
    maintenance, "with-maintenance", "export_maintenance", {}
}
