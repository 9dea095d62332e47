//! `skydock plugin replay`: repeats recorded calls with a plugin, without a cluster and without a
//! cloud.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::Context as _;
use skydock_cloud::text::escape;
use skydock_controllers::service::ServiceOptions;
use skydock_sandbox::{
    Compiler, Replay, ReplayError, Replayed, Runtime, RuntimeOptions, ScriptError, Taping,
};

use crate::{
    cli::{COMPILER, ReplayArgs, plugin_limits},
    config::default_cache_dir,
};

/// Replays all recordings, and reports each.
///
/// # Errors
/// If there are no recordings, or the plugin cannot be loaded.
pub(crate) async fn run(args: ReplayArgs) -> anyhow::Result<ExitCode> {
    skydock_sandbox::open(&args.plugin)
        .with_context(|| format!("cannot read {}", args.plugin.display()))?;
    let recordings = Replay::recordings(&args.recordings)?;

    let limits = plugin_limits::limits(
        ServiceOptions::default().concurrent_syncs,
        &args.plugin_limits,
    )?;

    let options = RuntimeOptions::new(Compiler::this_program(COMPILER)?);
    let runtime = Runtime::new(RuntimeOptions {
        cache_dir: default_cache_dir(),
        limits,
        taping: Taping::Replay,
        ..options
    })?;

    let replay = Replay::load(&runtime, &args.plugin).await?;
    let mut good = true;
    for recording in &recordings {
        let text = match replay.play(recording).await {
            Ok(replayed) => {
                good &= replayed.difference.is_none();
                report(&replayed)
            }
            // A process that is killed leaves such files.
            Err(ReplayError::Script(error @ ScriptError::Empty(_))) => {
                format!("{}\n", escape(&error.to_string()))
            }
            // The others may be complete.
            Err(ReplayError::Script(error)) => {
                good = false;
                format!("{}\n", escape(&error.to_string()))
            }
            Err(error) => return Err(error.into()),
        };

        // Standard output may be closed.
        let _ = io::stdout().write_all(text.as_bytes());
    }

    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn report(replayed: &Replayed) -> String {
    let Replayed {
        recording,
        calls,
        steps,
        exact,
        same_component,
        cut,
        difference,
    } = replayed;

    let name = recording.file_name().unwrap_or_default().to_string_lossy();
    let name = escape(&name);
    let component = if *same_component {
        ""
    } else {
        " (recorded with another build)"
    };

    let mut text = match difference {
        Some(difference) => {
            format!("{name}: differs after {calls} calls{component}\n{difference}\n")
        }
        None => {
            let exactly = if *exact {
                "exactly"
            } else {
                "except for clocks, randomness, log or timing"
            };
            format!(
                "{name}: {calls} calls and {steps} steps in them as recorded, {exactly}{component}\n"
            )
        }
    };

    if let Some(why) = cut {
        text += &format!("  the recording is incomplete: {why}\n");
    }

    // A recording may come from elsewhere.
    text.lines()
        .map(|line| format!("{}\n", escape(line)))
        .collect()
}

#[cfg(test)]
mod tests {
    use skydock_sandbox::Difference;

    use super::*;

    #[test]
    fn a_report_says_what_was_compared_and_what_differs() {
        let same = Replayed {
            recording: "/tmp/r/1-p-1-1.jsonl".into(),
            same_component: true,
            calls: 3,
            steps: 20,
            exact: true,
            cut: None,
            difference: None,
        };
        assert_eq!(
            report(&same),
            "1-p-1-1.jsonl: 3 calls and 20 steps in them as recorded, exactly\n"
        );
        let difference = Difference {
            call: 4,
            function: "zones.locate".into(),
            what: "request 2".into(),
            expected: "request GET http://c:80/v1".into(),
            came: "request GET http://c:80/v2\nforged: 3 calls".into(),
        };
        let other = Replayed {
            same_component: false,
            exact: false,
            difference: Some(difference),
            ..same
        };
        let expected = "1-p-1-1.jsonl: differs after 3 calls (recorded with another build)\n\
                        call 4, zones.locate: request 2 differs\n  \
                        recorded: request GET http://c:80/v1\n  replayed: request GET http://c:80/v2\\nforged: 3 calls\n";
        assert_eq!(report(&other), expected);
        let hostile = Replayed {
            difference: None,
            cut: Some("\u{1b}[2J".into()),
            ..other
        };
        assert!(!report(&hostile).contains('\u{1b}'));
    }
}
