//! Events of the process itself, on its Lease: who leads, and which plugin serves.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use skydock_cloud::Severity;
use skydock_controllers::events::{Notice, Recorder};
use skydock_plugin::{Plugin, SwapOutcome, SwapReport};
use tokio::sync::broadcast::error::RecvError;

use crate::election::ElectionConfig;

/// `source.component` (C-03).
const SOURCE: &str = "cloud-controller-manager";
/// A new plugin serves.
const SWAPPED: &str = "PluginSwapped";
/// An earlier plugin serves again.
const ROLLED_BACK: &str = "PluginRolledBack";
/// A plugin was not taken into service.
const REFUSED: &str = "PluginRefused";

/// Publishes events on the Lease.
#[derive(Clone)]
pub struct Reporter {
    recorder: Recorder,
    lease: ObjectReference,
}

impl Reporter {
    /// A reporter; without an election the events name the lease that would be held.
    #[must_use]
    pub fn new(recorder: Recorder, election: Option<&ElectionConfig>) -> Self {
        let (namespace, name) = election.map_or(("kube-system", "cloud-controller-manager"), |election| {
            (election.namespace.as_str(), election.name.as_str())
        });
        let lease = ObjectReference {
            api_version: Some("coordination.k8s.io/v1".to_owned()),
            kind: Some("Lease".to_owned()),
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        };
        Self { recorder, lease }
    }

    /// Tells that this instance leads (P-21).
    pub fn leads(&self, identity: &str) {
        self.publish(Severity::Normal, "LeaderElection", format!("{identity} became leader"));
    }

    /// Tells of swaps for ever.
    pub async fn follow(&self, plugin: &Arc<Plugin>) {
        let mut reports = plugin.reports();
        loop {
            match reports.recv().await {
                Ok(report) => self.tell(&report),
                // The log has them all.
                Err(RecvError::Lagged(missed)) => tracing::warn!(missed, "too many swaps: some have no event"),
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn tell(&self, report: &SwapReport) {
        let plugin = &report.plugin;
        match &report.outcome {
            SwapOutcome::Swapped(now) => {
                let message =
                    format!("plugin {plugin}: {} {} serves as generation {}", now.name, now.version, now.number);
                self.publish(Severity::Normal, SWAPPED, message);
            }
            SwapOutcome::RolledBack(now) => {
                let message = format!("plugin {plugin}: generation {} serves again", now.number);
                self.publish(Severity::Warning, ROLLED_BACK, message);
            }
            SwapOutcome::Refused { stage, reason, kept } => {
                let message =
                    format!("plugin {plugin}: generation {kept} goes on; the new file failed at {stage}: {reason}");
                self.publish(Severity::Warning, REFUSED, message);
            }
        }
    }

    fn publish(&self, severity: Severity, reason: &str, message: String) {
        let object = self.lease.clone();
        self.recorder.publish(Notice { source: SOURCE, object, severity, reason: reason.to_owned(), message });
    }
}
