//! The capabilities and functions of the plugin contract, each once.
//!
//! [`functions!`](crate::functions) is the table of the functions. From it are made [`CloudProvider`],
//! [`Function`], [`Call`] and [`Answer`] here, and elsewhere what treats all functions alike: the
//! dry run in `skydock-controllers`, and what conformance tests show of an answer.
//!
//! A further function is one entry of the table, after those that create what it needs, and a
//! capability is one of `capabilities!`. A type of argument that no other function has goes into
//! [`Arguments`]. `host/sandbox/src/contract.rs` says what else a function needs.

mod arguments;

use std::fmt;

pub use self::arguments::{ArgumentKind, Arguments};

use self::arguments::Argument;
use crate::{Capability, CloudError, CloudProvider};

/// Passes the capabilities of the contract to a macro. An entry is the documentation of the
/// capability; its name in [`Capability`]; its interface; and the kind of its calls.
macro_rules! capabilities {
    ($with:ident) => {
        $with! {
            /// Knows the cloud instances behind nodes.
            Instances "instances" Nodes;
            /// Manages load balancers for Services.
            LoadBalancers "load-balancers" LoadBalancers;
            /// Manages routes to Pods.
            Routes "routes" Routes;
            /// Knows the zones and regions of nodes.
            Zones "zones" Nodes;
            /// Has work to be done periodically.
            Maintenance "maintenance" LoadBalancers;
            /// Manages volumes for PersistentVolumeClaims.
            Volumes "volumes" Volumes;
            /// Attaches volumes to the cloud instances of nodes.
            Attachments "attachments" Volumes;
            /// Expands volumes.
            VolumeExpansion "volume-expansion" Volumes;
            /// Changes the properties of volumes.
            VolumeAttributes "volume-attributes" Volumes;
            /// Manages snapshots of volumes.
            Snapshots "snapshots" Volumes;
            /// Knows how much room there is for volumes.
            StorageCapacity "storage-capacity" Volumes;
        }
    };
}
pub(crate) use capabilities;

