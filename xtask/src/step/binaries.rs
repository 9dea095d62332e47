//! Test binaries, run side by side. Cargo runs one after the other, although many of them wait more than they compute.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// How many binaries run at the same time. Each has as many threads as the machine has cores.
const AT_ONCE: usize = 2;

/// The durations of the last run in milliseconds, by name.
const TIMES: &str = "times.json";

/// A binary with tests.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Binary {
    /// Folder of the package, and target.
    name: String,
    file: PathBuf,
    /// The folder of the package, in which its tests run.
    folder: PathBuf,
}

/// The end of a binary.
struct Ended {
    ok: bool,
    time: Duration,
    /// A heading, and everything it has printed.
    output: Vec<u8>,
}

/// Builds the binaries of a `cargo test` command and runs all of them. Everything is written to `log`; what failed, and with
/// `verbose` everything, also to `screen`. Returns false if the build or a test fails.
///
/// # Errors
/// If cargo or a binary cannot be started, or a log cannot be read or written.
pub(super) fn run(
    cargo: Command,
    root: &Path,
    logs: &Path,
    log: &mut impl Write,
    verbose: bool,
    screen: &mut impl Write,
) -> Result<bool> {
    let logs = logs.join("binaries");
    fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
    let mut show = |output: &[u8], shown: bool| -> Result<()> {
        log.write_all(output).context("cannot write a log")?;
        if shown {
            // A reader that has closed the pipe does not need more output.
            let _ = screen.write_all(output);
        }
        Ok(())
    };
    let (built, mut binaries) = build(cargo, root, &logs, &mut |output, ok| show(output, verbose || !ok))?;
    if !built {
        return Ok(false);
    }
    let mut times = times(&logs);
    // The longest first, so that none of them runs alone at the end. Unknown ones may be long.
    binaries.sort_by_key(|binary| std::cmp::Reverse(times.get(&binary.name).copied().unwrap_or(u64::MAX)));
    let queue = Mutex::new(binaries.into_iter());
    let (sender, ended) = mpsc::channel();
    let mut ok = true;
    thread::scope(|scope| -> Result<()> {
        for _ in 0..AT_ONCE {
            let (sender, queue, logs) = (sender.clone(), &queue, &logs);
            scope.spawn(move || {
                // Separate, so that the lock is released before the binary runs.
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some(binary) = next() {
                    let ended = binary.run(logs);
                    // The receiver is gone after an error, which is reported.
                    let _ = sender.send((binary.name, ended));
                }
            });
        }
        drop(sender);
        for (name, ended) in ended {
            let ended = ended?;
            show(&ended.output, verbose || !ended.ok)?;
            ok &= ended.ok;
            times.insert(name, u64::try_from(ended.time.as_millis()).unwrap_or(u64::MAX));
        }
        Ok(())
    })?;
    let times = serde_json::to_vec_pretty(&times).context("cannot write durations")?;
    fs::write(logs.join(TIMES), times).context("cannot write durations")?;
    Ok(ok)
}

/// Builds the binaries, and passes what cargo prints to `show`, with the result.
fn build(
    mut cargo: Command,
    root: &Path,
    logs: &Path,
    show: &mut impl FnMut(&[u8], bool) -> Result<()>,
) -> Result<(bool, Vec<Binary>)> {
    let log = logs.join("build.log");
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    cargo.args(["--no-run", "--message-format", "json-render-diagnostics"]).stderr(file);
    let output = cargo.output().context("cannot start cargo")?;
    let ok = output.status.success();
    show(&fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?, ok)?;
    let binaries: Vec<_> =
        String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| binary(root, line)).collect();
    if ok && binaries.is_empty() {
        bail!("cargo has built no tests");
    }
    Ok((ok, binaries))
}

/// Parses a line of cargo's JSON messages. Returns `None` if it does not describe a test binary.
fn binary(root: &Path, line: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message.pointer("/profile/test")? != true {
        return None;
    }
    let text = |pointer| message.pointer(pointer).and_then(Value::as_str);
    let folder = Path::new(text("/manifest_path")?).parent()?;
    let kind = text("/target/kind/0")?;
    let place = folder.strip_prefix(root).unwrap_or(folder).display();
    let name = format!("{place} {kind} {}", text("/target/name")?);
    Some(Binary { name, file: text("/executable")?.into(), folder: folder.to_owned() })
}

/// Returns the durations of the last run, or none if they are not known.
fn times(logs: &Path) -> BTreeMap<String, u64> {
    fs::read(logs.join(TIMES)).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

impl Binary {
    fn run(&self, logs: &Path) -> Result<Ended> {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        let log = logs.join(format!("{name}.log"));
        // A file, since background processes of a test would keep a pipe open.
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let errors = file.try_clone().context("cannot share the log file")?;
        let begin = Instant::now();
        let status = Command::new(&self.file)
            .current_dir(&self.folder)
            // As cargo does. The environment is that of xtask itself.
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .status()
            .with_context(|| format!("cannot start {}", self.file.display()))?;
        let time = begin.elapsed();
        let mut output = format!("     Running {} ({:.1} s)\n", self.name, time.as_secs_f64()).into_bytes();
        output.extend(fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?);
        if !status.success() {
            output.extend(format!("error: {}: {status}\n", self.file.display()).into_bytes());
        }
        Ok(Ended { ok: status.success(), time, output })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_binaries_are_read_from_cargo_messages() {
        let root = Path::new("/w");
        let line = |test: bool| {
            let target = serde_json::json!({"kind": ["test"], "name": "api"});
            let (manifest, executable) = ("/w/host/devplane/Cargo.toml", "/w/target/debug/deps/api-1");
            serde_json::json!({"manifest_path": manifest, "target": target, "profile": {"test": test}, "executable": executable})
                .to_string()
        };
        let expected = Binary {
            name: "host/devplane test api".to_owned(),
            file: "/w/target/debug/deps/api-1".into(),
            folder: "/w/host/devplane".into(),
        };
        assert_eq!(binary(root, &line(true)), Some(expected));
        assert_eq!(binary(root, &line(false)), None);
        assert_eq!(binary(root, r#"{"reason":"build-finished","success":true}"#), None);
    }
}
