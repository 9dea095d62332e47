//! Resources of Cinder: volumes and snapshots.

use std::collections::BTreeMap;

use serde::{Deserialize, de::DeserializeOwned};

/// Key of the metadata with the name of the cluster, which the official driver writes, too.
pub const CLUSTER: &str = "cinder.csi.openstack.org/cluster";

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Volume {
    /// The ID.
    pub id: String,
    /// The name, which is not unique.
    #[serde(default)]
    pub name: Option<String>,
    /// `creating`, `available`, `in-use`, `error` …
    #[serde(default)]
    pub status: String,
    /// The size in GiB.
    #[serde(default)]
    pub size: u64,
    /// The availability zone.
    #[serde(default)]
    pub availability_zone: Option<String>,
    /// Metadata of the owner.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// The servers that have it.
    #[serde(default)]
    pub attachments: Vec<Attachment>,
    /// The snapshot that it was created from.
    #[serde(default)]
    pub snapshot_id: Option<String>,
    /// The volume that it is a copy of.
    #[serde(default)]
    pub source_volid: Option<String>,
    /// Whether several servers can have it.
    #[serde(default)]
    pub multiattach: bool,
    /// The description.
    #[serde(default)]
    pub description: Option<String>,
    /// When it was created, in UTC: `2026-11-28T22:00:00.000000`.
    #[serde(default)]
    pub created_at: Option<String>,
}

/// An attachment of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Attachment {
    /// ID of the server.
    #[serde(default)]
    pub server_id: String,
    /// The device that the server has, for example `/dev/vdb`.
    #[serde(default)]
    pub device: Option<String>,
}

/// A snapshot of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Snapshot {
    /// The ID.
    pub id: String,
    /// The name, which is not unique.
    #[serde(default)]
    pub name: Option<String>,
    /// `creating`, `available`, `error` …
    #[serde(default)]
    pub status: String,
    /// The size in GiB.
    #[serde(default)]
    pub size: u64,
    /// ID of the volume.
    #[serde(default)]
    pub volume_id: String,
    /// When it was created, in UTC: `2026-11-28T22:00:00.000000`.
    #[serde(default)]
    pub created_at: String,
    /// Metadata of the owner.
    #[serde(default)]
    pub metadata: Option<BTreeMap<String, String>>,
    /// The description.
    #[serde(default)]
    pub description: Option<String>,
}

/// What volumes and snapshots have in common.
pub trait Resource: Clone + DeserializeOwned {
    /// The collection in URLs and lists.
    const COLLECTION: &'static str;
    /// The field with one in bodies, and its name for people.
    const ONE: &'static str;

    /// Returns the ID.
    fn id(&self) -> &str;

    /// Returns the name.
    fn name(&self) -> &str;

    /// Returns the state.
    fn status(&self) -> &str;

    /// Returns the description.
    fn description(&self) -> &str;

    /// Returns when it was created, in a form that can be compared.
    fn created_at(&self) -> &str;

    /// Returns whether a server has it, or is about to.
    fn is_used(&self) -> bool;

    /// Returns the cluster that it was created for, if that is known.
    fn cluster(&self) -> Option<&str>;
}

impl Resource for Volume {
    const COLLECTION: &'static str = "volumes";
    const ONE: &'static str = "volume";

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    fn status(&self) -> &str {
        &self.status
    }

    fn description(&self) -> &str {
        self.description.as_deref().unwrap_or_default()
    }

    fn created_at(&self) -> &str {
        self.created_at.as_deref().unwrap_or_default()
    }

    fn is_used(&self) -> bool {
        let states = ["in-use", "attaching", "detaching", "reserved"];
        states.contains(&self.status.as_str()) || !self.attachments.is_empty()
    }

    fn cluster(&self) -> Option<&str> {
        let cluster = self.metadata.get(CLUSTER).map(String::as_str);
        cluster.filter(|it| !it.is_empty())
    }
}

impl Resource for Snapshot {
    const COLLECTION: &'static str = "snapshots";
    const ONE: &'static str = "snapshot";

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    fn status(&self) -> &str {
        &self.status
    }

    fn description(&self) -> &str {
        self.description.as_deref().unwrap_or_default()
    }

    fn created_at(&self) -> &str {
        &self.created_at
    }

    fn is_used(&self) -> bool {
        false
    }

    fn cluster(&self) -> Option<&str> {
        let cluster = self.metadata.as_ref()?.get(CLUSTER)?;
        Some(cluster.as_str()).filter(|it| !it.is_empty())
    }
}
