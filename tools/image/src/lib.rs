//! Writes images of containers as archives with an [OCI image
//! layout](https://github.com/opencontainers/image-spec/blob/main/image-layout.md), which
//! containerd, Podman, Skopeo and Docker 25 import. It needs no daemon and no base image, and the
//! same files always result in the same digest.
//!
//! [`skydock()`] is the content of Skydock's own image: the only place that says what is in it.
//! [`with_shell`] adds a shell. [`plugin()`] is an image with plugins that are not in Skydock's.

#![forbid(unsafe_code)]

mod archive;
mod busybox;
mod files;
mod plugin;
mod skydock;

pub use archive::{Layer, write};
pub use files::Image;
pub use plugin::plugin;
pub use skydock::{PROGRAM, PROVIDERS, links, skydock, with_shell};
