//! A running cloud: a supervising process, a folder, and a file that indicates that it is ready.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::last_lines;
use crate::install::{Environment, recipes};
use crate::{Error, cache};

/// How long a start may take. It takes seconds, but longer on a machine that is busy with a build.
const PATIENCE: Duration = Duration::from_secs(240);
/// How long a cloud may take to stop gracefully, including its database.
const END: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// The information that a cloud writes when it is ready.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// The URL of each service, without a trailing slash.
    pub(crate) urls: BTreeMap<String, String>,
    /// The ID of the supervising process.
    pub(crate) pid: i32,
    /// The duration of the start in seconds.
    pub(crate) seconds: f64,
    /// The password of the admin.
    #[serde(default)]
    pub(crate) password: String,
}

/// The parameters of a start.
pub(crate) struct Launch<'a> {
    pub(crate) environment: &'a Environment,
    /// The Python module.
    pub(crate) module: &'a str,
    pub(crate) arguments: Vec<OsString>,
    /// The cloud's folder, which must exist.
    pub(crate) home: &'a Path,
}

impl Launch<'_> {
    /// Returns the command, without inherited settings that could change its behavior.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.environment.python);
        command
            .args(["-m", self.module])
            .args(&self.arguments)
            .arg("--home")
            .arg(self.home)
            .current_dir(self.home)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home)
            .env("LANG", "C.UTF-8")
            .env("PYTHONPATH", recipes())
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// Starts the cloud with its output in `supervisor.out`, and waits until it is ready.
    pub(crate) async fn start(&self, stdin: Stdio) -> Result<(Child, Ready), Error> {
        let log = self.home.join("supervisor.out");
        let output = File::create(&log).map_err(Error::io("create", &log))?;
        let errors = output.try_clone().map_err(Error::io("create", &log))?;
        let mut command = self.command();
        command.stdin(stdin).stdout(output).stderr(errors);
        let mut child = command
            .spawn()
            .map_err(Error::io("start", &self.environment.python))?;
        let began = Instant::now();
        let file = self.home.join("ready.json");
        loop {
            if let Some(ready) = read(&file)? {
                return Ok((child, ready));
            }
            if let Some(status) = child.try_wait().map_err(Error::io("watch", &log))? {
                let log = last_lines(&fs::read_to_string(&log).unwrap_or_default());
                return Err(Error::Ended {
                    home: self.home.to_owned(),
                    status,
                    log,
                });
            }
            if began.elapsed() > PATIENCE {
                end(&mut child);
                let seen = last_lines(&fs::read_to_string(&log).unwrap_or_default());
                return Err(Error::TimedOut {
                    what: format!("{} to start", self.module),
                    waited: PATIENCE,
                    seen,
                });
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Returns the information in the file, or `None` if it does not exist.
pub(crate) fn read(file: &Path) -> Result<Option<Ready>, Error> {
    match fs::read(file) {
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(Error::setup(format!("read {}", file.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", file)(error)),
    }
}

/// A cloud that ends with its value or with this process, because it watches the pipe on its
/// standard input.
#[derive(Debug)]
pub(crate) struct Run {
    child: Child,
    home: PathBuf,
    pub(crate) ready: Ready,
}

impl Run {
    /// Starts a cloud in a new folder in the system's temporary folder, filled by `fill`.
    pub(crate) async fn start(
        environment: &Environment,
        module: &str,
        arguments: Vec<OsString>,
        fill: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        // A short name, because the path of a Unix socket is limited to 107 bytes.
        let folder = tempfile::Builder::new()
            .prefix("skydock-cloud-")
            .tempdir()
            .map_err(Error::io("create a folder in", std::env::temp_dir()))?;
        fill(folder.path())?;
        let launch = Launch {
            environment,
            module,
            arguments,
            home: folder.path(),
        };
        match launch.start(Stdio::piped()).await {
            Ok((child, ready)) => Ok(Self {
                child,
                home: folder.keep(),
                ready,
            }),
            Err(error) => {
                let home = folder.keep(); // kept for analysis of the error
                tracing::error!(home = %home.display(), "the cloud's logs are kept");
                Err(error)
            }
        }
    }

    /// Returns the cloud's folder with logs and databases. It is deleted with the cloud, unless a
    /// test that holds it panics.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let kept = File::create(self.home.join("keep"));
            tracing::error!(home = %self.home.display(), ?kept, "the cloud's logs are kept");
        }
        end(&mut self.child);
        if !self.home.join("keep").exists() {
            // Usually the supervisor has already deleted it, unless it was killed.
            let _ = cache::remove(&self.home);
        }
    }
}

/// Stops a supervisor: first by closing its input, so that it stops everything that it started,
/// then by killing it.
fn end(child: &mut Child) {
    drop(child.stdin.take());
    let began = Instant::now();
    while began.elapsed() < END {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(POLL),
            Ok(Some(_)) | Err(_) => return,
        }
    }
    // Both fail only if it has ended. Everything that it started ends with it.
    let _ = child.kill();
    let _ = child.wait();
}
