//! Clouds on loopback for tests, benchmarks and manual use.
//!
//! [`OpenStack`] is the real OpenStack: Keystone, Nova with a fake hypervisor, Neutron, Octavia
//! with simulated appliances, Cinder with simulated disks, Placement, Glance and MariaDB. [`Aws`] is
//! moto: EC2, both load balancing APIs, IAM, STS and the metadata service of instances. Both are
//! installed and prepared once in a cache folder, and then start within seconds.
//!
//! [`Proxy`] is placed in front of a cloud. It counts requests, and injects delays, stale answers,
//! throttling and errors, according to rules and a seed.
//!
//! A cloud lives as long as its value: when the value is dropped, or the process that holds it
//! ends, everything that it started ends too. Several clouds can run in parallel, because no port
//! is fixed.

#![forbid(unsafe_code)]

mod aws;
mod cache;
mod daemon;
mod error;
mod http_client;
mod install;
mod openstack;
mod operation;
mod proxy;
mod run;

pub use aws::{Aws, AwsClient, Keys, Network, NewNetwork, Zone, xml};
pub use daemon::{Cloud, Standing};
pub use error::Error;
pub use openstack::{LoggedRequest, OpenStack, Project, Server, Service, Session, count_requests};
pub use proxy::{Call, Fault, Proxy, Rule};
