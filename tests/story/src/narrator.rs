//! Reports the steps to a person or to a program.

use std::{
    future::Future,
    io::{IsTerminal, Write},
    time::{Duration, Instant},
};

use anyhow::Context;
use owo_colors::OwoColorize;
use serde::Serialize;
use skydock_cloud::text::escape;

/// The recipient of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// A person. On a terminal, the output is colored.
    Person,
    /// A program: one JSON object per line.
    Machine,
}

/// Reports the steps of the story.
#[derive(Debug)]
pub struct Narrator {
    audience: Audience,
    color: bool,
    chapter: &'static str,
    number: u32,
    steps: u32,
    started: Instant,
}

#[derive(Serialize)]
struct Told<'a> {
    chapter: &'a str,
    step: &'a str,
    ok: bool,
    seconds: f64,
    saw: &'a str,
}

impl Narrator {
    /// Creates a narrator without output.
    #[must_use]
    pub fn new(audience: Audience) -> Self {
        let color = audience == Audience::Person
            && std::io::stdout().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            audience,
            color,
            chapter: "",
            number: 0,
            steps: 0,
            started: Instant::now(),
        }
    }

    /// Prints the title of the story.
    pub fn title(&self, title: &str, subtitle: &str) {
        if self.audience == Audience::Person {
            say(&format!(
                "\n{}  {}",
                self.strong(title),
                self.faint(subtitle)
            ));
        }
    }

    /// Starts a chapter.
    pub fn chapter(&mut self, chapter: &'static str) {
        self.chapter = chapter;
        self.number += 1;
        if self.audience == Audience::Person {
            say(&format!(
                "\n{} {}",
                self.faint(&format!("{:>2}", self.number)),
                self.strong(chapter)
            ));
        }
    }

    /// Runs one step and reports the result.
    ///
    /// # Errors
    /// Fails if the step fails. The error contains the name of the step.
    pub async fn step<T: Into<String>>(
        &mut self,
        step: &str,
        doing: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<()> {
        let start = Instant::now();
        let ended = Box::pin(doing).await.map(Into::into);
        let took = start.elapsed();
        match &ended {
            Ok(saw) => self.told(step, true, took, saw),
            Err(error) => self.told(step, false, took, &format!("{error:#}")),
        }
        self.steps += 1;
        ended
            .map(drop)
            .with_context(|| format!("not seen: {step} ({})", self.chapter))
    }

    fn told(&self, step: &str, ok: bool, took: Duration, saw: &str) {
        match self.audience {
            Audience::Machine => {
                let told = Told {
                    chapter: self.chapter,
                    step,
                    ok,
                    seconds: took.as_secs_f64(),
                    saw,
                };
                say(&serde_json::to_string(&told).unwrap_or_default());
            }
            Audience::Person => {
                let time = self.faint(&format!("{:>7.2} s", took.as_secs_f64()));
                say(&format!("   {} {step:<92}{time}", self.mark(ok)));
                for line in saw.lines().filter(|line| !line.is_empty()) {
                    say(&format!("       {}", self.faint(&escape(line))));
                }
            }
        }
    }

    /// Ends the story.
    pub fn end(&self) {
        if self.audience == Audience::Person {
            let took = self.started.elapsed().as_secs_f64();
            say(&format!(
                "\n   {} {} steps seen through the API in {took:.0} s",
                self.mark(true),
                self.steps
            ));
        }
    }

    /// Prints a line, but only for a person.
    pub fn aside(&self, text: &str) {
        if self.audience == Audience::Person {
            say(text);
        }
    }

    /// Prints a value, but only for a program.
    pub fn record(&self, value: &impl Serialize) {
        if self.audience == Audience::Machine {
            say(&serde_json::to_string(value).unwrap_or_default());
        }
    }

    fn mark(&self, ok: bool) -> String {
        match (ok, self.color) {
            (true, true) => "✓".green().bold().to_string(),
            (true, false) => "✓".to_owned(),
            (false, true) => "✗".red().bold().to_string(),
            (false, false) => "✗".to_owned(),
        }
    }

    fn strong(&self, text: &str) -> String {
        if self.color {
            text.bold().to_string()
        } else {
            text.to_owned()
        }
    }

    fn faint(&self, text: &str) -> String {
        if self.color {
            text.dimmed().to_string()
        } else {
            text.to_owned()
        }
    }
}

/// Errors are ignored: a closed standard output has no reader.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
