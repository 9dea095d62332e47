//! Reads a script for a shell that starts a cloud-controller-manager.

mod tokens;

use self::tokens::{Kind, Token, is_name};
use crate::cli::arguments::executable::{Word, recognize};

/// A command that starts a cloud-controller-manager.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    /// Its words, with variables of the shell in the notation of Kubernetes.
    pub(super) words: Vec<String>,
    /// What these words do not say; empty if they say everything.
    pub(super) unclear: Vec<String>,
}

/// Words of the shell before a command.
const KEYWORDS: [&str; 8] = ["!", "do", "elif", "else", "if", "then", "until", "while"];
/// Programs that run the rest of their words.
const RUNNERS: [&str; 2] = ["busybox", "env"];
/// Options of `set` with a name. None of them changes the words of a command.
const OPTIONS: [&str; 5] = ["allexport", "errexit", "nounset", "pipefail", "xtrace"];

/// Returns the position of the shell, or the program like `env`, that runs the words after it.
pub(super) fn shell_at(words: &[String]) -> Option<usize> {
    let is_starter = |word: &&String| *word == "--" || recognize(word) == Word::Executable;
    let at = words.iter().take_while(is_starter).count();
    let word = words.get(at)?;
    (recognize(word) == Word::Shell).then_some(at)
}

/// Returns the command that a shell with these words runs; `None` if it starts no
/// cloud-controller-manager. The first word is the shell.
pub(super) fn of(words: &[String]) -> Option<Script> {
    let is_runner = |word: &&String| RUNNERS.contains(&file_name(word)) || is_assignment(word);
    let runners = words.iter().take_while(is_runner).count();
    let (runners, words) = words.split_at(runners);

    let mut script = match recognize(words.first()?) {
        Word::Shell => of_shell(words)?,
        Word::Executable => Script {
            words: words.to_vec(),
            ..Script::default()
        },
        Word::Other => return None,
    };
    let assignments = runners.iter().filter(|word| is_assignment(word));
    script
        .unclear
        .extend(assignments.map(|word| variable(word)));
    Some(script)
}

fn of_shell(words: &[String]) -> Option<Script> {
    let mut unclear = Vec::new();
    let mut rest = words.iter().skip(1);
    loop {
        let letters = rest.next()?.strip_prefix('-')?;
        if !letters.chars().all(|letter| "ceoux".contains(letter)) {
            unclear.push("an option of the shell".to_owned());
        }

        let has_name = letters.ends_with('o');
        if letters.contains('c') && !letters.starts_with('-') {
            if letters.contains('o') {
                unclear.push("an option of the shell".to_owned());
            }
            break;
        }
        if has_name {
            rest.next();
        }
    }

    let mut script = read(rest.next()?)?;
    if rest.next().is_some() {
        unclear.push("words after the script".to_owned());
    }
    script.unclear.extend(unclear);
    Some(script)
}

/// A simple command of a script.
#[derive(Debug, Default)]
struct Command {
    line: usize,
    words: Vec<String>,
    /// Whether a redirection is before some of its words.
    is_split: bool,
}

impl Command {
    /// Returns the words of the shell before the program, and the program with its arguments.
    fn parts(&self) -> (&[String], &[String]) {
        let is_before = |word: &&String| {
            *word == "exec" || KEYWORDS.contains(&word.as_str()) || is_assignment(word)
        };
        let before = self.words.iter().take_while(is_before).count();
        self.words.split_at(before)
    }

    /// Returns true if it starts a program that may be a cloud-controller-manager.
    fn is_program(&self) -> bool {
        let (_, words) = self.parts();
        words
            .first()
            .is_some_and(|program| recognize(program) == Word::Executable)
    }

    /// Returns true if it starts a program in the place of the script, or one with the name of a
    /// cloud-controller-manager.
    fn is_likely(&self) -> bool {
        let (before, words) = self.parts();
        let name = words.first().map_or("", |program| file_name(program));
        self.is_program()
            && (before.iter().any(|word| word == "exec")
                || name.contains("cloud-controller-manager"))
    }

    /// Returns true for options of the shell that do not change what a command does.
    fn is_setting(&self) -> bool {
        let mut words = self.words.iter();
        words.next().is_some_and(|word| word == "set")
            && words.all(|word| {
                let letters = word.strip_prefix(['-', '+']).unwrap_or_default();
                let is_option =
                    !letters.is_empty() && letters.chars().all(|it| "aeoux".contains(it));
                is_option || OPTIONS.contains(&word.as_str())
            })
    }

