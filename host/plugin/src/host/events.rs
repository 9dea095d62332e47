//! `skydock:provider/events`: events on the objects of the running call.

use std::sync::Arc;

use skydock_cloud::{
    Node, NodeSet, ObjectEvent, ObjectName, Service, Severity,
    text::{SENTENCE, shown},
};

use super::State;
use crate::bindings::skydock::provider::events;

/// Events of one call. Kubernetes' own limiter lets 25 pass per object; a batch has up to 1000 objects.
const MAX_PER_CALL: u32 = 1000;

/// Bytes of a reason: Kubernetes' own limit.
const MAX_REASON: usize = 128;

/// What a call is about: events may go to these objects.
#[derive(Clone, Default)]
pub(crate) struct Objects {
    service: Option<ObjectName>,
    pub(super) nodes: NodeSet,
}

impl Objects {
    pub(crate) fn nodes(nodes: &[Arc<Node>]) -> Self {
        Self { service: None, nodes: nodes.into() }
    }

    pub(crate) fn service(service: &Service, nodes: &NodeSet) -> Self {
        Self { service: Some(ObjectName::service(service)), nodes: Arc::clone(nodes) }
    }

    /// The object of this name: `NAME` for a node, `NAMESPACE/NAME` for the service.
    fn named(&self, name: &str) -> Option<ObjectName> {
        let service = self.service.as_ref().filter(|service| service.to_string() == name);
        let node = || self.nodes.iter().find(|node| node.name == name);
        service.cloned().or_else(|| node().map(|node| ObjectName::node(node)))
    }
}

impl events::Host for State {
    fn publish(&mut self, name: String, severity: events::Severity, reason: String, message: String) -> bool {
        let Some(object) = self.objects.named(&name) else { return false };
        let Some(cluster) = self.cluster() else { return false };
        if !is_reason(&reason) || self.events >= MAX_PER_CALL {
            return false;
        }
        self.events += 1;
        let severity = match severity {
            events::Severity::Normal => Severity::Normal,
            events::Severity::Warning => Severity::Warning,
        };
        cluster.publish(ObjectEvent { object, severity, reason, message: shown(&message, SENTENCE).into_owned() });
        true
    }
}

/// CamelCase, and not too long.
fn is_reason(text: &str) -> bool {
    text.len() <= MAX_REASON
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_a_call_are_its_nodes_by_name_and_its_service_by_namespace_and_name() {
        let node = |name: &str| Arc::new(Node { name: name.into(), uid: format!("uid-{name}"), ..Node::default() });
        let service = Service { namespace: "a".into(), name: "web".into(), uid: "s".into(), ..Service::default() };
        let objects = Objects::service(&service, &[node("a"), node("web")].into());
        let uid = |name: &str| objects.named(name).map(|object| object.uid);
        assert_eq!((uid("a/web").as_deref(), uid("web").as_deref()), (Some("s"), Some("uid-web")));
        assert_eq!((uid("b/web"), uid("a/a"), uid("b")), (None, None, None));
        assert_eq!(Objects::default().named("a"), None);
    }

    #[test]
    fn a_reason_is_camel_case() {
        let long = "A".repeat(129);
        let table = [
            ("AddressTaken", true),
            ("A", true),
            ("", false),
            ("taken", false),
            ("Address taken", false),
            (&long, false),
        ];
        for (text, expected) in table {
            assert_eq!(is_reason(text), expected, "{text}");
        }
    }
}
