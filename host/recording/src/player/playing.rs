//! What is left of a recording while it is played, and the comparison with what the plugin does.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use super::{LINE, ReplayOutcome};
use crate::{
    Difference, Diverged,
    compare::{Mismatch, alike, first, short, shown},
    entry::RequestHead,
    mask::Masks,
    script::{Ended, Exchange, RecordedCall, Script, Step},
    value,
};

/// What differs if the plugin does something else than what was recorded next.
const NEXT: &str = "what the plugin does next";

/// How a function of the host is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Care {
    /// It must be called as it was recorded, in the same order.
    Exact,
    /// It may be called in another order, or more or less often: it changes nothing, and plugins
    /// may differ in it without differing in what they do. If there is no answer left, the last one
    /// is repeated.
    Repeats,
    /// The same, but the host answers if there is no answer left.
    Lives,
}

impl Care {
    fn of(function: &str) -> Self {
        match function.split_once('.').unwrap_or_default() {
            ("wall-clock" | "monotonic-clock", _) | ("calls", "remaining-ms" | "memory-limit") => {
                Self::Repeats
            }
            ("random" | "poll" | "streams" | "logging" | "stdio", _) => Self::Lives,
            _ => Self::Exact,
        }
    }
}

/// What is left of a recording, and how its replay goes.
pub(super) struct Playing {
    pub(super) recorded_calls: VecDeque<RecordedCall>,
    pub(super) recorded_call: RecordedCall,
    pub(super) exchanges: BTreeMap<u64, Exchange>,
    last: BTreeMap<&'static str, Value>,
    pub(super) masks: Masks,
    pub(super) outcome: ReplayOutcome,
    pub(super) difference: Option<Difference>,
    /// The plugin did more than was recorded of the call that was stopped.
    went_on: bool,
    /// It waits for an answer that was not written, because the process ended before.
    pub(super) starved: bool,
}

impl Playing {
    pub(super) fn new(script: Script) -> Self {
        let mut recorded_calls: VecDeque<_> = script.recorded_calls.into();
        let recorded_call = recorded_calls.pop_front().unwrap_or_default();

        Self {
            recorded_calls,
            recorded_call,
            exchanges: script.exchanges,
            last: BTreeMap::new(),
            masks: Masks::default(),
            outcome: ReplayOutcome::default(),
            difference: None,
            went_on: false,
            starved: false,
        }
    }

    pub(super) fn differs(&mut self, what: String, expected: String, came: String) {
        let RecordedCall {
            number, function, ..
        } = &self.recorded_call;

        let difference = Difference {
            call: *number,
            function: function.clone(),
            what,
            expected,
            came,
        };

        // Only the first one counts: what follows may be its consequence.
        self.difference.get_or_insert(difference);
    }

    /// Returns true if the current call had not ended when the recording did.
    pub(super) fn is_open(&self) -> bool {
        self.recorded_call.ended.is_none() && self.recorded_call.number > 0
    }

    /// Returns true if that is so, and the plugin has done all that was recorded.
    pub(super) fn is_over(&self) -> bool {
        self.is_open() && self.recorded_call.steps.is_empty()
    }

    /// Returns the position of the next step that must be as recorded.
    fn next_exact(&self) -> Option<usize> {
        self.recorded_call.steps.iter().position(|step| match step {
            Step::Host { function, .. } => Care::of(function) == Care::Exact,
            Step::Request(_) => true,
        })
    }

    pub(super) fn next_step(&self) -> Option<String> {
        self.next_exact()
            .and_then(|at| self.recorded_call.steps.get(at))
            .map(|step| self.described(step))
    }

    fn described(&self, step: &Step) -> String {
        match step {
            Step::Host {
                function,
                arguments,
                ..
            } => called(function, &arguments.value()),
            Step::Request(exchange) => {
                let head = self
                    .exchanges
                    .get(exchange)
                    .and_then(|it| it.request.as_ref());
                head.map_or_else(|| format!("request {exchange}"), requested)
            }
        }
    }

    pub(super) fn ending(&self) -> String {
        match &self.recorded_call.ended {
            Some(Ended::Answer(answer)) => format!("the answer {}", shown(&answer.value())),
            Some(Ended::Trap(kind)) => format!("the end of the instance ({kind})"),
            None => "nothing: the call did not end".to_owned(),
        }
    }

    /// Takes the step at this position.
    fn done(&mut self, at: usize) {
        // The lines of a write are recorded before the write, which is recorded when it has ended.
        let is_line = |step: &Step| matches!(step, Step::Host { function, .. } if function == LINE);
        self.outcome.uneven |= !self.recorded_call.steps.iter().take(at).all(is_line);
        self.recorded_call.steps.remove(at);
        self.outcome.steps += 1;
    }

