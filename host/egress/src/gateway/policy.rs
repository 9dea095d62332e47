//! The current rules, each with its HTTP client.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use http::HeaderName;
use skydock_cloud::PerKind;
use skydock_credentials::Secret;
use tokio::time::Instant;

use super::{CONNECTIONS, Connections, Settings, Surroundings, wire::Wire};
use crate::{
    limits::hosts::lock,
    network::dial::Connector,
    observe::metrics::RuleMetrics,
    rules::{
        config::{ConfigErrors, ConfigWarning},
        grant::{self, Grant},
        rule::Target,
    },
};

/// Maximum number of headers of a rule that are logged.
const MOST_TOLD: usize = 32;

/// The current rules.
#[derive(Debug)]
pub(super) struct Policy {
    /// Rules that are in force.
    grants: Vec<Arc<Wired>>,
    /// Rules in report-only mode.
    trials: Vec<Arc<Wired>>,
    /// SHA-256 of the component.
    pub(super) digest: Arc<str>,
    /// When a denial by a rule in report-only mode was last logged.
    pub(super) reported: Mutex<Option<Instant>>,
    pub(super) warnings: Vec<ConfigWarning>,
}

/// A rule with its HTTP clients. Rules do not share connections, since the address of a connection
/// is not checked again when it is reused. Kinds of calls do not share them either, since each has
/// its share of the plugin's connections.
#[derive(Debug)]
pub(super) struct Wired {
    pub(super) grant: Grant,
    pub(super) wires: PerKind<Wire>,
    pub(super) metrics: Arc<RuleMetrics>,
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
        plugin: &Arc<str>,
        settings: &Settings,
        surroundings: &Surroundings,
        connections: &Connections,
        before: Option<&Self>,
    ) -> Result<Self, ConfigErrors> {
        let grants = grant::compile(settings)?;
        let warnings = grant::warnings(&grants);

        let wired = |grant: Grant| {
            // A rule that connects to the same servers in the same way keeps its open connections.
            let same = |other: &&Arc<Wired>| {
                other.grant.name == grant.name
                    && other.grant.to == grant.to
                    && other.grant.limits == grant.limits
                    && other.grant.pin == grant.pin
                    && other.grant.connects_like(&grant)
            };

            let wires = match before
                .and_then(|before| before.grants.iter().chain(&before.trials).find(same))
            {
                Some(other) => other.wires.clone(),
                None => {
                    let Surroundings {
                        resolver,
                        closed,
                        metrics,
                        ..
                    } = surroundings.clone();
                    let connector = Connector::new(
                        &grant,
                        resolver,
                        closed,
                        (connections.clone(), CONNECTIONS),
                        metrics,
                    );

                    let idle = usize::from(grant.limits.concurrency);
                    let exact = grant.to.exact().is_some();
                    PerKind::of(|kind| Wire::new(connector.of(kind), idle, exact))
                }
            };

            let metrics = surroundings.metrics.of_rule(plugin, &grant.name);
            Arc::new(Wired {
                grant,
                wires,
                metrics: Arc::new(metrics),
                told: Mutex::default(),
            })
        };

        let all = grants.into_iter().map(wired);
        let (trials, grants) = all.partition(|wired: &Arc<Wired>| wired.grant.report_only);

        Ok(Self {
            grants,
            trials,
            digest: settings.digest.as_str().into(),
            reported: Mutex::default(),
            warnings,
        })
    }

    /// Returns the secrets of all credentials, each once.
    pub(super) fn secrets(&self) -> Vec<Secret> {
        // Rules in report-only mode send nothing.
        let credentials = self
            .grants
            .iter()
            .filter_map(|it| it.grant.credential.as_ref());

        let mut all = Vec::new();
        for secret in credentials.flat_map(|it| it.secrets()) {
            if !all.contains(&secret) {
                all.push(secret);
            }
        }

        all
    }

    /// Returns the rules in force that allow a target, in order.
    pub(super) fn for_target(&self, target: &Target) -> Vec<&Arc<Wired>> {
        permitting(&self.grants, target)
    }

    /// Returns the rules in report-only mode that allow a target, in order.
    pub(super) fn trials_for(&self, target: &Target) -> Vec<&Arc<Wired>> {
        permitting(&self.trials, target)
    }
}

fn permitting<'a>(all: &'a [Arc<Wired>], target: &Target) -> Vec<&'a Arc<Wired>> {
    all.iter()
        .filter(|wired| wired.grant.to.permits(target))
        .collect()
}
