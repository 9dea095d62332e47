//! The current rules, each with its HTTP client.

use std::{collections::BTreeSet, sync::Arc};

use http::HeaderName;
use parking_lot::Mutex;
use skydock_cloud::PerKind;
use skydock_credentials::Secret;

use super::{GatewayDependencies, http_client::HttpClient};
use crate::{
    limits::connections::Connections,
    network::dial::Connector,
    observe::{metrics::RuleMetrics, report_only_log::ReportOnlyLog},
    rules::{
        compiled::{self, CompiledRule},
        config::{ConfigErrors, ConfigWarning},
        settings::Settings,
    },
    target::Target,
};

/// Maximum number of headers of a rule that are logged.
const MAX_LOGGED: usize = 32;

/// The current rules.
#[derive(Debug)]
pub(super) struct Policy {
    /// Rules that are in force.
    rules: Vec<Arc<RuleClient>>,
    /// Rules in report-only mode.
    report_only_rules: Vec<Arc<RuleClient>>,
    /// SHA-256 of the component.
    pub(super) digest: Arc<str>,
    /// What was logged of denials by rules in report-only mode.
    pub(super) report_only_log: Mutex<ReportOnlyLog>,
    pub(super) warnings: Vec<ConfigWarning>,
}

/// A rule with its HTTP clients. Rules do not share connections, since the address of a connection
/// is not checked again when it is reused. Kinds of calls do not share them either, since each has
/// its share of the plugin's connections.
#[derive(Debug)]
pub(super) struct RuleClient {
    pub(super) rule: CompiledRule,
    pub(super) clients: PerKind<HttpClient>,
    pub(super) metrics: Arc<RuleMetrics>,
    /// Headers of the plugin that were not sent, each of which is logged once.
    logged: Mutex<BTreeSet<String>>,
}

impl RuleClient {
    /// Logs headers of the plugin that are not sent, each name once, and the reason.
    pub(super) fn log_removed(&self, plugin: &str, removed: Vec<HeaderName>, reason: &str) {
        for name in removed {
            let mut logged = self.logged.lock();
            // A plugin can invent names.
            if logged.len() < MAX_LOGGED && logged.insert(name.as_str().to_owned()) {
                tracing::warn!(
                    target: "egress",
                    plugin,
                    rule = &*self.rule.name,
                    header = name.as_str(),
                    "a header of the plugin is not sent: {reason}"
                );
            }
        }
    }
}

impl Policy {
    pub(super) fn new(
        plugin: &Arc<str>,
        settings: &Settings,
        dependencies: &GatewayDependencies,
        connections: &Arc<Connections>,
        before: Option<&Self>,
    ) -> Result<Self, ConfigErrors> {
        let rules = compiled::compile(settings)?;
        let warnings = compiled::warnings(&rules);

        let client = |rule: CompiledRule| {
            let clients = match before.and_then(|before| before.connected_like(&rule)) {
                Some(other) => other.clients.clone(),
                None => clients(&rule, dependencies, connections),
            };
            let metrics = dependencies.metrics.of_rule(plugin, &rule.name);

            Arc::new(RuleClient {
                rule,
                clients,
                metrics: Arc::new(metrics),
                logged: Mutex::default(),
            })
        };
        let all = rules.into_iter().map(client);
        let (report_only_rules, rules) =
            all.partition(|client: &Arc<RuleClient>| client.rule.report_only);

        Ok(Self {
            rules,
            report_only_rules,
            digest: settings.digest.as_str().into(),
            report_only_log: Mutex::default(),
            warnings,
        })
    }

    /// Returns a rule that connects to the same servers in the same way, so that its open
    /// connections can be kept.
    fn connected_like(&self, rule: &CompiledRule) -> Option<&Arc<RuleClient>> {
        let mut all = self.rules.iter().chain(&self.report_only_rules);
        all.find(|other| {
            other.rule.name == rule.name
                && other.rule.to == rule.to
                && other.rule.limits == rule.limits
                && other.rule.pin == rule.pin
                && other.rule.connects_like(rule)
        })
    }

    /// Returns the secrets of all credentials, each once.
    pub(super) fn secrets(&self) -> Vec<Secret> {
        // Rules in report-only mode send nothing.
        let credentials = self
            .rules
            .iter()
            .filter_map(|it| it.rule.credential.as_ref());

        let mut all = Vec::new();
        for secret in credentials.flat_map(|it| it.secrets()) {
            if !all.contains(&secret) {
                all.push(secret);
            }
        }

        all
    }

    /// Returns the rules in force that allow a target, in order.
    pub(super) fn for_target(&self, target: &Target) -> Vec<&Arc<RuleClient>> {
        permitting(&self.rules, target)
    }

    /// Returns the rules in report-only mode that allow a target, in order.
    pub(super) fn report_only_for(&self, target: &Target) -> Vec<&Arc<RuleClient>> {
        permitting(&self.report_only_rules, target)
    }
}

/// Creates the HTTP clients of a rule.
fn clients(
    rule: &CompiledRule,
    dependencies: &GatewayDependencies,
    connections: &Arc<Connections>,
) -> PerKind<HttpClient> {
    let connector = Connector::new(
        rule,
        Arc::clone(&dependencies.resolver),
        Arc::clone(&dependencies.closed),
        Arc::clone(connections),
        dependencies.metrics.clone(),
    );

    let idle = usize::from(rule.limits.concurrency);
    let exact = rule.to.exact().is_some();
    PerKind::of(|kind| HttpClient::new(connector.of(kind), idle, exact))
}

fn permitting<'a>(all: &'a [Arc<RuleClient>], target: &Target) -> Vec<&'a Arc<RuleClient>> {
    all.iter()
        .filter(|client| client.rule.to.allows(target))
        .collect()
}
