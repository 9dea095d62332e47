//! Reads a command line like upstream's, which pflag parses, and gives clap the words that it
//! understands.
//!
//! What pflag accepts and clap does not: booleans such as `True`, integers such as `0x10`, underscores
//! in names of flags, values that begin with a dash, empty words, empty and quoted items of lists, and
//! the empty value of a flag that is then not set.

pub(crate) mod executable;
pub(super) mod feature_gates;
pub(super) mod upstream;

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

use clap::CommandFactory as _;

use self::{
    executable::Word,
    upstream::{ForeignFlag, Otherwise, Takes},
};
use super::{Cli, stop::MISTAKES};

/// A flag that Skydock accepts although it does not have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedFlag {
    /// The flag with its value.
    pub flag: String,
    /// Why it has no effect; `None` if Skydock behaves as it says.
    pub no_effect: Option<String>,
}

/// What a command line says.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    /// The words for clap.
    pub(crate) words: Vec<OsString>,
    /// Flags that Skydock accepts although it does not have them.
    pub(crate) accepted: Vec<AcceptedFlag>,
    /// Paths of executables before the flags.
    pub(crate) executables: Vec<String>,
    /// What is rejected, each with a sentence.
    pub(crate) rejected: Vec<String>,
    /// Flags and other words that nobody knows. They are among the words for clap, which rejects
    /// them.
    pub(crate) unknown: Vec<String>,
    /// Flags that are the same as no flag: not set, or replaced by a later one.
    pub(crate) idle: Vec<String>,
    /// Names and values of upstream's flags that Skydock does not have.
    pub(crate) foreign: Vec<(&'static str, String)>,
}

impl Arguments {
    /// Returns the unknown words that are flags.
    pub(crate) fn unknown_flags(&self) -> impl Iterator<Item = &str> {
        let all = self.unknown.iter().map(String::as_str);
        all.filter(|word| word.starts_with("--"))
    }
}

/// How a flag of Skydock is written.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// No value.
    Switch,
    /// A value only after `=`.
    Bool,
    /// A value.
    Value {
        /// Whether it is an integer.
        integer: bool,
        /// Whether it is a list, whose items a comma separates.
        list: bool,
        /// Whether the empty value means that the flag is not set.
        may_be_empty: bool,
    },
}

/// Names of values that are texts, so that the empty one means that the flag is not set.
const TEXTS: [&str; 7] = ["FILE", "DIR", "URL", "CIDR", "CLASS", "SUITE", "CURVE"];

/// Names of values that are integers.
const INTEGERS: [&str; 3] = ["N", "BITS", "PORT"];

/// Lists that are one text for upstream, so that a later value replaces an earlier one.
const ONE_TEXT: [&str; 2] = ["cluster-cidr", "service-cluster-ip-range"];

/// The flag whose items may name what only upstream has.
const FEATURE_GATES: &str = "feature-gates";
/// The flag whose items may disable what only other cloud-controller-managers have.
const CONTROLLERS: &str = "controllers";
/// The flag with which flags without an effect are rejected.
const STRICT: &str = "strict-flags";

/// Reads a command line. That of a subcommand is not changed.
pub(crate) fn read(args: impl IntoIterator<Item = OsString>) -> Arguments {
    let cli = Cli::command();
    let mut args = args.into_iter().peekable();
    let mut read = Arguments::default();
    read.words.extend(args.next());

    if args.peek().is_some_and(|word| has_subcommand(&cli, word)) {
        read.words.extend(args);
        return read;
    }

    let mut reader = Reader {
        forms: forms(&cli),
        rest: args,
        read,
        strict: false,
        strictly_rejected: Vec::new(),
        before_flags: true,
    };
    reader.all();
    reader.finish()
}

/// Returns true for the name of a subcommand of Skydock.
pub(crate) fn is_subcommand(word: &str) -> bool {
    has_subcommand(&Cli::command(), OsStr::new(word))
}

fn has_subcommand(cli: &clap::Command, word: &OsStr) -> bool {
    let mut names = cli.get_subcommands().map(clap::Command::get_name);
    word == "help" || names.any(|name| word == name)
}

