//! Faults between clients and the plane, injected on purpose.
//!
//! Faults are rules that define which requests are affected, how, with which probability, and how
//! often. Random numbers come from a generator that the test seeds. Each fault that happens is
//! counted, so that a test can verify that its faults occurred.

use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rand::{Rng as _, rngs::StdRng};

/// The verb of a request, as in RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // Kubernetes' own words
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
}

impl Verb {
    /// The verbs that change objects.
    pub const WRITES: [Self; 4] = [Self::Create, Self::Update, Self::Patch, Self::Delete];
}

/// What happens to a request. Rules apply to a watch when it starts and to each of its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// 403: the account has no permission. The request is not executed.
    Forbidden,
    /// 409: another client changed the object. The request is not executed.
    Conflict,
    /// 429, with `Retry-After`. The request is not executed.
    TooManyRequests {
        /// Delay in seconds.
        retry_after: u64,
    },
    /// 500: the request is not executed.
    InternalError,
    /// 503: the request is not executed.
    ServiceUnavailable,
    /// 410: the revision that a list or a watch continues from has expired. A running watch ends
    /// with it.
    Expired,
    /// The request is executed later; an event of a watch arrives later. Further rules apply after
    /// this one.
    Slow(RangeInclusive<Duration>),
    /// The request is accepted and never answered. It is not executed. A running watch sends
    /// nothing more, and does not end.
    Silence,
    /// The connection is closed before the request is executed.
    Cut,
    /// The request is executed, and the connection is closed before the response.
    AnswerLost,
    /// A watch gets no bookmarks, except those that end a streaming list. Further rules apply after
    /// this one.
    NoBookmarks,
}

impl Fault {
    /// Returns a short name for counters and logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::Conflict => "conflict",
            Self::TooManyRequests { .. } => "too many requests",
            Self::InternalError => "internal error",
            Self::ServiceUnavailable => "service unavailable",
            Self::Expired => "expired",
            Self::Slow(_) => "slow",
            Self::Silence => "silence",
            Self::Cut => "cut",
            Self::AnswerLost => "answer lost",
            Self::NoBookmarks => "no bookmarks",
        }
    }

    /// Returns whether this fault can happen to requests with this verb.
    fn applies_to(&self, verb: Verb) -> bool {
        match self {
            Self::Conflict => matches!(verb, Verb::Update | Verb::Patch | Verb::Delete),
            Self::Expired => matches!(verb, Verb::List | Verb::Watch),
            Self::NoBookmarks => verb == Verb::Watch,
            // For a watch, which changes nothing, this is the same as `Cut`.
            Self::AnswerLost => verb != Verb::Watch,
            _ => true,
        }
    }
}

/// Which requests a fault happens to.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    fault: Fault,
    verbs: Vec<Verb>,
    resource: Option<String>,
    chance: f64,
    times: Option<u32>,
}

impl Rule {
    /// Creates a rule that always applies to all requests that the fault can happen to.
    #[must_use]
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            verbs: Vec::new(),
            resource: None,
            chance: 1.0,
            times: None,
        }
    }

    /// Limits the rule to these verbs.
    #[must_use]
    pub fn verbs(self, verbs: &[Verb]) -> Self {
        Self {
            verbs: verbs.to_vec(),
            ..self
        }
    }

    /// Limits the rule to this resource, for example `nodes`, including its subresources.
    #[must_use]
    pub fn resource(self, plural: impl Into<String>) -> Self {
        Self {
            resource: Some(plural.into()),
            ..self
        }
    }

    /// Sets the probability, from 0.0 to 1.0; other values are set to the nearer limit.
    #[must_use]
    pub fn chance(self, chance: f64) -> Self {
        Self {
            chance: if chance.is_nan() {
                0.0
            } else {
                chance.clamp(0.0, 1.0)
            },
            ..self
        }
    }

    /// Limits how often the rule applies.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self {
            times: Some(times),
            ..self
        }
    }

    fn matches(&self, request: &RequestInfo) -> bool {
        self.fault.applies_to(request.verb)
            && (self.verbs.is_empty() || self.verbs.contains(&request.verb))
            && self
                .resource
                .as_ref()
                .is_none_or(|resource| *resource == request.resource)
            && self.times != Some(0)
    }
}

/// All faults of a plane.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Rules in the order in which they apply. Delays add up; the first fault other than
    /// [`Fault::Slow`] and [`Fault::NoBookmarks`] decides.
    pub rules: Vec<Rule>,
    /// Only affects clients whose `User-Agent` starts with this; empty for all.
    pub user_agent: String,
}

impl From<Rule> for Faults {
    fn from(rule: Rule) -> Self {
        Self {
            rules: vec![rule],
            ..Self::default()
        }
    }
}

/// Switches faults on and off. Clones share the same faults.
#[derive(Clone, Debug, Default)]
pub struct FaultSwitch {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    faults: Faults,
    /// Always set if there are rules.
    chance: Option<StdRng>,
    met: BTreeMap<&'static str, u64>,
}

/// The properties of a request that rules check.
#[derive(Clone, Debug)]
pub(crate) struct RequestInfo {
    pub(crate) verb: Verb,
    pub(crate) resource: String,
    pub(crate) user_agent: String,
}

/// What happens to one request, or to one event of a watch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) delay: Duration,
    pub(crate) fault: Option<Fault>,
    pub(crate) no_bookmarks: bool,
}

