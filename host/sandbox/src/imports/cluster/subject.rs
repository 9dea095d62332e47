//! The objects that a call is about.

use std::sync::Arc;

use skydock_cloud::{Node, NodeSet, ObjectKind, ObjectName, Pairs, Service};

use super::annotations::CallAnnotations;
use crate::{grants::owned::Owned, imports::State};

/// The objects that the current call is about, and the annotations that it sets on them.
#[derive(Clone, Default)]
pub(crate) struct Subject {
    pub(super) service: Option<ServiceSubject>,
    pub(super) nodes: NodeSet,
    /// The nodes of the last successful call for the Service.
    pub(super) before: Option<NodeSet>,
    /// The call is about all objects that the plugin sees.
    everything: bool,
    /// The annotations to write on these objects after the call; none in a call that changes
    /// nothing.
    pub(crate) annotations: Option<Arc<CallAnnotations>>,
}

/// The parts of a Service that a call needs.
#[derive(Clone)]
pub(super) struct ServiceSubject {
    pub(super) name: ObjectName,
    pub(super) annotations: Arc<Pairs>,
    /// The Service is being ensured: objects that are read for it are watched.
    pub(super) ensured: bool,
}

impl Subject {
    /// Creates the subject of a call about nodes.
    pub(crate) fn nodes(nodes: &[Arc<Node>]) -> Self {
        Self {
            nodes: nodes.into(),
            ..Self::default()
        }
    }

    /// Creates the subject of a call that reads or changes a Service's load balancer.
    pub(crate) fn service(service: &Service) -> Self {
        let annotations = Arc::new(service.annotations.clone());
        let service = ServiceSubject {
            name: ObjectName::service(service),
            annotations,
            ensured: false,
        };

        Self {
            service: Some(service),
            ..Self::default()
        }
    }

    /// Creates the subject of a call about all objects that the plugin sees.
    pub(crate) fn everything() -> Self {
        Self {
            everything: true,
            ..Self::default()
        }
    }

    /// Sets the nodes of the load balancer, and those of the last successful call.
    #[must_use]
    pub(crate) fn with_nodes(mut self, nodes: &NodeSet, before: Option<NodeSet>) -> Self {
        self.nodes = Arc::clone(nodes);
        self.before = before;
        self
    }

    /// Marks the Service as being ensured: it is ensured again when an object that was read for it
    /// changes.
    #[must_use]
    pub(crate) fn ensured(mut self) -> Self {
        self.service
            .iter_mut()
            .for_each(|service| service.ensured = true);
        self
    }

    /// Allows the call to set annotations.
    #[must_use]
    pub(crate) fn with_annotations(mut self) -> Self {
        self.annotations = Some(Arc::default());
        self
    }

    /// Returns the namespace of the Service that the call is about.
    pub(crate) fn namespace(&self) -> Option<String> {
        let service = self.service.as_ref();
        service.map(|service| service.name.namespace.clone())
    }

    /// Returns the UID of the Service that the call is about.
    pub(super) fn service_uid(&self) -> Option<&str> {
        self.service
            .as_ref()
            .map(|service| service.name.uid.as_str())
    }

    /// Returns the object with this name: `NAME` for a node that the plugin may see,
    /// `NAMESPACE/NAME` for the Service.
    fn named(&self, name: &str, owned: &Owned) -> Option<ObjectName> {
        let service = self
            .service
            .as_ref()
            .map(|service| &service.name)
            .filter(|it| it.to_string() == name);

        // Calls about routes and load balancers are also about nodes of other providers.
        let is_it = |node: &&Arc<Node>| node.name == name && owned.may_see(node);
        let node = || self.nodes.iter().find(is_it);

        service
            .cloned()
            .or_else(|| node().map(|node| ObjectName::node(node)))
    }
}

impl State {
    /// Returns an object of the current call by the plugin's name for it.
    pub(super) fn named(&self, name: &str) -> Option<ObjectName> {
        if !self.subject.everything {
            return self.subject.named(name, &self.owned);
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
    use crate::grants::permissions::Permissions;

    // Holds: SEC-06
    #[test]
    fn finds_nodes_by_name_and_services_by_namespaced_name() {
        let node = |name: &str, id: Option<&str>| {
            Arc::new(Node {
                name: name.into(),
                uid: format!("uid-{name}"),
                provider_id: id.map(Into::into),
                ..Node::default()
            })
        };
        let owned = Owned::with(&["metal://"], &[], Permissions::unrestricted());
        let service = Service {
            namespace: "a".into(),
            name: "web".into(),
            uid: "s".into(),
            ..Service::default()
        };
        let nodes = [
            node("a", Some("aws:///i-1")),
            node("new", None),
            node("web", Some("metal://1")),
        ];
        let subject = Subject::service(&service).with_nodes(&nodes.into(), None);
        let uid = |name: &str| subject.named(name, &owned).map(|object| object.uid);

        assert_eq!(
            (uid("a/web").as_deref(), uid("web").as_deref()),
            (Some("s"), Some("uid-web"))
        );
        assert_eq!(uid("new").as_deref(), Some("uid-new"));
        assert_eq!((uid("b/web"), uid("a/a"), uid("b")), (None, None, None));
        assert_eq!(uid("a"), None, "a node of another provider");
        assert_eq!(Subject::default().named("new", &owned), None);
    }
}
