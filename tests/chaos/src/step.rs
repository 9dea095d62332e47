//! What can happen, one thing at a time.

use std::time::Duration;

use rand::{
    Rng as _, SeedableRng as _,
    rngs::StdRng,
    seq::{IndexedRandom as _, IteratorRandom as _},
};
use skydock_devplane::{Fault, Faults, Rule, Verb};

use crate::USER_AGENT;

/// One thing that happens. One that cannot happen as things are, such as to delete what is not there, does nothing: so
/// that steps can be left out of a sequence, and the rest still makes sense.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the fields are names of nodes and services
pub enum Step {
    /// A machine is started, and its kubelet registers the node, with or without a provider ID. If a Node of an earlier
    /// machine has this name, an operator deletes it first.
    Register { node: &'static str, with_id: bool },
    /// The machine is stopped: the node is silent.
    PowerOff(&'static str),
    /// The machine is started again.
    PowerOn(&'static str),
    /// The kubelet dies, the machine goes on.
    Silence(&'static str),
    /// The kubelet is back.
    Wake(&'static str),
    /// The machine is gone for ever, and its Node stays.
    Vanish(&'static str),
    /// An operator deletes the Node of a machine that is there; its kubelet, if it runs, registers anew.
    DeleteNode(&'static str),
    /// The node is kept out of load balancers, or let in again.
    Exclude { node: &'static str, out: bool },
    /// The machine has another address.
    Readdress(&'static str),
    /// Somebody writes another zone on the node, and takes its region away.
    Relabel(&'static str),
    /// Somebody takes the routes to the node away.
    LoseRoutes(&'static str),
    /// The routes to the node lead nowhere any more.
    Blackhole(&'static str),
    /// Somebody makes a route into the range of Pods.
    StrayRoute { cidr: &'static str, node: Option<&'static str> },
    /// One node after the other falls silent, and the cloud says of every machine that it is gone; later all is back.
    Outage(Duration),
    /// A service is created, of type LoadBalancer.
    Create(&'static str),
    /// A service gets this port.
    Port { service: &'static str, port: u16 },
    /// A service gets another annotation.
    Note { service: &'static str, note: u8 },
    /// A service asks for what the cloud cannot do, or does not any more.
    Refuse { service: &'static str, refuse: bool },
    /// The type becomes LoadBalancer, or ClusterIP.
    Type { service: &'static str, balanced: bool },
    /// A service is deleted.
    Delete(&'static str),
    /// The host is killed, and another one is started after a while.
    Kill { down: Duration },
    /// The host is stopped in order, and another one is started.
    Restart,
    /// The plugin is replaced.
    Swap,
    /// So many calls of the cloud go wrong.
    Cloud { calls: u32 },
    /// The API server goes wrong from now on.
    Api { trouble: ApiTrouble, seed: u64 },
    /// The API server is well again.
    ApiWell,
    /// All watches are cut.
    CutWatches,
    /// The history is forgotten and all watches are cut, so that they cannot go on.
    Compact,
    /// Nothing in this process runs for a while, and then all waits are over at once.
    Suspend(Duration),
    /// The wall clock of the API server jumps against that of the host, forwards or backwards.
    WallClock { hours: i64 },
    /// Nothing happens for a while.
    Wait(Duration),
}

/// How the API server goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiTrouble {
    /// Half of all changes meet a conflict.
    Conflicts,
    /// Half of all requests are too many.
    TooMany,
    /// A third of all requests fail with 500 or 503.
    Errors,
    /// Every request and every event is late.
    Slow,
    /// No request is answered, and watches fall silent.
    Partition,
    /// Every connection is cut.
    Refused,
    /// Half of all changes are made and not answered.
    LostAnswers,
    /// Watches are cut, or expire, at one event in three.
    BrokenWatches,
    /// Events are late, up to seconds, and there are no bookmarks.
    LateEvents,
}

impl ApiTrouble {
    /// All there are.
    pub const ALL: [Self; 9] = [
        Self::Conflicts,
        Self::TooMany,
        Self::Errors,
        Self::Slow,
        Self::Partition,
        Self::Refused,
        Self::LostAnswers,
        Self::BrokenWatches,
        Self::LateEvents,
    ];

    /// The faults of the host's clients.
    #[must_use]
    pub fn faults(self) -> Faults {
        let slow = |longest| Rule::new(Fault::Slow(Duration::ZERO..=Duration::from_millis(longest)));
        let rules = match self {
            Self::Conflicts => vec![Rule::new(Fault::Conflict).chance(0.5)],
            Self::TooMany => vec![Rule::new(Fault::TooManyRequests { retry_after: 1 }).chance(0.5)],
            Self::Errors => {
                vec![Rule::new(Fault::InternalError).chance(0.2), Rule::new(Fault::ServiceUnavailable).chance(0.2)]
            }
            Self::Slow => vec![slow(1500)],
            Self::Partition => vec![Rule::new(Fault::Silence)],
            Self::Refused => vec![Rule::new(Fault::Cut)],
            Self::LostAnswers => vec![Rule::new(Fault::AnswerLost).verbs(&Verb::WRITES).chance(0.5)],
            Self::BrokenWatches => vec![
                Rule::new(Fault::Cut).verbs(&[Verb::Watch]).chance(0.2),
                Rule::new(Fault::Expired).verbs(&[Verb::Watch]).chance(0.2),
            ],
            Self::LateEvents => vec![Rule::new(Fault::NoBookmarks), slow(3000).verbs(&[Verb::Watch])],
        };
        Faults { rules, user_agent: USER_AGENT.to_owned() }
    }
}

/// Names of nodes.
pub(crate) const NODES: [&str; 4] = ["n0", "n1", "n2", "n3"];
/// Names of services.
pub(crate) const SERVICES: [&str; 3] = ["s0", "s1", "s2"];

/// Where routes of others turn up: at the Pod CIDRs of nodes, and around and inside of them.
const STRAYS: [&str; 6] =
    ["10.244.0.0/24", "10.244.1.0/24", "10.244.2.128/25", "10.244.0.0/23", "fd00:10:244:1::/64", "fd00:10:244::/63"];

impl Step {
    /// Any step.
    #[must_use]
    pub fn any(chance: &mut StdRng) -> Self {
        let node = NODES.choose(chance).copied().unwrap_or_default();
        let service = SERVICES.choose(chance).copied().unwrap_or_default();
        match chance.random_range(0..116) {
            0..12 => Self::Register { node, with_id: chance.random() },
            12..15 => Self::PowerOff(node),
            15..18 => Self::PowerOn(node),
            18..22 => Self::Silence(node),
            22..26 => Self::Wake(node),
            26..31 => Self::Vanish(node),
            31..34 => Self::DeleteNode(node),
            34..38 => Self::Exclude { node, out: chance.random() },
            38..40 => Self::Readdress(node),
            40..42 => Self::Relabel(node),
            42..45 => Self::LoseRoutes(node),
            45..47 => Self::Blackhole(node),
            47..50 => {
                let node = Some(node).filter(|_| chance.random());
                Self::StrayRoute { cidr: STRAYS.choose(chance).copied().unwrap_or_default(), node }
            }
            50..52 => Self::Outage(Duration::from_secs(chance.random_range(5..60))),
            52..63 => Self::Create(service),
            63..67 => Self::Port { service, port: chance.random_range(80..90) },
            67..70 => Self::Note { service, note: chance.random() },
            70..73 => Self::Refuse { service, refuse: chance.random() },
            73..80 => Self::Type { service, balanced: chance.random() },
            80..87 => Self::Delete(service),
            87..95 => Self::Kill { down: Duration::from_millis(chance.random_range(2000..10_000)) },
            95..96 => Self::Restart,
            96..97 => Self::Swap,
            97..102 => Self::Cloud { calls: chance.random_range(1..6) },
            102..107 => {
                let trouble = ApiTrouble::ALL.into_iter().choose(chance).unwrap_or(ApiTrouble::Slow);
                Self::Api { trouble, seed: chance.random() }
            }
            107..109 => Self::ApiWell,
            109..110 => Self::CutWatches,
            110..111 => Self::Compact,
            111..113 => Self::Suspend(Duration::from_secs(chance.random_range(1..600))),
            113..114 => Self::WallClock { hours: chance.random_range(-48..48) },
            _ => Self::Wait(Duration::from_secs(chance.random_range(5..30))),
        }
    }

    /// The generator of what this step leaves to chance.
    pub(crate) fn chance(seed: u64) -> StdRng {
        StdRng::seed_from_u64(seed)
    }
}
