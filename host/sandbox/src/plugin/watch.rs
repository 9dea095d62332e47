//! Replaces a plugin when its files change, without a restart.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{
    execution::runtime::Runtime,
    imports::ClusterSlot,
    load::{error::LoadError, source::PluginSource},
    plugin::{Plugin, Reload},
};

/// Interval of checks without an event: some file systems lose events, others have none.
const POLL: Duration = Duration::from_secs(2);

/// Time to wait for further events before a check.
const SWARM: Duration = Duration::from_millis(50);

/// Time that files must be unchanged before they are read, because a file may be written in parts.
const REST: Duration = Duration::from_millis(200);

/// Delays before retries after temporary problems, for example a full disk: the first one, and the
/// longest one after doubling. An attempt may take minutes of a compiler.
const RELOAD_DELAYS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600));

/// Interval of checks for a newer component while one is being loaded.
const WHILE_LOADING: Duration = Duration::from_millis(500);

impl Plugin {
    /// Watches component and configuration until the token is canceled, and reloads the plugin when
    /// they change.
    ///
    /// Errors are reported through [`Plugin::reports`]; the generation in service is not changed.
    pub async fn watch(self: Arc<Self>, stop: CancellationToken) {
        let (events, mut changed) = mpsc::channel(1);
        // Dropping the watcher stops it.
        let _watcher = self.watch_directories(events);

        let mut poll = interval(POLL);
        // A load may take minutes, and the ticks that it misses are not made up for.
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);

        let mut seen = None;
        let mut retry = ReloadRetry::default();

        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                // Several events usually arrive together.
                Some(()) = changed.recv() => sleep(SWARM).await,
                _ = poll.tick() => {}
            }

            if !retry.is_due(Instant::now()) && seen.as_ref() == Some(&self.fingerprints().await) {
                continue;
            }

            tokio::select! {
                () = stop.cancelled() => return,
                at_rest = self.at_rest() => seen = Some(at_rest),
            }

            tokio::select! {
                () = stop.cancelled() => return,
                // The outcome is reported.
                reloaded = self.reload_if_new() => retry.update(&reloaded, Instant::now()),
                // An attempt with an outdated component is abandoned, however long it would take.
                // If the same file comes back, it counts as new.
                () = self.component_changes(seen.as_deref()) => seen = None,
            }
        }
    }

    /// Waits until the component is a different file than before.
    async fn component_changes(&self, seen: Option<&[Fingerprint]>) {
        loop {
            sleep(WHILE_LOADING).await;
            if self.fingerprints().await.first() != seen.and_then(<[_]>::first) {
                return;
            }
        }
    }

    /// Watches the directories, not the files: an update of a mounted ConfigMap changes a symbolic
    /// link in the directory (`..data`). Files that the operator names later are polled.
    fn watch_directories(&self, events: mpsc::Sender<()>) -> Option<RecommendedWatcher> {
        let handler = move |_| {
            // A full channel means that a check is pending anyway.
            let _ = events.try_send(());
        };

        let watch = || {
            let mut watcher = notify::recommended_watcher(handler)?;
            for directory in self
                .files()
                .iter()
                .map(|file| parent(file))
                .collect::<BTreeSet<_>>()
            {
                watcher.watch(directory, RecursiveMode::NonRecursive)?;
            }
            Ok::<_, notify::Error>(watcher)
        };

        watch()
            .inspect_err(|error| {
                let plugin = self.name();
                tracing::warn!(plugin, %error, "cannot watch files: polling every {POLL:?} instead");
            })
            .ok()
    }

    /// Waits until the files have been unchanged for a while.
    async fn at_rest(&self) -> Vec<Fingerprint> {
        let mut before = self.fingerprints().await;

        loop {
            sleep(REST).await;
            let now = self.fingerprints().await;
            if now == before {
                return now;
            }
            before = now;
        }
    }

    async fn fingerprints(&self) -> Vec<Fingerprint> {
        fingerprints(self.files()).await
    }
}

