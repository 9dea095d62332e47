//! Plays the tape of one instance: answers as the world did, and finds where the plugin does
//! something else.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::{sync::Notify, task::JoinSet};

use super::{
    Difference, Diverged,
    compare::{alike, first, short, shown},
    entry::{Ending, RequestHead, ResponseHead},
    mask::Masks,
    script::{Ended, Exchange, RecordedCall, Script, Step},
    value,
};

/// Time for the end of a request's body after a call.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time without a step after which a plugin that waits for an answer which was not written gets no
/// further.
const STALL: Duration = Duration::from_secs(2);

/// What records a line that the plugin has written to standard output or standard error.
pub const LINE: &str = "stdio.line";

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

/// How a replay of one instance went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of functions of the host, and of requests, that were as recorded.
    pub steps: u64,
    /// Number of calls of the plugin that were as recorded.
    pub calls: u64,
    /// Whether clocks, randomness, log and readiness were read in another order.
    pub uneven: bool,
    /// Number of steps of the last call that follow an answer which was not written. They were not
    /// repeated.
    pub unreached: usize,
}

/// Plays one recording.
pub struct Player {
    playing: Mutex<Playing>,
    /// Woken when the call cannot go on: it differs, or the recording ends.
    pub over: Notify,
    /// Bodies of requests that are still read.
    sending: Mutex<JoinSet<()>>,
}

struct Playing {
    recorded_calls: VecDeque<RecordedCall>,
    recorded_call: RecordedCall,
    exchanges: BTreeMap<u64, Exchange>,
    last: BTreeMap<&'static str, Value>,
    masks: Masks,
    outcome: Outcome,
    difference: Option<Difference>,
    /// The plugin did more than was recorded of the call that was stopped.
    went_on: bool,
    /// It waits for an answer that was not written, because the process ended before.
    starved: bool,
}

impl Player {
    /// Creates the player of a recording.
    #[must_use]
    pub fn new(script: Script) -> Self {
        let mut recorded_calls: VecDeque<_> = script.recorded_calls.into();
        let recorded_call = recorded_calls.pop_front().unwrap_or_default();

        let playing = Playing {
            recorded_calls,
            recorded_call,
            exchanges: script.exchanges,
            last: BTreeMap::new(),
            masks: Masks::default(),
            outcome: Outcome::default(),
            difference: None,
            went_on: false,
            starved: false,
        };

        Self {
            playing: Mutex::new(playing),
            over: Notify::new(),
            sending: Mutex::default(),
        }
    }

    fn playing(&self) -> MutexGuard<'_, Playing> {
        self.playing.lock()
    }

    /// Starts the next call, and returns its function and arguments.
    pub fn next(&self) -> Option<(String, Value)> {
        let mut playing = self.playing();
        playing.outcome.uneven |= !playing.recorded_call.steps.is_empty();
        playing.recorded_call = playing.recorded_calls.pop_front()?;

        Some((
            playing.recorded_call.function.clone(),
            playing.recorded_call.arguments.value(),
        ))
    }

    /// Returns how it went, and the first difference.
    pub fn outcome(&self) -> (Outcome, Option<Difference>) {
        let playing = self.playing();
        (playing.outcome, playing.difference.clone())
    }

    /// Returns true if there was a difference.
    pub fn differs(&self) -> bool {
        self.playing().difference.is_some()
    }

    /// Returns the recorded answer of a function of the host.
    pub(super) fn recall<T: DeserializeOwned>(
        &self,
        function: &'static str,
        mut arguments: Value,
    ) -> Result<Option<T>, Diverged> {
        let mut playing = self.playing();
        playing.masks.mask_value(&mut arguments);
        let answer = playing.take(function, &arguments);

        if answer.is_err() {
            self.over.notify_one();
        }
        let answer = answer?;

        let Some(answer) = answer else {
            return Ok(None);
        };

        match serde_json::from_value(answer) {
            Ok(answer) => Ok(Some(answer)),
            Err(error) => {
                let name = format!("the answer of {function}");
                playing.differs(
                    name,
                    "an answer of this version".to_owned(),
                    error.to_string(),
                );
                self.over.notify_one();
                Err(Diverged)
            }
        }
    }

    /// Called by whoever waits for something that was not recorded: nothing more happens if the
    /// recording ends here.
    pub fn waits(&self) {
        let mut playing = self.playing();
        playing.starved |= playing.is_open();
        if playing.is_over() {
            self.over.notify_one();
        }
    }

    /// Waits until the plugin gets no further because an answer was not written. The body of a
    /// response is written when it has ended, so that a killed process may have written what the
    /// plugin did with the first part of it, but not that part.
    pub async fn starves(&self) {
        let mut before = None;
        loop {
            let now = Some(self.playing())
                .filter(|playing| playing.starved)
                .map(|playing| playing.outcome.steps);

            if now.is_some() && now == before {
                return;
            }

            before = now;
            tokio::time::sleep(STALL).await;
        }
    }

    /// Compares a request, and returns the number of its exchange.
    pub fn request(&self, head: &RequestHead) -> Option<u64> {
        let mut playing = self.playing();
        let exchange = playing.request(head);
        if exchange.is_none() {
            self.over.notify_one();
        }
        exchange
    }

    /// Reads the body of a request while the call goes on.
    pub fn sending(&self, body: impl Future<Output = ()> + Send + 'static) {
        self.sending.lock().spawn(body);
    }

    /// Waits until the bodies of requests are read, which does not take long unless a plugin leaves
    /// one open.
    pub async fn settle(&self) {
        // Taken out, because the lock must not be held while this waits.
        let mut sending = std::mem::take(&mut *self.sending.lock());
        let all = async { while sending.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(PATIENCE, all).await;
        *self.sending.lock() = sending;
    }

    /// Returns true if the response of an exchange came after the end of the request.
    pub fn answers_last(&self, exchange: u64) -> bool {
        self.playing()
            .exchanges
            .get(&exchange)
            .is_some_and(|it| it.sent_first)
    }

    /// Compares the body of a request.
    pub fn sent(&self, exchange: u64, body: &[u8], complete: bool) {
        let mut playing = self.playing();
        let Some((recorded, whole)) = playing
            .exchanges
            .get(&exchange)
            .and_then(|it| it.sent.clone())
        else {
            return;
        };

        let masked = |playing: &mut Playing, bytes: &[u8]| {
            let mut text = value(&super::Payload(bytes.to_vec()));
            playing.masks.mask_value(&mut text);
            text
        };

        // A body of which one side has only a part is compared as far as both go.
        let common = if complete && whole {
            usize::MAX
        } else {
            recorded.len().min(body.len())
        };

        let expected = masked(&mut playing, recorded.get(..common).unwrap_or(&recorded));
        let came = masked(&mut playing, body.get(..common).unwrap_or(body));

        if !alike(&expected, &came) {
            let what = format!("the body of request {exchange}");
            playing.differs(what, shown(&expected), shown(&came));
            self.over.notify_one();
        }
    }

    /// Returns the response of an exchange, and the pieces of its body.
    pub fn response(
        &self,
        exchange: u64,
    ) -> (Option<ResponseHead>, VecDeque<Vec<u8>>, Option<Ending>) {
        let mut playing = self.playing();
        let exchange = playing.exchanges.get_mut(&exchange);

        exchange
            .map(|it| {
                (
                    it.response.take(),
                    std::mem::take(&mut it.pieces),
                    it.ending.take(),
                )
            })
            .unwrap_or_default()
    }

    /// Compares how a call ended.
    pub fn ended(&self, mut came: Result<Value, String>) {
        let mut playing = self.playing();
        if let Ok(answer) = &mut came {
            playing.masks.mask_value(answer);
        }
        playing.ended(&came);
    }

    /// Ends the comparison at a call that cannot be made.
    pub fn not_made(&self, why: &str) {
        self.playing().differs(
            "the call".to_owned(),
            "a call of this version of the contract".to_owned(),
            why.to_owned(),
        );
    }

    /// Compares a call that was stopped because the recording ends, or because it does not end.
    pub fn stopped(&self) {
        let mut playing = self.playing();
        if playing.difference.is_some() {
            return;
        }

        if playing.is_over() || playing.starved {
            playing.outcome.calls += 1;
            playing.outcome.unreached = playing.recorded_call.steps.len();
        } else {
            let expected = playing.next_step().unwrap_or_else(|| playing.ending());
            playing.differs(
                "what the plugin does".to_owned(),
                expected,
                "nothing: it waits".to_owned(),
            );
        }
    }
}

