//! A running cloud: one supervising process, a folder of its own, and a file that says that it is ready.

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

/// How long a start may take. It takes seconds; a machine that builds at the same time is slower.
const PATIENCE: Duration = Duration::from_secs(240);
/// How long a cloud may take to end by itself, its database last.
const END: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// What a cloud tells when it is ready.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// Address of each service, without a slash at the end.
    pub(crate) urls: BTreeMap<String, String>,
    /// The supervising process.
    pub(crate) pid: i32,
    /// How long the start took, in seconds.
    pub(crate) seconds: f64,
    /// The admin's.
    #[serde(default)]
    pub(crate) password: String,
}

/// What is started, where.
pub(crate) struct Launch<'a> {
    pub(crate) environment: &'a Environment,
    /// The Python module.
    pub(crate) module: &'a str,
    pub(crate) arguments: Vec<OsString>,
    /// The cloud's own folder; it is there.
    pub(crate) home: &'a Path,
}

impl Launch<'_> {
    /// The command, with nothing inherited that could change what it does.
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

    /// Starts it with its output in `supervisor.out`, and waits until it is ready.
    pub(crate) async fn start(&self, stdin: Stdio) -> Result<(Child, Ready), Error> {
        let log = self.home.join("supervisor.out");
        let output = File::create(&log).map_err(Error::io("create", &log))?;
        let errors = output.try_clone().map_err(Error::io("create", &log))?;
        let mut command = self.command();
        command.stdin(stdin).stdout(output).stderr(errors);
        let mut child = command.spawn().map_err(Error::io("start", &self.environment.python))?;
        let began = Instant::now();
        let file = self.home.join("ready.json");
        loop {
            if let Some(ready) = read(&file)? {
                return Ok((child, ready));
            }
            if let Some(status) = child.try_wait().map_err(Error::io("watch", &log))? {
                let log = last_lines(&fs::read_to_string(&log).unwrap_or_default());
                return Err(Error::Ended { home: self.home.to_owned(), status, log });
            }
            if began.elapsed() > PATIENCE {
                end(&mut child);
                let seen = last_lines(&fs::read_to_string(&log).unwrap_or_default());
                return Err(Error::TimedOut { what: format!("{} to start", self.module), waited: PATIENCE, seen });
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// What a cloud has told, if it has.
pub(crate) fn read(file: &Path) -> Result<Option<Ready>, Error> {
    match fs::read(file) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(Error::setup(format!("read {}", file.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", file)(error)),
    }
}

/// A cloud that ends with its value, or with this process: it watches the pipe on its standard input.
#[derive(Debug)]
pub(crate) struct Run {
    child: Child,
    home: PathBuf,
    pub(crate) ready: Ready,
}

impl Run {
    /// Starts a cloud in a new folder below the system's folder for temporary files, filled by `fill`.
    pub(crate) async fn start(
        environment: &Environment,
        module: &str,
        arguments: Vec<OsString>,
        fill: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        // A short name, since a Unix socket's path has room for 107 bytes.
        let folder = tempfile::Builder::new()
            .prefix("skydock-cloud-")
            .tempdir()
            .map_err(Error::io("create a folder in", std::env::temp_dir()))?;
        fill(folder.path())?;
        let launch = Launch { environment, module, arguments, home: folder.path() };
        match launch.start(Stdio::piped()).await {
            Ok((child, ready)) => Ok(Self { child, home: folder.keep(), ready }),
            Err(error) => {
                let home = folder.keep(); // for whoever reads the error
                tracing::error!(home = %home.display(), "the cloud's logs are kept");
                Err(error)
            }
        }
    }

    /// The cloud's folder: logs, databases. Gone with the cloud, unless a test that holds it panics.
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
            // The supervisor has done it, unless it was killed.
            let _ = cache::remove(&self.home);
        }
    }
}

/// Ends a supervisor: asked first, by the end of its input, so that it sees to all it has started; then killed.
fn end(child: &mut Child) {
    drop(child.stdin.take());
    let began = Instant::now();
    while began.elapsed() < END {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(POLL),
            Ok(Some(_)) | Err(_) => return,
        }
    }
    // Both fail only if it is gone. What it has started ends with it.
    let _ = child.kill();
    let _ = child.wait();
}
