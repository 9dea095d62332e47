//! Reads and writes the record and its mark.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    hash::Hash,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use k8s_openapi::{
    ByteString, api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use skydock_kube::{
    api::{Action, ApiError, with_deadline},
    election::LeaseAnnotation,
};
use tokio::time::{Instant, timeout};

use super::{Key, MOST_EXCEPTIONS, Mark, Record, ServiceLine, believed, digest::Digest, sha256};

/// Annotation of the Lease with the mark.
pub const ANNOTATION: &str = "skydock.dev/load-balancer-nodes";

/// Key of the record in the ConfigMap.
const RECORD: &str = "record";

/// Time for which nothing must change before a record is written, and the longest time for which it
/// is not written if something changes all the time.
const QUIET: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// Minimum time between two records, and after one that could not be written.
const BETWEEN: Duration = Duration::from_secs(30);
const AFTER_FAILURE: Duration = Duration::from_secs(5 * 60);

/// Part of the lines that may end before another record is written: their load balancers are sent
/// their nodes after a restart. A few of them cost less than a record.
const MOST_ENDED: usize = 16;

/// Maximum time for a request. Calls to the cloud may wait for it.
const REQUEST: Duration = Duration::from_secs(10);

/// Where a process leaves what it knows to the next one.
#[derive(Clone)]
pub struct RecordStore {
    config_maps: Api<ConfigMap>,
    name: String,
    settings: u128,
    annotation: Arc<LeaseAnnotation>,
}

/// A ConfigMap with a record.
struct Found {
    resource_version: String,
    record: Vec<u8>,
}

impl RecordStore {
    /// Creates a store next to the Lease with this name. With other settings, a process does not
    /// believe what the last one has left. `annotation` is [`ANNOTATION`] of the Lease.
    #[must_use]
    pub fn new(
        client: &Client,
        namespace: &str,
        lease: &str,
        settings: &str,
        annotation: LeaseAnnotation,
    ) -> Self {
        let mut digest = Digest::default();
        settings.hash(&mut digest);
        Self {
            config_maps: Api::namespaced(with_deadline(client), namespace),
            name: config_map(lease),
            settings: digest.result(),
            annotation: Arc::new(annotation),
        }
    }

    async fn read(&self) -> Result<Option<Found>, ApiError> {
        let found = request("get", self.config_maps.get_opt(&self.name)).await?;
        Ok(found.map(Found::from))
    }

    /// Replaces the version that was found, or creates the ConfigMap.
    async fn write(&self, before: Option<&Found>, record: &[u8]) -> Result<Found, ApiError> {
        let text = "Which nodes the load balancers have, for the next leader. Without it, all get them again.";
        let params = PostParams::default();
        let config_map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                resource_version: before.map(|before| before.resource_version.clone()),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([("description".into(), text.into())])),
            binary_data: Some(BTreeMap::from([(
                RECORD.into(),
                ByteString(record.to_vec()),
            )])),
            ..ConfigMap::default()
        };

        let written = match before {
            Some(_) => {
                let replacing = self.config_maps.replace(&self.name, &params, &config_map);
                request("update", replacing).await?
            }
            None => request("create", self.config_maps.create(&params, &config_map)).await?,
        };
        Ok(Found {
            record: record.to_vec(),
            ..Found::from(written)
        })
    }
}

/// Returns the name of the ConfigMap next to a Lease.
#[must_use]
pub fn config_map(lease: &str) -> String {
    format!("{lease}-load-balancer-nodes")
}

impl From<ConfigMap> for Found {
    fn from(config_map: ConfigMap) -> Self {
        let mut data = config_map.binary_data.unwrap_or_default();
        Self {
            resource_version: config_map.metadata.resource_version.unwrap_or_default(),
            record: data.remove(RECORD).unwrap_or_default().0,
        }
    }
}

async fn request<T>(
    verb: &'static str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ApiError> {
    let action = Action {
        verb,
        resource: "configmaps".to_owned(),
    };
    match timeout(REQUEST, request).await {
        Ok(answer) => answer.map_err(|error| ApiError::new(action, error)),
        Err(_) => Err(ApiError::Failed(action, "no answer".to_owned())),
    }
}

/// A line that the next process believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValidLine {
    pub(crate) key: Key,
    /// When the line ends, in seconds since the Unix epoch.
    pub(crate) until: u64,
}

/// Keeps the record of this process true.
pub(crate) struct Keeper {
    store: RecordStore,
    /// Period of checks.
    period: Duration,
    /// The wall clock at the start, in seconds since the Unix epoch, and when that was.
    started: (u64, Instant),
    /// Locked while record or mark are written.
    writing: tokio::sync::Mutex<Writing>,
    /// The lines of the record that the mark does not except, by the UIDs of their Services.
    valid_lines: Mutex<HashMap<String, ValidLine>>,
    /// The record that is being written. If that was canceled, it stays until the next one.
    recording: Mutex<Recording>,
    /// The UIDs of Services whose lines are waiting to be excepted.
    waiting: Mutex<HashSet<String>>,
    stale: Mutex<Stale>,
}

