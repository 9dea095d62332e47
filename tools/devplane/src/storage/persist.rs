//! The state file: the complete state as JSON, written soon after each change.

use std::{
    borrow::Cow,
    fs::{File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::NamedTempFile;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    resources::{
        object::{Object, text},
        resource::Storage,
    },
    storage::{plane::Plane, store::Store},
};

/// How long changes are collected before they are written.
const DEBOUNCE: Duration = Duration::from_millis(150);

/// For a large cluster, changes are collected for this many times the duration of a write: writing
/// takes at most a fifth of a processor, however often nodes send heartbeats.
const PAUSES: u32 = 4;

/// Revisions that are skipped at each start. A killed process may have used revisions that were not
/// written to the file. There are never this many changes between two writes, so no revision is
/// used twice.
const SKIP: u64 = 1_000_000;

/// Version of the file format.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct StateDocument<'a> {
    format: u32,
    revision: u64,
    objects: Vec<Entry<'a>>,
}

#[derive(Serialize, Deserialize)]
struct Entry<'a> {
    object: Cow<'a, Value>,
}

impl<'a> Entry<'a> {
    fn of(object: &'a Arc<Object>) -> Self {
        Self {
            object: Cow::Borrowed(&object.value),
        }
    }
}

/// Reasons why a state file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// The file cannot be read, locked or written.
    #[error("cannot {action} the state file {}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The error.
        #[source]
        source: io::Error,
    },
    /// Another process uses the file.
    #[error("the state file {} is in use by another process: stop that one, or choose another file", .0.display())]
    Locked(PathBuf),
    /// The file is damaged, or not a state file.
    #[error("the state file {} cannot be understood: repair or remove it", path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Position and type of the error.
        #[source]
        source: serde_json::Error,
    },
    /// The file was written by another version, or contains unknown kinds.
    #[error("the state file {} was written by another version of this program ({what}): remove it to start from scratch", path.display())]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// What is unknown.
        what: String,
    },
}

/// A state file that is locked while this exists.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    /// Held for its lock.
    _lock: File,
}

impl StateFile {
    /// Locks the file for this process, and reads it.
    pub(crate) fn open(path: &Path) -> Result<(Self, Store), StateFileError> {
        let failed = |action| {
            move |source| StateFileError::Io {
                action,
                path: path.to_owned(),
                source,
            }
        };

        std::fs::create_dir_all(folder_of(path)).map_err(failed("make the folder of"))?;
        // The lock is on a file of its own, because each write replaces the state file.
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(lock_of(path))
            .map_err(failed("lock"))?;

        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StateFileError::Locked(path.to_owned())),
            Err(TryLockError::Error(source)) => return Err(failed("lock")(source)),
        }

        let store = match std::fs::read(path) {
            Ok(content) => read(path, &content)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Store::new(0, []),
            Err(error) => return Err(failed("read")(error)),
        };

        Ok((
            Self {
                path: path.to_owned(),
                _lock: lock,
            },
            store,
        ))
    }

    /// Writes the file after changes, until `stop` is canceled, and then once more.
    pub(crate) async fn keep(self, plane: Arc<Plane>, stop: CancellationToken) {
        let mut changes = plane.changes();
        let mut written = None;
        loop {
            // Asked before the write, so that the last write has everything until the stop.
            let last = stop.is_cancelled();
            let begin = Instant::now();

            let revision = plane.read(Store::revision);
            if written != Some(revision) {
                match self.write(&plane).await {
                    Ok(revision) => written = Some(revision),
                    Err(error) => {
                        tracing::error!(%error, cause = ?std::error::Error::source(&error), "state is not saved");
                    }
                }
            }

            if last {
                return;
            }

            let pause = DEBOUNCE.max(begin.elapsed() * PAUSES);
            tokio::select! {
                () = stop.cancelled() => {}
                changed = changes.changed() => if changed.is_err() { return },
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = sleep(pause) => {}
            }
        }
    }

    async fn write(&self, plane: &Plane) -> Result<u64, StateFileError> {
        let (objects, revision) = plane.read(|store| {
            let objects: Vec<Arc<Object>> = Storage::ALL
                .into_iter()
                .flat_map(|storage| store.objects(storage, None))
                .cloned()
                .collect();
            (objects, store.revision())
        });

        // Objects do not change, so the store need not be locked while they are written.
        let path = self.path.clone();
        let write = move || {
            let file = StateDocument {
                format: FORMAT,
                revision,
                objects: objects.iter().map(Entry::of).collect(),
            };
            let text = serde_json::to_vec(&file)?;
            // A new file that only this user can read, with a name that nobody can know: a link is
            // not followed.
            let mut temporary = NamedTempFile::new_in(folder_of(&path))?;
            temporary.write_all(&text)?;
            temporary.as_file().sync_all()?;
            temporary.persist(&path)?;
            Ok(())
        };

        let result = tokio::task::spawn_blocking(write)
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)));

        let failed = |source| StateFileError::Io {
            action: "write",
            path: self.path.clone(),
            source,
        };
        result.map_err(failed).map(|()| revision)
    }
}

fn read(path: &Path, content: &[u8]) -> Result<Store, StateFileError> {
    let path = || path.to_owned();
    let file: StateDocument<'_> =
        serde_json::from_slice(content).map_err(|source| StateFileError::Damaged {
            path: path(),
            source,
        })?;

    if file.format != FORMAT {
        return Err(StateFileError::Foreign {
            path: path(),
            what: format!("format {}", file.format),
        });
    }

    let mut objects = Vec::with_capacity(file.objects.len());
    for Entry { object } in file.objects {
        let version = text(&object, "/apiVersion");
        let kind = text(&object, "/kind");

        let storage = Storage::ALL.into_iter().find(|storage| {
            let resource = storage.resource();
            resource.kind == kind && resource.api_version() == version
        });
        let storage = storage.ok_or_else(|| StateFileError::Foreign {
            path: path(),
            what: format!("kind {version} {kind}"),
        })?;

        let revision = text(&object, "/metadata/resourceVersion")
            .parse()
            .unwrap_or_default();
        let object = Object::new(object.into_owned(), revision);
        objects.push((storage, Arc::new(object)));
    }

    let revision = file.revision.checked_add(SKIP);
    let revision = revision.ok_or_else(|| StateFileError::Foreign {
        path: path(),
        what: format!("the revision {}", file.revision),
    })?;
    Ok(Store::new(revision, objects))
}

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

fn lock_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}