    pub(super) fn take(
        &mut self,
        function: &'static str,
        arguments: &Value,
    ) -> Result<Option<Value>, Diverged> {
        self.went_on |= self.is_over();
        if self.difference.is_some() || self.went_on {
            return Err(Diverged);
        }

        let care = Care::of(function);
        let is_same = |step: &Step| matches!(step, Step::Host { function: name, arguments: with, .. } if name == function && alike(&with.value(), arguments));
        let found = match care {
            Care::Exact => self
                .next_exact()
                .filter(|at| self.recorded_call.steps.get(*at).is_some_and(is_same)),
            Care::Repeats | Care::Lives => self.recorded_call.steps.iter().position(is_same),
        };

        if let Some(at) = found
            && let Some(Step::Host { answer, .. }) = self.recorded_call.steps.get(at).cloned()
        {
            self.done(at);
            let answer = answer.value();

            if care == Care::Repeats {
                self.last.insert(function, answer.clone());
            }
            return Ok(Some(answer));
        }

        self.outcome.uneven = true;
        match care {
            Care::Exact => {
                let next = self
                    .next_exact()
                    .and_then(|at| self.recorded_call.steps.get(at))
                    .cloned();

                self.unlike(next, function, arguments);
                Err(Diverged)
            }
            Care::Repeats => Ok(self.last.get(function).cloned()),
            Care::Lives => Ok(None),
        }
    }

    /// Notes that a function of the host was called instead of the next step.
    fn unlike(&mut self, next: Option<Step>, function: &str, arguments: &Value) {
        let came = called(function, arguments);

        match next {
            Some(Step::Host {
                function: name,
                arguments: recorded,
                ..
            }) if name == function => {
                let found = first(&recorded.value(), arguments).unwrap_or_default();
                let what = format!("argument {function}{}", found.path);
                self.differs(what, found.expected, found.came);
            }
            Some(step) => self.differs(NEXT.to_owned(), self.described(&step), came),
            None => self.differs(NEXT.to_owned(), self.ending(), came),
        }
    }

    pub(super) fn request(&mut self, head: &RequestHead) -> Option<u64> {
        self.went_on |= self.is_over();
        if self.difference.is_some() || self.went_on {
            return None;
        }

        let mut came = value(head);
        self.masks.mask_value(&mut came);

        let at = self.next_exact();
        let step = at.and_then(|at| self.recorded_call.steps.get(at)).cloned();

        let (Some(at), Some(Step::Request(exchange))) = (at, &step) else {
            let expected = step.map_or_else(|| self.ending(), |step| self.described(&step));
            self.differs(NEXT.to_owned(), expected, requested(head));
            return None;
        };

        let recorded = self
            .exchanges
            .get(exchange)
            .and_then(|it| it.request.clone());
        let expected = recorded.as_ref().map(value).unwrap_or_default();

        if let Some(found) = first(&expected, &came) {
            let found = match recorded {
                Some(recorded)
                    if (&recorded.method, &recorded.uri) != (&head.method, &head.uri) =>
                {
                    Mismatch {
                        path: String::new(),
                        expected: requested(&recorded),
                        came: requested(head),
                    }
                }
                _ => found,
            };

            let what = format!("request {exchange}{}", found.path);
            self.differs(what, found.expected, found.came);
            return None;
        }

        self.done(at);
        Some(*exchange)
    }

    pub(super) fn ended(&mut self, came: &Result<Value, String>) {
        if self.difference.is_some() {
            return;
        }

        let ending = match came {
            Ok(answer) => format!("the answer {}", shown(answer)),
            Err(kind) => format!("the end of the instance ({kind})"),
        };

        if let Some(step) = self.next_step() {
            return self.differs(NEXT.to_owned(), step, ending);
        }

        // What is left may be called more or less often.
        self.outcome.uneven |= !self.recorded_call.steps.is_empty();
        match (&self.recorded_call.ended, came) {
            (Some(Ended::Answer(recorded)), Ok(answer)) => match first(&recorded.value(), answer) {
                Some(found) => {
                    self.differs(format!("answer{}", found.path), found.expected, found.came);
                }
                None => self.outcome.calls += 1,
            },
            (Some(Ended::Trap(recorded)), Err(kind)) if recorded == kind => self.outcome.calls += 1,
            // The call was stopped while it computed, or before its end was written.
            (None, _) if self.is_open() => self.outcome.calls += 1,
            _ => self.differs("how the call ends".to_owned(), self.ending(), ending),
        }
    }
}

fn called(function: &str, arguments: &Value) -> String {
    let inner = arguments.as_array().map(|all| {
        all.iter()
            .map(Value::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    });
    short(&format!("{function}({})", inner.unwrap_or_default()))
}

fn requested(head: &RequestHead) -> String {
    format!("request {} {}", head.method, short(&head.uri))
}
