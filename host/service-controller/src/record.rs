//! The record that a process leaves to the next one about the nodes of load balancers, so that a
//! restart does not send them all again.
//!
//! A ConfigMap contains a [`Record`]: a line for each Service whose load balancer has exactly the
//! nodes in it. An annotation of the Lease, the [`Mark`], says which record is true, and for which
//! Services it is not any more. `keeper.rs` writes both, and `restore.rs` says what is recorded,
//! and continues with it.
//!
//! A line must never say more than is true, whenever the process is killed. So, before a call that
//! may change a load balancer, its line is taken out of the mark, which has to be confirmed; a
//! record is written before the mark that names it; and a mark counts only for the process that
//! acquires the Lease after the one that has written it. Periodic checks are the exception: each
//! load balancer is checked all the time, and a mark each time would cost more than it saves. A
//! line ends when the next check of its Service is due.

pub(crate) mod digest;
pub(crate) mod keeper;
mod restore;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{Hash, Hasher as _},
    time::Duration,
};

use k8s_openapi::api::core::v1::Service;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use skydock_cloud::NodeFields;
use skydock_controller_base::objects::constants::ANNOTATION_CLASS;
use skydock_kube::election::Held;

use self::digest::Digest;

/// Version of the record, also of what a [`Key`] is made from.
const FORMAT: u8 = 1;

/// Maximum number of Services that a mark excepts. If there would be more, there is no mark.
pub(crate) const MOST_EXCEPTIONS: usize = 64;

/// Maximum difference between the clocks of two replicas, or a quarter of the period of checks if
/// that is less: a line ends that much earlier for the process that reads it than for the one that
/// has written it.
const SKEW: Duration = Duration::from_secs(60);

/// Longest time without a leader after which a record is believed. A hand-over takes less, even if
/// the last leader was killed; in more, a program that does not use this Lease may have changed load
/// balancers, such as another cloud-controller-manager that was tried.
const LONGEST_UNATTENDED: Duration = Duration::from_secs(120);

/// Identifies a Service, what it says, and the provider that has ensured its load balancer. A
/// different build or configuration of the plugin may choose other members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(u128);

impl Key {
    /// Returns the key of a Service as it is now. `revision` identifies the provider.
    pub(crate) fn new(revision: u128, service: &Service) -> Self {
        let annotations = service.metadata.annotations.iter().flatten();
        let mut digest = Digest::default();
        (FORMAT, env!("CARGO_PKG_VERSION"), revision).hash(&mut digest);
        service.metadata.uid.hash(&mut digest);
        for annotation in annotations.filter(|(key, _)| *key != ANNOTATION_CLASS) {
            annotation.hash(&mut digest);
        }

        // All of it: a field that does not matter changes rarely. The status, because one that
        // somebody else has written while nobody led is to be repaired.
        let status = service.status.as_ref().map(|it| &it.load_balancer);
        let said = (&service.metadata.labels, &service.spec, status);
        digest.write(&serde_json::to_vec(&said).unwrap_or_default());
        Self(digest.result())
    }

    fn text(self) -> String {
        format!("{:032x}", self.0)
    }
}

/// What is recorded about a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The fields of its nodes that the provider has read.
    pub(crate) node_fields: NodeFields,
    /// Digest of these fields.
    pub(crate) nodes: u128,
    /// When it was last ensured, in seconds since the Unix epoch.
    pub(crate) checked: u64,
}

#[derive(Clone)]
pub(crate) struct ServiceLine {
    uid: String,
    key: Key,
    line: Line,
}

impl Line {
    /// Returns when the next check is due. `period` is that of checks.
    pub(crate) fn until(&self, period: Duration) -> u64 {
        self.checked.saturating_add(period.as_secs())
    }

    /// Returns true if the process that has written it has certainly not begun the next check. A
    /// time in the future was written with another clock.
    fn counts(&self, now: u64, period: Duration) -> bool {
        let latest = latest(now, period);
        self.checked <= latest && latest < self.until(period)
    }
}

/// Returns the latest time that the clock of another replica may show now.
fn latest(now: u64, period: Duration) -> u64 {
    now.saturating_add(SKEW.min(period / 4).as_secs())
}

