//! A step of a scenario.

use std::{collections::BTreeMap, fmt, sync::LazyLock};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, EnumAccess, Error, VariantAccess as _, Visitor},
};
use serde_json::Value;
use skydock_cloud::Function;

use super::{Expect, Given, Span};

/// A step: exactly one of `call`, `http`, `run`, `given`, `wait`, `swap` and `restart`; `swap` also
/// goes with `call`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Step {
    /// For people, instead of what the step does.
    pub(crate) name: Option<String>,
    /// Calls a function of the plugin as a controller does.
    pub(crate) call: Option<Called>,
    /// Sends a request to the vendor's cloud.
    pub(crate) http: Option<Http>,
    /// Runs a program, in the folder of the file.
    pub(crate) run: Option<Vec<String>>,
    /// Creates or replaces objects of the cluster.
    pub(crate) given: Option<Given>,
    /// Lets time pass.
    pub(crate) wait: Option<Span>,
    /// Replaces the plugin by a new generation of itself; with `call`, while the call is waiting
    /// for its first request.
    pub(crate) swap: bool,
    /// Loads the plugin again, like a replica of Skydock that becomes the leader: with no instance
    /// and no cache.
    pub(crate) restart: bool,
    /// The nodes of a call; all by default.
    pub(crate) nodes: Option<Vec<String>>,
    /// The Service of a call.
    pub(crate) service: Option<String>,
    /// The volumes of a call; all by default.
    pub(crate) volumes: Option<Vec<String>>,
    /// The snapshots of a call; all by default.
    pub(crate) snapshots: Option<Vec<String>>,
    /// Makes the call this many times, one after the other.
    pub(crate) times: Option<u32>,
    /// Makes the call this many times at once, each in a replica of Skydock.
    pub(crate) at_once: Option<u32>,
    /// Ends the instance in the middle of the call.
    pub(crate) kill: Option<Kill>,
    /// The call succeeds, but Skydock ends before it has written the answer, and starts again.
    pub(crate) answer_lost: bool,
    /// Input of the program, in addition to the objects of the cluster.
    pub(crate) input: Option<Value>,
    /// How long to repeat the step until it is as expected. Calls are repeated as controllers do.
    pub(crate) within: Option<Span>,
    /// What must be true.
    pub(crate) expect: Expect,
}

/// A request to the vendor's cloud.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Http {
    #[serde(default = "get")]
    pub(crate) method: String,
    /// The URL, without TLS.
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// Sent as JSON.
    pub(crate) body: Option<Value>,
}

fn get() -> String {
    "GET".to_owned()
}

/// When an instance ends in the middle of a call; whichever is first.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Kill {
    /// This long after its start.
    pub(crate) after: Option<Span>,
    /// When this many requests have been answered.
    pub(crate) requests: Option<u64>,
}

/// A function of the contract, by its name, for example `instances.check`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Called(pub(crate) Function);

impl<'de> Deserialize<'de> for Called {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Like an enum, so that an unknown name has a position and a suggestion.
        deserializer.deserialize_enum("Function", &NAMES, FunctionName)
    }
}

struct FunctionName;

impl<'de> Visitor<'de> for FunctionName {
    type Value = Called;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a function")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Called, A::Error> {
        let (called, rest) = data.variant_seed(self)?;
        rest.unit_variant()?;
        Ok(called)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Called, E> {
        let function = Function::named(name).map(Called);
        function.ok_or_else(|| E::unknown_variant(name, &NAMES))
    }
}

impl<'de> DeserializeSeed<'de> for FunctionName {
    type Value = Called;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Called, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

/// The names of all functions. They are leaked once, because serde takes only static ones.
static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let names = Function::ALL.iter().map(|it| &*it.to_string().leak());
    names.collect()
});

/// What a step does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action<'a> {
    Call(Function),
    Http(&'a Http),
    Run(&'a [String]),
    Given(&'a Given),
    Wait(Span),
    Swap,
    Restart,
}

impl Step {
    /// Returns what the step does, unless that is nothing, or several things.
    pub(crate) fn action(&self) -> Option<Action<'_>> {
        let all = [
            self.call.map(|Called(function)| Action::Call(function)),
            self.http.as_ref().map(Action::Http),
            self.run.as_deref().map(Action::Run),
            self.given.as_ref().map(Action::Given),
            self.wait.map(Action::Wait),
            (self.swap && self.call.is_none()).then_some(Action::Swap),
            self.restart.then_some(Action::Restart),
        ];

        let mut all = all.into_iter().flatten();
        all.next().filter(|_| all.next().is_none())
    }

    /// Returns what the step does, for people.
    pub(crate) fn text(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }

        let mut text = match self.action() {
            None => "nothing".to_owned(),
            Some(Action::Call(function)) => function.to_string(),
            Some(Action::Http(http)) => format!("{} {}", http.method, http.url),
            Some(Action::Run(argv)) => argv.join(" "),
            Some(Action::Given(_)) => "objects of the cluster".to_owned(),
            Some(Action::Wait(Span(time))) => format!("{time:?} pass"),
            Some(Action::Swap) => "the plugin is replaced".to_owned(),
            Some(Action::Restart) => "Skydock starts again".to_owned(),
        };

        let list = |names: &Vec<String>| format!(" with [{}]", names.join(", "));
        let more = [
            self.service
                .as_ref()
                .map(|name| format!(" for the Service {name}")),
            self.nodes.as_ref().map(list),
            self.volumes.as_ref().map(list),
            self.snapshots.as_ref().map(list),
            self.times.map(|times| format!(", {times} times")),
            self.at_once.map(|times| format!(", {times} at once")),
            self.kill.map(|_| ", killed".to_owned()),
            self.answer_lost.then(|| ", answer lost".to_owned()),
            (self.swap && self.call.is_some()).then(|| ", plugin replaced meanwhile".to_owned()),
        ];

        more.into_iter()
            .flatten()
            .for_each(|more| text.push_str(&more));
        text
    }
}
