//! Test binaries, run side by side. Cargo runs one after the other, although many of them wait more
//! than they compute.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// How many binaries run at a time. Most of them wait more than they compute.
const WORKERS: usize = 6;

/// Binaries that take long are started first, with what is added to the priority of the process, as
/// for `nice`. Compilers have a low priority. The simulation has a lower one: it only computes,
/// with a clock of its own.
const FIRST: [(&str, &str); 10] = [
    ("tests/story test embedded", "0"),
    ("host/plugin test plugin", "0"),
    ("tests/plugin test binary", "0"),
    ("host/egress test credentials", "0"),
    ("tests/simulation test simulation", "19"),
    ("host/manager test manager", "0"),
    ("host/conformance test kit", "5"),
    ("tests/e2e test simcloud", "0"),
    ("host/egress test gateway", "0"),
    ("host/dev test scenarios", "5"),
];

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
    /// A heading, and everything it has printed.
    output: Vec<u8>,
}

/// Builds the binaries of a `cargo test` command and runs all of them. Everything is written to
/// `log`; what failed, and with `verbose` everything, also to `screen`. Returns false if the build
/// or a test fails.
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
    let (built, binaries) = build(cargo, root, &logs, &mut |output, ok| {
        show(output, verbose || !ok)
    })?;
    if !built {
        return Ok(false);
    }
    let mut unreported = binaries.len();
    let waiting = Mutex::new(in_order(binaries).into_iter());
    let (sender, ended) = mpsc::channel();
    let mut ok = true;
    thread::scope(|scope| -> Result<()> {
        for _ in 0..WORKERS {
            let (sender, waiting, logs) = (sender.clone(), &waiting, &logs);
            scope.spawn(move || {
                while let Some((nice, binary)) = next(waiting) {
                    // The receiver is gone after an error, which is reported.
                    if sender.send(binary.run(nice, logs)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for ended in ended {
            let ended: Ended = ended?;
            unreported = unreported.saturating_sub(1);
            show(&ended.output, verbose || !ended.ok)?;
            ok &= ended.ok;
        }
        Ok(())
    })?;
    ensure!(unreported == 0, "{unreported} test binaries did not run");
    Ok(ok)
}

/// Puts the binaries in the order in which they start, each with its priority.
fn in_order(mut binaries: Vec<Binary>) -> Vec<(&'static str, Binary)> {
    let mut order = Vec::with_capacity(binaries.len());
    for (name, nice) in FIRST {
        order.extend(
            binaries
                .extract_if(.., |binary| binary.name == name)
                .map(|binary| (nice, binary)),
        );
    }
    order.extend(binaries.into_iter().map(|binary| ("0", binary)));
    order
}

/// Takes the next one. The lock is not held while it runs.
fn next<T>(waiting: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    waiting
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .next()
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
    cargo
        .args(["--no-run", "--message-format", "json-render-diagnostics"])
        .stderr(file);
    let output = cargo.output().context("cannot start cargo")?;
    let ok = output.status.success();
    show(
        &fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?,
        ok,
    )?;
    let binaries: Vec<_> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| binary(root, line))
        .collect();
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
    Some(Binary {
        name,
        file: text("/executable")?.into(),
        folder: folder.to_owned(),
    })
}

impl Binary {
    fn run(&self, nice: &str, logs: &Path) -> Result<Ended> {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        let log = logs.join(format!("{name}.log"));
        // A file, since background processes of a test would keep a pipe open.
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let errors = file.try_clone().context("cannot share the log file")?;
        let begin = Instant::now();
        let status = Command::new("nice")
            .args(["-n", nice])
            .arg(&self.file)
            .current_dir(&self.folder)
            // As cargo does. The environment is that of xtask itself.
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .status()
            .with_context(|| format!("cannot start {}", self.file.display()))?;
        let seconds = begin.elapsed().as_secs_f64();
        let mut output = format!("     Running {} ({seconds:.1} s)\n", self.name).into_bytes();
        output.extend(fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?);
        if !status.success() {
            output.extend(format!("error: {}: {status}\n", self.file.display()).into_bytes());
        }
        Ok(Ended {
            ok: status.success(),
            output,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_binary_runs_once_and_the_longest_start_first() {
        let binary = |name: &str| Binary {
            name: name.to_owned(),
            file: PathBuf::new(),
            folder: PathBuf::new(),
        };
        let longest = FIRST.iter().rev().map(|(name, _)| *name);
        let order = in_order(
            ["host/cloud lib skydock_cloud"]
                .into_iter()
                .chain(longest)
                .map(binary)
                .collect(),
        );
        let names: Vec<_> = order
            .iter()
            .map(|(nice, binary)| (binary.name.as_str(), *nice))
            .collect();
        assert_eq!(
            names,
            [&FIRST[..], &[("host/cloud lib skydock_cloud", "0")]].concat()
        );
    }

    #[test]
    fn every_binary_that_starts_first_exists() {
        for (name, _) in FIRST {
            let (folder, target) = name.split_once(" test ").unwrap();
            let tests = crate::root().join(folder).join("tests");
            let files = [
                tests.join(target).join("main.rs"),
                tests.join(format!("{target}.rs")),
            ];
            assert!(files.iter().any(|file| file.exists()), "{name}");
        }
    }

    #[test]
    fn test_binaries_are_read_from_cargo_messages() {
        let root = Path::new("/w");
        let line = |test: bool| {
            let target = serde_json::json!({"kind": ["test"], "name": "api"});
            let (manifest, executable) =
                ("/w/host/devplane/Cargo.toml", "/w/target/debug/deps/api-1");
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
        assert_eq!(
            binary(root, r#"{"reason":"build-finished","success":true}"#),
            None
        );
    }
}