/// The contents of the ConfigMap: 20 bytes for each Service, since most have the same nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record(BTreeMap<Key, Line>);

impl FromIterator<(Key, Line)> for Record {
    fn from_iter<T: IntoIterator<Item = (Key, Line)>>(lines: T) -> Self {
        Self(lines.into_iter().collect())
    }
}

impl Record {
    /// Returns the keys of all lines that have not ended: those that have will not count again.
    pub(crate) fn keys(&self, now: u64, period: Duration) -> impl Iterator<Item = Key> {
        let lines = self.0.iter();
        lines
            .filter(move |(_, line)| latest(now, period) < line.until(period))
            .map(|(key, _)| *key)
    }

    /// Returns the line of a Service, if it still counts.
    pub(crate) fn line(&self, key: Key, now: u64, period: Duration) -> Option<Line> {
        let line = self.0.get(&key)?;
        line.counts(now, period).then_some(*line)
    }

    /// Returns the bytes of the record. Those of the same record are the same.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut groups = BTreeMap::<_, Vec<_>>::new();
        for (key, line) in &self.0 {
            let group = (line.node_fields == NodeFields::All, line.nodes);
            groups.entry(group).or_default().push((key, line.checked));
        }

        let mut bytes = vec![FORMAT];
        for ((whole, nodes), lines) in groups {
            bytes.push(u8::from(whole));
            bytes.extend(nodes.to_be_bytes());
            bytes.extend(narrow(lines.len() as u64).to_be_bytes());
            for (key, checked) in lines {
                bytes.extend(key.0.to_be_bytes());
                bytes.extend(narrow(checked).to_be_bytes());
            }
        }
        bytes
    }

    /// Returns the record with these bytes; `None` if there is none.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (&FORMAT, mut rest) = bytes.split_first()? else {
            return None;
        };

        let mut lines = BTreeMap::new();
        while !rest.is_empty() {
            let node_fields = match u8::from_be_bytes(*take(&mut rest)?) {
                0 => NodeFields::Target,
                1 => NodeFields::All,
                _ => return None,
            };
            let nodes = u128::from_be_bytes(*take(&mut rest)?);
            for _ in 0..u32::from_be_bytes(*take(&mut rest)?) {
                let key = Key(u128::from_be_bytes(*take(&mut rest)?));
                let checked = u32::from_be_bytes(*take(&mut rest)?).into();
                let line = Line {
                    node_fields,
                    nodes,
                    checked,
                };
                lines.insert(key, line);
            }
        }
        Some(Self(lines))
    }
}

fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(first)
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Says which record is true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// UID of the Lease.
    lease: String,
    /// The holder of the Lease, by the number of its transitions.
    holder: i32,
    /// SHA-256 of the record.
    record: String,
    /// Keys of the Services for which it is not true.
    except: BTreeSet<String>,
}

impl Mark {
    /// Returns the text of the mark of the holder of this Lease. `record` is the SHA-256.
    pub(crate) fn text(held: &Held, record: &str, except: &BTreeSet<Key>) -> Option<String> {
        let mark = Self {
            lease: held.uid.clone(),
            holder: held.transitions,
            record: record.to_owned(),
            except: except.iter().map(|key| key.text()).collect(),
        };
        serde_json::to_string(&mark).ok()
    }
}

/// Returns the part of a record that is true, for the process that has just acquired the Lease. Who
/// held it in between and knows nothing of records has left a mark of an earlier holder.
pub(crate) fn believed(held: &Held, record: &[u8]) -> Record {
    let mark = held.text.as_deref().map(serde_json::from_str::<Mark>);
    let Some(Ok(mark)) = mark else {
        return Record::default();
    };

    let is_last = mark.lease == held.uid && mark.holder.checked_add(1) == Some(held.transitions);
    let is_recent = held.unattended <= LONGEST_UNATTENDED;
    if !is_last || !is_recent || mark.record != sha256(record) {
        return Record::default();
    }

    let mut record = Record::decode(record).unwrap_or_default();
    record.0.retain(|key, _| !mark.except.contains(&key.text()));
    record
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests;
