//! The command line of a container, and which of its flags are kept or dropped.

use std::ffi::OsString;

use serde_json::Value;

use super::script::{self, Script};
use crate::{cli, config};

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

/// Returns true if a shell runs some of the words.
pub(in crate::commands) fn is_script(words: &[String]) -> bool {
    script::shell_at(words).is_some()
}

/// Returns the command that starts a cloud-controller-manager; `None` if there is none.
fn started(words: &[String]) -> Option<Script> {
    let Some(at) = script::shell_at(words) else {
        return Some(Script {
            words: words.to_vec(),
            ..Script::default()
        });
    };
    script::of(words.get(at..)?)
}

/// Returns the programs that a container starts: those before the flags.
pub(super) fn programs(words: &[String]) -> Vec<String> {
    let words = started(words).unwrap_or_default().words;
    let first = words.first().filter(|word| !word.starts_with('-'));

    // The next word may be the value of an option.
    let has_value =
        |word: &str| word == "--log-file" || (word.starts_with('-') && !word.starts_with("--"));
    let rest = words.iter().skip(1);
    let rest = rest.take_while(|word| script::is_starter(word) && !has_value(word));
    let rest = rest.filter(|word| first.is_some() && !word.starts_with('-'));
    first.into_iter().chain(rest).cloned().collect()
}

fn read(script: Script) -> cli::arguments::Arguments {
    let program = std::iter::once("skydock".to_owned());
    cli::arguments::read(program.chain(script.words).map(OsString::from))
}

/// Reads a command line, or the one in a script that starts a cloud-controller-manager, as far as it
/// is understood; `None` if there is none.
pub(in crate::commands) fn command_line(words: &[String]) -> Option<cli::arguments::Arguments> {
    Some(read(started(words)?))
}

/// Sorts the words of a command line. `is_set` says whether the container has a variable.
///
/// # Errors
/// What is not understood, so that somebody has to read it.
pub(super) fn sort(
    words: &[String],
    is_set: impl Fn(&str) -> bool,
) -> Result<Arguments, Vec<String>> {
    let shell = is_script(words);
    let Some(mut script) = started(words) else {
        return Err(vec![
            "its script starts no cloud-controller-manager that is known".to_owned(),
        ]);
    };
    if !script.unclear.is_empty() {
        return Err(script.unclear);
    }

    let dropped = std::mem::take(&mut script.dropped);
    let read = read(script);
    let mut arguments = Arguments {
        notes: notes(shell, &dropped, &read),
        ..Arguments::default()
    };

    let kept = read.words.into_iter().skip(1);
    let kept = kept.filter_map(|word| word.into_string().ok());
    // Both are in the order of the manifest, and equal words may be both dropped and kept.
    let mut dropped = read.unknown.iter().peekable();
    arguments.kept = kept
        .filter(|word| dropped.next_if_eq(&word).is_none())
        .collect();

    let words = unclear_words(words, &arguments.kept, &read.unknown);
    let values = arguments.kept.iter();
    let values = values.filter_map(|word| unclear_value(word, &is_set));
    let unclear: Vec<_> = words.into_iter().map(str::to_owned).chain(values).collect();
    if !unclear.is_empty() {
        return Err(unclear);
    }
    arguments.notes.extend(problem(&arguments.kept));
    Ok(arguments)
}

/// Returns what is not kept of a command line, and why.
fn notes(is_script: bool, dropped: &[String], read: &cli::arguments::Arguments) -> Vec<String> {
    let mut notes = Vec::new();
    if is_script {
        notes.push(
            "replaced the script by the flags in it: Skydock's image has no shell".to_owned(),
        );
    }
    notes.extend(dropped.iter().map(|what| format!("dropped {what}")));

    for executable in &read.executables {
        notes.push(format!(
            "dropped {executable}: it is an executable of another image"
        ));
    }
    for accepted in &read.accepted {
        let why = accepted.no_effect.as_deref();
        let why = why.unwrap_or("Skydock behaves like that anyway");
        notes.push(format!("dropped {}: {why}", accepted.flag));
    }
    for flag in &read.idle {
        notes.push(format!("dropped {flag}: it is the same as no flag"));
    }
    for rejection in &read.rejected {
        notes.push(format!("dropped: {rejection}"));
    }
    for unknown in &read.unknown {
        // A value may be a secret.
        notes.push(match unknown.strip_prefix("--") {
            Some(flag) => {
                let name = flag.split('=').next().unwrap_or_default();
                format!(
                    "dropped --{name}: write `options: {{{name}: VALUE}}` for the plugin in config.yaml, if its README lists such an option; a secret belongs into a file of a credential"
                )
            }
            None => "dropped a word that is not the value of a known flag".to_owned(),
        });
    }
    notes
}

/// Returns what may have flags in it that are not read as such.
fn unclear_words(words: &[String], kept: &[String], unknown: &[String]) -> Vec<&'static str> {
    let mut unclear = Vec::new();
    let program = words.first().filter(|word| word.starts_with(['/', '.']));
    if program.is_some() && program == unknown.first() {
        unclear.push("its program is not known: it may be a script that adds flags");
    }
    // Other words that are neither flags nor values are unknown.
    if kept.first().is_some_and(|word| !word.starts_with('-')) {
        unclear.push("its first argument is a subcommand of Skydock");
    }
    if kept.iter().any(|word| word == "--") {
        unclear.push("`--`, after which nothing is a flag");
    }

    let mut is_value = false;
    for word in unknown {
        let is_flag = word.starts_with('-');
        let name = word.split('=').next().unwrap_or_default();
        if name.contains("$(") && !is_value {
            unclear.push("a variable that may be a flag");
        }
        if !is_flag && !is_value && word.contains(char::is_whitespace) {
            unclear.push("a word with blanks that is not the value of a flag");
        }
        is_value = is_flag && !word.contains('=');
    }
    unclear
}

/// Returns why nobody replaces a part of a flag's value that looks as if somebody did. The value may
/// be a secret.
fn unclear_value(word: &str, is_set: &impl Fn(&str) -> bool) -> Option<String> {
    let (flag, value) = word.split_once('=').unwrap_or(("a word", word));
    if value.contains(['{', '}', '"', '\'', '`']) {
        return Some(format!(
            "{flag} has quotes or braces that stay in its value"
        ));
    }

    let mut rest = value;
    while let Some((before, reference)) = rest.split_once("$(") {
        // `$$` is a dollar sign.
        let dollars = before.chars().rev().take_while(|it| *it == '$').count();
        let is_escaped = dollars % 2 == 1;
        let Some((name, after)) = reference.split_once(')') else {
            return Some(format!("{flag} has `$(` without the name of a variable"));
        };

        let is_part = |it: char| it.is_ascii_alphanumeric() || "-._".contains(it);
        let is_name = !name.is_empty() && name.chars().all(is_part);
        if is_escaped || !is_name {
            return Some(format!("{flag} has `$(` without the name of a variable"));
        }
        if !is_set(name) {
            return Some(format!(
                "{flag} has $({name}), but the manifest does not set the variable"
            ));
        }
        rest = after;
    }
    None
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
