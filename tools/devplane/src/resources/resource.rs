//! The supported resources, as in discovery.

use crate::resources::schema::{self, Object};

/// One resource in one group and version.
#[derive(Debug)]
pub(crate) struct Resource {
    /// Empty for the core group.
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) namespaced: bool,
    pub(crate) subresources: &'static [Subresource],
    /// Where its objects are stored. Both versions of Event share one.
    pub(crate) storage: Storage,
    pub(crate) schema: &'static Object,
    /// Whether an update of a missing object creates it.
    pub(crate) create_on_update: bool,
    /// Whether an update may omit the version that it is based on.
    pub(crate) unconditional_update: bool,
    /// Whether a deletion returns the object instead of a Status.
    pub(crate) returns_deleted: bool,
}

/// A part of an object, or an action on it, with its own path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subresource {
    Status,
    Token,
}

impl Subresource {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Token => "token",
        }
    }
}

/// Objects that are stored together: they share one history, and their names are unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Storage {
    Namespaces,
    Nodes,
    Services,
    Events,
    Leases,
    ConfigMaps,
    ServiceAccounts,
    Pods,
}

impl Storage {
    pub(crate) const ALL: [Self; 8] = [
        Self::Namespaces,
        Self::Nodes,
        Self::Services,
        Self::Events,
        Self::Leases,
        Self::ConfigMaps,
        Self::ServiceAccounts,
        Self::Pods,
    ];

    /// Returns the version in which objects are stored.
    pub(crate) fn resource(self) -> &'static Resource {
        match self {
            Self::Namespaces => &NAMESPACES,
            Self::Nodes => &NODES,
            Self::Services => &SERVICES,
            Self::Events => &CORE_EVENTS,
            Self::Leases => &LEASES,
            Self::ConfigMaps => &CONFIG_MAPS,
            Self::ServiceAccounts => &SERVICE_ACCOUNTS,
            Self::Pods => &PODS,
        }
    }
}

impl Resource {
    /// Returns `v1`, or `GROUP/VERSION`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the name of the resource in messages: `services`, or `leases.coordination.k8s.io`.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Returns the supported verbs. Pods can only be read, because nothing runs them.
    pub(crate) fn verbs(&self) -> &'static [&'static str] {
        match self.storage {
            Storage::Pods => &["get", "list", "watch"],
            Storage::Namespaces => &[
                "create", "delete", "get", "list", "patch", "update", "watch",
            ],
            _ => &[
                "create",
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "update",
                "watch",
            ],
        }
    }
}

const COMMON: Resource = Resource {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    singular: "",
    short_names: &[],
    namespaced: true,
    subresources: &[],
    storage: Storage::ConfigMaps,
    schema: &schema::core::CONFIG_MAP,
    create_on_update: false,
    unconditional_update: true,
    returns_deleted: false,
};

pub(crate) static CONFIG_MAPS: Resource = Resource {
    kind: "ConfigMap",
    plural: "configmaps",
    singular: "configmap",
    short_names: &["cm"],
    ..COMMON
};

pub(crate) static CORE_EVENTS: Resource = Resource {
    kind: "Event",
    plural: "events",
    singular: "event",
    short_names: &["ev"],
    storage: Storage::Events,
    schema: &schema::core::EVENT,
    create_on_update: true,
    ..COMMON
};

pub(crate) static NAMESPACES: Resource = Resource {
    kind: "Namespace",
    plural: "namespaces",
    singular: "namespace",
    short_names: &["ns"],
    namespaced: false,
    storage: Storage::Namespaces,
    schema: &schema::core::NAMESPACE,
    returns_deleted: true,
    ..COMMON
};

pub(crate) static NODES: Resource = Resource {
    kind: "Node",
    plural: "nodes",
    singular: "node",
    short_names: &["no"],
    namespaced: false,
    subresources: &[Subresource::Status],
    storage: Storage::Nodes,
    schema: &schema::core::NODE,
    ..COMMON
};

pub(crate) static PODS: Resource = Resource {
    kind: "Pod",
    plural: "pods",
    singular: "pod",
    short_names: &["po"],
    storage: Storage::Pods,
    schema: &schema::core::POD,
    ..COMMON
};

pub(crate) static SERVICE_ACCOUNTS: Resource = Resource {
    kind: "ServiceAccount",
    plural: "serviceaccounts",
    singular: "serviceaccount",
    short_names: &["sa"],
    subresources: &[Subresource::Token],
    storage: Storage::ServiceAccounts,
    schema: &schema::core::SERVICE_ACCOUNT,
    returns_deleted: true,
    ..COMMON
};

pub(crate) static SERVICES: Resource = Resource {
    kind: "Service",
    plural: "services",
    singular: "service",
    short_names: &["svc"],
    subresources: &[Subresource::Status],
    storage: Storage::Services,
    schema: &schema::core::SERVICE,
    create_on_update: true,
    returns_deleted: true,
    ..COMMON
};

pub(crate) static LEASES: Resource = Resource {
    group: "coordination.k8s.io",
    kind: "Lease",
    plural: "leases",
    singular: "lease",
    storage: Storage::Leases,
    schema: &schema::groups::LEASE,
    create_on_update: true,
    unconditional_update: false,
    ..COMMON
};

pub(crate) static EVENTS: Resource = Resource {
    group: "events.k8s.io",
    kind: "Event",
    plural: "events",
    singular: "event",
    short_names: &["ev"],
    storage: Storage::Events,
    schema: &schema::groups::EVENT,
    create_on_update: true,
    ..COMMON
};

/// All resources, by group and name: the order of `kubectl api-resources`.
pub(crate) static ALL: [&Resource; 9] = [
    &CONFIG_MAPS,
    &CORE_EVENTS,
    &NAMESPACES,
    &NODES,
    &PODS,
    &SERVICE_ACCOUNTS,
    &SERVICES,
    &LEASES,
    &EVENTS,
];

/// Returns the resource of a path.
pub(crate) fn find(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    ALL.into_iter().find(|resource| {
        resource.group == group && resource.version == version && resource.plural == plural
    })
}