/// Returns how each flag of Skydock is written.
fn forms(cli: &clap::Command) -> BTreeMap<String, Form> {
    let form = |arg: &clap::Arg| {
        let name = arg.get_value_names().and_then(|names| names.first());
        match name.map(clap::builder::Str::as_str) {
            _ if !arg.get_action().takes_values() => Form::Switch,
            Some("BOOL") => Form::Bool,
            name => Form::Value {
                integer: name.is_some_and(|name| INTEGERS.contains(&name)),
                list: arg.get_value_delimiter().is_some(),
                may_be_empty: name.is_some_and(|name| TEXTS.contains(&name)),
            },
        }
    };
    let named = |arg: &clap::Arg| Some((arg.get_long()?.to_owned(), form(arg)));
    cli.get_arguments().filter_map(named).collect()
}

/// Parses a boolean like Go's `strconv.ParseBool`.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Parses an integer like Go's `strconv.ParseInt` with base 0, which reads Go's literals.
fn parse_integer(text: &str) -> Option<i64> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (true, unsigned),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };

    let lower = unsigned.to_ascii_lowercase();
    let prefixes = [("0x", 16), ("0o", 8), ("0b", 2), ("0", 8)];
    let prefixed = prefixes.into_iter().find_map(|(prefix, radix)| {
        let digits = lower.strip_prefix(prefix)?;
        (!digits.is_empty()).then_some((digits, radix))
    });

    // An underscore is between digits, or after a prefix.
    let start = if prefixed.is_some() { "0" } else { "" };
    let (digits, radix) = prefixed.unwrap_or((lower.as_str(), 10));
    let separated = format!("{start}{digits}");
    let mut groups = separated.split('_');
    if !groups.all(|group| !group.is_empty() && group.chars().all(|it| it.is_digit(radix))) {
        return None;
    }

    let number = i64::from_str_radix(&digits.replace('_', ""), radix).ok()?;
    Some(if negative { -number } else { number })
}

/// Reads the words one by one.
struct Reader<Rest: Iterator<Item = OsString>> {
    forms: BTreeMap<String, Form>,
    rest: std::iter::Peekable<Rest>,
    read: Arguments,
    strict: bool,
    /// What `--strict-flags` rejects.
    strictly_rejected: Vec<String>,
    /// Whether no flag of a cloud-controller-manager was read yet.
    before_flags: bool,
}

impl<Rest: Iterator<Item = OsString>> Reader<Rest> {
    fn all(&mut self) {
        while let Some(word) = self.rest.next() {
            match word.to_str() {
                // Templates leave empty words, which upstream ignores.
                Some("") => {}
                // A program that starts others, such as tini, ends its own flags with it.
                Some("--") if !self.read.executables.is_empty() && self.before_flags => {}
                Some("--") => {
                    self.read.words.push(word);
                    self.read.words.extend(self.rest.by_ref());
                }
                Some(text) => match text.strip_prefix("--") {
                    Some(flag) => self.flag(flag),
                    None if text.starts_with('-') => self.shorthand(text),
                    None => self.positional(text),
                },
                None => self.read.words.push(word),
            }
        }
    }

    fn pass(&mut self, word: impl Into<OsString>) {
        self.before_flags = false;
        self.read.words.push(word.into());
    }

    /// `-v` is the only one with a value.
    fn shorthand(&mut self, word: &str) {
        self.pass(word);
        if word == "-v"
            && let Some(value) = self.next_value()
        {
            self.pass(value);
        }
    }

    fn positional(&mut self, word: &str) {
        match executable::recognize(word) {
            Word::Executable if self.before_flags => self.read.executables.push(word.to_owned()),
            Word::Shell if self.before_flags => {
                self.read.rejected.push(executable::shell_rejection(word));
                // What follows is a program of that shell.
                self.rest.by_ref().for_each(drop);
            }
            _ => {
                self.read.unknown.push(word.to_owned());
                self.pass(word);
            }
        }
    }

