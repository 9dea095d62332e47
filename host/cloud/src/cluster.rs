//! What a provider may see of the cluster, and say in it.

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;

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

/// What a provider wants noted on an object when a call has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// On what.
    pub object: ObjectName,
    /// Annotations to set, or to remove.
    pub annotations: BTreeMap<String, Option<String>>,
}

/// An object beyond nodes and services, which a provider may read if the operator grants it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ForeignObject {
    /// What it is.
    pub kind: ForeignKind,
    /// Empty for a namespace.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

/// Kinds of such objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // Kubernetes' own words
pub enum ForeignKind {
    Secret,
    ConfigMap,
    Namespace,
}

impl ForeignKind {
    /// As in `apiVersion` and `kind`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "v1/Secret",
            Self::ConfigMap => "v1/ConfigMap",
            Self::Namespace => "v1/Namespace",
        }
    }

    /// From what [`ForeignKind::as_str`] writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Secret, Self::ConfigMap, Self::Namespace].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// `KIND NAMESPACE/NAME`.
impl fmt::Display for ForeignObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ForeignKind::Namespace => write!(f, "{} {}", self.kind.as_str(), self.name),
            _ => write!(f, "{} {}/{}", self.kind.as_str(), self.namespace, self.name),
        }
    }
}

/// Why an object was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It does not exist.
    #[error("it does not exist")]
    NotThere,
    /// The API server could not be asked, or refused.
    #[error("{0}")]
    Unavailable(String),
}

/// The cluster as a provider may see it: all but [`Cluster::read`] from caches, without waiting.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// UID of the namespace `kube-system`, once it is known.
    fn uid(&self) -> Option<String>;

    /// Grows when a node or a service changes in what it shows; none while not all of them are known.
    fn revision(&self) -> Option<u64>;

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

    /// Has annotations written, soon, and again until it has worked.
    fn note(&self, note: Note);

    /// Reads an object as JSON. `reader`: the service whose load balancer is being ensured; when the object changes it is
    /// ensured again.
    ///
    /// # Errors
    /// [`ReadError`]. Nothing is remembered of one that failed.
    async fn read(&self, object: &ForeignObject, reader: Option<&ObjectName>) -> Result<String, ReadError>;
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
