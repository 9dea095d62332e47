//! The official cloud controller managers of OpenStack and AWS, as programs of this machine, run against
//! [`skydock_clouds`]: what Skydock is measured beside, and compared with.
//!
//! [`Peer::openstack`] and [`Peer::aws`] build them, unchanged, from the Go modules that `openstack/go.mod` and `aws/go.mod` name;
//! [`Peer::command`] runs one as [`Settings`] say, tuned: with more workers, and with no limit in its client. What is in its
//! `--cloud-config` is in [`openstack`] and [`aws`].

#![forbid(unsafe_code)]

mod arguments;
pub mod aws;
pub mod openstack;
mod peer;
mod watched;

pub use arguments::Settings;
pub use peer::Peer;
