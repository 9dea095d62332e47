//! Watches, which send changes line by line.
//!
//! A watch has no queue. It remembers its revision, waits until the store's revision changes, and
//! reads the following changes from the history of its collection. If it is too slow, its revision is
//! compacted, and it ends with 410, as in any API server.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::watch::Receiver,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    formats::render::{Form, Rendering},
    resources::{object::Object, selector::Selector},
    status::StatusError,
    storage::{
        plane::Plane,
        store::{Change, Compacted},
    },
};

/// Interval of bookmarks in a watch without changes; about the same as in an API server.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);

/// Maximum number of changes that are read under one lock.
const BATCH: usize = 500;

/// Where a watch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With all existing objects.
    Everything,
    /// With all existing objects and a bookmark after them: a streaming list.
    Initial,
    /// After this revision.
    After(u64),
}

/// The options of a watch.
#[derive(Debug)]
pub(crate) struct WatchRequest {
    pub(crate) namespace: Option<String>,
    pub(crate) selector: Selector,
    pub(crate) rendering: Rendering,
    pub(crate) start: Start,
    pub(crate) bookmarks: bool,
    pub(crate) timeout: Duration,
}

/// A running watch.
#[derive(Debug)]
pub(crate) struct Watch {
    plane: Arc<Plane>,
    request: WatchRequest,
    cursor: u64,
    pending: VecDeque<Bytes>,
    revisions: Receiver<u64>,
    cut: CancellationToken,
    end: Instant,
    next_bookmark: Instant,
    ended: bool,
    /// Whether the columns of a table were sent, which happens only once.
    columns_sent: bool,
}

impl Watch {
    pub(crate) fn start(plane: Arc<Plane>, request: WatchRequest) -> Self {
        let revisions = plane.changes();
        let cut = plane.watch_token();
        let now = Instant::now();

        let mut watch = Self {
            cursor: 0,
            pending: VecDeque::new(),
            revisions,
            cut,
            end: now + request.timeout,
            next_bookmark: now + BOOKMARK_PERIOD,
            ended: false,
            columns_sent: false,
            request,
            plane,
        };

        match watch.request.start {
            Start::After(revision) => watch.cursor = revision,
            start => {
                let storage = watch.request.rendering.resource.storage;
                let namespace = watch.request.namespace.clone();
                let (objects, revision) = watch.plane.read(|store| {
                    (
                        store
                            .objects(storage, namespace.as_deref())
                            .cloned()
                            .collect::<Vec<_>>(),
                        store.revision(),
                    )
                });

                watch.cursor = revision;
                let rendering = &watch.request.rendering;
                for object in objects
                    .iter()
                    .filter(|object| watch.request.selector.matches(&object.value))
                {
                    watch.pending.push_back(rendering.event("ADDED", object));
                }
                if start == Start::Initial {
                    watch.pending.push_back(rendering.bookmark(revision, true));
                }
            }
        }

        watch
    }

    /// Returns the next line, or none when the watch has ended.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.request.rendering.form == Form::MetadataList && !self.pending.is_empty() {
                // An event is not a list: like an API server, end without a line.
                return None;
            }

            if let Some(line) = self.pending.pop_front() {
                let columns_sent = std::mem::replace(&mut self.columns_sent, true);
                let is_table = matches!(self.request.rendering.form, Form::Table(_));
                return Some(if columns_sent && is_table {
                    Rendering::without_columns(&line)
                } else {
                    line
                });
            }

            // Lines that are pending, for example an error, are sent before the end.
            if self.ended || self.cut.is_cancelled() {
                return None;
            }

            // Marked before the read, so that a change in between wakes the watch again.
            self.revisions.mark_unchanged();
            if self.read_changes() {
                continue;
            }

            let wake = self.end.min(self.next_bookmark);
            tokio::select! {
                () = self.cut.cancelled() => return None,
                () = sleep_until(wake) => self.tick(Instant::now()),
                changed = self.revisions.changed() => self.ended = changed.is_err(),
            }
        }
    }

    /// Adds a bookmark, for the last time right before the watch ends.
    fn tick(&mut self, now: Instant) {
        self.ended = now >= self.end;
        self.next_bookmark = now + BOOKMARK_PERIOD;
        if self.request.bookmarks {
            self.pending
                .push_back(self.request.rendering.bookmark(self.cursor, false));
        }
    }

    /// Reads the changes since the last time, and returns whether there were any.
    fn read_changes(&mut self) -> bool {
        let storage = self.request.rendering.resource.storage;
        let (changes, revision) = self.plane.read(|store| {
            (
                store.changes_since(storage, self.cursor, BATCH),
                store.revision(),
            )
        });

        match changes {
            Err(Compacted { oldest }) => {
                let error = StatusError::expired(self.cursor, oldest);
                self.pending.push_back(Rendering::error(&error));
                self.ended = true;
                true
            }
            Ok(changes) => {
                let whole = changes.len() < BATCH;
                let last = changes.last().map(|change| change.object.revision);

                let lines: Vec<_> = changes
                    .iter()
                    .filter_map(|change| self.line(change))
                    .collect();

                self.pending.extend(lines);
                // A full batch is not all: the cursor must not pass changes that are still to be
                // read.
                self.cursor = if whole {
                    revision
                } else {
                    last.unwrap_or(revision)
                };

                last.is_some()
            }
        }
    }

    /// Returns the line of a change. If the object starts or stops matching the selector, it is
    /// added or deleted for this watch.
    fn line(&self, change: &Change) -> Option<Bytes> {
        let WatchRequest {
            namespace,
            selector,
            rendering,
            ..
        } = &self.request;

        let namespace = namespace.as_deref();
        let object = &change.object;
        if namespace.is_some_and(|namespace| {
            crate::resources::object::namespace(&object.value) != namespace
        }) {
            return None;
        }

        let matched = change
            .previous
            .as_ref()
            .is_some_and(|previous| selector.matches(&previous.value));
        let matches = !change.deleted && selector.matches(&object.value);

        match (matched, matches) {
            (false, false) => None,
            (false, true) => Some(rendering.event("ADDED", object)),
            (true, true) => Some(rendering.event("MODIFIED", object)),
            (true, false) if change.deleted => Some(rendering.event("DELETED", object)),
            (true, false) => {
                // The deleted object is the last state that matched the selector, with the revision
                // of this change.
                let previous = change.previous.as_ref()?;
                let mut value = previous.value.clone();
                crate::resources::object::child(&mut value, "metadata")
                    .insert("resourceVersion".into(), object.revision.to_string().into());
                let gone = Object::new(value, object.revision);
                Some(rendering.event("DELETED", &gone))
            }
        }
    }
}
