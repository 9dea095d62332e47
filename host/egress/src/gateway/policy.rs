//! The rules in force, each with its client.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::{Settings, Surroundings, wire::Wire};
use crate::{
    config::{self, ConfigErrors},
    dial::Connector,
    grant::Grant,
    rule::Target,
};

/// The rules in force.
#[derive(Debug)]
pub(super) struct Policy {
    grants: Vec<Arc<Wired>>,
    pub(super) warnings: Vec<String>,
}

/// A rule with the client that sends its requests. A rule has connections of its own: a connection that is used again is not
/// checked again.
#[derive(Debug)]
pub(super) struct Wired {
    pub(super) grant: Grant,
    pub(super) wire: Wire,
}

impl Policy {
    pub(super) fn new(
        settings: &Settings,
        surroundings: &Surroundings,
        connections: &Arc<Semaphore>,
        before: Option<&Self>,
    ) -> Result<Self, ConfigErrors> {
        let grants = config::compile(&settings.rules, &settings.credentials, &settings.nat64)?;
        let warnings = config::warnings(&grants);
        let wired = |grant: Grant| {
            let same = |other: &&Arc<Wired>| {
                other.grant.name == grant.name
                    && other.grant.to == grant.to
                    && other.grant.limits == grant.limits
                    && other.grant.pin == grant.pin
                    && other.grant.connects_like(&grant)
            };
            let wire = match before.and_then(|before| before.grants.iter().find(same)) {
                Some(other) => other.wire.clone(),
                None => {
                    let Surroundings { resolver, closed, metrics } = surroundings.clone();
                    let connector = Connector::new(&grant, resolver, closed, connections.clone(), metrics);
                    Wire::new(connector, usize::from(grant.limits.concurrency))
                }
            };
            Arc::new(Wired { grant, wire })
        };
        Ok(Self { grants: grants.into_iter().map(wired).collect(), warnings })
    }

    /// The rules that permit a target, in their order.
    pub(super) fn for_target(&self, target: &Target) -> Vec<&Arc<Wired>> {
        self.grants.iter().filter(|wired| wired.grant.to.permits(target)).collect()
    }
}
