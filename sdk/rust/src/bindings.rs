//! Bindings that `wit-bindgen` generates from the contract. All `unsafe` code of this crate is in
//! them. In the repository, `wit` is a link to the contract; the package contains its files.
//!
//! A plugin must export everything that its world names. Each capability therefore has its own
//! world and module, and a plugin exports those that it implements. All of them share the types and
//! host interfaces of [`imports`]; the linker merges the worlds.
#![allow(
    unsafe_code,
    reason = "generated: lifting and lowering of the canonical ABI"
)]
#![allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    rust_2018_idioms,
    reason = "generated"
)]
#![allow(
    clippy::needless_pass_by_value,
    clippy::uninlined_format_args,
    clippy::semicolon_if_nothing_returned,
    reason = "generated"
)]

/// Shared types, and the interfaces that the host provides.
pub mod imports {
    wit_bindgen::generate!({
        // Types that only some capabilities have are shared by their modules, too.
        inline: "
            package skydock:sdk;
            world shared {
                include skydock:provider/imports@0.1.1;
                import skydock:provider/storage@0.1.1;
            }
        ",
        path: "wit/v0.1.1",
        generate_all,
        generate_unused_types: true,
        additional_derives: [PartialEq, Eq],
        // The defaults of Kubernetes, so that tests and examples only set the fields that matter to
        // them.
        additional_type_attributes: {
            "skydock:provider/types@0.1.1/node": [#[derive(Default)]],
            "skydock:provider/types@0.1.1/service": [#[derive(Default)]],
            "skydock:provider/types@0.1.1/ingress": [#[derive(Default)]],
            "skydock:provider/types@0.1.1/load-balancer-status": [#[derive(Default)]],
            "skydock:provider/types@0.1.1/traffic-policy": [#[derive(Default)]],
            "skydock:provider/types@0.1.1/ip-family-policy": [#[derive(Default)]],
            "skydock:provider/storage@0.1.1/access-mode": [#[derive(Default)]],
            "skydock:provider/storage@0.1.1/volume-capability": [#[derive(Default)]],
            "skydock:provider/storage@0.1.1/owner": [#[derive(Default)]],
        },
        additional_member_attributes: {
            "skydock:provider/types@0.1.1/traffic-policy.cluster": [#[default]],
            "skydock:provider/types@0.1.1/ip-family-policy.single-stack": [#[default]],
            "skydock:provider/storage@0.1.1/access-mode.single-node-writer": [#[default]],
        },
    });
}

/// Defines a capability: its trait, and a module with the types of its arguments and results and
/// with its bindings. The trait is documented with the file of the contract, because wit-bindgen
/// leaves out what that says about the interface. The literals are its world and the name of its
/// export macro, and what else of [`imports`] it shares; the braces after them have additional
/// attributes of types and of their members.
macro_rules! capability {
    (
        $(#[$doc:meta])*
        $name:ident: $(#[$about:meta])* $trait:ident { $($item:item)* }
        $world:literal, $macro:literal, $($shared:literal: $module:ident,)? { $($attributes:tt)* } $(, { $($members:tt)* })?
    ) => {
        $(#[$about])*
        pub use $name::generated::exports::skydock::provider::$name::Guest as $trait;

        $(#[$doc])*
        pub mod $name {
            $($item)*

            #[doc(hidden)]
            #[allow(unsafe_code, reason = "generated: lifting and lowering of the canonical ABI")]
            #[allow(missing_docs, unreachable_pub, unused_qualifications, rust_2018_idioms, reason = "generated")]
            #[allow(
                clippy::needless_pass_by_value,
                clippy::uninlined_format_args,
                clippy::semicolon_if_nothing_returned,
                reason = "generated"
            )]
            pub mod generated {
                wit_bindgen::generate!({
                    path: "wit/v0.1.1",
                    world: $world,
                    pub_export_macro: true,
                    export_macro_name: $macro,
                    additional_derives: [PartialEq, Eq],
                    additional_type_attributes: { $($attributes)* },
                    $(additional_member_attributes: { $($members)* },)?
                    with: {
                        "skydock:provider/types@0.1.1": crate::bindings::imports::skydock::provider::types,
                        "skydock:provider/cache@0.1.1": crate::bindings::imports::skydock::provider::cache,
                        "skydock:provider/calls@0.1.1": crate::bindings::imports::skydock::provider::calls,
                        "skydock:provider/cluster@0.1.1": crate::bindings::imports::skydock::provider::cluster,
                        "skydock:provider/events@0.1.1": crate::bindings::imports::skydock::provider::events,
                        "skydock:provider/node-sets@0.1.1": crate::node_sets,
                        "skydock:provider/objects@0.1.1": crate::bindings::imports::skydock::provider::objects,
                        $($shared: crate::bindings::imports::skydock::provider::$module,)?
                        "wasi:logging/logging@0.1.0-draft": crate::bindings::imports::wasi::logging::logging,
                    },
                });
            }
        }
    };
}
pub(crate) use capability;
