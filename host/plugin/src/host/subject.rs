//! What a call is about.

use std::sync::Arc;

use skydock_cloud::{Node, NodeSet, ObjectKind, ObjectName, Pairs, Service};

use super::{State, notes::Notes};

/// What a running call is about, and what it leaves behind on it.
#[derive(Clone, Default)]
pub(crate) struct Subject {
    pub(super) service: Option<ServiceSubject>,
    pub(super) nodes: NodeSet,
    /// The nodes of the last call about the service that succeeded.
    pub(super) before: Option<NodeSet>,
    /// All that the plugin sees.
    everything: bool,
    /// What is to be written on these objects when the call has ended; none in a call that changes nothing.
    pub(crate) notes: Option<Arc<Notes>>,
}

/// A service, as far as a call needs it.
#[derive(Clone)]
pub(super) struct ServiceSubject {
    pub(super) name: ObjectName,
    pub(super) annotations: Arc<Pairs>,
    /// It is being ensured: what is read for it is watched.
    pub(super) ensured: bool,
}

impl Subject {
    /// A call that asks about nodes.
    pub(crate) fn nodes(nodes: &[Arc<Node>]) -> Self {
        Self { nodes: nodes.into(), ..Self::default() }
    }

    /// A call that asks about a service, or changes what it has in the cloud.
    pub(crate) fn service(service: &Service) -> Self {
        let annotations = Arc::new(service.annotations.clone());
        let service = ServiceSubject { name: ObjectName::service(service), annotations, ensured: false };
        Self { service: Some(service), ..Self::default() }
    }

    /// A call about all that the plugin sees.
    pub(crate) fn everything() -> Self {
        Self { everything: true, ..Self::default() }
    }

    /// With these nodes behind the service, and those before them.
    #[must_use]
    pub(crate) fn with_nodes(mut self, nodes: &NodeSet, before: Option<NodeSet>) -> Self {
        (self.nodes, self.before) = (Arc::clone(nodes), before);
        self
    }

    /// What is read for the service is read again later, and the service ensured again when it has changed.
    #[must_use]
    pub(crate) fn ensured(mut self) -> Self {
        self.service.iter_mut().for_each(|service| service.ensured = true);
        self
    }

    /// With a place for notes.
    #[must_use]
    pub(crate) fn with_notes(mut self) -> Self {
        self.notes = Some(Arc::default());
        self
    }

    /// The object of this name: `NAME` for a node, `NAMESPACE/NAME` for the service.
    fn named(&self, name: &str) -> Option<ObjectName> {
        let service = self.service.as_ref().map(|service| &service.name).filter(|it| it.to_string() == name);
        let node = || self.nodes.iter().find(|node| node.name == name);
        service.cloned().or_else(|| node().map(|node| ObjectName::node(node)))
    }
}

impl State {
    /// An object of the running call, by the name a plugin calls it.
    pub(super) fn named(&self, name: &str) -> Option<ObjectName> {
        if !self.subject.everything {
            return self.subject.named(name);
        }
        match name.split_once('/') {
            Some((namespace, name)) => self.view().object(ObjectKind::Service, namespace, name),
            None => self.view().object(ObjectKind::Node, "", name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_a_call_are_its_nodes_by_name_and_its_service_by_namespace_and_name() {
        let node = |name: &str| Arc::new(Node { name: name.into(), uid: format!("uid-{name}"), ..Node::default() });
        let service = Service { namespace: "a".into(), name: "web".into(), uid: "s".into(), ..Service::default() };
        let subject = Subject::service(&service).with_nodes(&[node("a"), node("web")].into(), None);
        let uid = |name: &str| subject.named(name).map(|object| object.uid);
        assert_eq!((uid("a/web").as_deref(), uid("web").as_deref()), (Some("s"), Some("uid-web")));
        assert_eq!((uid("b/web"), uid("a/a"), uid("b")), (None, None, None));
        assert_eq!(Subject::default().named("a"), None);
    }
}
