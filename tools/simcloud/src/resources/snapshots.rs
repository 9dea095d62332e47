//! Snapshots of volumes.
use serde::{Deserialize, Serialize};

use crate::api::check::Labels;
use crate::history::Millis;

/// Maximum number of snapshots.
pub(crate) const MOST: usize = 10_000;

/// When the clock of the cloud begins, in seconds since 1970: at the beginning of 2026.
const BEGINNING: u64 = 1_767_225_600;

/// What a client sends to create one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct New {
    pub(crate) name: String,
    pub(crate) volume: String,
    #[serde(default)]
    pub(crate) labels: Labels,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) spec: New,
    pub(crate) size_gib: u32,
    pub(crate) cut: Millis,
    /// When volumes can be created from it.
    pub(crate) ready: Millis,
}

/// A snapshot as clients see it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct View<'a> {
    id: String,
    name: &'a str,
    volume: &'a str,
    size_gib: u32,
    created: u64,
    ready: bool,
    labels: &'a Labels,
}

impl Snapshot {
    /// Returns what clients see.
    pub(crate) fn view(&self, at: Millis, number: u64) -> View<'_> {
        View {
            id: id(number),
            name: &self.spec.name,
            volume: &self.spec.volume,
            size_gib: self.size_gib,
            created: BEGINNING + self.cut / 1000,
            ready: self.is_ready(at),
            labels: &self.spec.labels,
        }
    }

    pub(crate) fn is_ready(&self, at: Millis) -> bool {
        at >= self.ready
    }
}

/// Returns the ID of a snapshot.
pub(crate) fn id(number: u64) -> String {
    format!("snap-{number}")
}
