//! The command line of a container, and which of its flags are kept or dropped.

use std::ffi::OsString;

use serde_json::Value;

use super::script;
use crate::{
    cli::{
        self,
        arguments::executable::{Word, recognize},
    },
    config,
};

/// What becomes of a command line.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    /// The arguments that stay.
    pub(super) kept: Vec<String>,
    /// What was dropped, and what is wrong, each with the reason.
    pub(super) notes: Vec<String>,
}

impl Arguments {
    /// Returns the value of a flag that stays.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let start = format!("--{name}=");
        let mut values = self.kept.iter().filter_map(|arg| arg.strip_prefix(&start));
        values.next_back()
    }

    /// Drops a flag.
    pub(super) fn drop(&mut self, name: &str, why: &str) {
        let start = format!("--{name}=");
        self.kept.retain(|arg| {
            let stays = !arg.starts_with(&start);
            if !stays {
                self.notes.push(format!("dropped {arg}: {why}"));
            }
            stays
        });
    }
}

/// Returns the words of `command` and `args`.
pub(super) fn words(container: &Value) -> Vec<String> {
    let list = |field: &str| {
        let items = container.get(field).and_then(Value::as_array).into_iter();
        items.flatten().map(|item| match item {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    };
    list("command").chain(list("args")).collect()
}

/// Returns true if a shell runs the rest of the words.
pub(super) fn is_script(words: &[String]) -> bool {
    words
        .first()
        .is_some_and(|word| recognize(word) == Word::Shell)
}

/// Reads a command line, or the one in a script that starts a cloud-controller-manager; `None` if
/// there is none in it.
pub(in crate::commands) fn command_line(words: &[String]) -> Option<cli::arguments::Arguments> {
    let words = if is_script(words) {
        let mut words = words.iter().rev();
        words.find_map(|word| script::command(word))?
    } else {
        words.to_vec()
    };
    let program = std::iter::once("skydock".to_owned());
    Some(cli::arguments::read(
        program.chain(words).map(OsString::from),
    ))
}

/// Sorts the words of a command line.
pub(super) fn sort(words: &[String]) -> Arguments {
    let shell = is_script(words);
    let Some(read) = command_line(words) else {
        let note = "the script of the container starts no cloud-controller-manager that is known: write its flags into args";
        return Arguments {
            notes: vec![note.to_owned()],
            ..Arguments::default()
        };
    };
    let mut arguments = Arguments::default();

    if shell {
        arguments.notes.push(
            "replaced the script by the flags in it: Skydock's image has no shell; $(NAME) needs NAME in env".to_owned(),
        );
    }
    for executable in &read.executables {
        let note = format!("dropped {executable}: it is an executable of another image");
        arguments.notes.push(note);
    }
    for accepted in &read.accepted {
        let why = accepted.no_effect.as_deref();
        let why = why.unwrap_or("Skydock behaves like that anyway");
        arguments
            .notes
            .push(format!("dropped {}: {why}", accepted.flag));
    }
    for rejection in &read.rejected {
        arguments.notes.push(format!("dropped: {rejection}"));
    }
    for unknown in &read.unknown {
        // A value may be a secret.
        arguments.notes.push(match unknown.strip_prefix("--") {
            Some(flag) => {
                let name = flag.split('=').next().unwrap_or_default();
                format!(
                    "dropped --{name}: write `options: {{{name}: VALUE}}` for the plugin in config.yaml, if its README lists such an option; a secret belongs into a file of a credential"
                )
            }
            None => "dropped a word that is not the value of a known flag".to_owned(),
        });
    }

    let kept = read.words.into_iter().skip(1);
    let kept = kept.filter_map(|word| word.into_string().ok());
    // Both are in the order of the manifest, and equal words may be both dropped and kept.
    let mut dropped = read.unknown.iter().peekable();
    arguments.kept = kept
        .filter(|word| dropped.next_if_eq(&word).is_none())
        .collect();
    arguments.notes.extend(problem(&arguments.kept));
    arguments
}

/// Returns why Skydock would not start with these arguments.
fn problem(kept: &[String]) -> Option<String> {
    // The kubelet replaces $(NAME).
    let known = kept.iter().filter(|arg| !arg.contains("$("));
    let program = std::iter::once("skydock".to_owned());

    let problem = match cli::parse(program.chain(known.cloned())) {
        Ok(cli) => config::check_controllers(&cli.ccm).err()?.to_string(),
        Err(stop) => stop.to_string(),
    };
    Some(format!(
        "Skydock will not start with these arguments: {problem}"
    ))
}
