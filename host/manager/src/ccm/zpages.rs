//! What the process tells about its flags (`/flagz`) and its configuration (`/configz`).

use std::sync::Arc;

use serde_json::{Value, json};
use skydock_serving::Zpages;

use super::overview::Sources;
use crate::{config::Config, process::telemetry};

/// The name of upstream's configuration, and its version.
const GROUP: &str = "cloudcontrollermanager.config.k8s.io";
const VERSION: &str = "v1alpha1";

/// Returns the pages for this configuration.
pub(super) fn zpages(config: &Config, sources: Arc<Sources>) -> Zpages {
    Zpages {
        flags: config.effective_flags.clone(),
        configuration: json!({ GROUP: configuration(config) }),
        version: env!("CARGO_PKG_VERSION"),
        rust_version: env!("CARGO_PKG_RUST_VERSION"),
        overview: Box::new(move || sources.overview()),
        set_verbosity: telemetry::set_verbosity,
    }
}

/// Returns the flags as upstream's `CloudControllerManagerConfiguration`, as far as Skydock has its
/// fields.
fn configuration(config: &Config) -> Value {
    let text = |flag: &str| {
        config
            .effective_flags
            .get(flag)
            .cloned()
            .unwrap_or_default()
    };
    let is_set = |flag: &str| text(flag) == "true";
    let list = |flag: &str| {
        let text = text(flag);
        let items = text.split(',').filter(|item| !item.is_empty());
        items.map(str::to_owned).collect::<Vec<_>>()
    };

    json!({
        "kind": "CloudControllerManagerConfiguration",
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "Generic": {
            "ClientConnection": { "Kubeconfig": text("kubeconfig") },
            "Controllers": list("controllers"),
            "LeaderElection": {
                "LeaderElect": is_set("leader-elect"),
                "LeaseDuration": text("leader-elect-lease-duration"),
                "RenewDeadline": text("leader-elect-renew-deadline"),
                "RetryPeriod": text("leader-elect-retry-period"),
                "ResourceLock": "leases",
                "ResourceName": text("leader-elect-resource-name"),
                "ResourceNamespace": text("leader-elect-resource-namespace"),
            },
        },
        "KubeCloudShared": {
            "AllocateNodeCIDRs": is_set("allocate-node-cidrs"),
            "CIDRAllocatorType": text("cidr-allocator-type"),
            "CloudProvider": { "Name": config.plugin.name, "CloudConfigFile": text("cloud-config") },
            "ClusterCIDR": text("cluster-cidr"),
            "ClusterName": text("cluster-name"),
            "ConfigureCloudRoutes": is_set("configure-cloud-routes"),
            "NodeMonitorPeriod": text("node-monitor-period"),
            "RouteReconciliationPeriod": text("route-reconciliation-period"),
            "UseServiceAccountCredentials": is_set("use-service-account-credentials"),
        },
        "NodeController": { "ConcurrentNodeSyncs": text("concurrent-node-syncs") },
        "ServiceController": { "ConcurrentServiceSyncs": text("concurrent-service-syncs") },
        "NodeStatusUpdateFrequency": text("node-status-update-frequency"),
        "Webhook": { "Webhooks": [] },
    })
}
