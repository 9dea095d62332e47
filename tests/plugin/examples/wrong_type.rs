//! A plugin whose `instances` has the right name but wrong types. Its contract is in `wit-wrong`,
//! not in the SDK.

/// The wrong contract.
mod bindings {
    #![allow(
        unsafe_code,
        missing_docs,
        unreachable_pub,
        unused_qualifications,
        reason = "generated"
    )]
    wit_bindgen::generate!({ path: "wit-wrong", world: "wrong" });
    #[cfg(target_arch = "wasm32")]
    export!(Wrong with_types_in self);

    pub(super) struct Wrong;
}

use bindings::Wrong;
use bindings::exports::skydock::provider::plugin::{CloudError, Overlap, PluginInfo, Settings};
use bindings::exports::skydock::provider::{instances, plugin};

impl plugin::Guest for Wrong {
    fn info() -> PluginInfo {
        PluginInfo {
            name: "hostile".into(),
            version: "1.0.0".into(),
            provider_id_prefixes: vec!["hostile://".into()],
            wanted_hosts: Vec::new(),
            max_batch: 0,
            unused: Vec::new(),
            overlap: Overlap::Any,
            annotation_prefixes: Vec::new(),
        }
    }

    fn configure(_: Settings) -> Result<(), CloudError> {
        Ok(())
    }
}

impl instances::Guest for Wrong {
    fn check(names: Vec<String>) -> Vec<bool> {
        names.iter().map(|_| true).collect()
    }

    fn describe(names: Vec<String>) -> Vec<String> {
        names
    }
}
