//! The capabilities that a plugin can export, and the macro that exports them.
//!
//! A further capability goes in here: its module, its line in [`export!`](crate::export!), and the
//! two lists of names there.

use crate::bindings::capability;

capability! {
    /// Arguments and results of [`Plugin`].
    plugin:
    /// What every plugin must export: its identity, and a function that takes its configuration.
    ///
    /// The host instantiates a plugin, calls `configure`, then `info`, and only then other
    /// functions. It does this for each instance, and an instance handles one call at a time.
    /// Instances are created and dropped at any time: a plugin must not keep anything in memory
    /// that it cannot find again in the cloud, in the cluster's objects or in `cache`.
    Plugin {
        pub use self::generated::exports::skydock::provider::plugin::{Overlap, PluginInfo, Settings};
    }
    "plugin-base", "export_plugin",
    { "skydock:provider/plugin@0.1.0/plugin-info": [#[derive(Default)]],
      "skydock:provider/plugin@0.1.0/settings": [#[derive(Default)]],
      "skydock:provider/plugin@0.1.0/overlap": [#[derive(Default)]] },
    { "skydock:provider/plugin@0.1.0/overlap.any": [#[default]] }
}

capability! {
    /// Results of [`Instances`].
    instances:
    /// The cloud instances behind the nodes. Exported by a plugin that knows them.
    Instances {
        pub use self::generated::exports::skydock::provider::instances::{Instance, Presence};
    }
    "with-instances", "export_instances",
    { "skydock:provider/instances@0.1.0/instance": [#[derive(Default)]] }
}

capability! {
    /// Arguments of [`LoadBalancers`].
    ///
    /// A [`NodeSet`](load_balancers::NodeSet) is a handle: the nodes stay in the host, and each
    /// method is a call to the host whose cost depends on the size of its result. Call only the
    /// method that returns what you need, call it once, and pass its result to your rules:
    ///
    /// ```
    /// use skydock_sdk::load_balancers::{NodeSet, Target};
    /// # use skydock_sdk::types::{LoadBalancerStatus, Service};
    /// # use skydock_sdk::{LoadBalancers, Result};
    /// # struct Metal;
    ///
    /// impl LoadBalancers for Metal {
    ///     fn ensure(service: Service, nodes: &NodeSet) -> Result<LoadBalancerStatus> {
    ///         let servers = servers(&nodes.targets());
    ///         // Bring the load balancer to this service and these servers.
    /// #       Ok(LoadBalancerStatus::default())
    ///     }
    /// #   fn get(_: Service) -> Result<Option<LoadBalancerStatus>> { Ok(None) }
    /// #   fn update_nodes(_: Service, _: &NodeSet) -> Result<()> { Ok(()) }
    /// #   fn ensure_deleted(_: Service) -> Result<()> { Ok(()) }
    ///     // …
    /// }
    ///
    /// /// The cloud's numbers of the servers behind a load balancer. Nodes that have none yet come with a later call.
    /// fn servers(targets: &[Target]) -> Vec<&str> {
    ///     targets.iter().filter_map(|target| target.provider_id.as_deref()?.strip_prefix("metal://")).collect()
    /// }
    ///
    /// // The rule runs natively; a `NodeSet` exists only inside a plugin.
    /// let target = |id: Option<&str>| Target {
    ///     name: "n1".into(),
    ///     provider_id: id.map(Into::into),
    ///     zone: None,
    ///     addresses: Vec::new(),
    /// };
    /// assert_eq!(servers(&[target(Some("metal://7")), target(None)]), ["7"]);
    /// ```
    load_balancers:
    /// Load balancers for Services of type LoadBalancer. Exported by a plugin that can create them.
    ///
    /// Every function may be called again with the same arguments, also after an answer was lost,
    /// and must then lead to the same result. No function waits for the cloud to finish: long
    /// operations return `in-progress`.
    LoadBalancers {
        pub use crate::bindings::imports::skydock::provider::node_sets::{NodeChanges, NodeSet, Target};
    }
    "with-load-balancers", "export_load_balancers", {}
}

capability! {
    /// Arguments and results of [`Routes`].
    routes:
    /// Routes to the Pods of each node, for clouds whose network carries Pod traffic. Exported by a
    /// plugin that can create them.
    Routes {
        pub use self::generated::exports::skydock::provider::routes::{NewRoute, Route, RoutePage};
    }
    "with-routes", "export_routes", {}
}

capability! {
    /// Results of [`Zones`].
    zones:
    /// Locations of nodes, for plugins that know them independently of `instances`. They take
    /// precedence over those of `instances.describe`.
    Zones {
        pub use self::generated::exports::skydock::provider::zones::Zone;
    }
    "with-zones", "export_zones",
    { "skydock:provider/zones@0.1.0/zone": [#[derive(Default)]] }
}

capability! {
    /// Bindings of [`Maintenance`], which has no types of its own.
    #[doc(hidden)]
    maintenance:
    /// Work that has to be done periodically, independent of changes in the cluster, for example to
    /// update tags that follow the nodes, or to delete leftovers that no object refers to. Exported
    /// by a plugin that has such work.
    Maintenance {}
    "with-maintenance", "export_maintenance", {}
}

/// Exports a type as a plugin with the given capabilities: any of `instances`, `load_balancers`,
/// `routes`, `zones` and `maintenance`.
///
/// The type must implement [`Plugin`] and the trait of each capability; in a native build, the
/// macro only checks this. Use it once per crate.
///
/// ```ignore
/// skydock_sdk::export!(Metal: instances, load_balancers);
/// ```
///
/// ```compile_fail
/// struct Metal;
/// skydock_sdk::export!(Metal: instances); // Metal implements nothing.
/// ```
#[macro_export]
macro_rules! export {
    ($plugin:ident $(: $($capability:ident),* $(,)?)?) => {
        $crate::__export_capability!(plugin $plugin);
        $($($crate::__export_capability!($capability $plugin);)*)?
    };
}

/// Exports one capability of [`export!`] in a component, and checks its trait bound in a native
/// build.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_capability {
    (plugin $plugin:ident) => {
        $crate::__export_capability!(@ $plugin, Plugin, plugin, export_plugin);
    };
    (instances $plugin:ident) => {
        $crate::__export_capability!(@ $plugin, Instances, instances, export_instances);
    };
    (load_balancers $plugin:ident) => {
        $crate::__export_capability!(@ $plugin, LoadBalancers, load_balancers, export_load_balancers);
    };
    (routes $plugin:ident) => {
        $crate::__export_capability!(@ $plugin, Routes, routes, export_routes);
    };
    (zones $plugin:ident) => {
        $crate::__export_capability!(@ $plugin, Zones, zones, export_zones);
    };
    (maintenance $plugin:ident) => {
        $crate::__export_capability!(@ $plugin, Maintenance, maintenance, export_maintenance);
    };
    (@ $plugin:ident, $trait:ident, $module:ident, $export:ident) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            $crate::$module::generated::$export!($plugin with_types_in $crate::$module::generated);
        };
        #[cfg(not(target_arch = "wasm32"))]
        const _: () = {
            const fn has_capability<T: $crate::$trait>() {}
            has_capability::<$plugin>();
        };
    };
    ($unknown:ident $plugin:ident) => {
        ::core::compile_error!(::core::concat!(
            "unknown capability `", ::core::stringify!($unknown),
            "`: there are `instances`, `load_balancers`, `routes`, `zones` and `maintenance`"
        ));
    };
}

#[cfg(test)]
mod tests {
    const CONTRACT: [&str; 6] = [
        include_str!("../wit/v0.1.0/plugin.wit"),
        include_str!("../wit/v0.1.0/instances.wit"),
        include_str!("../wit/v0.1.0/load-balancers.wit"),
        include_str!("../wit/v0.1.0/routes.wit"),
        include_str!("../wit/v0.1.0/zones.wit"),
        include_str!("../wit/v0.1.0/maintenance.wit"),
    ];

    /// Returns the words of all documentation, in one line.
    fn words<'a>(lines: impl Iterator<Item = &'a str>) -> String {
        let docs = lines.filter_map(|line| line.trim_start().strip_prefix("///"));
        docs.flat_map(str::split_whitespace)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn each_trait_has_the_words_of_the_contract() {
        let ours = words(include_str!("capabilities.rs").lines());
        for contract in CONTRACT {
            let about = contract
                .lines()
                .skip_while(|line| !line.starts_with("///"))
                .take_while(|line| line.starts_with("///"));
            // The limits of a call are in the documentation of the crate.
            let about =
                words(about.take_while(|line| !line.starts_with("/// The limits of a call")));
            assert!(!about.is_empty() && ours.contains(&about), "{about}");
        }
    }
}
