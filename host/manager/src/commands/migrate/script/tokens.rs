//! Splits a script into words like a shell, but without expansions.

use std::{iter::Peekable, str::Chars};

/// A part of a script.
#[derive(Debug)]
pub(super) struct Token {
    /// The line on which it ends, from 1.
    pub(super) line: usize,
    /// What it is.
    pub(super) kind: Kind,
}

/// What a part of a script is.
#[derive(Debug)]
pub(super) enum Kind {
    /// A word without its quotes, with variables in the notation of Kubernetes.
    Word(String),
    /// The end of a command.
    End,
    /// A redirection. The next word is where to.
    Redirection,
}

/// Returns the parts of a script, and what of it they do not say.
pub(super) fn read(script: &str) -> (Vec<Token>, Vec<String>) {
    let mut reader = Reader {
        rest: script.chars().peekable(),
        line: 1,
        is_line_over: false,
        word: None,
        is_plain: true,
        tokens: Vec::new(),
        unclear: Vec::new(),
    };
    reader.all();
    (reader.tokens, reader.unclear)
}

/// Returns true for the name of a variable.
pub(super) fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(is_part)
        && !name.is_empty()
        && !name.starts_with(|it: char| it.is_ascii_digit())
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
    is_line_over: bool,
    /// The word that is being read.
    word: Option<String>,
    /// Whether that word has no quotes.
    is_plain: bool,
    tokens: Vec<Token>,
    unclear: Vec<String>,
}

impl Reader<'_> {
    fn all(&mut self) {
        while let Some(next) = self.take() {
            match next {
                '\'' => self.single_quotes(),
                '"' => self.double_quotes(),
                '\\' => self.backslash(),
                '$' => self.dollar(false),
                ' ' | '\t' => self.end_word(),
                '#' if self.word.is_none() => {
                    while self.rest.next_if(|it| *it != '\n').is_some() {}
                }
                '&' if self.rest.peek() == Some(&'>') => self.redirection(next),
                '\n' | ';' | '&' | '|' => self.end_command(next),
                '<' | '>' => self.redirection(next),
                '`' => {
                    self.tell("an expansion");
                    self.push(next);
                }
                '(' | ')' | '{' | '}' => {
                    self.tell("parentheses or braces");
                    self.push(next);
                }
                '~' if self.word.is_none() => {
                    self.tell("an expansion");
                    self.push(next);
                }
                '\r' => self.tell("a carriage return"),
                other => self.push(other),
            }
        }
        self.end_word();
    }

    fn take(&mut self) -> Option<char> {
        let next = self.rest.next()?;
        // The end of a line belongs to it.
        self.line += usize::from(self.is_line_over);
        self.is_line_over = next == '\n';
        Some(next)
    }

    fn push(&mut self, next: char) {
        self.word.get_or_insert_default().push(next);
    }

    /// Notes something that the words do not say.
    fn tell(&mut self, what: &str) {
        let sentence = format!("line {}: {what}", self.line);
        if !self.unclear.contains(&sentence) {
            self.unclear.push(sentence);
        }
    }

    fn token(&mut self, kind: Kind) {
        let line = self.line;
        self.tokens.push(Token { line, kind });
    }

    fn end_word(&mut self) {
        self.is_plain = true;
        if let Some(word) = self.word.take() {
            self.token(Kind::Word(word));
        }
    }

    fn end_command(&mut self, sign: char) {
        self.end_word();
        let is_double = sign != '\n' && self.rest.next_if_eq(&sign).is_some();
        if is_double {
            self.tell(&format!("`{sign}{sign}`"));
        } else if sign == '&' || sign == '|' {
            self.tell(&format!("`{sign}`"));
        }
        self.token(Kind::End);
    }

    fn redirection(&mut self, sign: char) {
        // `2>` is a redirection of the file with this number.
        let is_number = |word: &String| word.bytes().all(|it| it.is_ascii_digit());
        if self.is_plain && self.word.as_ref().is_some_and(is_number) {
            self.word = None;
        }
        self.end_word();

        let second = self.rest.next_if(|it| ['<', '>', '&', '|'].contains(it));
        if (sign, second) == ('<', Some('<')) {
            self.tell("a here document");
        }
        if sign == '&' {
            self.rest.next_if_eq(&'>');
        }
        self.token(Kind::Redirection);
    }

    fn open_quotes(&mut self) {
        self.is_plain = false;
        self.word.get_or_insert_default();
    }

    fn single_quotes(&mut self) {
        self.open_quotes();
        loop {
            match self.take() {
                Some('\'') => return,
                Some(next) => self.push(next),
                None => return self.tell("a quote that is not closed"),
            }
        }
    }

    fn double_quotes(&mut self) {
        self.open_quotes();
        loop {
            match self.take() {
                Some('"') => return,
                Some('\\') => match self.rest.peek() {
                    Some('"' | '\\' | '\n' | '$' | '`' | '\r') => self.backslash(),
                    _ => self.push('\\'),
                },
                Some('$') => self.dollar(true),
                Some('`') => {
                    self.tell("an expansion");
                    self.push('`');
                }
                Some(next) => self.push(next),
                None => return self.tell("a quote that is not closed"),
            }
        }
    }

    /// Reads what is after a backslash.
    fn backslash(&mut self) {
        self.is_plain = false;
        match self.take() {
            Some('\n') => {}
            Some('\r') => self.tell("a carriage return"),
            // The kubelet replaces variables before the shell runs.
            Some(next @ ('$' | '`')) => {
                self.tell("an escaped expansion");
                self.push(next);
            }
            Some(next) => self.push(next),
            None => self.tell("a backslash at the end"),
        }
    }

    /// Reads what is after a dollar sign.
    fn dollar(&mut self, is_quoted: bool) {
        let is_start = self.word.as_ref().is_none_or(String::is_empty);
        // `$(NAME)` is expanded by the kubelet, before the shell.
        let close = match self.rest.peek() {
            Some('(') => Some(')'),
            Some('{') => Some('}'),
            _ => None,
        };
        if close.is_some() {
            self.take();
        }

        let mut name = String::new();
        while let Some(part) = self
            .rest
            .next_if(|it| it.is_ascii_alphanumeric() || *it == '_')
        {
            name.push(part);
        }
        let is_closed = close.is_none_or(|close| self.rest.next_if_eq(&close).is_some());

        let is_variable = is_closed && is_name(&name);
        let end = if is_variable { ")" } else { "" };
        let reference = format!("$({name}{end}");
        self.word.get_or_insert_default().push_str(&reference);

        if !is_variable {
            self.tell("an expansion");
        } else if is_start && !is_quoted {
            self.tell("a variable that may be several words");
        }
    }
}