/// What a record that is being written is about.
#[derive(Default)]
enum Recording {
    /// None is being written.
    #[default]
    Nothing,
    /// Its lines are being gathered, perhaps that of any Service.
    All,
    /// It has the lines of the Services with these UIDs.
    Of(HashSet<String>),
}

#[derive(Default)]
struct Writing {
    /// The ConfigMap as it was last read or written.
    found: Option<Found>,
    /// SHA-256 of the record that the mark is about. If a write was not answered, the ConfigMap may
    /// contain another.
    marked: String,
    /// The keys that the mark excepts.
    except: BTreeSet<Key>,
    /// The last attempt has failed, which was logged.
    failed: bool,
}

/// When something has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Changes {
    first: Instant,
    last: Instant,
}

/// How much of the record is out of date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stale {
    /// Changes since the last record: a load balancer was sent nodes that are not in it.
    changed: Option<Changes>,
    /// Number of lines that have ended, and whose check has found nothing to record but that.
    ended: usize,
    /// When the next record may be written.
    not_before: Option<Instant>,
}

impl Stale {
    fn change(&mut self, now: Instant) {
        let first = self.changed.map_or(now, |changed| changed.first);
        self.changed = Some(Changes { first, last: now });
    }

    /// Returns true if a record is to be written. `lines` is how many it has.
    fn is_due(&self, lines: usize, now: Instant) -> bool {
        let may = self.not_before.is_none_or(|not_before| not_before <= now);
        let is_quiet = self
            .changed
            .is_some_and(|it| it.last + QUIET <= now || it.first + LONGEST <= now);
        may && (is_quiet || self.ended > MOST_ENDED + lines / MOST_ENDED)
    }
}

impl Keeper {
    /// Creates a keeper for load balancers that are checked in this period.
    pub(crate) fn new(store: RecordStore, period: Duration) -> Self {
        Self {
            store,
            period,
            started: (unix_time(), Instant::now()),
            writing: tokio::sync::Mutex::default(),
            valid_lines: Mutex::default(),
            recording: Mutex::default(),
            waiting: Mutex::default(),
            stale: Mutex::default(),
        }
    }

    /// Identifies the settings of this process.
    pub(crate) fn settings(&self) -> u128 {
        self.store.settings
    }

    pub(crate) fn period(&self) -> Duration {
        self.period
    }

    /// Returns what the previous process has left, as far as it is true. Must be called before
    /// anything is sent to the cloud.
    pub(crate) async fn load(&self) -> Record {
        let mut writing = self.writing.lock().await;
        match self.store.read().await {
            Ok(found) => writing.found = found,
            Err(error) => self.warn(&mut writing, &error),
        }

        match (self.store.annotation.held(), &writing.found) {
            (Some(held), Some(found)) => believed(&held, &found.record),
            _ => Record::default(),
        }
    }

    /// Marks the lines with which this process goes on as valid, so that its successor believes them
    /// too. All others are excepted: nobody would find them again before a call.
    pub(crate) async fn adopt(&self, adopted: HashMap<String, ValidLine>) {
        let mut writing = self.writing.lock().await;
        let Some(found) = writing.found.as_ref().filter(|_| !adopted.is_empty()) else {
            return;
        };

        let kept: HashSet<_> = adopted.values().map(|line| line.key).collect();
        let record = Record::decode(&found.record).unwrap_or_default();
        let except: BTreeSet<_> = record
            .keys(unix_time(), self.period)
            .filter(|key| !kept.contains(key))
            .collect();
        if except.len() > MOST_EXCEPTIONS {
            return self.stale.lock().change(Instant::now());
        }

        *self.valid_lines.lock() = adopted;
        writing.marked = sha256(&found.record);
        writing.except = except;
        let text = self.mark(&writing, &writing.except);
        self.store.annotation.set(text).await;
    }

    /// Must be called before a call that may change the load balancer of the Service with this UID.
    /// Returns when the next process does not believe its line.
    pub(crate) async fn invalidate(&self, uid: &str) {
        if !self.may_have_line(uid) {
            return;
        }

        self.waiting.lock().insert(uid.to_owned());
        let mut writing = self.writing.lock().await;

        // Those that wait for the lock get the same mark. But the task that has taken them may have
        // been canceled, so each looks for its own Service.
        let mut waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.insert(uid.to_owned());
        let now = self.earliest_time();
        let invalidated: Vec<_> = {
            let valid_lines = self.valid_lines.lock();
            let lines = waiting
                .iter()
                .filter_map(|uid| valid_lines.get_key_value(uid));
            let lines = lines.filter(|(_, line)| now < line.until);
            lines.map(|(uid, line)| (uid.clone(), line.key)).collect()
        };
        if invalidated.is_empty() {
            return;
        }

        let mut except = writing.except.clone();
        except.extend(invalidated.iter().map(|(_, key)| *key));
        if except.len() > MOST_EXCEPTIONS {
            return self.remove_mark(&mut writing).await;
        }

        self.store
            .annotation
            .set(self.mark(&writing, &except))
            .await;
        // Only once it is confirmed: this task may be canceled before.
        writing.except = except;
        for (uid, _) in &invalidated {
            self.valid_lines.lock().remove(uid);
        }
        self.stale.lock().change(Instant::now());
    }

