//! The whole cloud, without I/O.

mod handle;
mod load_balancers;
mod perform;
mod routes;
mod servers;
mod sim;
mod snapshots;
mod volumes;

use crate::api::calls::Calls;
use crate::failures::Failures;
use crate::history::{History, KEPT, Millis};
use crate::options::Options;
use crate::rate::Used;
use crate::resources::load_balancers::LoadBalancer;
use crate::resources::routes::Route;
use crate::resources::servers::Server;
use crate::resources::snapshots::Snapshot;
use crate::resources::volumes::Volume;
use crate::settings::Settings;

/// The whole cloud: a request and the time go in, an answer comes out.
#[derive(Clone, Debug)]
pub struct Cloud {
    pub(crate) options: Options,
    pub(crate) settings: Settings,
    pub(crate) servers: History<Server>,
    pub(crate) load_balancers: History<LoadBalancer>,
    pub(crate) routes: History<Route>,
    pub(crate) volumes: History<Volume>,
    pub(crate) snapshots: History<Snapshot>,
    pub(crate) failures: Failures,
    pub(crate) calls: Calls,
    /// By how much the cloud's clock is ahead of the given time.
    pub(crate) ahead: Millis,
    used: Used,
}

impl Cloud {
    /// Creates a cloud.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        let mut servers = History::new();
        for number in 1..=u64::from(options.servers) {
            servers.create(0, Server::numbered(number, options));
        }
        Self {
            options: options.clone(),
            settings: options.settings,
            servers,
            load_balancers: History::new(),
            routes: History::new(),
            volumes: History::new(),
            snapshots: History::new(),
            failures: Failures::default(),
            calls: Calls::default(),
            // A list shows the start even if it lags and the cloud has just started.
            ahead: KEPT,
            used: Used::default(),
        }
    }
}

#[cfg(test)]
mod tests;
