//! The current rules, each with its HTTP client.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use http::HeaderName;
use tokio::sync::Semaphore;

use super::{CONNECTIONS, Settings, Surroundings, wire::Wire};
use crate::{
    config::ConfigErrors,
    dial::Connector,
    grant::{self, Grant},
    hosts::lock,
    rule::Target,
};

/// Maximum number of headers of a rule that are logged.
const MOST_TOLD: usize = 32;

/// The current rules.
#[derive(Debug)]
pub(super) struct Policy {
    grants: Vec<Arc<Wired>>,
    pub(super) warnings: Vec<String>,
}

/// A rule with its HTTP client. Rules do not share connections, since the address of a connection
/// is not checked again when it is reused.
#[derive(Debug)]
pub(super) struct Wired {
    pub(super) grant: Grant,
    pub(super) wire: Wire,
    /// Headers of the plugin that were not sent, each of which is logged once.
    told: Mutex<BTreeSet<String>>,
}

impl Wired {
    /// Logs headers of the plugin that are not sent, each name once.
    pub(super) fn tell(&self, plugin: &str, removed: Vec<HeaderName>) {
        for name in removed {
            let mut told = lock(&self.told);
            // A plugin can invent names.
            if told.len() < MOST_TOLD && told.insert(name.as_str().to_owned()) {
                tracing::warn!(
                    target: "egress",
                    plugin,
                    rule = &*self.grant.name,
                    header = name.as_str(),
                    "a header of the plugin is not sent beside the credential of the rule: if the cloud needs it, add it to \
                     `headers` of the rule"
                );
            }
        }
    }
}

impl Policy {
    pub(super) fn new(
        settings: &Settings,
        surroundings: &Surroundings,
        connections: &Arc<Semaphore>,
        before: Option<&Self>,
    ) -> Result<Self, ConfigErrors> {
        let grants = grant::compile(settings)?;
        let warnings = grant::warnings(&grants);
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
                    let Surroundings {
                        resolver,
                        closed,
                        metrics,
                    } = surroundings.clone();
                    let connector = Connector::new(
                        &grant,
                        resolver,
                        closed,
                        (connections.clone(), CONNECTIONS),
                        metrics,
                    );
                    Wire::new(connector, usize::from(grant.limits.concurrency))
                }
            };
            Arc::new(Wired {
                grant,
                wire,
                told: Mutex::default(),
            })
        };
        Ok(Self {
            grants: grants.into_iter().map(wired).collect(),
            warnings,
        })
    }

    /// Returns the rules that allow a target, in order.
    pub(super) fn for_target(&self, target: &Target) -> Vec<&Arc<Wired>> {
        self.grants
            .iter()
            .filter(|wired| wired.grant.to.permits(target))
            .collect()
    }
}
