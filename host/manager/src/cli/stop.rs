//! Why parsing the command line ended, in one line.

use std::{fmt, process::ExitCode};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use skydock_cloud::text::escape;

use super::{PROGRAM, arguments::upstream, effective};
use crate::process::telemetry;

/// Why parsing ended: an error, or `--help` or `--version`.
#[derive(Debug)]
pub struct Stop(pub(super) Why);

#[derive(Debug)]
pub(super) enum Why {
    /// What clap says.
    Clap(clap::Error),
    /// Sentences about flags and words that are rejected.
    Rejected(Vec<String>),
}

impl Stop {
    /// Prints an error as one line, or the requested help or version. The exit code is 2 for an
    /// error.
    pub fn print(&self) -> ExitCode {
        if let Why::Clap(error) = &self.0
            && is_request(error)
        {
            // If standard output is closed, the error cannot be reported.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }

        let command = self.command();
        let sentence = self.sentence_of(&command);
        telemetry::print_line(&format!("{} (see {command} --help)", escape(&sentence)));
        ExitCode::from(2)
    }

    /// Returns the program with the subcommand whose arguments are wrong.
    pub(super) fn command(&self) -> String {
        let usage = match &self.0 {
            Why::Clap(error) => error.get(ContextKind::Usage).map(ToString::to_string),
            Why::Rejected(_) => None,
        };

        // `Usage: skydock config check [OPTIONS] <FILE>`
        let is_name = |word: &&str| !word.starts_with(['[', '<', '-']);
        let usage = usage.unwrap_or_default();
        let words: Vec<_> = usage
            .split_whitespace()
            .skip(1)
            .take_while(is_name)
            .collect();
        if words.is_empty() {
            PROGRAM.to_owned()
        } else {
            words.join(" ")
        }
    }

    /// Returns the error as one line.
    pub(super) fn sentence(&self) -> String {
        self.sentence_of(&self.command())
    }

    fn sentence_of(&self, command: &str) -> String {
        let error = match &self.0 {
            Why::Clap(error) => error,
            Why::Rejected(sentences) => return sentences.join("; "),
        };

        if matches!(
            error.kind(),
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand
        ) {
            return "a subcommand is missing, for example: skydock plugin inspect FILE".to_owned();
        }
        let mut rendered = error.render().to_string();
        if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) {
            // It may be a URL with a password.
            rendered = rendered.replace(value, &effective::shown("", value));
        }

        // clap treats the value as a subcommand.
        if let Some(word) = ["true", "false"]
            .into_iter()
            .find(|word| rendered.contains(&format!("subcommand '{word}'")))
        {
            return format!(
                "unexpected argument '{word}': set boolean flags with =, for example --leader-elect={word}"
            );
        }

        // Usage follows after an empty line.
        let what: Vec<_> = rendered
            .lines()
            .take_while(|line| !line.is_empty())
            .map(str::trim)
            .collect();
        let what = what.join(" ");
        let what = what.strip_prefix("error: ").unwrap_or(&what);

        let similar = match error.get(ContextKind::SuggestedArg) {
            Some(ContextValue::String(similar)) => format!("; did you mean {similar}?"),
            _ => String::new(),
        };
        // Subcommands do not have the flags of other programs.
        let advice = if command == PROGRAM {
            advice(error).unwrap_or_default()
        } else {
            String::new()
        };
        format!("{what}{similar}{advice}")
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence())
    }
}

/// Returns true if the error is the answer to `--help` or `--version`.
pub(super) fn is_request(error: &clap::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    )
}

/// Number of typing mistakes up to which an unknown flag is probably the one that is suggested.
pub(super) const MISTAKES: usize = 3;

/// Returns what to do about an unknown flag that is probably not misspelled, but one of the program
/// of a provider.
fn advice(error: &clap::Error) -> Option<String> {
    let unknown = match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(word) if error.kind() == ErrorKind::UnknownArgument => word,
        _ => return None,
    };
    let name = unknown.strip_prefix("--")?.split('=').next()?;

    if let Some(ContextValue::String(similar)) = error.get(ContextKind::SuggestedArg) {
        let similar = similar.trim_start_matches('-');
        if strsim::damerau_levenshtein(name, similar) <= MISTAKES {
            return None;
        }
    }
    Some(format!(
        "; if it is a flag of one provider's cloud-controller-manager, {}",
        upstream::option_instead(name)
    ))
}
