//! All obligations.

use super::{
    Held::{Checked, Host, Untestable},
    Obligation,
};
use crate::Check;

const fn of(
    id: &'static str,
    file: &'static str,
    quote: &'static str,
    held: super::Held,
) -> Obligation {
    Obligation {
        id,
        file,
        quote,
        held,
    }
}

/// Skydock's answer to an answer that violates the contract.
const REJECTS: super::Held = Host("rejects the answer; the check `answers` reports it");

/// All obligations, in the order of the files of the contract.
pub const OBLIGATIONS: &[Obligation] = &[
    of(
        "cache-key",
        "host",
        "keys of 1 to 256 bytes, values of at most 64 KiB, 8 MiB in total;",
        Host("sets nothing beyond the limits"),
    ),
    of(
        "cache-loading",
        "host",
        "During `configure` and `info`, the store is empty and cannot be changed.",
        Host("changes nothing then"),
    ),
    of(
        "annotation-limits",
        "host",
        "at most 16 annotations in a call, and the last value of a key counts.",
        Host("returns false beyond the limits"),
    ),
    of(
        "annotation-prefix",
        "host",
        "`key` must have one of the plugin's `annotation-prefixes`, and the value has at most 4 KiB;",
        Host("returns false for other keys"),
    ),
    of(
        "annotation-hint",
        "host",
        "what must be found again belongs in the cloud, and an annotation is only a hint.",
        Untestable(
            "a host that stops in between is needed, and the plugin's own cloud; use a scenario",
        ),
    ),
    of(
        "wait-in-time",
        "host",
        "A function that waits for the cloud returns `in-progress` before that.",
        Checked(Check::Deadlines),
    ),
    of(
        "retire",
        "host",
        "for work that cannot be stopped, or state that cannot be trusted.",
        Untestable("only the plugin knows its state; `no-memory` shows what follows from it"),
    ),
    of(
        "event-object",
        "host",
        "other objects are rejected (false).",
        Host("rejects events on other objects"),
    ),
    of(
        "borrowed-nodes",
        "host",
        "an instance that keeps the handle beyond its call is ended.",
        Checked(Check::Answers),
    ),
    of(
        "absent-certain",
        "instances",
        "Never return this as a guess, or after a failed or empty query.",
        Checked(Check::RefusedCloud),
    ),
    of(
        "provider-id-own",
        "instances",
        "it must have one of the plugin's prefixes;",
        REJECTS,
    ),
    of(
        "provider-id-size",
        "instances",
        "at most 512 bytes.",
        REJECTS,
    ),
    of("labels-valid", "instances", "a valid label value.", REJECTS),
    of(
        "lists-limited",
        "instances",
        "Value of `status.addresses`, in this order; at most 64.",
        REJECTS,
    ),
    of(
        "check-in-order",
        "instances",
        "Returns one element for each node, in the same order;",
        Checked(Check::Order),
    ),
    of(
        "check-each",
        "instances",
        "an element that fails does not affect the others.",
        Checked(Check::Order),
    ),
    of(
        "check-answers",
        "instances",
        "The outer error is for a call that fails as a whole.",
        Checked(Check::Answers),
    ),
    of(
        "describe-in-order",
        "instances",
        "Returns one element for each node, in the same order, like `check`.",
        Checked(Check::Order),
    ),
    of(
        "describe-lookup",
        "instances",
        "Look for the instance by `provider-id` first, then by name, labels or addresses.",
        Checked(Check::Lookup),
    ),
    of(
        "lb-again",
        "load-balancers",
        "Every function may be called again with the same arguments, also after an answer was lost, and must then lead to the same result.",
        Checked(Check::EnsureAgain),
    ),
    of(
        "lb-no-wait",
        "load-balancers",
        "No function waits for the cloud to finish: long operations return `in-progress`.",
        Checked(Check::NoWait),
    ),
    of(
        "get-changes-nothing",
        "load-balancers",
        "or none if it does not exist. Changes nothing.",
        Checked(Check::EnsureAgain),
    ),
    of(
        "ensure-complete",
        "load-balancers",
        "Returns its complete status.",
        Checked(Check::EnsureAgain),
    ),
    of(
        "ensure-without-nodes",
        "load-balancers",
        "with these nodes as its targets (there may be none).",
        Checked(Check::Empty),
    ),
    of(
        "update-only-nodes",
        "load-balancers",
        "Sets these nodes as the targets of the load balancer, and changes nothing else.",
        Untestable("the plugin's own cloud is needed to see what has changed; use a scenario"),
    ),
    of(
        "update-missing",
        "load-balancers",
        "Returns `not-found` if the load balancer does not exist.",
        Checked(Check::UpdateMissing),
    ),
    of(
        "delete-everything",
        "load-balancers",
        "Deletes the load balancer and everything that was created for it, including partially created resources.",
        Untestable("the plugin's own cloud is needed to see what is left; use a scenario"),
    ),
    of(
        "delete-twice",
        "load-balancers",
        "Succeeds if nothing exists.",
        Checked(Check::DeleteTwice),
    ),
    of(
        "maintain-delay",
        "maintenance",
        "the host limits them to between 10 s and 24 hours.",
        Host("limits the delay"),
    ),
    of(
        "no-memory",
        "plugin",
        "a plugin must not keep anything in memory that it cannot find again in the cloud, in the cluster's objects or in `cache`.",
        Checked(Check::NoMemory),
    ),
    of(
        "any-instance",
        "plugin",
        "Instances are created and dropped at any time:",
        Checked(Check::TwoInstances),
    ),
    of(
        "no-trap",
        "plugin",
        "A call that exceeds one ends at once, together with its instance;",
        Checked(Check::NoTrap),
    ),
    of(
        "limits-cpu",
        "plugin",
        "2 s of CPU time, of the plugin's code and of what the host does for it during the call.",
        Checked(Check::Deadlines),
    ),
    of(
        "limits-clock",
        "plugin",
        "30 s on the clock, or 120 s for a function that may change the cloud:",
        Checked(Check::Deadlines),
    ),
    of(
        "limits-memory",
        "plugin",
        "128 MiB of memory an instance, and 1 GiB for all instances of the plugin together.",
        Checked(Check::Flat),
    ),
    of(
        "limits-handles",
        "plugin",
        "1024 handles of host resources (requests, bodies, streams, pollables) for all instances together.",
        Checked(Check::Flat),
    ),
    of(
        "limits-size",
        "plugin",
        "8 MiB of arguments and answer, measured in the host's memory.",
        Checked(Check::Answers),
    ),
    of(
        "limits-log",
        "plugin",
        "100 log lines and 16 KiB of log a second.",
        Host("drops the other lines"),
    ),
    of(
        "concurrent",
        "plugin",
        "Up to 36 calls run at a time, each in its own instance:",
        Checked(Check::TwoInstances),
    ),
    of(
        "info-valid",
        "plugin",
        "lower-case letters, digits and dashes, at most 63.",
        Checked(Check::Info),
    ),
    of(
        "info-prefixes",
        "plugin",
        "at least one if `instances` is exported.",
        Checked(Check::Info),
    ),
    of(
        "info-same-name",
        "plugin",
        "A plugin is only replaced by a plugin of the same name.",
        Host("keeps the plugin in service"),
    ),
    of(
        "info-stable",
        "plugin",
        "Read once per generation.",
        Checked(Check::InfoStable),
    ),
    of(
        "info-quiet",
        "plugin",
        "It cannot call the cloud; the restrictions described at `configure` apply here too.",
        Checked(Check::NoEarlyRequest),
    ),
    of(
        "configure-each",
        "plugin",
        "It does this for each instance, and an instance handles one call at a time.",
        Checked(Check::Configure),
    ),
    of(
        "configure-quiet",
        "plugin",
        "It must check it and cannot call the cloud.",
        Checked(Check::NoEarlyRequest),
    ),
    of(
        "configure-checks",
        "plugin",
        "An error (`invalid`) keeps the generation from going into service;",
        Checked(Check::Garbage),
    ),
    of(
        "configure-where",
        "plugin",
        "its text states file, line and reason.",
        Untestable("formats of configurations differ, and not all have lines"),
    ),
    of(
        "configure-unquoted",
        "plugin",
        "name the field, never quote the value.",
        Checked(Check::GarbageUnquoted),
    ),
    of(
        "configure-unseen",
        "plugin",
        "A plugin that is being configured is not in service and may never be.",
        Host("gives it no network, cluster or cache"),
    ),
    of(
        "list-stable",
        "routes",
        "Lists all routes of this cluster, including those that lead nowhere, page by page:",
        Checked(Check::RoutesAgain),
    ),
    of(
        "list-own",
        "routes",
        "Routes that belong to others are not listed.",
        Untestable("the plugin's own cloud is needed to create routes of others; use a scenario"),
    ),
    of(
        "list-token",
        "routes",
        "at most 4 KiB; none after the last page.",
        REJECTS,
    ),
    of(
        "routes-in-order",
        "routes",
        "Returns one result for each route, in the same order.",
        Checked(Check::RoutesAgain),
    ),
    of(
        "create-again",
        "routes",
        "A route that exists already is a success.",
        Checked(Check::RoutesAgain),
    ),
    of(
        "delete-again",
        "routes",
        "A route that does not exist is a success.",
        Checked(Check::RoutesAgain),
    ),
    of(
        "any-object",
        "types",
        "Records contain the fields of the Kubernetes objects that providers read, under their Kubernetes names.",
        Checked(Check::Unusual),
    ),
    of(
        "not-found-certain",
        "types",
        "Never use it if the cloud could not be asked.",
        Checked(Check::RefusedCloud),
    ),
    of(
        "error-case",
        "types",
        "The host derives retry, delay, event and metric from the case alone, never from the text.",
        Checked(Check::ErrorCase),
    ),
    of(
        "error-text",
        "types",
        "Texts are for people: one sentence, without secrets.",
        Checked(Check::ErrorText),
    ),
    of(
        "retry-delay",
        "types",
        "The host limits it to between 100 ms and 1 hour.",
        Host("limits the delay"),
    ),
    of(
        "addresses-valid",
        "types",
        "IPv4 or IPv6 address as text for the two IP kinds, otherwise a DNS name; at most 253 bytes.",
        REJECTS,
    ),
    of(
        "status-limited",
        "types",
        "At most 64. Empty means that the load balancer exists and does not have an address yet.",
        REJECTS,
    ),
    of(
        "status-complete",
        "types",
        "it replaces the current one.",
        Checked(Check::EnsureAgain),
    ),
    of(
        "imports-granted",
        "types",
        "Only the host creates it; a plugin only reads it.",
        Checked(Check::Component),
    ),
    of(
        "reads-repeatable",
        "instances",
        "It runs, or starts, or the cloud is not sure: the host does nothing.",
        Checked(Check::Repeatable),
    ),
    of(
        "locate-in-order",
        "zones",
        "one element for each node, in the same order.",
        Checked(Check::Order),
    ),
];
