//! What a provider may see of the cluster, and say in it.

use std::{fmt, sync::Arc};

use crate::{Node, Service};

/// Kinds of objects a provider works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Kubernetes' own words
pub enum ObjectKind {
    Node,
    Service,
}

/// Names one node or one service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectName {
    /// What it is.
    pub kind: ObjectKind,
    /// Empty for nodes.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

impl ObjectName {
    /// Of a node.
    #[must_use]
    pub fn node(node: &Node) -> Self {
        Self { kind: ObjectKind::Node, namespace: String::new(), name: node.name.clone(), uid: node.uid.clone() }
    }

    /// Of a service.
    #[must_use]
    pub fn service(service: &Service) -> Self {
        let Service { namespace, name, uid, .. } = service;
        Self { kind: ObjectKind::Service, namespace: namespace.clone(), name: name.clone(), uid: uid.clone() }
    }
}

/// `NAME` or `NAMESPACE/NAME`.
impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ObjectKind::Node => f.write_str(&self.name),
            ObjectKind::Service => write!(f, "{}/{}", self.namespace, self.name),
        }
    }
}

/// How loud an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Kubernetes' own words
pub enum Severity {
    Normal,
    Warning,
}

/// An event that a provider publishes on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEvent {
    /// On what.
    pub object: ObjectName,
    /// How loud.
    pub severity: Severity,
    /// CamelCase.
    pub reason: String,
    /// One sentence.
    pub message: String,
}

/// The cluster as a provider may see it: read from caches, never waits.
pub trait Cluster: Send + Sync {
    /// All nodes.
    fn nodes(&self) -> Vec<Arc<Node>>;

    /// The node of this name.
    fn node(&self, name: &str) -> Option<Arc<Node>>;

    /// All services of type LoadBalancer this host serves.
    fn services(&self) -> Vec<Arc<Service>>;

    /// The service of this name, if it is one of [`Cluster::services`].
    fn service(&self, namespace: &str, name: &str) -> Option<Arc<Service>>;

    /// One object as JSON.
    fn object_json(&self, kind: ObjectKind, namespace: &str, name: &str) -> Option<String>;

    /// Publishes an event; it may be dropped when there are too many.
    fn publish(&self, event: ObjectEvent);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_named_as_kubectl_names_it() {
        let node = Node { name: "n1".into(), uid: "u1".into(), ..Node::default() };
        let service = Service { namespace: "ns".into(), name: "web".into(), uid: "u2".into(), ..Service::default() };
        for (object, shown, kind, uid) in [
            (ObjectName::node(&node), "n1", ObjectKind::Node, "u1"),
            (ObjectName::service(&service), "ns/web", ObjectKind::Service, "u2"),
        ] {
            assert_eq!((object.to_string().as_str(), object.kind, object.uid.as_str()), (shown, kind, uid));
        }
    }
}
