//! Replaces a plugin when its files change.

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
    error::LoadError,
    host::ClusterSlot,
    plugin::{Plugin, Reload},
    runtime::Runtime,
    source::PluginSource,
};

/// How often to look without having been told: events are lost on some file systems, and never come from others.
const POLL: Duration = Duration::from_secs(2);

/// How long to let events gather before looking.
const SWARM: Duration = Duration::from_millis(50);

/// How long files must be at rest before they are read: a file half written is not its end.
const REST: Duration = Duration::from_millis(200);

/// When to try again what came to nothing for a reason that may pass, such as a full disk: first, and at the longest after
/// doubling. A try may cost minutes of a compiler.
const AGAIN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600));

/// How often to look for a newer component while one is being loaded.
const WHILE_LOADING: Duration = Duration::from_millis(500);

impl Plugin {
    /// Watches component and configuration until the token is cancelled, and loads again when they change.
    ///
    /// What goes wrong is told by [`Plugin::reports`]; the generation in service stays.
    pub async fn watch(self: Arc<Self>, stop: CancellationToken) {
        let (events, mut changed) = mpsc::channel(1);
        // Dropping the watcher ends it.
        let _watcher = self.watch_directories(events);
        let mut poll = interval(POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = None;
        let mut again = Again::default();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                // Events come in swarms.
                Some(()) = changed.recv() => sleep(SWARM).await,
                _ = poll.tick() => {}
            }
            if !again.is_due(Instant::now()) && seen.as_ref() == Some(&self.fingerprints().await) {
                continue;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                at_rest = self.at_rest() => seen = Some(at_rest),
            }
            tokio::select! {
                () = stop.cancelled() => return,
                // The outcome is reported.
                reloaded = self.reload_if_new() => again.note(&reloaded, Instant::now()),
                // Nobody waits for the older one any more, however long it would take. Should it be what lies there next, it is new.
                () = self.component_changes(seen.as_deref()) => seen = None,
            }
        }
    }

    /// Waits until the component is another file than it was.
    async fn component_changes(&self, seen: Option<&[Fingerprint]>) {
        loop {
            sleep(WHILE_LOADING).await;
            if self.fingerprints().await.first() != seen.and_then(<[_]>::first) {
                return;
            }
        }
    }

    /// Watches the directories, not the files: a mounted ConfigMap changes by a link beside them (`..data`).
    fn watch_directories(&self, events: mpsc::Sender<()>) -> Option<RecommendedWatcher> {
        let handler = move |_| {
            // Full means that a look is due anyway.
            let _ = events.try_send(());
        };
        let watch = || {
            let mut watcher = notify::recommended_watcher(handler)?;
            for directory in self.files().map(|file| parent(file)).collect::<BTreeSet<_>>() {
                watcher.watch(directory, RecursiveMode::NonRecursive)?;
            }
            Ok::<_, notify::Error>(watcher)
        };
        watch()
            .inspect_err(|error| {
                let plugin = self.name();
                tracing::warn!(plugin, %error, "files cannot be watched: looking every {POLL:?} instead");
            })
            .ok()
    }

    /// Waits until the files have not changed for a while.
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
        fingerprints(self.files().cloned().collect()).await
    }
}

impl PluginSource {
    /// Loads a plugin, and waits for other files as long as it cannot be: `told` hears why, once for each try.
    ///
    /// Must be called within a tokio runtime. Dropping the future gives up.
    pub async fn load_when_ready(
        self,
        runtime: &Runtime,
        cluster: ClusterSlot,
        told: impl Fn(&LoadError),
    ) -> Arc<Plugin> {
        let files: Vec<PathBuf> = self.files().cloned().collect();
        loop {
            let before = fingerprints(files.clone()).await;
            match Plugin::load(runtime, self.clone(), cluster.clone()).await {
                Ok(plugin) => return plugin,
                Err(error) => told(&error),
            }
            let begin = Instant::now();
            let mut now = before;
            loop {
                sleep(WHILE_LOADING).await;
                let last = std::mem::replace(&mut now, fingerprints(files.clone()).await);
                // At rest again, or it may have been nobody's fault.
                if last != now {
                    sleep(REST).await;
                    break;
                }
                if begin.elapsed() > AGAIN.1 {
                    break;
                }
            }
        }
    }
}

async fn fingerprints(files: Vec<PathBuf>) -> Vec<Fingerprint> {
    let looking = tokio::task::spawn_blocking(move || files.iter().map(|file| fingerprint(file)).collect());
    looking.await.unwrap_or_default()
}

/// When files that have not changed are tried again.
#[derive(Debug, Default)]
struct Again(Option<(Instant, Duration)>);

impl Again {
    fn is_due(&self, now: Instant) -> bool {
        self.0.is_some_and(|(at, _)| now >= at)
    }

    fn note(&mut self, reloaded: &Result<Reload, LoadError>, now: Instant) {
        let (first, longest) = AGAIN;
        self.0 = reloaded.as_ref().is_err_and(LoadError::may_pass).then(|| {
            let delay = self.0.map_or(first, |(_, before)| (before * 2).min(longest));
            (now + delay, delay)
        });
    }
}

fn parent(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Tells whether a file may have changed, without reading it.
#[derive(Debug, PartialEq, Eq)]
enum Fingerprint {
    /// Device, inode, length, and the moments of last change of content and of attributes.
    File([u64; 3], [(i64, i64); 2]),
    Unreadable(io::ErrorKind),
}

/// Follows links.
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
    use crate::error::{LoadProblem, Stage};

    // Holds: OPS-98
    #[test]
    fn what_may_pass_is_tried_ever_less_often_and_the_rest_never() {
        let passing = || Err(LoadError::new(Stage::Compile, LoadProblem::Died));
        let (mut again, mut now) = (Again::default(), Instant::now());
        assert!(!again.is_due(now + Duration::from_secs(1_000_000)));
        for seconds in [5, 10, 20, 40, 80, 160, 320, 600, 600] {
            again.note(&passing(), now);
            let delay = Duration::from_secs(seconds);
            assert!(!again.is_due(now + delay - Duration::from_millis(1)) && again.is_due(now + delay), "{seconds} s");
            now += delay;
        }
        for ended in [Ok(Reload::Unchanged), Err(LoadError::new(Stage::Type, LoadProblem::NotWasm))] {
            again.note(&passing(), now);
            again.note(&ended, now);
            assert!(!again.is_due(now + Duration::from_secs(1_000_000)), "{ended:?}");
        }
    }
}