impl PluginSource {
    /// Loads a plugin. If that fails, passes the error to `told`, and retries when the files
    /// change, or after ten minutes.
    ///
    /// Must be called within a tokio runtime. Dropping the future cancels it.
    pub async fn load_when_ready(
        self,
        runtime: &Runtime,
        cluster: ClusterSlot,
        report: impl Fn(&LoadError),
    ) -> Arc<Plugin> {
        let files: Vec<PathBuf> = self.files().cloned().collect();
        loop {
            // Taken before the load, so that a change during it is not missed.
            let before = fingerprints(files.clone()).await;

            match Plugin::load(runtime, self.clone(), cluster.clone()).await {
                Ok(plugin) => return plugin,
                Err(error) => report(&error),
            }

            let begin = Instant::now();
            let mut now = before;

            loop {
                sleep(WHILE_LOADING).await;
                let last = std::mem::replace(&mut now, fingerprints(files.clone()).await);

                // The files have changed: wait until they are unchanged again.
                if last != now {
                    sleep(REST).await;
                    break;
                }

                if begin.elapsed() > RELOAD_DELAYS.1 {
                    break;
                }
            }
        }
    }
}

async fn fingerprints(files: Vec<PathBuf>) -> Vec<Fingerprint> {
    let looking =
        tokio::task::spawn_blocking(move || files.iter().map(|file| fingerprint(file)).collect());
    looking.await.unwrap_or_default()
}

/// When to retry with unchanged files.
#[derive(Debug, Default)]
struct ReloadRetry(Option<(Instant, Duration)>);

impl ReloadRetry {
    fn is_due(&self, now: Instant) -> bool {
        self.0.is_some_and(|(at, _)| now >= at)
    }

    fn update(&mut self, reloaded: &Result<Reload, LoadError>, now: Instant) {
        let (first, longest) = RELOAD_DELAYS;
        self.0 = reloaded.as_ref().is_err_and(LoadError::may_pass).then(|| {
            let delay = self
                .0
                .map_or(first, |(_, before)| (before * 2).min(longest));
            (now + delay, delay)
        });
    }
}

fn parent(file: &Path) -> &Path {
    file.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Shows whether a file may have changed, without reading it.
#[derive(Debug, PartialEq, Eq)]
enum Fingerprint {
    /// Device, inode and length, and the times of the last change of contents and of attributes.
    File([u64; 3], [(i64, i64); 2]),
    Unreadable(io::ErrorKind),
}

/// Returns the fingerprint of a file. Follows symbolic links.
fn fingerprint(file: &Path) -> Fingerprint {
    match fs::metadata(file) {
        Ok(it) => Fingerprint::File(
            [it.dev(), it.ino(), it.len()],
            [(it.mtime(), it.mtime_nsec()), (it.ctime(), it.ctime_nsec())],
        ),
        Err(error) => Fingerprint::Unreadable(error.kind()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        load::error::{LoadProblem, Stage},
        words::text::Cause,
    };

    #[test]
    fn only_transient_errors_are_retried_with_growing_delays() {
        let passing = || {
            Err(LoadError::new(
                Stage::Compile,
                LoadProblem::Died(Cause::of("it panicked")),
            ))
        };
        let (mut retry, mut now) = (ReloadRetry::default(), Instant::now());
        assert!(!retry.is_due(now + Duration::from_secs(1_000_000)));
        for seconds in [5, 10, 20, 40, 80, 160, 320, 600, 600] {
            retry.update(&passing(), now);
            let delay = Duration::from_secs(seconds);
            assert!(
                !retry.is_due(now + delay - Duration::from_millis(1)) && retry.is_due(now + delay),
                "{seconds} s"
            );
            now += delay;
        }
        for ended in [
            Ok(Reload::Unchanged),
            Err(LoadError::new(Stage::Type, LoadProblem::NotWasm)),
        ] {
            retry.update(&passing(), now);
            retry.update(&ended, now);
            assert!(
                !retry.is_due(now + Duration::from_secs(1_000_000)),
                "{ended:?}"
            );
        }
    }
}
