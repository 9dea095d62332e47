//! Tests the built binary with hostile plugins: each must fail with a one-sentence error and must
//! not affect anything else.
#![cfg(not(target_family = "wasm"))]
#![allow(
    clippy::print_stdout,
    reason = "what was seen, for whoever runs them with --nocapture"
)]

mod crowd;
mod guest;
mod stage;

use std::{process::Command, time::Duration};

use anyhow::ensure;

use guest::Form;
use skydock_support::Paths;
use stage::Stage;

/// How long it may take until the host reports the error.
const SENTENCE: Duration = Duration::from_secs(10);
/// Longer than a plugin can wait in one call.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long it may take until the host has stopped.
const END: Duration = Duration::from_secs(2);
/// How long it takes until a new plugin, or a call, is running.
const UNDER_WAY: Duration = Duration::from_millis(700);
/// Maximum memory of the host in MiB.
const MEMORY: u64 = 300;

/// The expected result.
enum Goes {
    /// The plugin works without errors.
    Well,
    /// The new component is rejected, with this text in the message.
    Rejected(&'static str),
    /// The call fails, with this text in the message.
    Failed(&'static str),
}

/// Replaces a good plugin with this one, and checks all guarantees.
async fn survives(component: Vec<u8>, form: Form, goes: Goes) -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    stage.replace(&component)?;
    if form == Form::Call && !matches!(goes, Goes::Rejected(_)) {
        stage
            .event("PluginSwapped", "generation 2", PATIENCE)
            .await?;
        stage.start_node("second").await?;
    } else {
        tokio::time::sleep(UNDER_WAY).await;
    }
    let sentence = async {
        let told = match goes {
            Goes::Well if form == Form::Call => return stage.initialized("second", PATIENCE).await,
            Goes::Well => {
                return stage
                    .event("PluginSwapped", "generation 2", PATIENCE)
                    .await
                    .map(drop);
            }
            Goes::Rejected(words) => stage.event("PluginRejected", words, SENTENCE).await?,
            Goes::Failed(words) => stage.event("FailedToInitialize", words, SENTENCE).await?,
        };
        println!("{told}");
        ensure!(
            told.len() <= 1024 && !told.contains(char::is_control),
            "no sentence: {told:?}"
        );
        Ok(())
    };
    // Both are checked independently.
    let (told, served) = tokio::join!(sentence, stage.neighbor_is_served(SENTENCE));
    told?;
    served?;
    if !matches!(form, Form::Call) {
        // The plugin in service is either still the good one, or one that behaves from now on.
        stage.start_node("third").await?;
        stage.initialized("third", SENTENCE).await?;
    }
    stage.log_is_sane()?;

    match form {
        Form::Configure => stage.configure("again: true\n")?,
        Form::Call => stage.start_node("last").await?,
    }
    tokio::time::sleep(UNDER_WAY).await;
    let peak = stage.peak_memory()?;
    println!("at most {peak} MiB");
    ensure!(peak < MEMORY, "the host took {peak} MiB");
    stage.ends_within(END).await
}

macro_rules! survives {
    ($($name:ident: $component:expr, $form:expr, $goes:expr;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            survives($component.unwrap(), $form, $goes).await.unwrap();
        }
    )*};
}

survives! {
    a_plugin_may_wait_often_in_configure: guest::naps(300, 12, Form::Configure), Form::Configure, Goes::Well;
    a_plugin_may_wait_often_in_a_call: guest::naps(300, 12, Form::Call), Form::Call, Goes::Well;
    a_plugin_may_wait_long_in_configure: guest::naps(250, 50, Form::Configure), Form::Configure, Goes::Well;
    a_plugin_may_wait_long_in_a_call: guest::naps(250, 50, Form::Call), Form::Call, Goes::Well;
    huge_methods_in_configure: guest::methods(150, Form::Configure), Form::Configure, Goes::Rejected("too much data is being copied between the host and the guest");
    huge_methods_in_a_call: guest::methods(150, Form::Call), Form::Call, Goes::Failed("too much data is being copied between the host and the guest");
    forged_names_in_configure: guest::names(90_000, Form::Configure), Form::Configure, Goes::Rejected("its call to Skydock failed: empty poll list (in function 2 of its code)");
    forged_names_in_a_call: guest::names(90_000, Form::Call), Form::Call, Goes::Failed("its call to Skydock failed: empty poll list (in function 2 of its code)");
    a_bomb_of_components: guest::bomb(4, 900), Form::Configure, Goes::Rejected("instances of modules and components, but at most 1000 are allowed");
    an_import_with_escapes: guest::odd_import(), Form::Configure, Goes::Rejected("it imports `evil\\u{1b}]0;owned");
    a_file_of_imports: guest::many_imports(38 << 20), Form::Configure, Goes::Rejected("in the name of an import");
}

/// The instance pool reserves hundreds of GiB of address space, which not every machine allows.
#[test]
fn a_limited_address_space_is_enough() {
    let (dir, paths) = (tempfile::tempdir().unwrap(), Paths::of_checkout().unwrap());
    let plugin = dir.path().join("plugin.wasm");
    std::fs::write(&plugin, guest::good().unwrap()).unwrap();
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            r#"ulimit -v 1000000 && exec "$0" plugin inspect "$1""#,
        ])
        .arg(paths.skydock)
        .arg(plugin);
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
