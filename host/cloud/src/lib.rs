//! What a cloud is, as Kubernetes' controllers see it: nodes and services going in, instances and load balancers coming
//! out, and the ways a cloud can fail.
//!
//! This crate is the door between `skydock-controllers`, which know Kubernetes and no cloud, and whatever implements
//! [`CloudProvider`], which knows a cloud and no Kubernetes client. It does no I/O and depends on no runtime.
//!
//! The types follow the plugin contract (`wit/`) one to one; the contract's documentation is the authority on meaning.

#![forbid(unsafe_code)]

mod cluster;
mod error;
mod info;
mod instance;
mod load_balancer;
mod node;
mod provider;
mod route;
mod service;
pub mod text;

pub use cluster::{
    Cluster, ForeignKind, ForeignObject, Note, ObjectEvent, ObjectKind, ObjectName, ReadError, Severity,
};
pub use error::{CloudError, Retry};
pub use info::{Capability, ProviderInfo};
pub use instance::{Instance, Presence, Zone};
pub use load_balancer::{Ingress, IpMode, LoadBalancerStatus, PortStatus};
pub use node::{AddressKind, Node, NodeAddress, NodeSet, Taint, TaintEffect};
pub use provider::{Answers, CloudProvider};
pub use route::{NewRoute, Route};
pub use service::{IpFamily, IpFamilyPolicy, Service, ServicePort, TrafficPolicy, Transport};

use std::collections::BTreeMap;

/// Labels or annotations. Ordered, so that what is derived from them is the same each time.
pub type Pairs = BTreeMap<String, String>;
