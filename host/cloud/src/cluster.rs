//! The trait of the cluster: the part that a provider may see, and what it may write there.

use std::{collections::BTreeMap, fmt, net::IpAddr, sync::Arc};

use async_trait::async_trait;

use crate::{Holder, Node, Service};

/// Kinds of objects that a provider works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // named as in Kubernetes
pub enum ObjectKind {
    Node,
    Service,
}

/// Identifies one Node or one Service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectName {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// `metadata.namespace`; empty for nodes.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

impl ObjectName {
    /// Returns the name of a node.
    #[must_use]
    pub fn node(node: &Node) -> Self {
        Self {
            kind: ObjectKind::Node,
            namespace: String::new(),
            name: node.name.clone(),
            uid: node.uid.clone(),
        }
    }

    /// Returns the name of a Service.
    #[must_use]
    pub fn service(service: &Service) -> Self {
        let Service {
            namespace,
            name,
            uid,
            ..
        } = service;

        Self {
            kind: ObjectKind::Service,
            namespace: namespace.clone(),
            name: name.clone(),
            uid: uid.clone(),
        }
    }
}

/// Formats the name as `NAME` or `NAMESPACE/NAME`.
impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ObjectKind::Node => f.write_str(&self.name),
            ObjectKind::Service => write!(f, "{}/{}", self.namespace, self.name),
        }
    }
}

/// Type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // named as in Kubernetes
pub enum Severity {
    Normal,
    Warning,
}

/// An event that a provider publishes on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEvent {
    /// Object of the event.
    pub object: ObjectName,
    /// Type of the event.
    pub severity: Severity,
    /// Reason in CamelCase.
    pub reason: String,
    /// One sentence for people.
    pub message: String,
}

/// Annotations that a provider wants to have written on an object after a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectAnnotations {
    /// Object to annotate.
    pub object: ObjectName,
    /// Values of the annotations to set; `None` removes the annotation.
    pub annotations: BTreeMap<String, Option<String>>,
}

/// An object other than a Node or Service, which a provider may read if the operator grants it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ForeignObject {
    /// Kind of the object.
    pub kind: ForeignKind,
    /// `metadata.namespace`; empty for a Namespace.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

/// Kinds of objects other than Node and Service that a provider may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // named as in Kubernetes
pub enum ForeignKind {
    Secret,
    ConfigMap,
    Namespace,
}

impl ForeignKind {
    /// Returns `apiVersion` and `kind`, separated by a slash.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "v1/Secret",
            Self::ConfigMap => "v1/ConfigMap",
            Self::Namespace => "v1/Namespace",
        }
    }

    /// Parses the text that [`ForeignKind::as_str`] returns.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Secret, Self::ConfigMap, Self::Namespace]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }
}

/// Formats the object as `KIND NAMESPACE/NAME`, or as `KIND NAME` for a Namespace.
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
    /// The object does not exist.
    #[error("it does not exist")]
    NotThere,
    /// The annotation that would grant the object was written by the provider itself.
    #[error("the annotation that names it was written for the provider")]
    NotGranted,
    /// The API server cannot be reached, or rejected the request.
    #[error("{0}")]
    Unavailable(String),
}

/// An annotation of a Service that grants the object whose name is its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedBy {
    /// The Service that has the annotation.
    pub service: ObjectName,
    /// Key of the annotation.
    pub annotation: String,
}

/// The part of the cluster that a provider may see. All functions except [`Cluster::read`] return
/// cached data without waiting.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// Returns the UID of the namespace `kube-system`; `None` until it is known.
    fn uid(&self) -> Option<String>;

    /// Returns a number that grows when a node or Service changes in a way that is visible here;
    /// `None` until the caches are filled.
    fn revision(&self) -> Option<u64>;

    /// Returns all nodes.
    fn nodes(&self) -> Vec<Arc<Node>>;

    /// Returns the node with this name.
    fn node(&self, name: &str) -> Option<Arc<Node>>;

    /// Returns all Services of type LoadBalancer that Skydock serves, and all Services with the
    /// load balancer finalizer.
    fn services(&self) -> Vec<Arc<Service>>;

    /// Returns the Service with this name, if it is one of [`Cluster::services`].
    fn service(&self, namespace: &str, name: &str) -> Option<Arc<Service>>;

    /// Returns true if there is a Service with this name, of whatever type and class.
    fn has_service(&self, namespace: &str, name: &str) -> bool;

    /// Returns one object as JSON; `None` if it does not exist.
    fn object_json(&self, kind: ObjectKind, namespace: &str, name: &str) -> Option<String>;

    /// Returns the objects of the cluster that have this address. Objects that are not watched are
    /// not known.
    fn holders(&self, address: IpAddr) -> Vec<Holder>;

    /// Returns the objects of the cluster that have this name, in lower case and without a dot at
    /// its end.
    fn named(&self, name: &str) -> Vec<Holder>;

    /// Publishes an event. Events that exceed the rate limit may be dropped.
    fn publish(&self, event: ObjectEvent);

    /// Schedules annotations to be written soon. Writing is retried until it succeeds.
    fn annotate(&self, annotations: ObjectAnnotations);

    /// Reads an object as JSON. With `named_by`, only if that annotation has its name, and someone
    /// other than Skydock wrote it. `reader` is the Service whose load balancer is being ensured:
    /// it is ensured again when the object changes, is created or is deleted.
    ///
    /// # Errors
    /// Returns a [`ReadError`] if the object does not exist or cannot be read. After
    /// [`ReadError::Unavailable`], the reader is not recorded, so this call does not lead to
    /// another `ensure`.
    async fn read(
        &self,
        object: &ForeignObject,
        named_by: Option<&NamedBy>,
        reader: Option<&ObjectName>,
    ) -> Result<String, ReadError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_named_as_kubectl_names_it() {
        let node = Node {
            name: "n1".into(),
            uid: "u1".into(),
            ..Node::default()
        };
        let service = Service {
            namespace: "ns".into(),
            name: "web".into(),
            uid: "u2".into(),
            ..Service::default()
        };
        for (object, shown, kind, uid) in [
            (ObjectName::node(&node), "n1", ObjectKind::Node, "u1"),
            (
                ObjectName::service(&service),
                "ns/web",
                ObjectKind::Service,
                "u2",
            ),
        ] {
            assert_eq!(
                (
                    object.to_string().as_str(),
                    object.kind,
                    object.uid.as_str()
                ),
                (shown, kind, uid)
            );
        }
    }

    #[test]
    fn foreign_kinds_are_written_as_they_are_parsed() {
        for (kind, text, shown) in [
            (ForeignKind::Secret, "v1/Secret", "v1/Secret ns/object"),
            (
                ForeignKind::ConfigMap,
                "v1/ConfigMap",
                "v1/ConfigMap ns/object",
            ),
            (
                ForeignKind::Namespace,
                "v1/Namespace",
                "v1/Namespace object",
            ),
        ] {
            assert_eq!(
                (kind.as_str(), ForeignKind::parse(text)),
                (text, Some(kind))
            );
            let object = ForeignObject {
                kind,
                namespace: "ns".into(),
                name: "object".into(),
            };
            assert_eq!(object.to_string(), shown);
        }
        assert_eq!(ForeignKind::parse("v1/Pod"), None);
    }
}