/// Passes the functions of the contract to a macro. An entry is the documentation of the function
/// for controllers; its name in [`Function`]; whether it only reads, or may change the cloud; its
/// interface and its name in the contract; and its signature in
/// [`CloudProvider`], whose arguments are references.
#[macro_export]
macro_rules! functions {
    ($with:ident) => {
        $with! {
            /// Calls `instances.check` with at most [`ProviderInfo::max_batch`](crate::ProviderInfo::max_batch)
            /// nodes.
            Check reads Instances "check":
                check(nodes: [::std::sync::Arc<$crate::Node>]) -> $crate::Answers<$crate::Presence>;
            /// Calls `instances.describe` with at most
            /// [`ProviderInfo::max_batch`](crate::ProviderInfo::max_batch) nodes.
            Describe reads Instances "describe":
                describe(nodes: [::std::sync::Arc<$crate::Node>]) -> $crate::Answers<$crate::Instance>;
            /// Calls `zones.locate` with at most [`ProviderInfo::max_batch`](crate::ProviderInfo::max_batch)
            /// nodes.
            Locate reads Zones "locate":
                locate(nodes: [::std::sync::Arc<$crate::Node>]) -> $crate::Answers<$crate::Zone>;
            /// Calls `load-balancers.ensure`.
            Ensure writes LoadBalancers "ensure":
                ensure_load_balancer(service: $crate::Service, nodes: $crate::NodeSet)
                    -> $crate::LoadBalancerStatus;
            /// Calls `load-balancers.get`.
            Get reads LoadBalancers "get":
                get_load_balancer(service: $crate::Service)
                    -> ::std::option::Option<$crate::LoadBalancerStatus>;
            /// Calls `load-balancers.update-nodes`.
            UpdateNodes writes LoadBalancers "update-nodes":
                update_load_balancer(service: $crate::Service, nodes: $crate::NodeSet) -> ();
            /// Calls `load-balancers.ensure-deleted`.
            EnsureDeleted writes LoadBalancers "ensure-deleted":
                ensure_load_balancer_deleted(service: $crate::Service) -> ();
            /// Calls `routes.create-routes`.
            CreateRoutes writes Routes "create-routes":
                create_routes(routes: [$crate::NewRoute]) -> $crate::Answers<()>;
            /// Calls `routes.list-routes` for all pages.
            ListRoutes reads Routes "list-routes":
                list_routes() -> ::std::vec::Vec<$crate::Route>;
            /// Calls `routes.delete-routes`.
            DeleteRoutes writes Routes "delete-routes":
                delete_routes(routes: [$crate::Route]) -> $crate::Answers<()>;
            /// Calls `maintenance.maintain`; returns the delay before the next call.
            Maintain writes Maintenance "maintain":
                maintain() -> ::std::time::Duration;
            /// Calls `volumes.create-volumes` with at most
            /// [`ProviderInfo::max_batch`](crate::ProviderInfo::max_batch) volumes.
            CreateVolumes writes Volumes "create-volumes":
                create_volumes(volumes: [$crate::NewVolume])
                    -> $crate::Answers<$crate::Volume, $crate::StorageError>;
            /// Calls `volumes.get-volumes` with at most
            /// [`ProviderInfo::max_batch`](crate::ProviderInfo::max_batch) IDs.
            GetVolumes reads Volumes "get-volumes":
                get_volumes(ids: [$crate::VolumeId])
                    -> $crate::Answers<$crate::Volume, $crate::StorageError>;
            /// Calls `volumes.list-volumes` for all pages.
            ListVolumes reads Volumes "list-volumes":
                list_volumes() -> ::std::vec::Vec<$crate::Volume>;
            /// Calls `attachments.attach-volumes` with at most
            /// [`ProviderInfo::max_batch`](crate::ProviderInfo::max_batch) attachments. Returns what
            /// the node part of the driver needs to find the device.
            AttachVolumes writes Attachments "attach-volumes":
                attach_volumes(attachments: [$crate::NewAttachment])
                    -> $crate::Answers<$crate::Pairs, $crate::StorageError>;
            /// Calls `attachments.detach-volumes` with at most
            /// [`ProviderInfo::max_batch`](crate::ProviderInfo::max_batch) attachments.
            DetachVolumes writes Attachments "detach-volumes":
                detach_volumes(attachments: [$crate::Attachment])
                    -> $crate::Answers<(), $crate::StorageError>;
            /// Calls `volume-expansion.expand-volumes` with at most
            /// [`ProviderInfo::max_batch`](crate::ProviderInfo::max_batch) volumes. Returns their sizes.
            ExpandVolumes writes VolumeExpansion "expand-volumes":
                expand_volumes(expansions: [$crate::Expansion])
                    -> $crate::Answers<u64, $crate::StorageError>;
            /// Calls `volume-attributes.modify-volumes` with at most
            /// [`ProviderInfo::max_batch`](crate::ProviderInfo::max_batch) volumes.
            ModifyVolumes writes VolumeAttributes "modify-volumes":
                modify_volumes(modifications: [$crate::Modification])
                    -> $crate::Answers<(), $crate::StorageError>;
            /// Calls `snapshots.create-snapshots` with at most
            /// [`ProviderInfo::max_batch`](crate::ProviderInfo::max_batch) snapshots.
            CreateSnapshots writes Snapshots "create-snapshots":
                create_snapshots(snapshots: [$crate::NewSnapshot])
                    -> $crate::Answers<$crate::Snapshot, $crate::StorageError>;
            /// Calls `snapshots.get-snapshots` with at most
            /// [`ProviderInfo::max_batch`](crate::ProviderInfo::max_batch) IDs.
            GetSnapshots reads Snapshots "get-snapshots":
                get_snapshots(ids: [$crate::SnapshotId])
                    -> $crate::Answers<$crate::Snapshot, $crate::StorageError>;
            /// Calls `snapshots.list-snapshots` for all pages.
            ListSnapshots reads Snapshots "list-snapshots":
                list_snapshots() -> ::std::vec::Vec<$crate::Snapshot>;
            /// Calls `snapshots.delete-snapshots` with at most
            /// [`ProviderInfo::max_batch`](crate::ProviderInfo::max_batch) IDs.
            DeleteSnapshots writes Snapshots "delete-snapshots":
                delete_snapshots(ids: [$crate::SnapshotId])
                    -> $crate::Answers<(), $crate::StorageError>;
            /// Calls `volumes.delete-volumes` with at most
            /// [`ProviderInfo::max_batch`](crate::ProviderInfo::max_batch) IDs.
            DeleteVolumes writes Volumes "delete-volumes":
                delete_volumes(ids: [$crate::VolumeId])
                    -> $crate::Answers<(), $crate::StorageError>;
            /// Calls `storage-capacity.get-capacities` with at most
            /// [`ProviderInfo::max_batch`](crate::ProviderInfo::max_batch) requests.
            GetCapacities reads StorageCapacity "get-capacities":
                get_capacities(requests: [$crate::CapacityRequest])
                    -> $crate::Answers<$crate::Capacity, $crate::StorageError>;
        }
    };
}

