//! Accepted differences between the embedded plane and Kubernetes, and their reasons.
//!
//! None of them affects the requests of Skydock, kubectl or the tests. The test also fails if a
//! listed difference does not occur.

use serde_json::Value;

use super::{compare::Found, request::Request};

/// An accepted difference.
pub(crate) struct Known {
    /// The difference, and why it is harmless.
    pub(crate) reason: &'static str,
    pub(crate) is: fn(&Request, &Found) -> bool,
}

pub(crate) const KNOWN: &[Known] = &[
    Known {
        reason: "namespaces have no subresources: only the namespace controller, which is played, writes them",
        is: |request, found| {
            let parts: Vec<_> = request.path.split('/').collect();
            matches!(
                parts.as_slice(),
                ["", "api", "v1", "namespaces", _, "status" | "finalize"]
            ) && found.statuses().0 == 404
        },
    },
    Known {
        reason: "pods have no subresources: nothing runs them, so that there is no pod to look at",
        is: |request, _| request.path.ends_with("/pods/a/status"),
    },
    Known {
        reason: "a new status of a Service that does not exist creates no Service: kube-apiserver makes one without addresses, \
                 which nobody can want",
        is: |request, found| {
            request.method == "PUT"
                && request.path.ends_with("/status")
                && is_service(request)
                && found.statuses().0 == 404
        },
    },
    Known {
        reason: "who manages which field is not kept: on a write that changes nothing else, kube-apiserver makes a new version",
        is: |_, found| {
            let only_version =
                |(path, ..): &(String, _, _)| path.ends_with("/metadata/resourceVersion");
            found.statuses() == (200, 200)
                && (found.differences.iter().all(only_version)
                    || events(&found.embedded)
                        .is_some_and(|embedded| Some(embedded) == events(&found.real)))
        },
    },
    Known {
        reason: "nobody is warned of fields that are deprecated or ignored: the text is for people, and the write is the same",
        is: |_, found| {
            let warnings =
                |answer: &Value| answer["warnings"].as_array().cloned().unwrap_or_default();
            let (embedded, mut real) = (warnings(&found.embedded), warnings(&found.real));
            real.retain(|warning| {
                !["deprecated", "ignored"]
                    .iter()
                    .any(|word| warning.to_string().contains(word))
            });
            found
                .differences
                .iter()
                .all(|(path, ..)| path.starts_with("/warnings"))
                && embedded == real
        },
    },
    Known {
        reason: "a Service without a name lacks a name: kube-apiserver tries to give it an address first, and tells of that",
        is: |request, found| {
            request.method == "POST"
                && is_service(request)
                && found.statuses() == (422, 422)
                && request.object().1.is_empty()
        },
    },
];

/// Returns the events of a watch without versions, and without events that then contain no change.
/// Returns `None` for other answers.
fn events(answer: &Value) -> Option<Vec<Value>> {
    let mut events = answer.pointer("/body/events")?.as_array()?.clone();
    for version in events
        .iter_mut()
        .filter_map(|event| event.pointer_mut("/object/metadata/resourceVersion"))
    {
        *version = Value::Null;
    }
    events.dedup_by(|next, last| next["type"] == "MODIFIED" && next["object"] == last["object"]);
    Some(events)
}

fn is_service(request: &Request) -> bool {
    request.object().0 == "services"
}
