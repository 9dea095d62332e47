//! The tests of the SDKs for other languages than Rust, of their templates and examples, natively:
//! each by the command that a developer runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use skydock_sdks::{NODE, PYTHON, lock, npm, run};
use skydock_support::{checkout, program};

/// The SDK names this version, because the overlay of its runtime is for it.
const GO: &str = "install Go 1.26.8 from https://go.dev/dl";
const C: &str =
    "install make and a C compiler, for example with `apt-get install make gcc libc6-dev`";

/// Tells the tests of the examples where simcloud is.
const SIMCLOUD: &str = "SKYDOCK_SIMCLOUD";

fn go(words: &[&str]) -> Command {
    let mut go = Command::new("go");
    go.args(words);
    go
}

/// Returns the Go modules in a folder and directly below it.
fn modules(folder: &str) -> Result<Vec<PathBuf>> {
    let folder = checkout().join(folder);
    let mut modules = vec![folder.clone()];
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        modules.push(entry?.path());
    }
    modules.retain(|module| module.join("go.mod").is_file());
    modules.sort();
    ensure!(modules.len() > 3, "only {modules:?} are modules");
    Ok(modules)
}

fn vet_and_test(folder: &str) -> Result<()> {
    for module in modules(folder)? {
        run(&mut go(&["vet", "./..."]), &module, GO)?;
        run(&mut go(&["test", "./..."]), &module, GO)?;
    }
    Ok(())
}

#[test]
fn go_files_are_formatted() -> Result<()> {
    let goroot = run(&mut go(&["env", "GOROOT"]), "sdk/go", GO)?;
    let goroot = String::from_utf8(goroot.stdout)?;
    let mut gofmt = Command::new(Path::new(goroot.trim()).join("bin/gofmt"));
    let listed = run(gofmt.args(["-l", "sdk/go", "plugins/go"]), "", GO)?;
    let listed = String::from_utf8(listed.stdout)?;
    // Without results of builds.
    let files: Vec<_> = listed
        .lines()
        .filter(|file| !file.contains("/.skydock/"))
        .collect();
    ensure!(
        files.is_empty(),
        "not formatted: run `gofmt -w {}`",
        files.join(" ")
    );
    Ok(())
}

#[test]
fn the_modules_of_the_go_sdk_pass_their_tests() -> Result<()> {
    vet_and_test("sdk/go")
}

#[test]
#[ignore = "the dependencies of the official providers take minutes to compile"]
fn the_official_go_providers_pass_their_tests() -> Result<()> {
    vet_and_test("plugins/go")
}

/// Those packages of components that compile without the overlay.
#[test]
fn go_packages_of_components_pass_vet() -> Result<()> {
    // Addresses of the host become pointers there.
    let mut vet = go(&["vet", "-unsafeptr=false"]);
    vet.args(["./internal/guest", "./internal/memory"])
        .args(["./internal/inflight", "./internal/wit/..."]);
    run(
        vet.env("GOOS", "wasip1").env("GOARCH", "wasm"),
        "sdk/go",
        GO,
    )?;
    Ok(())
}

fn unittest(folder: &str) -> Result<()> {
    let supported = "import sys; print(sys.version_info >= (3, 11))";
    let supported = run(
        Command::new("python3").args(["-c", supported]),
        folder,
        PYTHON,
    )?;
    ensure!(
        supported.stdout == b"True\n",
        "python3 is too old: {PYTHON}"
    );
    let mut python = Command::new("python3");
    python
        .args(["-B", "-m", "unittest", "discover"])
        .env("PYTHONPATH", checkout().join("sdk/python"))
        .env(SIMCLOUD, program("skydock-simcloud")?);
    let output = run(&mut python, folder, PYTHON)?;
    // Python 3.11 succeeds without tests.
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(!told.contains("Ran 0 tests"), "{folder} has no tests");
    Ok(())
}

#[test]
fn the_python_sdk_passes_its_tests() -> Result<()> {
    unittest("sdk/python")
}

#[test]
fn the_python_template_passes_its_tests() -> Result<()> {
    unittest("sdk/python/template")
}

#[test]
fn the_python_example_passes_its_tests() -> Result<()> {
    unittest("sdk/python/example")
}

/// One after another, because the tests of the SDK compile it, and template and example use that.
#[test]
fn the_typescript_sdk_template_and_example_pass_their_tests() -> Result<()> {
    let _lock = lock(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("typescript.lock"))?;
    // Lock files of the others would contain the path of the checkout.
    let without_lock: &[&str] = &["install", "--no-package-lock"];
    for (folder, install) in [
        ("sdk/typescript", ["ci"].as_slice()),
        ("sdk/typescript/template", without_lock),
        ("sdk/typescript/example", without_lock),
    ] {
        run(&mut npm(install), folder, NODE)?;
        let mut test = npm(&["test"]);
        run(
            test.env(SIMCLOUD, program("skydock-simcloud")?),
            folder,
            NODE,
        )?;
    }
    Ok(())
}

#[test]
fn the_c_sdk_template_and_example_pass_their_tests() -> Result<()> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c");
    let mut make = Command::new("make");
    make.arg(format!("OUT={}", folder.display()));
    run(&mut make, "sdk/c/tests", C)?;
    Ok(())
}
