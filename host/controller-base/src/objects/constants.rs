//! Names of Kubernetes that controllers read and write: labels, taints, annotations and the
//! finalizer. Event reasons are in [`skydock_cloud::reason`].
//!
//! They are those of `k8s.io/cloud-provider`, unless a comment says otherwise.

/// Taint that a kubelet sets at registration and the node controller removes. Matched by key alone.
pub const TAINT_UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Taint of a node whose instance is stopped (effect NoSchedule, no value).
pub const TAINT_SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// Taint of a node that the cluster autoscaler is about to remove.
pub const TAINT_TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// Taint of a node that is out of service: its Pods are deleted and their volumes detached (effect
/// NoExecute).
pub const TAINT_OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// Value of that taint for a stopped instance, as in Kubernetes' documentation.
pub const OUT_OF_SERVICE_VALUE: &str = "nodeshutdown";

/// Conditions of a node that are read: whether it is ready, and whether it has routes.
pub(crate) const NODE_CONDITIONS: [&str; 2] = ["Ready", "NetworkUnavailable"];

/// Instance type, GA label.
pub const LABEL_INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Instance type, beta label.
pub const LABEL_INSTANCE_TYPE_BETA: &str = "beta.kubernetes.io/instance-type";
/// Zone, GA label.
pub use skydock_cloud::LABEL_ZONE;
/// Zone, beta label.
pub const LABEL_ZONE_BETA: &str = "failure-domain.beta.kubernetes.io/zone";
/// Region, GA label.
pub const LABEL_REGION: &str = "topology.kubernetes.io/region";
/// Region, beta label.
pub const LABEL_REGION_BETA: &str = "failure-domain.beta.kubernetes.io/region";
/// Label that excludes a node from load balancers.
pub const LABEL_EXCLUDE_FROM_LB: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Label of control plane nodes.
pub const LABEL_CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// Annotation with the value of the kubelet's flag `--node-ip`.
pub const ANNOTATION_PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";
/// Annotation with the source ranges of Services that do not use `spec.loadBalancerSourceRanges`.
pub const ANNOTATION_SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
/// Annotation on a Service: the class with which its load balancer was created and the UID of the
/// Service, as `CLASS@UID`; not set if the Service has no class. The API server drops
/// `spec.loadBalancerClass` when the type of a Service changes, but the implementation that created
/// the load balancer still has to delete it. Ours.
pub const ANNOTATION_CLASS: &str = "service.skydock.dev/load-balancer-class";
/// Annotation on a Service: a label selector for the nodes behind its load balancer. Ours.
pub const ANNOTATION_NODE_SELECTOR: &str = "service.skydock.dev/node-selector";
/// Annotation on a node: names of the additional labels that came from the cloud, separated by
/// commas. Only these labels are updated and removed when the cloud's answer changes. Ours.
pub const ANNOTATION_LABELS: &str = "node.skydock.dev/labels";
/// Annotation on a node: names of the annotations that came from the cloud, separated by commas,
/// like those of labels. Ours.
pub const ANNOTATION_ANNOTATIONS: &str = "node.skydock.dev/annotations";
/// Annotation on a node: Skydock has set the out-of-service taint, and removes it when the instance
/// runs again. Ours.
pub const ANNOTATION_OUT_OF_SERVICE: &str = "node.skydock.dev/out-of-service";
/// Annotation on a node: if `true`, the node is deleted when its instance does not exist, even
/// while deletion is stopped because too many instances are missing. Ours.
pub const ANNOTATION_ALLOW_DELETION: &str = "skydock.dev/allow-deletion";

/// Finalizer that keeps a Service until its load balancer is deleted.
pub const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

#[cfg(test)]
mod tests {
    /// Constants that are not upstream's have `Ours` in their comment.
    #[test]
    fn every_own_annotation_is_documented() {
        let page = include_str!("../../../../docs/operating.md");
        let mut names = Vec::new();

        let mut ours = false;
        for line in include_str!("constants.rs").lines().map(str::trim_start) {
            if let Some(comment) = line.strip_prefix("///") {
                ours |= comment.contains("Ours");
            } else if let Some((_, value)) = line
                .strip_prefix("pub const")
                .and_then(|rest| rest.split_once("= "))
            {
                names.extend(ours.then(|| format!("`{}`", value.trim_matches(['"', ';']))));
                ours = false;
            }
        }
        assert!(
            names.contains(&"`node.skydock.dev/labels`".to_owned()),
            "{names:?}"
        );

        let missing: Vec<_> = names.iter().filter(|name| !page.contains(*name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
