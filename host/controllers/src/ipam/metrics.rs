//! Metrics of the controller that allocates Pod CIDRs. `manager/metrics.rs` says how to add one.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

type FloatGauge = Gauge<f64, AtomicU64>;
type Labels = [(&'static str, String); 1];

/// Metrics of the node IPAM controller, by cluster CIDR.
#[derive(Clone)]
pub(crate) struct IpamMetrics {
    allocations: Family<Labels, Counter>,
    releases: Family<Labels, Counter>,
    usage: Family<Labels, FloatGauge>,
    max: Family<Labels, Gauge>,
    tries: Family<Labels, Histogram, fn() -> Histogram>,
}

/// Metrics of the Pod CIDRs of one cluster CIDR.
#[derive(Clone)]
pub(super) struct CidrSetMetrics {
    pub(super) allocations: Counter,
    pub(super) releases: Counter,
    pub(super) usage: FloatGauge,
    pub(super) max: Gauge,
    pub(super) tries: Histogram,
}

impl IpamMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            allocations: Family::default(),
            releases: Family::default(),
            usage: Family::default(),
            max: Family::default(),
            tries: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(1.0, 5.0, 5))
            }),
        };

        registry.register(
            "node_ipam_controller_cidrset_cidrs_allocations",
            "Pod CIDRs that were allocated",
            metrics.allocations.clone(),
        );
        registry.register(
            "node_ipam_controller_cidrset_cidrs_releases",
            "Pod CIDRs that were released",
            metrics.releases.clone(),
        );
        registry.register(
            "node_ipam_controller_cidrset_usage_cidrs",
            "Share of the Pod CIDRs that are allocated, from 0 to 1",
            metrics.usage.clone(),
        );
        registry.register(
            "node_ipam_controller_cidrset_max_cidrs",
            "Number of Pod CIDRs in the cluster CIDR",
            metrics.max.clone(),
        );
        // The misspelled name of upstream, for existing dashboards and alerts.
        registry.register(
            "node_ipam_controller_cirdset_max_cidrs",
            "The same as node_ipam_controller_cidrset_max_cidrs",
            metrics.max.clone(),
        );
        registry.register(
            "node_ipam_controller_cidrset_allocation_tries_per_request",
            "Pod CIDRs checked to find a free one",
            metrics.tries.clone(),
        );

        metrics
    }

    pub(super) fn cidr_set(&self, cluster_cidr: &str) -> CidrSetMetrics {
        let labels = [("clusterCIDR", cluster_cidr.to_owned())];
        CidrSetMetrics {
            allocations: self.allocations.get_or_create_owned(&labels),
            releases: self.releases.get_or_create_owned(&labels),
            usage: self.usage.get_or_create_owned(&labels),
            max: self.max.get_or_create_owned(&labels),
            tries: self.tries.get_or_create_owned(&labels),
        }
    }
}
