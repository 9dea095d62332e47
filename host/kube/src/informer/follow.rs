//! Keeps a cache up to date: lists all objects, watches them, resumes, and backs off.

use std::{collections::HashSet, ops::ControlFlow, time::Duration};

use futures::StreamExt;
use kube::{
    Client, Error, Resource,
    core::Status,
    runtime::{utils::Backoff, watcher::DefaultBackoff},
};
use tokio::time::{Instant, sleep, timeout};

use super::{
    Informer, Kind,
    wire::{self, Event, Page},
};
use crate::api::{Action, ApiError};

/// First delay before all objects are listed again because a watch could not be resumed; it doubles
/// each time.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest delay before a list or a watch is requested again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Maximum number of pages of a list: half a million objects, many times as many as Kubernetes
/// supports.
const MAX_PAGES: usize = 5_000;
/// A watch that ends earlier without an event counts as failed, as in client-go: a proxy or an
/// overloaded API server may end each one at once.
const SHORT: Duration = Duration::from_secs(1);
/// Maximum time without an event, after which a watch is resumed: the API server ends a watch after
/// 290 s, and this connection is dead.
const SILENCE: Duration = Duration::from_secs(295);

impl<K: Kind> Informer<K> {
    /// Keeps the cache up to date; never returns.
    pub async fn run(&self, client: Client) {
        let mut pause = Duration::ZERO;
        loop {
            let begin = Instant::now();
            self.follow(&client).await;
            pause = pause_after(pause, begin.elapsed());
            sleep(pause).await;
        }
    }

    /// Lists all objects and watches them, until they have to be listed again.
    async fn follow(&self, client: &Client) {
        let mut back_off = CappedBackoff::default();
        let mut version = loop {
            match self.list_all(client).await {
                Ok(version) => break version,
                Err(error) => {
                    if matches!(&error, Error::Api(status) if status.code == 403) {
                        // Listed again all the same: the permission may be granted later.
                        self.forbidden.send_replace(true);
                    }
                    back_off.fail::<K>("list", error).await;
                }
            }
        };

        back_off.reset();
        while self
            .watch(client, &mut version, &mut back_off)
            .await
            .is_continue()
        {}
    }

    /// Lists all objects, and removes those that no longer exist. Returns the version of the list.
    async fn list_all(&self, client: &Client) -> Result<String, Error> {
        let mut listed = HashSet::new();
        let mut next = None;
        for _ in 0..MAX_PAGES {
            let page: Page<K> = wire::list(client, next, self).await?;
            listed.extend(page.entries.into_iter().map(|entry| self.put(entry)));
            next = page.next;

            if next.is_none() {
                let version = page
                    .version
                    .ok_or_else(|| Error::Service("the list has no resource version".into()))?;
                // Only a complete list shows what was deleted.
                self.retain(&listed);
                self.synced.send_replace(true);
                return Ok(version);
            }
        }

        Err(Error::Service(
            format!("the list has more than {MAX_PAGES} pages").into(),
        ))
    }

    /// Watches from this version on, and updates it. Breaks if all objects have to be listed again.
    async fn watch(
        &self,
        client: &Client,
        version: &mut String,
        back_off: &mut CappedBackoff,
    ) -> ControlFlow<()> {
        let mut events = match wire::watch(client, version, self).await {
            Ok(events) => events,
            Err(Error::Api(status)) if status.code == 410 => return expired::<K>(&status),
            Err(error) => {
                back_off.fail::<K>("watch", error).await;
                return ControlFlow::Continue(());
            }
        };
        let begin = Instant::now();
        let mut useless = true;

        while let Ok(Some(event)) = timeout(SILENCE, events.next()).await {
            useless = false;

            let event = match event {
                Ok(event) => event,
                Err(Error::Api(status)) if status.code == 410 => return expired::<K>(&status),
                // Reading goes on: an event that cannot be decoded must not hide others.
                Err(error) => {
                    back_off.fail::<K>("watch", error).await;
                    continue;
                }
            };

            // A watch from an empty version starts at the present, so that earlier deletions are
            // missed.
            if event.version().is_empty() {
                tracing::warn!(kind = %K::Object::plural(&()), "cannot watch: an event has no resource version");
                return ControlFlow::Break(());
            }

            back_off.reset();
            event.version().clone_into(version);
            match event {
                Event::Applied(entry) => drop(self.put(entry)),
                Event::Deleted(entry) => self.delete(&entry.key()),
                Event::Bookmark(_) => {}
            }
        }

        if useless && begin.elapsed() < SHORT {
            back_off
                .fail::<K>(
                    "watch",
                    Error::Service("it ended at once, without an event".into()),
                )
                .await;
        }

        ControlFlow::Continue(())
    }
}

/// The version is too old to continue from, which is normal after a pause.
fn expired<K: Kind>(status: &Status) -> ControlFlow<()> {
    tracing::debug!(kind = %K::Object::plural(&()), "relisting: {}", status.message);
    ControlFlow::Break(())
}

/// Back-off of a watcher: as in client-go's reflectors, whose jitter can turn 30 s into a minute,
/// but at most [`LONGEST_PAUSE`].
#[derive(Default)]
struct CappedBackoff(Option<DefaultBackoff>);

impl Iterator for CappedBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = self.0.get_or_insert_default().next();
        pause.map(|pause| pause.min(LONGEST_PAUSE))
    }
}

impl CappedBackoff {
    /// Logs an error, and waits. If a permission is missing, the message says which one.
    async fn fail<K: Kind>(&mut self, verb: &'static str, error: Error) {
        let resource = K::Object::plural(&());
        let action = Action {
            verb,
            resource: resource.to_string(),
        };
        tracing::warn!(kind = %resource, "cache is not up to date; retrying: {}", ApiError::new(action, error));
        sleep(self.next().unwrap_or(LONGEST_PAUSE)).await;
    }
}

impl Backoff for CappedBackoff {
    fn reset(&mut self) {
        // With each event: another back-off is only made when it is needed.
        self.0 = None;
    }
}

/// Returns the delay before all objects are listed again, from the previous delay and the time for
/// which the last watcher ran.
fn pause_after(before: Duration, held: Duration) -> Duration {
    let was_well = held > 2 * LONGEST_PAUSE;
    if was_well {
        PAUSE
    } else {
        (2 * before).clamp(PAUSE, LONGEST_PAUSE)
    }
}

#[cfg(test)]
mod tests;
