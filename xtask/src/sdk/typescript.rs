//! The SDK for TypeScript, with the Node.js that is installed. npm installs the compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::console;

/// The folder of the SDK.
const SDK: &str = "sdk/typescript";

/// Folders with tests, and how their dependencies are installed. The first is that of the SDK,
/// which the others use.
const FOLDERS: [(&str, &[&str]); 3] = [
    (SDK, &["ci"]),
    ("sdk/typescript/template", WITHOUT_LOCK),
    ("sdk/typescript/example", WITHOUT_LOCK),
];
/// Lock files would contain the path of the checkout.
const WITHOUT_LOCK: &[&str] = &["install", "--no-package-lock"];

/// What npm writes when it has installed everything.
const INSTALLED: &str = "node_modules/.package-lock.json";

const INSTALL: &str = "install Node.js 20 or later, with npm";

/// Runs all unit tests. Those of the example use simcloud.
///
/// # Errors
/// If Node.js or simcloud is missing, or a test fails.
pub(super) fn test(root: &Path) -> Result<()> {
    let simcloud = super::program("skydock-simcloud")?;
    for (folder, how) in FOLDERS {
        install(root, folder, how)?;
        count(root, folder, &simcloud)?;
    }
    Ok(())
}

/// Builds the package of the SDK, and copies the example, with the package as its dependency.
/// Returns the folder.
///
/// # Errors
/// If Node.js is missing, or the package cannot be built.
pub(super) fn packed_example(root: &Path) -> Result<PathBuf> {
    let work = root.join("target").join(SDK);
    let (original, example) = (root.join("sdk/typescript/example"), work.join("example"));
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(example.join("src")).context("cannot create the folder of the example")?;
    install(root, SDK, &["ci"])?;
    let mut npm = npm(&["pack", "--silent", "--pack-destination"]);
    super::show(root, SDK, npm.arg(&work), INSTALL)?;
    let copy = || {
        for entry in fs::read_dir(original.join("src"))? {
            let file = entry?;
            fs::copy(file.path(), example.join("src").join(file.file_name()))?;
        }
        fs::copy(
            original.join("tsconfig.json"),
            example.join("tsconfig.json"),
        )?;
        fs::read_to_string(original.join("package.json"))
    };
    let manifest = copy().context("cannot copy the example")?;
    fs::write(example.join("package.json"), packed(&manifest)?)
        .context("cannot copy the example")?;
    Ok(example)
}

/// Returns a manifest whose dependency is the package.
fn packed(manifest: &str) -> Result<String> {
    let package = concat!(
        "\"file:../skydock-sdk-",
        env!("CARGO_PKG_VERSION"),
        ".tgz\""
    );
    let packed = manifest.replace("\"file:..\"", package);
    ensure!(
        packed.contains(package),
        "the manifest of the example is not as expected"
    );
    Ok(packed)
}

/// Installs the dependencies in a folder, unless that was done since its manifest was changed.
fn install(root: &Path, folder: &str, how: &[&str]) -> Result<()> {
    let modified = |file: &str| {
        fs::metadata(root.join(folder).join(file))
            .and_then(|data| data.modified())
            .ok()
    };
    if modified(INSTALLED).is_some_and(|installed| Some(installed) > modified("package.json")) {
        return Ok(());
    }
    let mut npm = npm(how);
    super::show(
        root,
        folder,
        npm.args([
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--prefer-offline",
        ]),
        INSTALL,
    )
}

/// Runs the tests in a folder, and prints their numbers as libtest does.
fn count(root: &Path, folder: &str, simcloud: &Path) -> Result<()> {
    console::line(folder);
    let mut npm = npm(&["test", "--silent"]);
    npm.current_dir(root.join(folder))
        .env("SKYDOCK_SIMCLOUD", simcloud);
    let output = npm
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start npm")?;
    let text = String::from_utf8_lossy(&output.stdout);
    console::line(&text);
    let [passed, failed, skipped] = ["pass", "fail", "skipped"].map(|what| number(&text, what));
    let word = if output.status.success() {
        "ok"
    } else {
        "FAILED"
    };
    console::line(format_args!(
        "test result: {word}. {passed} passed; {failed} failed; {skipped} ignored"
    ));
    if !output.status.success() || passed == 0 {
        bail!("tests of {folder} failed; see above");
    }
    Ok(())
}

/// Returns a number of the summary of Node.js, for example of the line `# pass 12`.
fn number(text: &str, what: &str) -> u64 {
    let of = |line: &str| match *line.split_whitespace().collect::<Vec<_>>() {
        [_, word, number] if word == what => number.parse().ok(),
        _ => None,
    };
    text.lines().rev().find_map(of).unwrap_or_default()
}

fn npm(words: &[&str]) -> Command {
    let mut npm = Command::new("npm");
    npm.args(words);
    npm
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packed_example_depends_on_the_package() {
        let manifest =
            fs::read_to_string(crate::root().join("sdk/typescript/example/package.json")).unwrap();
        let packed = packed(&manifest).unwrap();
        assert!(
            packed.contains("\"@skydock/sdk\": \"file:../skydock-sdk-0.1.0.tgz\""),
            "{packed}"
        );
        assert!(super::packed("{}").is_err());
    }

    #[test]
    fn the_package_contains_the_license() {
        // npm leaves out links.
        let license = crate::root().join(SDK).join("LICENSE");
        assert!(fs::symlink_metadata(&license).unwrap().is_file());
        assert_eq!(
            fs::read(license).unwrap(),
            fs::read(crate::root().join("LICENSE")).unwrap()
        );
    }

    #[test]
    fn the_numbers_of_node_are_read() {
        let tap = "ok 1 - it\n  # pass 1 of 2\n# tests 12\n# pass 10\n# fail 2\n# skipped 0\n";
        assert_eq!(
            ["pass", "fail", "skipped"].map(|what| number(tap, what)),
            [10, 2, 0]
        );
        assert_eq!(number("\u{2139} tests 3\n\u{2139} pass 3\n", "pass"), 3);
        assert_eq!(number("", "pass"), 0);
    }
}
