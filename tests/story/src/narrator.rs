//! Tells a person, or a machine, what happens.

use std::{
    future::Future,
    io::{IsTerminal, Write},
    time::{Duration, Instant},
};

use anyhow::Context;
use owo_colors::OwoColorize;
use serde::Serialize;
use skydock_cloud::text::escape;

/// Who listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// A person at a terminal, with colour if it is one.
    Person,
    /// A program: one JSON object a line.
    Machine,
}

/// Tells the story.
#[derive(Debug)]
pub struct Narrator {
    audience: Audience,
    colour: bool,
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
    /// A narrator that has said nothing.
    #[must_use]
    pub fn new(audience: Audience) -> Self {
        let colour = audience == Audience::Person
            && std::io::stdout().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { audience, colour, chapter: "", number: 0, steps: 0, started: Instant::now() }
    }

    /// Opens the story.
    pub fn title(&self, title: &str, subtitle: &str) {
        if self.audience == Audience::Person {
            say(&format!("\n{}  {}", self.strong(title), self.faint(subtitle)));
        }
    }

    /// Begins a chapter.
    pub fn chapter(&mut self, chapter: &'static str) {
        self.chapter = chapter;
        self.number += 1;
        if self.audience == Audience::Person {
            say(&format!("\n{} {}", self.faint(&format!("{:>2}", self.number)), self.strong(chapter)));
        }
    }

    /// Does one step and tells what was seen.
    ///
    /// # Errors
    /// If the step was not seen; the error names it.
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
        ended.map(drop).with_context(|| format!("not seen: {step} ({})", self.chapter))
    }

    fn told(&self, step: &str, ok: bool, took: Duration, saw: &str) {
        match self.audience {
            Audience::Machine => {
                let told = Told { chapter: self.chapter, step, ok, seconds: took.as_secs_f64(), saw };
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
            say(&format!("\n   {} {} steps seen through the API in {took:.0} s", self.mark(true), self.steps));
        }
    }

    /// Tells a line beside the story, to a person only.
    pub fn aside(&self, text: &str) {
        if self.audience == Audience::Person {
            say(text);
        }
    }

    /// Tells a value, to a machine only.
    pub fn record(&self, value: &impl Serialize) {
        if self.audience == Audience::Machine {
            say(&serde_json::to_string(value).unwrap_or_default());
        }
    }

    fn mark(&self, ok: bool) -> String {
        match (ok, self.colour) {
            (true, true) => "✓".green().bold().to_string(),
            (true, false) => "✓".to_owned(),
            (false, true) => "✗".red().bold().to_string(),
            (false, false) => "✗".to_owned(),
        }
    }

    fn strong(&self, text: &str) -> String {
        if self.colour { text.bold().to_string() } else { text.to_owned() }
    }

    fn faint(&self, text: &str) -> String {
        if self.colour { text.dimmed().to_string() } else { text.to_owned() }
    }
}

/// Standard output is what the story is for; nobody listens any more if it is closed.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
