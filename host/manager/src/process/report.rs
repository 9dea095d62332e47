//! Events of the process, published on its Lease: leadership, and changes of the plugin.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use skydock_cloud::reason;
use skydock_kube::{
    election::ElectionConfig,
    events::{EventType, Notice, Recorder},
};
use skydock_sandbox::{Names, Plugin, SwapOutcome, SwapReport};
use tokio::sync::broadcast::error::RecvError;

/// `source.component` (C-03).
const SOURCE: &str = "cloud-controller-manager";

/// A publisher of events on the Lease.
#[derive(Clone)]
pub struct Reporter {
    recorder: Recorder,
    lease: ObjectReference,
}

impl Reporter {
    /// Creates a reporter. Without leader election, the events refer to the default Lease.
    #[must_use]
    pub fn new(recorder: Recorder, election: Option<&ElectionConfig>) -> Self {
        let (namespace, name) = election
            .map_or(("kube-system", "cloud-controller-manager"), |election| {
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

    /// Publishes that this instance leads (P-21).
    pub fn leads(&self, identity: &str) {
        self.publish(
            EventType::Normal,
            reason::LEADER_ELECTION,
            format!("{identity} became leader"),
        );
    }

    /// Publishes changes of the plugin. Ends when the plugin is dropped.
    pub async fn follow(&self, plugin: &Arc<Plugin>) {
        let mut reports = plugin.reports();
        loop {
            match reports.recv().await {
                Ok(report) => self.publish_report(&report),
                // The log has all of them.
                Err(RecvError::Lagged(missed)) => {
                    tracing::warn!(missed, "too many plugin changes: some have no event");
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn publish_report(&self, report: &SwapReport) {
        let plugin = &report.plugin;
        match &report.outcome {
            SwapOutcome::Swapped(now) => {
                let mut message = format!(
                    "Plugin {plugin}: {} {} is in service as generation {}",
                    now.name, now.version, now.number
                );

                if !now.added.is_empty() {
                    let added: Names = now.added.iter().collect();
                    message = format!("{message}; it needs in addition: {added}");
                }

                self.publish(EventType::Normal, reason::PLUGIN_SWAPPED, message);
            }
            SwapOutcome::Rejected {
                stage,
                reason,
                kept,
            } => {
                let message = format!(
                    "Plugin {plugin}: the new plugin or configuration was rejected at stage {stage}, and generation {kept} \
                     stays in service: {reason}"
                );

                self.publish(EventType::Warning, reason::PLUGIN_REJECTED, message);
            }
        }
    }

    fn publish(&self, event_type: EventType, reason: &str, message: String) {
        let object = self.lease.clone();
        self.recorder.publish(Notice {
            source: SOURCE,
            object,
            event_type,
            reason: reason.to_owned(),
            message,
        });
    }
}