impl FaultSwitch {
    /// Replaces all faults. Requests in flight keep the faults that they already have.
    pub fn set(&self, faults: impl Into<Faults>, chance: StdRng) {
        let mut state = self.lock();
        state.faults = faults.into();
        state.chance = Some(chance);
    }

    /// Removes all faults. Requests that were never to be answered stay unanswered.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.faults = Faults::default();
        state.chance = None;
    }

    /// Returns how often each fault has happened since the plane was started, by [`Fault::name`].
    #[must_use]
    pub fn met(&self) -> BTreeMap<&'static str, u64> {
        self.lock().met.clone()
    }

    pub(crate) fn effect(&self, request: &RequestInfo) -> Effect {
        let mut effect = Effect::default();
        let mut state = self.lock();
        let State {
            faults,
            chance: Some(chance),
            met,
        } = &mut *state
        else {
            return effect;
        };

        if !request.user_agent.starts_with(&faults.user_agent) {
            return effect;
        }

        for rule in faults.rules.iter_mut().filter(|rule| rule.matches(request)) {
            if !chance.random_bool(rule.chance) {
                continue;
            }
            rule.times = rule.times.map(|times| times.saturating_sub(1));
            *met.entry(rule.fault.name()).or_default() += 1;
            match &rule.fault {
                Fault::Slow(range) => effect.delay += chance.random_range(range.clone()),
                Fault::NoBookmarks => effect.no_bookmarks = true,
                other => {
                    effect.fault = Some(other.clone());
                    break;
                }
            }
        }

        effect
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No operation under the lock leaves an inconsistent state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    fn call(verb: Verb, resource: &str) -> RequestInfo {
        RequestInfo {
            verb,
            resource: resource.into(),
            user_agent: "skydock/1 node".into(),
        }
    }

    fn switch(faults: impl Into<Faults>) -> FaultSwitch {
        let switch = FaultSwitch::default();
        switch.set(faults, StdRng::seed_from_u64(1));
        switch
    }

    #[test]
    fn a_rule_matches_only_its_verbs_resource_and_client() {
        let rule = Rule::new(Fault::Cut)
            .verbs(&[Verb::Patch])
            .resource("nodes");
        let switch = switch(Faults {
            rules: vec![rule],
            user_agent: "skydock/".into(),
        });
        assert_eq!(
            switch.effect(&call(Verb::Patch, "nodes")).fault,
            Some(Fault::Cut)
        );
        assert_eq!(switch.effect(&call(Verb::Get, "nodes")).fault, None);
        assert_eq!(switch.effect(&call(Verb::Patch, "services")).fault, None);
        let other = RequestInfo {
            user_agent: "kubectl".into(),
            ..call(Verb::Patch, "nodes")
        };
        assert_eq!(switch.effect(&other).fault, None);
        assert_eq!(switch.met(), BTreeMap::from([("cut", 1)]));
    }

    #[test]
    fn a_used_up_rule_gives_way_to_the_next() {
        let switch = switch(Faults {
            rules: vec![
                Rule::new(Fault::Cut).times(2),
                Rule::new(Fault::InternalError),
            ],
            ..Faults::default()
        });
        let met: Vec<_> = (0..4)
            .map(|_| {
                switch
                    .effect(&call(Verb::Get, "nodes"))
                    .fault
                    .unwrap()
                    .name()
            })
            .collect();
        assert_eq!(met, ["cut", "cut", "internal error", "internal error"]);
        switch.clear();
        assert_eq!(switch.effect(&call(Verb::Get, "nodes")), Effect::default());
    }

    #[test]
    fn delays_add_up_until_the_first_other_fault() {
        let second = Duration::from_secs(1);
        let slow = || Rule::new(Fault::Slow(second..=second));
        let switch = switch(Faults {
            rules: vec![
                slow(),
                Rule::new(Fault::NoBookmarks),
                slow(),
                Rule::new(Fault::Silence),
                slow(),
            ],
            ..Faults::default()
        });
        let expected = Effect {
            delay: second * 2,
            fault: Some(Fault::Silence),
            no_bookmarks: true,
        };
        assert_eq!(switch.effect(&call(Verb::Watch, "nodes")), expected);
    }

    #[test]
    fn the_same_seed_causes_the_same_faults() {
        let fates = |seed| {
            let switch = FaultSwitch::default();
            switch.set(
                Rule::new(Fault::Conflict).chance(0.5),
                StdRng::seed_from_u64(seed),
            );
            (0..64)
                .map(|_| switch.effect(&call(Verb::Patch, "nodes")).fault.is_some())
                .collect::<Vec<_>>()
        };
        assert_eq!(fates(7), fates(7));
        assert_ne!(fates(7), fates(8));
        let happened = fates(7).iter().filter(|happened| **happened).count();
        assert!((16..48).contains(&happened), "{happened} of 64");
    }

    #[test]
    fn a_conflict_affects_only_changes_to_existing_objects() {
        let switch = switch(Rule::new(Fault::Conflict));
        let met = |verb| switch.effect(&call(verb, "nodes")).fault.is_some();
        assert!(met(Verb::Patch) && met(Verb::Update) && met(Verb::Delete));
        assert!(!met(Verb::Get) && !met(Verb::List) && !met(Verb::Watch) && !met(Verb::Create));
    }
}