    /// Returns what of the command its program and arguments do not say.
    fn unclear(&self) -> Vec<String> {
        let line = self.line;
        let (before, _) = self.parts();
        let before = before.iter().filter(|word| *word != "exec");
        let mut unclear: Vec<_> = before
            .map(|word| {
                if is_assignment(word) {
                    format!("line {line}: {}", variable(word))
                } else {
                    format!("line {line}: `{word}`")
                }
            })
            .collect();

        if self.is_split {
            unclear.push(format!("line {line}: a redirection before other words"));
        }
        unclear
    }

    /// Returns what is said about a command that is not that of the cloud-controller-manager. Its
    /// words may be secrets.
    fn described(&self) -> String {
        let line = self.line;
        let word = self.words.first().map_or("", String::as_str);
        let is_shown =
            !word.is_empty() && word.len() <= 32 && word.bytes().all(|b| b.is_ascii_lowercase());
        if is_shown {
            format!("line {line}: the command `{word}`")
        } else if is_assignment(word) {
            format!("line {line}: {}", variable(word))
        } else {
            format!("line {line}: another command")
        }
    }
}

/// Returns the command in a script that starts a cloud-controller-manager; `None` if there is none.
fn read(script: &str) -> Option<Script> {
    let (tokens, mut unclear) = tokens::read(script);
    let commands = commands(tokens);

    let likely = commands.iter().position(Command::is_likely);
    let only = || {
        let programs = commands.iter().enumerate();
        let mut programs = programs.filter(|(_, command)| command.is_program());
        let (at, _) = programs.next()?;
        programs.next().is_none().then_some(at)
    };
    let start = likely.or_else(only)?;

    let mut words = Vec::new();
    for (index, command) in commands.iter().enumerate() {
        if index == start {
            words = command.parts().1.to_vec();
            unclear.extend(command.unclear());
        } else if !command.is_setting() {
            unclear.push(command.described());
        }
    }
    Some(Script { words, unclear })
}

