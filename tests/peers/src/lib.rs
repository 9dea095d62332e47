//! The official cloud controller managers of OpenStack and AWS, as programs that run against
//! [`skydock_clouds`]. Skydock is measured against them and compared with them.
//!
//! [`Peer::openstack`] and [`Peer::aws`] build them unchanged from the Go modules in
//! `openstack/go.mod` and `aws/go.mod`. [`Peer::command`] runs one with [`Settings`]: tuned, with
//! more workers and without a client rate limit. The content of `--cloud-config` is in
//! [`openstack`] and [`aws`].

#![forbid(unsafe_code)]

mod arguments;
pub mod aws;
pub mod openstack;
mod peer;
mod watched;

pub use arguments::Settings;
pub use peer::Peer;