impl Playing {
    fn differs(&mut self, what: String, expected: String, came: String) {
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
    fn is_open(&self) -> bool {
        self.recorded_call.ended.is_none() && self.recorded_call.number > 0
    }

    /// Returns true if that is so, and the plugin has done all that was recorded.
    fn is_over(&self) -> bool {
        self.is_open() && self.recorded_call.steps.is_empty()
    }

    /// Returns the position of the next step that must be as recorded.
    fn next_exact(&self) -> Option<usize> {
        self.recorded_call.steps.iter().position(|step| match step {
            Step::Host { function, .. } => Care::of(function) == Care::Exact,
            Step::Request(_) => true,
        })
    }

    fn next_step(&self) -> Option<String> {
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

    fn ending(&self) -> String {
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

    fn take(
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
                let (path, expected, came) =
                    first(&recorded.value(), arguments).unwrap_or_default();
                self.differs(format!("argument {function}{path}"), expected, came);
            }
            Some(step) => self.differs(
                "what the plugin does next".to_owned(),
                self.described(&step),
                came,
            ),
            None => self.differs("what the plugin does next".to_owned(), self.ending(), came),
        }
    }

    fn request(&mut self, head: &RequestHead) -> Option<u64> {
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
            self.differs(
                "what the plugin does next".to_owned(),
                expected,
                requested(head),
            );
            return None;
        };

        let recorded = self
            .exchanges
            .get(exchange)
            .and_then(|it| it.request.clone());
        let expected = recorded.as_ref().map(value).unwrap_or_default();

        if let Some((path, one, other)) = first(&expected, &came) {
            let (what, one, other) = match recorded {
                Some(recorded)
                    if (&recorded.method, &recorded.uri) != (&head.method, &head.uri) =>
                {
                    (String::new(), requested(&recorded), requested(head))
                }
                _ => (path, one, other),
            };

            self.differs(format!("request {exchange}{what}"), one, other);
            return None;
        }

        self.done(at);
        Some(*exchange)
    }

    fn ended(&mut self, came: &Result<Value, String>) {
        if self.difference.is_some() {
            return;
        }

        let ending = match came {
            Ok(answer) => format!("the answer {}", shown(answer)),
            Err(kind) => format!("the end of the instance ({kind})"),
        };

        if let Some(step) = self.next_step() {
            return self.differs("what the plugin does next".to_owned(), step, ending);
        }

        // What is left may be called more or less often.
        self.outcome.uneven |= !self.recorded_call.steps.is_empty();
        match (&self.recorded_call.ended, came) {
            (Some(Ended::Answer(recorded)), Ok(answer)) => match first(&recorded.value(), answer) {
                Some((path, expected, came)) => {
                    self.differs(format!("answer{path}"), expected, came);
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