/// Returns the commands, without their redirections.
fn commands(tokens: Vec<Token>) -> Vec<Command> {
    let mut commands = Vec::new();
    let mut command = Command::default();
    let mut is_redirected = false;
    let mut is_target = false;

    for token in tokens {
        match token.kind {
            Kind::End => {
                commands.push(std::mem::take(&mut command));
                is_redirected = false;
                is_target = false;
            }
            Kind::Redirection => {
                is_redirected = true;
                is_target = true;
            }
            Kind::Word(_) if is_target => is_target = false,
            Kind::Word(word) => {
                if command.words.is_empty() {
                    command.line = token.line;
                }
                command.is_split |= is_redirected;
                command.words.push(word);
            }
        }
    }

    commands.push(command);
    commands.retain(|command| !command.words.is_empty());
    commands
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// Returns what is said about an assignment, without its value, which may be a secret.
fn variable(assignment: &str) -> String {
    let name = assignment.split('=').next().unwrap_or_default();
    format!("the variable {name}")
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_command_of_a_script_is_found() {
        let script = "#!/bin/bash\nset -o allexport\nif [[ -f /etc/env ]]; then\n  source /etc/env\nfi\n\
                      exec /bin/metal-cloud-controller-manager \\\n  --v=2 \\\n  --cluster-name=${CLUSTER} \\\n  \
                      --controllers='*,-route' --a=\"b c\" > /dev/null\n";
        let expected = [
            "/bin/metal-cloud-controller-manager",
            "--v=2",
            "--cluster-name=$(CLUSTER)",
            "--controllers=*,-route",
            "--a=b c",
        ];
        let found = read(script).unwrap();
        assert_eq!(found.words, expected);
        assert!(
            found
                .unclear
                .contains(&"line 4: the command `source`".to_owned()),
            "{:?}",
            found.unclear
        );

        assert_eq!(
            read("cd /; /x-cloud-controller-manager --a=$(B) && true")
                .unwrap()
                .words,
            ["/x-cloud-controller-manager", "--a=$(B)"]
        );
        assert_eq!(read("sleep 3\n"), None);
    }

    #[test]
    fn a_simple_script_is_understood_completely() {
        for script in [
            "exec /x/ccm --a=b",
            "/x/ccm --a=b",
            "#!/bin/sh\nset -euo pipefail\n\n# starts it\nexec \\\n  /x/ccm --a=b # as root\n",
            "exec /x/ccm '--a='\"b\" >/dev/null 2>&1;",
            "exec /x/ccm --a=\\b 2>> /var/log/ccm",
        ] {
            let expected = Script {
                words: texts(&["/x/ccm", "--a=b"]),
                unclear: Vec::new(),
            };
            assert_eq!(read(script).unwrap(), expected, "{script}");
        }
    }

    #[test]
    fn what_the_words_do_not_say_is_told() {
        for (script, told) in [
            (
                "echo \"Starting cloud-controller-manager\"\nexec /x/ccm --a=b",
                "line 1: the command `echo`",
            ),
            (
                "cat <<E\nstarting cloud-controller-manager\nE\nexec /x/ccm --a=b",
                "here document",
            ),
            ("exec /x/ccm --a=b \"$@\"", "an expansion"),
            ("exec /x/ccm --a=b $1", "an expansion"),
            ("exec /x/ccm --a=b $MORE", "several words"),
            ("exec /x/ccm 2>&1 --a=b", "a redirection before"),
            ("exec /x/ccm --a=b | tee /log", "`|`"),
            ("/x/ccm --a=b & wait", "`&`"),
            ("/x/ccm --a=b && true", "`&&`"),
            ("A_TOKEN=s3cret exec /x/ccm --a=b", "the variable A_TOKEN"),
            ("A_TOKEN=s3cret\nexec /x/ccm --a=b", "the variable A_TOKEN"),
            (
                "export A_TOKEN=s3cret\nexec /x/ccm --a=b",
                "the command `export`",
            ),
            ("exec /x/ccm --a=b --c=${C:-prod}", "an expansion"),
            ("exec /x/ccm --a=b --c=$(cat s3cret)", "an expansion"),
            ("exec /x/ccm --a=b --c=`cat s3cret`", "an expansion"),
            ("exec /x/ccm --a=b --c=$((1+1))", "an expansion"),
            ("exec /x/ccm --a=b --c='d", "a quote that is not closed"),
            ("exec /x/ccm --a=b \\\r\n", "a carriage return"),
            (
                "if true; then exec /x/ccm --a=b; else exec /y/ccm; fi",
                "`then`",
            ),
            ("exec /x/ccm --a=b --c={d,e}", "braces"),
            ("set -- s3cret; exec /x/ccm --a=b", "the command `set`"),
        ] {
            let found = read(script).unwrap();
            let said = found.unclear.join("; ");
            assert!(
                said.contains(told) && !said.contains("s3cret"),
                "{script}: {said}"
            );
            assert_eq!(
                found.words.get(..2),
                Some(&texts(&["/x/ccm", "--a=b"])[..]),
                "{script}"
            );
        }
    }

    #[test]
    fn the_words_of_a_shell_are_found_by_position() {
        let program = ["/x/ccm", "--a=cloud-controller-manager"];
        for (words, told) in [
            (
                vec!["sh", "-c", "exec /x/ccm --a=cloud-controller-manager"],
                "",
            ),
            (
                vec![
                    "bash",
                    "-eo",
                    "pipefail",
                    "-c",
                    "/x/ccm --a=cloud-controller-manager",
                ],
                "",
            ),
            (
                vec![
                    "busybox",
                    "sh",
                    "-ec",
                    "/x/ccm --a=cloud-controller-manager",
                ],
                "",
            ),
            (vec!["env", "/x/ccm", "--a=cloud-controller-manager"], ""),
            (
                vec![
                    "/usr/bin/env",
                    "A=b",
                    "/x/ccm",
                    "--a=cloud-controller-manager",
                ],
                "the variable A",
            ),
            (
                vec!["sh", "-lc", "exec /x/ccm --a=cloud-controller-manager"],
                "an option of the shell",
            ),
            (
                vec![
                    "sh",
                    "-c",
                    "exec /x/ccm --a=cloud-controller-manager",
                    "--",
                    "--b",
                ],
                "words after the script",
            ),
        ] {
            let found = of(&texts(&words)).unwrap();
            assert_eq!(found.words, program, "{words:?}");
            assert_eq!(found.unclear.join("; "), told, "{words:?}");
        }

        for words in [
            vec!["sh", "/start.sh", "/x-cloud-controller-manager"],
            vec!["sh", "-c", "kubectl wait deploy/cloud-controller-manager"],
            vec!["sh", "-c"],
            vec!["env"],
        ] {
            assert_eq!(of(&texts(&words)), None, "{words:?}");
        }
    }
}
