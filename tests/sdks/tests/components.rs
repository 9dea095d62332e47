//! The examples of the SDKs for other languages than Rust: built by `skydock plugin build`, with the
//! packages that would be published, and checked by the conformance kit.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use skydock_sdks::{NODE, PYTHON, lock, npm, run};
use skydock_support::{checkout, copy_folder, program};

/// Returns a folder for the results of one test.
fn work(name: &str) -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("components")
        .join(name);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}

fn skydock<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Result<()> {
    let mut skydock = Command::new(program("skydock-dev")?);
    run(skydock.arg("plugin").args(words), "", "build it")?;
    Ok(())
}

/// Builds a plugin into a folder, and returns it.
fn build(folder: &Path, work: &Path) -> Result<PathBuf> {
    let plugin = work.join("plugin.wasm");
    skydock([
        OsStr::new("build"),
        folder.as_ref(),
        OsStr::new("--output"),
        plugin.as_ref(),
    ])?;
    Ok(plugin)
}

/// Builds a plugin, and has the conformance kit check it without a cloud. Returns the plugin.
fn conforms(folder: &Path, work: &Path) -> Result<PathBuf> {
    let (plugin, config) = (build(folder, work)?, work.join("cloud.json"));
    let settings = r#"{"url": "http://127.0.0.1:8080", "region": "sim"}"#;
    fs::write(&config, settings).with_context(|| config.display().to_string())?;
    skydock([
        OsStr::new("test"),
        plugin.as_ref(),
        OsStr::new("--cloud-config"),
        config.as_ref(),
    ])?;
    Ok(plugin)
}

/// Builds a provider for simcloud, and has the conformance kit check it: without a cloud, and with
/// simcloud.
fn provides(folder: &Path, work: &Path) -> Result<()> {
    let plugin = conforms(folder, work)?;
    let scenarios = checkout().join("tools/simcloud/scenarios.yaml");
    skydock([
        OsStr::new("test"),
        plugin.as_ref(),
        OsStr::new("--simcloud"),
        OsStr::new("--scenarios"),
        scenarios.as_ref(),
    ])
}

/// Checks that an installed package has the license and the contract: in the checkout, they are
/// elsewhere.
fn complete(license: &Path, wit: &Path) -> Result<()> {
    let contract = checkout().join("wit/v0.1.1");
    let mut files = vec![(checkout().join("LICENSE"), license.to_path_buf())];
    for entry in fs::read_dir(&contract).with_context(|| contract.display().to_string())? {
        let entry = entry?;
        if entry.path().is_file() {
            files.push((entry.path(), wit.join("v0.1.1").join(entry.file_name())));
        }
    }
    ensure!(files.len() > 5, "{} has no files", contract.display());
    for (original, copy) in files {
        let is_file = fs::symlink_metadata(&copy).is_ok_and(|it| it.is_file());
        ensure!(is_file, "{} is not in the package", copy.display());
        ensure!(
            fs::read(&original)? == fs::read(&copy)?,
            "{} is not as {}",
            copy.display(),
            original.display()
        );
    }
    Ok(())
}

/// Copies a manifest, and replaces texts in it.
fn copy_manifest(from: &Path, to: &Path, replaced: &[(&str, &str)]) -> Result<()> {
    let mut manifest = fs::read_to_string(from).with_context(|| from.display().to_string())?;
    for (text, other) in replaced {
        ensure!(
            manifest.contains(text),
            "{} does not contain {text:?}",
            from.display()
        );
        manifest = manifest.replace(text, other);
    }
    fs::write(to, manifest).with_context(|| to.display().to_string())
}

#[test]
fn the_example_in_go_conforms() -> Result<()> {
    provides(&checkout().join("sdk/go/example"), &work("go")?)
}

#[test]
fn the_example_in_python_conforms_with_the_wheel() -> Result<()> {
    let work = work("python")?;
    let (wheels, example) = (work.join("wheels"), work.join("example"));
    // setuptools would add what is left of earlier builds, for example modules that were deleted;
    // and only one wheel is expected.
    for folder in [&checkout().join("sdk/python/build"), &wheels, &example] {
        let _ = fs::remove_dir_all(folder);
    }
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "wheel", "--quiet", "--no-deps", "."])
        .args(["--disable-pip-version-check", "--wheel-dir"]);
    run(pip.arg(&wheels), "sdk/python", PYTHON)?;
    let wheel = fs::read_dir(&wheels)?
        .next()
        .context("pip has built no wheel")??;

    let original = checkout().join("sdk/python/example");
    copy_folder(&original.join("simcloud"), &example.join("simcloud"))?;
    let version = concat!("\"skydock==", env!("CARGO_PKG_VERSION"), "\"");
    let package = format!("\"skydock @ file://{}\"", wheel.path().display());
    copy_manifest(
        &original.join("pyproject.toml"),
        &example.join("pyproject.toml"),
        &[(version, &package), ("sdk = \"..\"\n", "")],
    )?;
    provides(&example, &work)?;

    let packages = example.join(".skydock/build/packages");
    let information = concat!("skydock-", env!("CARGO_PKG_VERSION"), ".dist-info");
    let license = packages.join(information).join("licenses/LICENSE");
    complete(&license, &packages.join("skydock/wit"))
}

#[test]
fn the_example_in_typescript_conforms_with_the_package() -> Result<()> {
    // Packing compiles the SDK in its folder.
    let _lock = lock(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("typescript.lock"))?;
    let work = work("typescript")?;
    let example = work.join("example");
    let _ = fs::remove_dir_all(&example);
    run(&mut npm(&["ci"]), "sdk/typescript", NODE)?;
    let mut pack = Command::new("npm");
    pack.args(["pack", "--silent", "--pack-destination"]);
    run(pack.arg(&work), "sdk/typescript", NODE)?;

    let original = checkout().join("sdk/typescript/example");
    copy_folder(&original.join("src"), &example.join("src"))?;
    copy_manifest(
        &original.join("tsconfig.json"),
        &example.join("tsconfig.json"),
        &[],
    )?;
    let package = concat!(
        "\"file:../skydock-sdk-",
        env!("CARGO_PKG_VERSION"),
        ".tgz\""
    );
    copy_manifest(
        &original.join("package.json"),
        &example.join("package.json"),
        &[("\"file:..\"", package)],
    )?;
    provides(&example, &work)?;

    let sdk = example.join("node_modules/@skydock/sdk");
    complete(&sdk.join("LICENSE"), &sdk.join("dist/wit"))
}

#[test]
fn the_example_in_c_conforms() -> Result<()> {
    provides(&checkout().join("sdk/c/example"), &work("c")?)
}

/// They take no configuration.
#[test]
fn the_templates_in_go_and_c_conform() -> Result<()> {
    for language in ["go", "c"] {
        let template = checkout().join("sdk").join(language).join("template");
        let plugin = build(&template, &work(&format!("{language}-template"))?)?;
        skydock([OsStr::new("test"), plugin.as_ref()])?;
    }
    Ok(())
}

/// It uses the C library.
#[test]
fn the_probe_in_c_conforms() -> Result<()> {
    conforms(&checkout().join("sdk/c/probe"), &work("probe")?)?;
    Ok(())
}
