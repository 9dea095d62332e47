//! Kubernetes' names that controllers read and write: labels, taints, annotations, the finalizer and event reasons.
//!
//! They are those of `k8s.io/cloud-provider`, unless a comment says otherwise.

/// Taint a kubelet sets at registration; the node controller removes it. Matched by key alone.
pub const TAINT_UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Taint of a node whose machine is stopped (effect NoSchedule, no value).
pub const TAINT_SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// Taint of a node the cluster autoscaler is about to remove.
pub const TAINT_TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// Taint of a node that is given up: its Pods are deleted and their volumes detached (effect NoExecute).
pub const TAINT_OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The value Kubernetes' documentation gives that taint for a machine that is stopped.
pub const OUT_OF_SERVICE_VALUE: &str = "nodeshutdown";

/// The conditions of a node that are read: whether it is ready, and whether it has routes.
pub const NODE_CONDITIONS: [&str; 2] = ["Ready", "NetworkUnavailable"];

/// Instance type, GA label.
pub const LABEL_INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Instance type, beta label.
pub const LABEL_INSTANCE_TYPE_BETA: &str = "beta.kubernetes.io/instance-type";
/// Zone, GA label.
pub const LABEL_ZONE: &str = "topology.kubernetes.io/zone";
/// Zone, beta label.
pub const LABEL_ZONE_BETA: &str = "failure-domain.beta.kubernetes.io/zone";
/// Region, GA label.
pub const LABEL_REGION: &str = "topology.kubernetes.io/region";
/// Region, beta label.
pub const LABEL_REGION_BETA: &str = "failure-domain.beta.kubernetes.io/region";
/// Keeps a node out of load balancers.
pub const LABEL_EXCLUDE_FROM_LB: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Marks a node of the control plane.
pub const LABEL_CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// What the kubelet was given as `--node-ip`.
pub const ANNOTATION_PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";
/// Source ranges of services that do not use `spec.loadBalancerSourceRanges`.
pub const ANNOTATION_SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
/// On a Service: the class under which its load balancer is made, where classes are named, and the UID of the Service, as
/// `CLASS@UID`. The API server drops `spec.loadBalancerClass` when the type changes, and the load balancer is still to be deleted
/// by who made it. Ours.
pub const ANNOTATION_CLASS: &str = "service.skydock.dev/load-balancer-class";
/// Ours: a label selector; of the nodes, only those that it selects are behind the load balancer of the service.
pub const ANNOTATION_NODE_SELECTOR: &str = "service.skydock.dev/node-selector";
/// Names of the additional labels that came from the cloud, with commas between: what is in it may be changed and removed
/// when the cloud changes its mind. Ours.
pub const ANNOTATION_LABELS: &str = "node.skydock.dev/labels";
/// Names of the annotations that came from the cloud, with commas between, as for labels. Ours.
pub const ANNOTATION_ANNOTATIONS: &str = "node.skydock.dev/annotations";
/// The out-of-service taint of this node was set by this host, which removes it when the machine runs again. Ours.
pub const ANNOTATION_OUT_OF_SERVICE: &str = "node.skydock.dev/out-of-service";
/// With `true`, a node whose machine is gone is deleted even while so many are gone that deletion is stopped. Ours.
pub const ANNOTATION_ALLOW_DELETION: &str = "skydock.dev/allow-deletion";

/// Keeps a Service until its load balancer is gone.
pub const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

/// Event reasons.
pub mod reason {
    /// A node was initialised.
    pub const SYNCED: &str = "Synced";
    /// A node cannot be initialised yet. Ours: upstream only logs it.
    pub const FAILED_TO_INITIALIZE: &str = "FailedToInitialize";
    /// A node waits for initialisation under a provider ID that no provider here owns. Ours.
    pub const FOREIGN_PROVIDER_ID: &str = "ForeignProviderID";
    /// A node is deleted, because its machine is gone.
    pub const DELETING_NODE: &str = "DeletingNode";
    /// Deleting a node did not work.
    pub const DELETING_NODE_FAILED: &str = "DeletingNodeFailed";
    /// A node gets no Pod CIDR, because none is left.
    pub const CIDR_NOT_AVAILABLE: &str = "CIDRNotAvailable";
    /// Writing the Pod CIDRs of a node did not work.
    pub const CIDR_ASSIGNMENT_FAILED: &str = "CIDRAssignmentFailed";
    /// A node carries a Pod CIDR that is in no cluster CIDR. Ours: upstream ends the process.
    pub const POD_CIDR_OUT_OF_RANGE: &str = "PodCIDROutOfRange";
    /// Two nodes carry the same Pod CIDR, or parts of one. Ours.
    pub const POD_CIDR_CONFLICT: &str = "PodCIDRConflict";
    /// Somebody else gives Pod CIDRs too. Ours.
    pub const OTHER_CIDR_ALLOCATOR: &str = "OtherCIDRAllocator";
    /// Nodes whose machine is gone are not deleted, because they are too many. Ours.
    pub const NODE_DELETION_STOPPED: &str = "NodeDeletionStopped";
    /// The cloud has been at work on something for long, and has not said that it is done. Ours.
    pub const STILL_IN_PROGRESS: &str = "StillInProgress";
    /// A load balancer is being made or brought up to date.
    pub const ENSURING_LB: &str = "EnsuringLoadBalancer";
    /// A load balancer is as the service asks.
    pub const ENSURED_LB: &str = "EnsuredLoadBalancer";
    /// A load balancer is being deleted.
    pub const DELETING_LB: &str = "DeletingLoadBalancer";
    /// A load balancer is gone.
    pub const DELETED_LB: &str = "DeletedLoadBalancer";
    /// A load balancer got another set of nodes.
    pub const UPDATED_LB: &str = "UpdatedLoadBalancer";
    /// There is no node to put behind a load balancer.
    pub const UNAVAILABLE_LB: &str = "UnAvailableLoadBalancer";
    /// Making or deleting the load balancer of a service failed.
    pub const SYNC_LB_FAILED: &str = "SyncLoadBalancerFailed";
    /// Deleting the load balancer of a service that is gone failed.
    pub const DELETE_LB_FAILED: &str = "DeleteLoadBalancerFailed";
    /// Changing the nodes behind a load balancer failed.
    pub const UPDATE_LB_FAILED: &str = "UpdateLoadBalancerFailed";
    /// A route to a node could not be made.
    pub const FAILED_TO_CREATE_ROUTE: &str = "FailedToCreateRoute";
    /// The routes that there are could not be listed. Ours.
    pub const FAILED_TO_LIST_ROUTES: &str = "FailedToListRoutes";
    /// There are nearly as many routes as may be. Ours.
    pub const ROUTES_NEAR_LIMIT: &str = "RoutesNearLimit";
}

#[cfg(test)]
mod tests {
    /// Ours are those whose comment says so.
    #[test]
    fn every_annotation_and_event_of_our_own_is_on_the_page_for_operators() {
        let page = include_str!("../../../docs/operating.md");
        let mut names = Vec::new();
        let mut ours = false;
        for line in include_str!("constants.rs").lines().map(str::trim_start) {
            if let Some(comment) = line.strip_prefix("///") {
                ours |= comment.contains("Ours");
            } else if let Some((_, value)) = line.strip_prefix("pub const").and_then(|rest| rest.split_once("= ")) {
                names.extend(ours.then(|| format!("`{}`", value.trim_matches(['"', ';']))));
                ours = false;
            }
        }
        assert!(names.contains(&"`NodeDeletionStopped`".to_owned()), "{names:?}");
        let missing: Vec<_> = names.iter().filter(|name| !page.contains(*name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
