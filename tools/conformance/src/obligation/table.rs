//! All obligations.

use super::{
    Held::{self, Checked, Host, Untestable},
    Obligation,
};
use crate::Check;

const fn of(id: &'static str, held: Held) -> Obligation {
    Obligation { id, held }
}

/// Skydock's answer to an answer that violates the contract.
const REJECTS: Held = Host("rejects the answer; the check `answers` reports it");

/// What only changes in the cloud show.
const NEEDS_CLOUD: Held =
    Untestable("the plugin's own cloud is needed to see what it does; use a scenario");

/// All obligations, in the order of the files of the contract.
pub const OBLIGATIONS: &[Obligation] = &[
    of("cache-key", Host("sets nothing beyond the limits")),
    of("cache-loading", Host("changes nothing then")),
    of("annotation-limits", Host("returns false beyond the limits")),
    of("annotation-prefix", Host("returns false for other keys")),
    of(
        "annotation-hint",
        Untestable(
            "a host that stops in between is needed, and the plugin's own cloud; use a scenario",
        ),
    ),
    of("reads-repeatable", Checked(Check::Repeatable)),
    of("wait-in-time", Checked(Check::Deadlines)),
    of(
        "retire-cause",
        Untestable("only the plugin knows its state; `no-memory` shows what follows from it"),
    ),
    of("event-object", Host("rejects events on other objects")),
    of("borrowed-nodes", Checked(Check::Answers)),
    of("absent-certain", Checked(Check::RejectingCloud)),
    of("provider-id-own", REJECTS),
    of("provider-id-size", REJECTS),
    of("labels-valid", REJECTS),
    of("lists-limited", REJECTS),
    of("check-in-order", Checked(Check::Order)),
    of("check-each", Checked(Check::Order)),
    of("check-answers", Checked(Check::Answers)),
    of("describe-in-order", Checked(Check::Order)),
    of("describe-lookup", Checked(Check::Lookup)),
    of("lb-again", Checked(Check::EnsureAgain)),
    of("lb-no-wait", Checked(Check::NoWait)),
    of("lb-no-gap", NEEDS_CLOUD),
    of("lb-each-step", NEEDS_CLOUD),
    of("lb-own", NEEDS_CLOUD),
    of("lb-unreadable", NEEDS_CLOUD),
    of("lb-choice", NEEDS_CLOUD),
    of("lb-unmet", NEEDS_CLOUD),
    of("lb-elsewhere", NEEDS_CLOUD),
    of("get-changes-nothing", Checked(Check::EnsureAgain)),
    of("ensure-complete", Checked(Check::EnsureAgain)),
    of("ensure-without-nodes", Checked(Check::Empty)),
    of(
        "update-only-nodes",
        Untestable("the plugin's own cloud is needed to see what has changed; use a scenario"),
    ),
    of("update-missing", Checked(Check::UpdateMissing)),
    of(
        "delete-everything",
        Untestable("the plugin's own cloud is needed to see what is left; use a scenario"),
    ),
    of("delete-twice", Checked(Check::DeleteTwice)),
    of("maintain-delay", Host("limits the delay")),
    of("no-memory", Checked(Check::NoMemory)),
    of("any-instance", Checked(Check::TwoInstances)),
    of("no-trap", Checked(Check::NoTrap)),
    of("limits-cpu", Checked(Check::Deadlines)),
    of("limits-clock", Checked(Check::Deadlines)),
    of("limits-memory", Checked(Check::Flat)),
    of("limits-handles", Checked(Check::Flat)),
    of("limits-request", Host("ends the call")),
    of("limits-size", Checked(Check::Answers)),
    of("limits-log", Host("drops the other lines")),
    of("concurrent-calls", Checked(Check::TwoInstances)),
    of("info-valid", Checked(Check::Info)),
    of("info-prefixes", Checked(Check::Info)),
    of("info-same-name", Host("keeps the plugin in service")),
    of("info-stable", Checked(Check::InfoStable)),
    of("info-quiet", Checked(Check::NoEarlyRequest)),
    of("configure-each", Checked(Check::Configure)),
    of("configure-quiet", Checked(Check::NoEarlyRequest)),
    of("configure-checks", Checked(Check::Garbage)),
    of(
        "configure-where",
        Untestable("formats of configurations differ, and not all have lines"),
    ),
    of("configure-unquoted", Checked(Check::GarbageUnquoted)),
    of(
        "configure-unseen",
        Host("gives it no network, cluster or cache"),
    ),
    of("list-stable", Checked(Check::RoutesAgain)),
    of(
        "list-own",
        Untestable("the plugin's own cloud is needed to create routes of others; use a scenario"),
    ),
    of("list-token", REJECTS),
    of("create-in-order", Checked(Check::RoutesAgain)),
    of("create-again", Checked(Check::RoutesAgain)),
    of("delete-in-order", Checked(Check::RoutesAgain)),
    of("delete-again", Checked(Check::RoutesAgain)),
    of("any-object", Checked(Check::Unusual)),
    of("not-found-certain", Checked(Check::RejectingCloud)),
    of("invalid-own", Checked(Check::ErrorCase)),
    of("error-case", Checked(Check::ErrorCase)),
    of("error-text", Checked(Check::ErrorText)),
    of("retry-delay", Host("limits the delay")),
    of("addresses-valid", REJECTS),
    of("status-limited", REJECTS),
    of("status-complete", Checked(Check::EnsureAgain)),
    of("imports-granted", Checked(Check::Component)),
    of("locate-in-order", Checked(Check::Order)),
];
