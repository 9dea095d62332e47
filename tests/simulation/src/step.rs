//! The steps of a sequence.

use std::time::Duration;

use rand::{
    Rng as _, SeedableRng as _,
    rngs::StdRng,
    seq::{IndexedRandom as _, IteratorRandom as _},
};
use skydock_devplane::{Fault, Faults, Rule, Verb};

use crate::USER_AGENT;

/// One step. A step that is impossible in the current state, for example the deletion of a missing
/// object, does nothing, so that a sequence remains valid if steps are removed.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the fields are names of nodes and services
pub enum Step {
    /// Starts an instance whose kubelet registers the node, with or without a provider ID. If a
    /// Node of a previous instance has this name, an operator deletes it first.
    Register { node: &'static str, with_id: bool },
    /// Stops the instance, so that the kubelet does not report.
    PowerOff(&'static str),
    /// Starts the instance again.
    PowerOn(&'static str),
    /// Stops the kubelet while the instance runs.
    Silence(&'static str),
    /// Starts the kubelet again.
    Wake(&'static str),
    /// Deletes the instance permanently. Its Node remains.
    Vanish(&'static str),
    /// Deletes the Node of an existing instance, like an operator. A running kubelet registers it
    /// again.
    DeleteNode(&'static str),
    /// Excludes the node from load balancers, or includes it again.
    Exclude { node: &'static str, out: bool },
    /// Changes the address of the instance.
    Readdress(&'static str),
    /// Changes the node's zone label and removes its region label, like another client.
    Relabel(&'static str),
    /// Deletes the routes to the node, like another client.
    LoseRoutes(&'static str),
    /// Turns the routes to the node into blackholes.
    Blackhole(&'static str),
    /// Creates a route into the range of Pods, like another client.
    StrayRoute {
        cidr: &'static str,
        node: Option<&'static str>,
    },
    /// Stops all kubelets one after the other while the cloud reports every instance as absent.
    /// Later everything is restored.
    Outage(Duration),
    /// Creates a service of type LoadBalancer.
    Create(&'static str),
    /// Sets the port of a service.
    Port { service: &'static str, port: u16 },
    /// Sets an annotation of a service.
    Note { service: &'static str, note: u8 },
    /// Makes a service request something that the cloud does not support, or stop requesting it.
    Reject { service: &'static str, reject: bool },
    /// Changes the type to LoadBalancer or to ClusterIP.
    Type {
        service: &'static str,
        balanced: bool,
    },
    /// Deletes a service.
    Delete(&'static str),
    /// Kills the host and starts another one after this time.
    Kill { down: Duration },
    /// Stops the host gracefully and starts another one.
    Restart,
    /// Replaces the plugin.
    Swap,
    /// Makes this number of calls of the cloud fail.
    Cloud { calls: u32 },
    /// Makes the API server fail until `ApiWell`.
    Api { trouble: ApiTrouble, seed: u64 },
    /// Ends the failures of the API server.
    ApiWell,
    /// Ends all watches.
    CutWatches,
    /// Compacts the history and ends all watches, so that they cannot be resumed.
    Compact,
    /// Suspends the process for this time, after which all delays end at once.
    Suspend(Duration),
    /// Moves the wall clock of the API server forwards or backwards relative to the host's.
    WallClock { hours: i64 },
    /// Waits.
    Wait(Duration),
}

/// A kind of failure of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiTrouble {
    /// Half of all changes fail with a conflict.
    Conflicts,
    /// Half of all requests fail with "too many requests".
    TooMany,
    /// A third of all requests fail with 500 or 503.
    Errors,
    /// Every request and every event is delayed.
    Slow,
    /// No request is answered, and watches receive nothing.
    Partition,
    /// Every connection is closed.
    Rejected,
    /// Half of all changes are made but not answered.
    LostAnswers,
    /// One in three events ends its watch, or expires it.
    BrokenWatches,
    /// Events are delayed by up to seconds, and there are no bookmarks.
    LateEvents,
}

impl ApiTrouble {
    /// All kinds of failures.
    pub const ALL: [Self; 9] = [
        Self::Conflicts,
        Self::TooMany,
        Self::Errors,
        Self::Slow,
        Self::Partition,
        Self::Rejected,
        Self::LostAnswers,
        Self::BrokenWatches,
        Self::LateEvents,
    ];

    /// Returns the faults for the host's clients.
    #[must_use]
    pub fn faults(self) -> Faults {
        let slow =
            |longest| Rule::new(Fault::Slow(Duration::ZERO..=Duration::from_millis(longest)));
        let rules = match self {
            Self::Conflicts => vec![Rule::new(Fault::Conflict).chance(0.5)],
            Self::TooMany => vec![Rule::new(Fault::TooManyRequests { retry_after: 1 }).chance(0.5)],
            Self::Errors => {
                vec![
                    Rule::new(Fault::InternalError).chance(0.2),
                    Rule::new(Fault::ServiceUnavailable).chance(0.2),
                ]
            }
            Self::Slow => vec![slow(1500)],
            Self::Partition => vec![Rule::new(Fault::Silence)],
            Self::Rejected => vec![Rule::new(Fault::Cut)],
            Self::LostAnswers => vec![
                Rule::new(Fault::AnswerLost)
                    .verbs(&Verb::WRITES)
                    .chance(0.5),
            ],
            Self::BrokenWatches => vec![
                Rule::new(Fault::Cut).verbs(&[Verb::Watch]).chance(0.2),
                Rule::new(Fault::Expired).verbs(&[Verb::Watch]).chance(0.2),
            ],
            Self::LateEvents => vec![
                Rule::new(Fault::NoBookmarks),
                slow(3000).verbs(&[Verb::Watch]),
            ],
        };
        Faults {
            rules,
            user_agent: USER_AGENT.to_owned(),
        }
    }
}

/// The names of nodes.
pub(crate) const NODES: [&str; 4] = ["n0", "n1", "n2", "n3"];
/// The names of services.
pub(crate) const SERVICES: [&str; 3] = ["s0", "s1", "s2"];

/// Destinations of routes of others: the Pod CIDRs of nodes, and ranges around and inside of them.
const STRAYS: [&str; 6] = [
    "10.244.0.0/24",
    "10.244.1.0/24",
    "10.244.2.128/25",
    "10.244.0.0/23",
    "fd00:10:244:1::/64",
    "fd00:10:244::/63",
];

impl Step {
    /// Returns a random step.
    #[must_use]
    pub fn any(chance: &mut StdRng) -> Self {
        let node = NODES.choose(chance).copied().unwrap_or_default();
        let service = SERVICES.choose(chance).copied().unwrap_or_default();
        match chance.random_range(0..116) {
            0..12 => Self::Register {
                node,
                with_id: chance.random(),
            },
            12..15 => Self::PowerOff(node),
            15..18 => Self::PowerOn(node),
            18..22 => Self::Silence(node),
            22..26 => Self::Wake(node),
            26..31 => Self::Vanish(node),
            31..34 => Self::DeleteNode(node),
            34..38 => Self::Exclude {
                node,
                out: chance.random(),
            },
            38..40 => Self::Readdress(node),
            40..42 => Self::Relabel(node),
            42..45 => Self::LoseRoutes(node),
            45..47 => Self::Blackhole(node),
            47..50 => {
                let node = Some(node).filter(|_| chance.random());
                Self::StrayRoute {
                    cidr: STRAYS.choose(chance).copied().unwrap_or_default(),
                    node,
                }
            }
            50..52 => Self::Outage(Duration::from_secs(chance.random_range(5..60))),
            52..63 => Self::Create(service),
            63..67 => Self::Port {
                service,
                port: chance.random_range(80..90),
            },
            67..70 => Self::Note {
                service,
                note: chance.random(),
            },
            70..73 => Self::Reject {
                service,
                reject: chance.random(),
            },
            73..80 => Self::Type {
                service,
                balanced: chance.random(),
            },
            80..87 => Self::Delete(service),
            87..95 => Self::Kill {
                down: Duration::from_millis(chance.random_range(2000..10_000)),
            },
            95..96 => Self::Restart,
            96..97 => Self::Swap,
            97..102 => Self::Cloud {
                calls: chance.random_range(1..6),
            },
            102..107 => {
                let trouble = ApiTrouble::ALL
                    .into_iter()
                    .choose(chance)
                    .unwrap_or(ApiTrouble::Slow);
                Self::Api {
                    trouble,
                    seed: chance.random(),
                }
            }
            107..109 => Self::ApiWell,
            109..110 => Self::CutWatches,
            110..111 => Self::Compact,
            111..113 => Self::Suspend(Duration::from_secs(chance.random_range(1..600))),
            113..114 => Self::WallClock {
                hours: chance.random_range(-48..48),
            },
            _ => Self::Wait(Duration::from_secs(chance.random_range(5..30))),
        }
    }

    /// Returns the random generator for this step.
    pub(crate) fn chance(seed: u64) -> StdRng {
        StdRng::seed_from_u64(seed)
    }
}
