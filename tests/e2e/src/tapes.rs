//! Recordings of hosts (`--record`): searched for secrets, replayed with the plugin that was
//! recorded, and with a changed one.
//!
//! What is run is `skydock plugin replay`, as for an incident.

mod edit;

use std::{
    fmt::{self, Display},
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use skydock_support::Paths;
use tokio::process::Command;

pub use self::edit::edited;
use crate::{
    secrets::{Place, Secrets},
    site::Site,
};

/// A directory with the recordings of some hosts.
#[derive(Clone, Debug)]
pub struct Tapes {
    dir: PathBuf,
}

/// What was recorded, and that it replays exactly.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Number of recordings, one of each instance.
    pub recordings: usize,
    /// Those that end in the middle of a call, because the host was killed.
    pub cut: usize,
    /// Number of calls that were repeated.
    pub calls: u64,
    /// Number of functions of the host, and of requests.
    pub steps: u64,
    /// Bytes of all recordings.
    pub bytes: u64,
    /// Time to replay all of them.
    pub replayed_in: Duration,
}

impl Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            recordings,
            cut,
            calls,
            steps,
            bytes,
            replayed_in,
        } = self;
        let (kib, seconds) = (bytes >> 10, replayed_in.as_secs_f64());
        write!(
            f,
            "{recordings} recordings ({cut} cut), {calls} calls, {steps} steps, {kib} KiB, replayed in {seconds:.1} s"
        )
    }
}

/// What `skydock plugin replay` has said.
#[derive(Debug)]
struct Replay {
    code: Option<i32>,
    said: String,
}

impl Tapes {
    /// Uses a directory, which must have no recordings yet.
    ///
    /// # Errors
    /// Fails if it has some, or cannot be read.
    pub fn new(dir: &Path) -> Result<Self> {
        let filled = fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
        ensure!(
            !filled,
            "{} is not empty: recordings of another run would be replayed, too",
            dir.display()
        );
        Ok(Self {
            dir: dir.to_owned(),
        })
    }

    /// Returns the flag for hosts.
    pub(crate) fn flag(&self) -> String {
        format!("--record={}", self.dir.display())
    }

    /// Searches for secrets, and replays everything with the plugin of the site, which must do
    /// exactly the same.
    ///
    /// # Errors
    /// Fails if a recording has a secret in it, or if a replay differs in any way.
    pub async fn verify(&self, site: &dyn Site) -> Result<Figures> {
        let bytes = self.without_secrets(site)?;
        let begun = Instant::now();
        let replay = self.replay(&site.plugin().file(site.provider())?).await?;
        let figures = replay.figures()?;
        ensure!(
            replay.code == Some(0),
            "the exit code is {:?}: {}",
            replay.code,
            replay.said
        );
        Ok(Figures {
            bytes,
            replayed_in: begun.elapsed(),
            ..figures
        })
    }

    /// Searches for the secrets of a site. Returns the size of all recordings.
    fn without_secrets(&self, site: &dyn Site) -> Result<u64> {
        let mut secrets = Secrets::default();
        for (number, secret) in site.secrets().iter().enumerate() {
            secrets.add(&format!("secret {number}"), secret);
        }
        let mut all = 0;
        for entry in fs::read_dir(&self.dir).with_context(|| self.dir.display().to_string())? {
            let path = entry?.path();
            let bytes = fs::read(&path)?;
            all += bytes.len();
            secrets.are_not_in(&[Place::new(path.display().to_string(), bytes)])?;
        }
        ensure!(
            all > 10_000,
            "the recordings in {} are all but empty",
            self.dir.display()
        );
        Ok(u64::try_from(all)?)
    }

    /// Replays everything with a changed plugin, and returns the first difference: the call, and
    /// the step in it.
    ///
    /// # Errors
    /// Fails if there is no difference.
    pub async fn differ(&self, changed: &Path) -> Result<String> {
        let replay = self.replay(changed).await?;
        ensure!(
            replay.code == Some(1),
            "the exit code is {:?}: {}",
            replay.code,
            replay.said
        );
        replay
            .difference()
            .map(str::to_owned)
            .with_context(|| replay.said.clone())
    }

    /// Replays everything with this plugin.
    async fn replay(&self, plugin: &Path) -> Result<Replay> {
        let program = Paths::of_checkout()?.skydock;
        let mut command = Command::new(&program);
        command
            .args(["plugin", "replay"])
            .arg(&self.dir)
            .arg(plugin);
        let output = command
            .kill_on_drop(true)
            .output()
            .await
            .with_context(|| program.display().to_string())?;
        let said = [output.stdout, output.stderr]
            .map(|it| String::from_utf8_lossy(&it).into_owned())
            .concat();
        Ok(Replay {
            code: output.status.code(),
            said,
        })
    }
}

impl Replay {
    /// Counts what was repeated, if all of it was exactly as recorded.
    fn figures(&self) -> Result<Figures> {
        let mut figures = Figures::default();
        for line in self.said.lines() {
            if line.starts_with("  the recording is incomplete") {
                figures.cut += 1;
            } else if line.ends_with(": the process ended before it wrote anything") {
                (figures.recordings, figures.cut) = (figures.recordings + 1, figures.cut + 1);
            } else {
                let (calls, steps) = exactly(line).with_context(|| self.said.clone())?;
                (figures.recordings, figures.calls) =
                    (figures.recordings + 1, figures.calls + calls);
                figures.steps += steps;
            }
        }
        Ok(figures)
    }

    /// Returns the first difference, with its call.
    fn difference(&self) -> Option<&str> {
        let (_, after) = self.said.split_once(": differs after ")?;
        after.lines().nth(1)
    }
}

/// Parses `NAME: 3 calls and 20 steps in them as recorded, exactly`.
fn exactly(line: &str) -> Option<(u64, u64)> {
    let (_, counts) = line
        .strip_suffix(" steps in them as recorded, exactly")?
        .rsplit_once(": ")?;
    let (calls, steps) = counts.split_once(" calls and ")?;
    Some((calls.parse().ok()?, steps.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(said: &str) -> Replay {
        Replay {
            code: Some(0),
            said: said.to_owned(),
        }
    }

    #[test]
    fn only_exact_replays_are_counted() {
        let text = "1-aws-1-1.jsonl: 3 calls and 20 steps in them as recorded, exactly\n\
                    1-aws-1-2.jsonl: 1 calls and 4 steps in them as recorded, exactly\n  the recording is incomplete: its last call has no end\n\
                    /r/1-aws-1-3.jsonl is empty: the process ended before it wrote anything\n";
        let figures = said(text).figures().unwrap();
        assert_eq!(
            (
                figures.recordings,
                figures.cut,
                figures.calls,
                figures.steps
            ),
            (3, 2, 4, 24)
        );
        for inexact in [
            "1-aws-1-1.jsonl: 3 calls and 20 steps in them as recorded, except for clocks, randomness, log or timing\n",
            "1-aws-1-1.jsonl: 3 calls and 20 steps in them as recorded, exactly (recorded with another build)\n",
        ] {
            assert!(said(inexact).figures().is_err(), "{inexact}");
        }
    }

    #[test]
    fn the_first_difference_is_found() {
        let text = "1-aws-1-1.jsonl: differs after 3 calls (recorded with another build)\n\
                    call 4, zones.locate: request 2 differs\n  recorded: a\n  replayed: b\n";
        assert_eq!(
            said(text).difference(),
            Some("call 4, zones.locate: request 2 differs")
        );
        assert!(said(text).figures().is_err());
        assert_eq!(
            said("x: 3 calls and 20 steps in them as recorded, exactly\n").difference(),
            None
        );
    }
}