    /// Reads a flag, without its dashes.
    fn flag(&mut self, flag: &str) {
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        // As `WordSepNormalizeFunc` of upstream.
        let name = name.replace('_', "-");

        if let Some(form) = self.forms.get(&name).copied() {
            self.own(&name, form, value);
        } else if name == "version" {
            self.version(value.as_deref());
        } else if let Some(flag) = upstream::find(&name) {
            self.foreign(flag, value);
        } else if let Some(rejection) = upstream::rejection_of_provider(&name) {
            self.read.rejected.push(rejection);
            if value.is_none() {
                let _ = self.rest.next_if(|next| !begins_with(next, "-"));
            }
        } else {
            self.read.unknown.push(format!("--{flag}"));
            self.pass(format!("--{flag}"));
        }
    }

    fn own(&mut self, name: &str, form: Form, value: Option<String>) {
        let flag = format!("--{name}");
        match form {
            Form::Switch | Form::Bool => {
                let parsed = value.as_deref().map(parse_bool);
                if name == STRICT {
                    self.strict = parsed.flatten().unwrap_or(true);
                }

                match (form, value, parsed.flatten()) {
                    (Form::Switch, Some(value), Some(false)) => {
                        self.read.idle.push(format!("{flag}={value}"));
                    }
                    (_, None, _) | (Form::Switch, Some(_), Some(true)) => self.pass(flag),
                    (_, Some(_), Some(on)) => self.pass(format!("{flag}={on}")),
                    (_, Some(value), None) => self.pass(format!("{flag}={value}")),
                }
            }
            Form::Value {
                integer,
                list,
                may_be_empty,
            } => {
                let Some(mut value) = value.or_else(|| self.next_value()) else {
                    return self.pass(flag);
                };

                if integer && let Some(number) = parse_integer(&value) {
                    value = number.to_string();
                }
                if list {
                    // Items are those of CSV. None may contain a comma.
                    value.retain(|it| it != '"');
                    let items = value.split(',').filter(|item| !item.trim().is_empty());
                    value = items.collect::<Vec<_>>().join(",");
                }
                match name {
                    FEATURE_GATES => value = self.feature_gates(&value),
                    CONTROLLERS => value = self.controllers(&value),
                    _ => {}
                }

                if ONE_TEXT.contains(&name) {
                    let start = format!("{flag}=");
                    let words = std::mem::take(&mut self.read.words).into_iter();
                    let (earlier, words): (Vec<_>, Vec<_>) =
                        words.partition(|word| begins_with(word, &start));
                    self.read.words = words;
                    let earlier = earlier.into_iter();
                    let earlier = earlier.filter_map(|word| word.into_string().ok());
                    self.read.idle.extend(earlier);
                }

                let is_unset = value.is_empty() && (may_be_empty || name == FEATURE_GATES);
                if is_unset {
                    self.read.idle.push(format!("{flag}="));
                } else {
                    self.pass(format!("{flag}={value}"));
                }
            }
        }
    }

    /// Returns the next word as a value. Another flag is not one, although pflag would take it.
    fn next_value(&mut self) -> Option<String> {
        let next = self
            .rest
            .next_if(|next| !begins_with(next, "--") && next.to_str().is_some())?;
        next.into_string().ok()
    }

    /// Returns the gates that Skydock has, and accepts the others.
    fn feature_gates(&mut self, list: &str) -> String {
        let mut own = Vec::new();
        for gate in list.split(',') {
            match feature_gates::foreign(gate) {
                None => own.push(gate),
                Some(Ok(no_effect)) => self.accept(
                    format!("--{FEATURE_GATES}={}", gate.trim()),
                    no_effect,
                    || feature_gates::unknown(gate),
                ),
                Some(Err(problem)) => {
                    let sentence = format!("--{FEATURE_GATES}={}: {problem}", gate.trim());
                    self.read.rejected.push(sentence);
                }
            }
        }
        own.join(",")
    }

    /// Returns the list without controllers that it disables and Skydock does not have.
    fn controllers(&mut self, list: &str) -> String {
        let mut own = Vec::new();
        for item in list.split(',') {
            let disabled = item.trim().strip_prefix('-');
            match disabled.filter(|name| is_foreign_controller(name)) {
                None => own.push(item),
                Some(name) => {
                    let why = format!("Skydock has no controller {name}");
                    let flag = format!("--{CONTROLLERS}=-{name}");
                    self.accept(flag.clone(), Some(why.clone()), || format!("{flag}: {why}"));
                }
            }
        }
        own.join(",")
    }