/// Whether a function only reads.
macro_rules! only_reads {
    (reads) => {
        true
    };
    (writes) => {
        false
    };
}

/// Defines [`Function`], [`Call`] and [`Answer`].
macro_rules! define {
    ($(
        $(#[$doc:meta])*
        $function:ident $effect:ident $capability:ident $name:literal:
            $method:ident($($argument:ident: $type:ty),*) -> $answer:ty;
    )*) => {
        /// A function of the contract.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Function {
            $(
                #[doc = concat!("`", $name, "` of [`Capability::", stringify!($capability), "`].")]
                $function,
            )*
        }

        impl Function {
            /// All functions.
            pub const ALL: &'static [Self] = &[$(Self::$function),*];

            /// Returns the capability to which the function belongs.
            #[must_use]
            pub const fn capability(self) -> Capability {
                match self {
                    $(Self::$function => Capability::$capability,)*
                }
            }

            /// Returns the name in the interface of the capability.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$function => $name,)*
                }
            }

            /// Returns true for a function that changes nothing in the cloud.
            #[must_use]
            pub const fn only_reads(self) -> bool {
                match self {
                    $(Self::$function => only_reads!($effect),)*
                }
            }

            /// Returns the kinds of the arguments.
            #[must_use]
            pub const fn arguments(self) -> &'static [ArgumentKind] {
                match self {
                    $(Self::$function => &[$(<$type as Argument>::KIND),*],)*
                }
            }

            /// Returns a call of the function. It takes what it needs.
            #[must_use]
            pub fn with(self, arguments: &Arguments) -> Call<'_> {
                match self {
                    $(Self::$function => Call::$function {
                        $($argument: <$type as Argument>::of(arguments)),*
                    },)*
                }
            }
        }

        /// A call of a function, with its arguments.
        #[derive(Clone, Copy, Debug)]
        pub enum Call<'a> {
            $(
                #[doc = concat!("[`CloudProvider::", stringify!($method), "`].")]
                $function {
                    $(
                        #[doc = concat!("The argument `", stringify!($argument), "`.")]
                        $argument: &'a $type,
                    )*
                },
            )*
        }

        impl Call<'_> {
            /// Returns the function that is called.
            #[must_use]
            pub const fn function(self) -> Function {
                match self {
                    $(Self::$function { .. } => Function::$function,)*
                }
            }

            /// Returns the number of objects in its list; a call about one object, or about none,
            /// has one.
            #[must_use]
            pub fn questions(self) -> usize {
                match self {
                    $(Self::$function { $($argument),* } => {
                        let lists: &[Option<usize>] = &[$(Argument::len($argument)),*];
                        lists.iter().flatten().next().copied().unwrap_or(1)
                    })*
                }
            }

            /// Makes the call.
            ///
            /// # Errors
            /// Those of the function.
            pub async fn make(self, provider: &dyn CloudProvider) -> Result<Answer, CloudError> {
                match self {
                    $(Self::$function { $($argument),* } => {
                        provider.$method($($argument),*).await.map(Answer::$function)
                    })*
                }
            }
        }

        /// The answer to a call.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Answer {
            $(
                #[doc = concat!("Of [`CloudProvider::", stringify!($method), "`].")]
                $function($answer),
            )*
        }
    };
}

crate::functions!(define);

/// Formats it as `INTERFACE.FUNCTION`.
impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.capability(), self.name())
    }
}

impl Function {
    /// Returns the function with this name, as it is formatted.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let (interface, name) = name.split_once('.')?;
        let mut all = Self::ALL.iter().copied();
        all.find(|it| it.capability().name() == interface && it.name() == name)
    }

    /// Returns true if an argument is of this kind.
    #[must_use]
    pub fn takes(self, kind: ArgumentKind) -> bool {
        self.arguments().contains(&kind)
    }

    /// Returns true for a function that takes a list, and answers for each object in it.
    #[must_use]
    pub fn answers_each(self) -> bool {
        self.arguments().iter().any(|kind| kind.is_list())
    }
}

#[cfg(test)]
mod tests;
