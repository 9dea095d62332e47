//! `skydock plugin new`, from the command to a plugin that loads.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use skydock_support::{build_of_plugin, checkout};

/// Runs `skydock` in a folder. It finds the program of this package next to it.
fn skydock(folder: &Path, args: &[&str]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_skydock-dev")).with_file_name("skydock");
    assert!(
        program.is_file(),
        "{} is missing: run `cargo build --workspace --bins`",
        program.display()
    );
    Command::new(program)
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_new_provider_builds_loads_and_conforms() {
    // Always the same folder, so that cargo finds what it has built for the last run.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let sdk = checkout().join("sdk/rust");
    let create = [
        "plugin",
        "new",
        "big-metal",
        "--sdk-path",
        sdk.to_str().unwrap(),
    ];
    let created = skydock(&folder, &create);
    assert!(created.status.success(), "{}", text(&created.stderr));
    assert!(
        text(&created.stdout).contains("\n  cd big-metal\n"),
        "{}",
        text(&created.stdout)
    );

    let again = skydock(&folder, &create);
    assert_eq!(
        text(&again.stderr),
        "skydock: big-metal exists and is not empty: choose another name, or delete it\n"
    );

    let provider = folder.join("big-metal");
    // The versions that are there already: nothing is downloaded.
    fs::copy(checkout().join("Cargo.lock"), provider.join("Cargo.lock")).unwrap();
    let (mut build, components) = build_of_plugin(&provider);
    let built = build.output().unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
    let plugin = components.join("big_metal.wasm");

    let inspected = skydock(&folder, &["plugin", "inspect", plugin.to_str().unwrap()]);
    let told = text(&inspected.stdout);
    for line in [
        "provider        big-metal 0.1.0",
        "capabilities    instances",
        "provider IDs    big-metal://",
    ] {
        assert!(
            told.lines().any(|other| other.trim_end() == line),
            "{line} is missing in:\n{told}"
        );
    }

    let checked = skydock(&folder, &["plugin", "test", plugin.to_str().unwrap()]);
    assert!(checked.status.success(), "{}", text(&checked.stdout));
}