    /// Upstream's flag has values, too.
    fn version(&mut self, value: Option<&str>) {
        match value {
            Some("raw") => self.pass("--version"),
            Some(text) => match parse_bool(text) {
                Some(true) => self.pass("--version"),
                Some(false) => self.read.idle.push(format!("--version={text}")),
                None => self.pass(format!("--version={text}")),
            },
            None => self.pass("--version"),
        }
    }

    fn foreign(&mut self, flag: &ForeignFlag, value: Option<String>) {
        let name = flag.name;
        // The flags of a program that starts others are before the path of that program.
        self.before_flags &= executable::is_flag_of_starter(name);

        let value = match flag.takes {
            Takes::Bool => {
                let text = value.unwrap_or_else(|| "true".to_owned());
                let Some(on) = parse_bool(&text) else {
                    let sentence = format!("--{name}: {text:?} is neither true nor false");
                    return self.read.rejected.push(sentence);
                };
                on.to_string()
            }
            Takes::Value => match value.or_else(|| self.next_value()) {
                Some(value) => value,
                None => {
                    let sentence = format!("--{name} needs a value");
                    return self.read.rejected.push(sentence);
                }
            },
        };

        self.read.foreign.push((name, value.clone()));
        let written = format!("--{name}={value}");
        if flag.fixed.contains(&value.trim()) {
            self.accept(written, None, String::new);
            return;
        }
        match flag.otherwise {
            Otherwise::NoEffect(why) => {
                self.accept(written, Some(why.to_owned()), || flag.rejection());
            }
            Otherwise::Rejected(_) => self.read.rejected.push(flag.rejection()),
        }
    }

    /// Accepts a flag. If it has no effect, `--strict-flags` rejects it with this sentence.
    fn accept(
        &mut self,
        flag: String,
        no_effect: Option<String>,
        rejection: impl FnOnce() -> String,
    ) {
        if no_effect.is_some() {
            self.strictly_rejected.push(rejection());
        }
        self.read.accepted.push(AcceptedFlag { flag, no_effect });
    }

    fn finish(self) -> Arguments {
        let mut read = self.read;
        if self.strict {
            read.rejected.extend(self.strictly_rejected);
        }
        read
    }
}

/// Returns true for the name of a controller of another cloud-controller-manager. One that is nearly
/// a name of Skydock's is misspelled: the controller would run although it was disabled.
fn is_foreign_controller(name: &str) -> bool {
    let is_similar = |own: &str| strsim::damerau_levenshtein(name, own) <= MISTAKES;
    !skydock_controllers::controllers().any(|own| is_similar(own.name) || is_similar(own.alias))
}

fn begins_with(word: &OsStr, start: &str) -> bool {
    word.as_encoded_bytes().starts_with(start.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_are_the_same_as_no_flag_are_known() {
        let given = [
            "skydock",
            "--kubeconfig=",
            "--feature-gates",
            "",
            "--version=false",
            "--cluster-cidr=10.0.0.0/8",
            "--cluster-cidr=10.1.0.0/16",
        ];
        let read = read(given.map(OsString::from));
        let expected = [
            "--kubeconfig=",
            "--feature-gates=",
            "--version=false",
            "--cluster-cidr=10.0.0.0/8",
        ];
        assert_eq!(read.idle, expected);
    }

    #[test]
    fn integers_are_gos_literals() {
        for (text, number) in [
            ("0", Some(0)),
            ("10", Some(10)),
            ("+10", Some(10)),
            ("-10", Some(-10)),
            ("0x1f", Some(31)),
            ("0X1F", Some(31)),
            ("0o17", Some(15)),
            ("017", Some(15)),
            ("0b101", Some(5)),
            ("-0x10", Some(-16)),
            ("1_000", Some(1000)),
            ("0x_1f", Some(31)),
            ("0_17", Some(15)),
            ("", None),
            ("-", None),
            ("+-1", None),
            ("0x", None),
            ("0x-1", None),
            ("08", None),
            ("1__0", None),
            ("_1", None),
            ("1_", None),
            ("0x1_", None),
            ("0b2", None),
            ("1.5", None),
            ("9223372036854775808", None),
            ("ten", None),
        ] {
            assert_eq!(parse_integer(text), number, "{text}");
        }
    }
}
