//! Against a real cloud: Keystone, Nova, Neutron and Octavia.
//!
//! `SKYDOCK_OPENSTACK_AUTH_URL` (ending in `/v3`), `_USERNAME`, `_PASSWORD` and `_PROJECT` name it, in the domain `Default`. In the
//! project are the network `net` with the subnets `sub` (IPv4) and `sub6` (IPv6), the router `r` between it and the external
//! network `public` (subnets `public-a`, `public-b`), the servers `node0` to `node2` (running; `node0` with a floating IP) and
//! `node3` (stopped).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests, which may fail"
)]

mod instances;
mod load_balancers;
mod routes;
mod upstream;
mod world;
