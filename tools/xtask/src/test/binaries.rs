//! Test binaries, run side by side. Cargo runs one after the other, although many of them wait more
//! than they compute.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::console;

/// How many binaries run at a time.
const WORKERS: usize = 6;
/// How many of them have priority: the longest, which determine when all have ended.
const LONGEST: usize = 2;
/// A binary that takes longer than this hangs. The longest takes seven minutes on two busy cores.
const LIMIT: Duration = Duration::from_secs(25 * 60);

/// A binary with tests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Binary {
    /// Folder of the package, kind and name of the target.
    name: String,
    file: PathBuf,
    /// The folder of the package, in which its tests run.
    folder: PathBuf,
}

struct Ended {
    name: String,
    ok: bool,
    seconds: f64,
    /// A heading, and everything it has printed.
    output: String,
}

/// Builds the binaries of a `cargo test` command and runs all of them, those first that took
/// longest the last time. Everything is written to `log`. Returns the output of the binaries that
/// failed, or of the compiler, or `None` if nothing failed.
pub(super) fn run(
    cargo: Command,
    root: &Path,
    logs: &Path,
    log: &mut impl Write,
) -> Result<Option<String>> {
    fs::create_dir_all(logs).with_context(|| format!("cannot create {}", logs.display()))?;
    let mut write = |output: &str| {
        log.write_all(output.as_bytes())
            .context("cannot write a log")
    };
    let (built, output, binaries) = build(cargo, root, logs)?;
    write(&output)?;
    if !built {
        return Ok(Some(output));
    }
    ensure!(!binaries.is_empty(), "cargo has built no tests");

    let memory = logs.join("seconds.json");
    // Without it, the order is not the best one, and nothing else changes.
    let mut seconds: BTreeMap<String, f64> = fs::read(&memory)
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default();
    let waiting = Mutex::new(longest_first(binaries, &seconds).into_iter().enumerate());
    let next = || {
        waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next()
    };
    let (sender, ended) = mpsc::channel();
    let mut failure = String::new();
    thread::scope(|scope| -> Result<()> {
        for _ in 0..WORKERS {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some((rank, binary)) = next() {
                    // The receiver is gone after an error, which is reported.
                    if sender.send(binary.run(rank, logs)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for ended in ended {
            let ended = ended?;
            write(&ended.output)?;
            match ended.ok {
                true => drop(seconds.insert(ended.name, ended.seconds)),
                false => failure += &ended.output,
            }
        }
        Ok(())
    })?;

    let text = serde_json::to_vec_pretty(&seconds).context("cannot write durations")?;
    fs::write(&memory, text).with_context(|| format!("cannot write {}", memory.display()))?;
    Ok((!failure.is_empty()).then_some(failure))
}

/// Puts the binaries in the order in which they start, by how long each took the last time. New
/// ones are first.
fn longest_first(mut binaries: Vec<Binary>, seconds: &BTreeMap<String, f64>) -> Vec<Binary> {
    binaries.sort_by(|one, other| {
        let of = |binary: &Binary| seconds.get(&binary.name).copied();
        let [one, other] = [one, other].map(|it| of(it).unwrap_or(f64::INFINITY));
        other.total_cmp(&one)
    });
    binaries
}

/// Builds the binaries. Returns whether that succeeded, and what cargo has printed.
fn build(mut cargo: Command, root: &Path, logs: &Path) -> Result<(bool, String, Vec<Binary>)> {
    let log = logs.join("build.log");
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    cargo
        .args(["--no-run", "--message-format", "json-render-diagnostics"])
        .stderr(file);
    let output = cargo.output().context("cannot start cargo")?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let binaries = messages.lines().filter_map(|line| binary(root, line));
    let binaries = binaries.collect();
    Ok((output.status.success(), console::read(&log)?, binaries))
}

/// Parses a line of cargo's JSON messages. Returns `None` if it does not describe a test binary.
fn binary(root: &Path, line: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message.pointer("/profile/test")? != true {
        return None;
    }
    let text = |pointer| message.pointer(pointer).and_then(Value::as_str);
    let folder = Path::new(text("/manifest_path")?).parent()?;
    let place = folder.strip_prefix(root).unwrap_or(folder).display();
    let (kind, target) = (text("/target/kind/0")?, text("/target/name")?);
    Some(Binary {
        name: format!("{place} {kind} {target}"),
        file: text("/executable")?.into(),
        folder: folder.to_owned(),
    })
}

impl Binary {
    fn run(&self, rank: usize, logs: &Path) -> Result<Ended> {
        let file = self.file.file_name().unwrap_or_default();
        let log = logs.join(file).with_extension("log");
        // A file, since background processes of a test would keep a pipe open.
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let errors = file.try_clone().context("cannot share the log file")?;

        let begin = Instant::now();
        let mut process = Command::new("nice")
            .args(["-n", if rank < LONGEST { "0" } else { "5" }])
            .arg(&self.file)
            .current_dir(&self.folder)
            // As cargo does. The environment is that of xtask itself.
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .with_context(|| format!("cannot start {}", self.file.display()))?;

        let status = loop {
            if let Some(status) = process.try_wait()? {
                break status;
            }
            if begin.elapsed() > LIMIT {
                process.kill()?;
            }
            thread::sleep(Duration::from_millis(20));
        };
        let seconds = begin.elapsed().as_secs_f64();

        let printed = console::read(&log)?;
        let mut output = format!("     Running {} ({seconds:.1} s)\n{printed}", self.name);
        // A test that ends the process with 0 also ends those that have not run.
        let ok = status.success() && printed.contains("test result: ok");
        if !ok {
            output += &format!("error: {}: {status}\n", self.file.display());
        }
        Ok(Ended {
            name: self.name.clone(),
            ok,
            seconds,
            output,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_binaries_and_then_the_longest_start_first() {
        let binary = |name: &str| Binary {
            name: name.to_owned(),
            ..Binary::default()
        };
        let seconds = [("short", 1.0), ("long", 9.0)].map(|(name, it)| (name.to_owned(), it));
        let binaries = ["short", "new", "long"].map(binary).into();
        let order = longest_first(binaries, &seconds.into());
        assert_eq!(order, ["new", "long", "short"].map(binary));
    }

    #[test]
    fn test_binaries_are_read_from_cargo_messages() {
        let line = |test: bool| {
            serde_json::json!({
                "manifest_path": "/w/tools/devplane/Cargo.toml",
                "target": {"kind": ["test"], "name": "api"},
                "profile": {"test": test},
                "executable": "/w/target/debug/deps/api-1",
            })
            .to_string()
        };
        let root = Path::new("/w");
        let expected = Binary {
            name: "tools/devplane test api".to_owned(),
            file: "/w/target/debug/deps/api-1".into(),
            folder: "/w/tools/devplane".into(),
        };
        assert_eq!(binary(root, &line(true)), Some(expected));
        assert_eq!(binary(root, &line(false)), None);
        assert_eq!(binary(root, r#"{"reason":"build-finished"}"#), None);
    }
}