    /// The same as [`Keeper::invalidate`] for all Services, if these are too many to be excepted.
    pub(crate) async fn invalidate_many(&self, services: usize) {
        if services > MOST_EXCEPTIONS {
            let mut writing = self.writing.lock().await;
            if !self.valid_lines.lock().is_empty() {
                self.remove_mark(&mut writing).await;
            }
        }
    }

    /// Returns false if no record, not even one that is being written, can have a line of the Service
    /// with this UID that counts. Its calls need not wait, however slow the API server is.
    fn may_have_line(&self, uid: &str) -> bool {
        // In this order: `write` makes lines valid before it forgets that it has recorded them.
        let is_recorded = match &*self.recording.lock() {
            Recording::Nothing => false,
            Recording::All => true,
            Recording::Of(uids) => uids.contains(uid),
        };
        is_recorded || self.valid_lines.lock().contains_key(uid)
    }

    /// Returns the wall clock, without what it was set forward since the start. A line that has ended
    /// only by a clock that is wrong counts for a process whose clock is right.
    fn earliest_time(&self) -> u64 {
        let (time, start) = self.started;
        unix_time().min(time.saturating_add(start.elapsed().as_secs()))
    }

    async fn remove_mark(&self, writing: &mut Writing) {
        self.store.annotation.set(None).await;
        writing.except.clear();
        self.valid_lines.lock().clear();
        self.stale.lock().change(Instant::now());
    }

    /// Must be called after a successful call for a Service with this UID.
    pub(crate) fn synced(&self, uid: &str) {
        let line = self.valid_lines.lock().get(uid).copied();
        match line {
            // It says so already, but not for long.
            Some(_) => self.stale.lock().ended += 1,
            None => self.stale.lock().change(Instant::now()),
        }
    }

    /// Returns true if a record is to be written.
    pub(crate) fn is_due(&self) -> bool {
        let lines = self.valid_lines.lock().len();
        self.stale.lock().is_due(lines, Instant::now())
    }

    /// Returns true if something has changed since the last record.
    pub(crate) fn has_changed(&self) -> bool {
        self.stale.lock().changed.is_some()
    }

    /// Writes a record and its mark. `lines` must not return one of a Service for which
    /// [`Keeper::invalidate`] is being called.
    pub(crate) async fn write(&self, lines: impl FnOnce() -> Vec<ServiceLine>) {
        let mut writing = self.writing.lock().await;
        let now = Instant::now();
        *self.stale.lock() = Stale {
            not_before: Some(now + BETWEEN),
            ..Stale::default()
        };

        // Before the lines are gathered, so that no call begins unnoticed meanwhile.
        *self.recording.lock() = Recording::All;
        let lines = lines();
        let uids = lines.iter().map(|it| it.uid.clone()).collect();
        *self.recording.lock() = Recording::Of(uids);

        self.write_lines(&mut writing, lines).await;
        *self.recording.lock() = Recording::Nothing;
    }

    async fn write_lines(&self, writing: &mut Writing, lines: Vec<ServiceLine>) {
        let record: Record = lines.iter().map(|it| (it.key, it.line)).collect();
        let bytes = record.encode();
        let before = writing.found.as_ref();
        if before.is_none_or(|before| before.record != bytes) {
            match self.store.write(before, &bytes).await {
                Ok(found) => writing.found = Some(found),
                Err(error) => {
                    self.warn(writing, &error);
                    {
                        let now = Instant::now();
                        let mut stale = self.stale.lock();
                        stale.change(now);
                        stale.not_before = Some(now + AFTER_FAILURE);
                    }
                    // Somebody else has written it, or its answer was lost.
                    if let Ok(found) = self.store.read().await {
                        writing.found = found;
                    }
                    return;
                }
            }
        }

        // Before the mark is confirmed, because this task may be canceled.
        let valid_lines = lines.into_iter().map(|ServiceLine { uid, key, line }| {
            let until = line.until(self.period);
            (uid, ValidLine { key, until })
        });
        *self.valid_lines.lock() = valid_lines.collect();
        writing.marked = sha256(&bytes);
        writing.except.clear();
        writing.failed = false;
        let text = self.mark(writing, &BTreeSet::new());
        self.store.annotation.set(text).await;
    }

    fn mark(&self, writing: &Writing, except: &BTreeSet<Key>) -> Option<String> {
        Mark::text(&self.store.annotation.held()?, &writing.marked, except)
    }

    /// Logs the first of several failures.
    fn warn(&self, writing: &mut Writing, error: &ApiError) {
        if !std::mem::replace(&mut writing.failed, true) {
            let config_map = &self.store.name;
            tracing::warn!(
                config_map,
                "cannot keep which nodes the load balancers have, so that a restart sends them again: {error}"
            );
        }
    }
}

/// Returns the wall clock in seconds since the Unix epoch.
pub(crate) fn unix_time() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    time.map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests;
