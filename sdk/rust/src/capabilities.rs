//! The capabilities that a plugin can export, and the macro that exports them.
//!
//! A further capability goes in here: its module, its line in [`export!`](crate::export!), and the
//! two lists of names there.

use crate::bindings::capability;

capability! {
    /// Arguments and results of [`Plugin`].
    plugin:
    /// Identity and configuration of a plugin, which every plugin exports. The contract:
    ///
    /// ```wit
    #[doc = include_str!("../wit/v0.1.1/plugin.wit")]
    /// ```
    Plugin {
        pub use self::generated::exports::skydock::provider::plugin::{Overlap, PluginInfo, Settings};
    }
    "plugin-base", "export_plugin",
    { "skydock:provider/plugin@0.1.1/plugin-info": [#[derive(Default)]],
      "skydock:provider/plugin@0.1.1/settings": [#[derive(Default)]],
      "skydock:provider/plugin@0.1.1/overlap": [#[derive(Default)]] },
    { "skydock:provider/plugin@0.1.1/overlap.any": [#[default]] }
}

capability! {
    /// Results of [`Instances`].
    instances:
    /// The instances of nodes in the cloud. The contract:
    ///
    /// ```wit
    #[doc = include_str!("../wit/v0.1.1/instances.wit")]
    /// ```
    Instances {
        pub use self::generated::exports::skydock::provider::instances::{Instance, Presence};
    }
    "with-instances", "export_instances",
    { "skydock:provider/instances@0.1.1/instance": [#[derive(Default)]] }
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
    ///         let servers = servers(&nodes.shared_targets());
    ///         // Bring the load balancer to this Service and these servers.
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
    /// Load balancers for Services. The contract:
    ///
    /// ```wit
    #[doc = include_str!("../wit/v0.1.1/load-balancers.wit")]
    /// ```
    LoadBalancers {
        pub use crate::node_sets::{NodeChanges, NodeSet, Target};
    }
    "with-load-balancers", "export_load_balancers", {}
}

capability! {
    /// Arguments and results of [`Routes`].
    routes:
    /// Routes to the Pods of each node. The contract:
    ///
    /// ```wit
    #[doc = include_str!("../wit/v0.1.1/routes.wit")]
    /// ```
    Routes {
        pub use self::generated::exports::skydock::provider::routes::{NewRoute, Route, RoutePage};
    }
    "with-routes", "export_routes", {}
}

capability! {
    /// Results of [`Zones`].
    zones:
    /// Locations of nodes, independent of [`Instances`]. The contract:
    ///
    /// ```wit
    #[doc = include_str!("../wit/v0.1.1/zones.wit")]
    /// ```
    Zones {
        pub use self::generated::exports::skydock::provider::zones::Zone;
    }
    "with-zones", "export_zones",
    { "skydock:provider/zones@0.1.1/zone": [#[derive(Default)]] }
}

capability! {
    /// Bindings of [`Maintenance`], which has no types of its own.
    #[doc(hidden)]
    maintenance:
    /// Periodic work. The contract:
    ///
    /// ```wit
    #[doc = include_str!("../wit/v0.1.1/maintenance.wit")]
    /// ```
    Maintenance {}
    "with-maintenance", "export_maintenance", {}
}

capability! {
    /// Arguments and results of [`Volumes`].
    volumes:
    /// The disks of a cloud behind PersistentVolumes. The contract, whose rules for all functions are
    /// those of [`storage`](crate::storage):
    ///
    /// ```wit
    #[doc = include_str!("../wit/v0.1.1/volumes.wit")]
    /// ```
    Volumes {
        pub use self::generated::exports::skydock::provider::volumes::{
            DriverInfo, NewVolume, Volume, VolumePage,
        };
    }
    "with-volumes", "export_volumes", "skydock:provider/storage@0.1.1": storage,
    { "skydock:provider/volumes@0.1.1/driver-info": [#[derive(Default)]],
      "skydock:provider/volumes@0.1.1/new-volume": [#[derive(Default)]],
      "skydock:provider/volumes@0.1.1/volume": [#[derive(Default)]],
      "skydock:provider/volumes@0.1.1/volume-page": [#[derive(Default)]] }
}

capability! {
    /// Arguments of [`Attachments`].
    attachments:
    /// Attachments of volumes to the cloud instances of nodes. The contract:
    ///
    /// ```wit
    #[doc = include_str!("../wit/v0.1.1/attachments.wit")]
    /// ```
    Attachments {
        pub use self::generated::exports::skydock::provider::attachments::{
            Attachment, NewAttachment,
        };
    }
    "with-attachments", "export_attachments", "skydock:provider/storage@0.1.1": storage,
    { "skydock:provider/attachments@0.1.1/attachment": [#[derive(Default)]],
      "skydock:provider/attachments@0.1.1/new-attachment": [#[derive(Default)]] }
}

capability! {
    /// Arguments of [`VolumeExpansion`].
    volume_expansion:
    /// Larger volumes. The contract:
    ///
    /// ```wit
    #[doc = include_str!("../wit/v0.1.1/volume-expansion.wit")]
    /// ```
    VolumeExpansion {
        pub use self::generated::exports::skydock::provider::volume_expansion::Expansion;
    }
    "with-volume-expansion", "export_volume_expansion", "skydock:provider/storage@0.1.1": storage,
    { "skydock:provider/volume-expansion@0.1.1/expansion": [#[derive(Default)]] }
}

capability! {
    /// Arguments of [`VolumeAttributes`].
    volume_attributes:
    /// Properties of existing volumes. The contract:
    ///
    /// ```wit
    #[doc = include_str!("../wit/v0.1.1/volume-attributes.wit")]
    /// ```
    VolumeAttributes {
        pub use self::generated::exports::skydock::provider::volume_attributes::Modification;
    }
    "with-volume-attributes", "export_volume_attributes", "skydock:provider/storage@0.1.1": storage,
    { "skydock:provider/volume-attributes@0.1.1/modification": [#[derive(Default)]] }
}

capability! {
    /// Arguments and results of [`Snapshots`].
    snapshots:
    /// Snapshots of volumes. The contract:
    ///
    /// ```wit
    #[doc = include_str!("../wit/v0.1.1/snapshots.wit")]
    /// ```
    Snapshots {
        pub use self::generated::exports::skydock::provider::snapshots::{
            NewSnapshot, Snapshot, SnapshotPage,
        };
    }
    "with-snapshots", "export_snapshots", "skydock:provider/storage@0.1.1": storage,
    { "skydock:provider/snapshots@0.1.1/new-snapshot": [#[derive(Default)]],
      "skydock:provider/snapshots@0.1.1/snapshot": [#[derive(Default)]],
      "skydock:provider/snapshots@0.1.1/snapshot-page": [#[derive(Default)]] }
}

capability! {
    /// Arguments and results of [`StorageCapacity`].
    storage_capacity:
    /// How much room the cloud has for volumes. The contract:
    ///
    /// ```wit
    #[doc = include_str!("../wit/v0.1.1/storage-capacity.wit")]
    /// ```
    StorageCapacity {
        pub use self::generated::exports::skydock::provider::storage_capacity::{
            Capacity, CapacityRequest,
        };
    }
    "with-storage-capacity", "export_storage_capacity", "skydock:provider/storage@0.1.1": storage,
    { "skydock:provider/storage-capacity@0.1.1/capacity": [#[derive(Default)]],
      "skydock:provider/storage-capacity@0.1.1/capacity-request": [#[derive(Default)]] }
}

/// Exports a type as a plugin with the given capabilities: any of `instances`, `load_balancers`,
/// `routes`, `zones`, `maintenance`, `volumes`, `attachments`, `volume_expansion`,
/// `volume_attributes`, `snapshots` and `storage_capacity`.
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
    (volumes $plugin:ident) => {
        $crate::__export_capability!(@ $plugin, Volumes, volumes, export_volumes);
    };
    (attachments $plugin:ident) => {
        $crate::__export_capability!(@ $plugin, Attachments, attachments, export_attachments);
    };
    (volume_expansion $plugin:ident) => {
        $crate::__export_capability!(@ $plugin, VolumeExpansion, volume_expansion, export_volume_expansion);
    };
    (volume_attributes $plugin:ident) => {
        $crate::__export_capability!(@ $plugin, VolumeAttributes, volume_attributes, export_volume_attributes);
    };
    (snapshots $plugin:ident) => {
        $crate::__export_capability!(@ $plugin, Snapshots, snapshots, export_snapshots);
    };
    (storage_capacity $plugin:ident) => {
        $crate::__export_capability!(@ $plugin, StorageCapacity, storage_capacity, export_storage_capacity);
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
            "`: there are `instances`, `load_balancers`, `routes`, `zones`, `maintenance`, `volumes`, `attachments`, ",
            "`volume_expansion`, `volume_attributes`, `snapshots` and `storage_capacity`"
        ));
    };
}
