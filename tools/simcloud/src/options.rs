//! How a cloud starts.

use std::net::{Ipv4Addr, SocketAddr};

use crate::settings::Settings;

/// What a cloud has when it starts.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens. Port 0, the default, is any free port.
    pub listen: SocketAddr,
    /// Token of its clients.
    pub token: String,
    /// Number of servers.
    pub servers: u32,
    /// Beginning of the names of these servers; the end is a number.
    pub name_prefix: String,
    /// Its zones; the servers are spread over them.
    pub zones: Vec<String>,
    /// Its only region.
    pub region: String,
    /// What can also be changed later.
    pub settings: Settings,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            token: "simcloud".to_owned(),
            servers: 0,
            name_prefix: "node-".to_owned(),
            zones: ["zone-a", "zone-b", "zone-c"].map(str::to_owned).to_vec(),
            region: "sim".to_owned(),
            settings: Settings::default(),
        }
    }
}
