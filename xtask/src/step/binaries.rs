//! Test binaries, run side by side. Cargo runs one after the other, although many of them wait more than they compute.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Binaries that run one after the other, beside the other lanes. All that are not named are a lane too.
struct Lane {
    /// Added to the priority of the process, as for `nice`.
    nice: &'static str,
    binaries: &'static [&'static str],
}

/// All lanes but the last. The tests of the first three compile plugins and mostly wait. Compilers have
/// a low priority. The simulation has a lower one: it only computes, with a clock of its own.
const LANES: [Lane; 4] = [
    Lane {
        nice: "0",
        binaries: &["host/plugin test plugin", "host/manager test manager", "plugins/static test component"],
    },
    Lane { nice: "0", binaries: &["tests/story test embedded", "tests/plugin test binary", "tests/e2e test simcloud"] },
    Lane { nice: "5", binaries: &["host/conformance test kit", "host/dev test simcloud", "host/dev test scenarios"] },
    Lane { nice: "19", binaries: &["tests/simulation test simulation"] },
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
    let (built, binaries) = build(cargo, root, &logs, &mut |output, ok| show(output, verbose || !ok))?;
    if !built {
        return Ok(false);
    }
    let (sender, ended) = mpsc::channel();
    let mut ok = true;
    thread::scope(|scope| -> Result<()> {
        for (nice, lane) in lanes(binaries) {
            let (sender, logs) = (sender.clone(), &logs);
            scope.spawn(move || {
                for binary in lane {
                    // The receiver is gone after an error, which is reported.
                    let _ = sender.send(binary.run(nice, logs));
                }
            });
        }
        drop(sender);
        for ended in ended {
            let ended: Ended = ended?;
            show(&ended.output, verbose || !ended.ok)?;
            ok &= ended.ok;
        }
        Ok(())
    })?;
    Ok(ok)
}

/// Divides the binaries into lanes, each with its priority.
fn lanes(mut binaries: Vec<Binary>) -> Vec<(&'static str, Vec<Binary>)> {
    let mut lanes = Vec::new();
    for Lane { nice, binaries: names } in LANES {
        lanes.push((nice, binaries.extract_if(.., |binary| names.contains(&binary.name.as_str())).collect()));
    }
    lanes.push(("0", binaries));
    lanes
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
        Ok(Ended { ok: status.success(), output })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_binary_is_in_one_lane() {
        let binary = |name: &str| Binary { name: name.to_owned(), file: PathBuf::new(), folder: PathBuf::new() };
        let names = LANES.iter().flat_map(|lane| lane.binaries);
        let lanes = lanes(names.copied().chain(["host/cloud lib skydock_cloud"]).map(binary).collect());
        assert_eq!(lanes.iter().map(|(_, binaries)| binaries.len()).collect::<Vec<_>>(), [3, 3, 3, 1, 1]);
    }

    #[test]
    fn every_binary_with_a_lane_exists() {
        for name in LANES.iter().flat_map(|lane| lane.binaries) {
            let (folder, target) = name.split_once(" test ").unwrap();
            let tests = crate::root().join(folder).join("tests");
            let files = [tests.join(target).join("main.rs"), tests.join(format!("{target}.rs"))];
            assert!(files.iter().any(|file| file.exists()), "{name}");
        }
    }

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
