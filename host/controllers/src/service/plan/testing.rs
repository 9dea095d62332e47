//! Values for the tables of the machine.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;
use skydock_cloud::{Ingress, LoadBalancerStatus, Node, NodeSet};
use skydock_kube::{
    api::{Action, ApiError},
    informer::Entry,
    queue::Priority,
};

use super::{
    state::{Phase, Sent, State},
    step::{Attempt, Goal},
};
use crate::{
    objects::kinds::ServiceKind,
    service::{
        Classes,
        selection::{Choice, Fingerprint},
    },
    testing::{service, with},
};

static CLASSES: Classes = Classes {
    named: BTreeSet::new(),
    unnamed: true,
};

/// Nodes that were sent, and others.
pub(super) const OLD: Sent = Sent::Nodes(Fingerprint::of(1));
pub(super) const NEW: Sent = Sent::Nodes(Fingerprint::of(2));

pub(super) const PHASES: [Phase; 10] = [
    Phase::Absent,
    Phase::Present,
    Phase::Ensuring { exists: false },
    Phase::Ensuring { exists: true },
    Phase::Rejected {
        exists: false,
        requested: false,
    },
    Phase::Rejected {
        exists: false,
        requested: true,
    },
    Phase::Rejected {
        exists: true,
        requested: false,
    },
    Phase::Rejected {
        exists: true,
        requested: true,
    },
    Phase::Deleting,
    Phase::Elsewhere,
];

pub(super) fn state(phase: Phase, sent: Sent) -> State {
    State {
        phase,
        sent,
        ..State::new(false)
    }
}

pub(super) fn entry(change: &Value) -> Entry<ServiceKind> {
    Entry::new(with(&service("web"), change))
}

/// Returns an attempt after a change.
pub(super) fn attempt(goal: Goal, entry: &Entry<ServiceKind>) -> Attempt<'_> {
    Attempt {
        goal,
        entry,
        priority: Priority::Change,
        classes: &CLASSES,
    }
}

pub(super) fn nodes(names: &[&str]) -> NodeSet {
    names
        .iter()
        .map(|name| {
            Arc::new(Node {
                name: (*name).to_owned(),
                ..Node::default()
            })
        })
        .collect()
}

/// Returns the nodes of [`NEW`].
pub(super) fn choice(names: &[&str]) -> Choice {
    Choice {
        nodes: nodes(names),
        fingerprint: Fingerprint::of(2),
    }
}

pub(super) fn status(ip: &str) -> LoadBalancerStatus {
    LoadBalancerStatus {
        ingress: vec![Ingress {
            ip: Some(ip.to_owned()),
            ..Ingress::default()
        }],
    }
}

fn action() -> Action {
    Action {
        verb: "patch",
        resource: "services/status".to_owned(),
    }
}

pub(super) fn gone() -> ApiError {
    ApiError::Gone(action())
}

pub(super) fn changed() -> ApiError {
    ApiError::Changed(action())
}

pub(super) fn broken() -> ApiError {
    ApiError::Failed(action(), "down".to_owned())
}

pub(super) fn forbidden() -> ApiError {
    ApiError::Forbidden(action(), "grant it".to_owned())
}

pub(super) fn refused() -> ApiError {
    ApiError::Refused(action(), "by a webhook".to_owned())
}
