//! Clouds on loopback, for tests, benchmarks and people.
//!
//! [`OpenStack`] is OpenStack itself: Keystone, Nova on a fake hypervisor, Neutron, Octavia on pretended appliances, Placement,
//! Glance and MariaDB. [`Aws`] is moto: EC2, both load balancing APIs, IAM, STS and the metadata service of instances. Both are
//! installed and prepared once, into a cache folder, and up in seconds from then on.
//!
//! [`Proxy`] stands before either, counts, and makes it slow, forgetful, short of breath or unreliable, by rules and from a seed.
//!
//! A cloud lives as long as its value: dropping it, or the death of the process that holds it, ends everything it started. Any
//! number of them run side by side; no port is fixed.

#![forbid(unsafe_code)]

mod access_log;
mod aws;
mod cache;
mod daemon;
mod error;
mod http_client;
mod install;
mod openstack;
mod proxy;
mod run;

pub use access_log::{LoggedRequest, count_requests};
pub use aws::{Aws, AwsClient, Keys, Network, NewNetwork, Zone, xml};
pub use daemon::{Cloud, Standing};
pub use error::Error;
pub use openstack::{OpenStack, Project, Server, Service, Session};
pub use proxy::{Call, Fault, Proxy, Rule};
