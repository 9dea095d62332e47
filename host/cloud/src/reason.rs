//! Reasons of events. A reason tells people, alerts and scripts who says what: only Skydock
//! publishes its own, and a provider cannot use them, or those of Kubernetes' other components.
//!
//! A reason is a line of `reasons!`. If it has `Ours` in its comment, `docs/operating.md` needs a
//! row about it under "Events". Controllers publish through `controller::context` of
//! `skydock-controller-base`; what they say about a Service is an `Event` in `attempt/event.rs` of
//! `skydock-service-controller`.

/// Declares constants, and a list of all their values.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*

        /// The reasons that Skydock uses.
        const SKYDOCK: &[&str] = &[$($text),*];
    };
}

// They are those of `k8s.io/cloud-provider` and client-go, unless a comment says otherwise.
reasons! {
    /// A node was initialized.
    SYNCED = "Synced";
    /// A node cannot be initialized yet. Ours: upstream only logs it.
    FAILED_TO_INITIALIZE = "FailedToInitialize";
    /// A node waits for initialization, but no provider here owns its provider ID. Ours.
    FOREIGN_PROVIDER_ID = "ForeignProviderID";
    /// Two nodes have the same provider ID. Ours.
    DUPLICATE_PROVIDER_ID = "DuplicateProviderID";
    /// Two nodes have the same internal address. Ours.
    DUPLICATE_NODE_ADDRESS = "DuplicateNodeAddress";
    /// The cloud does not know the instance of a node that is ready. Ours.
    INSTANCE_NOT_FOUND = "InstanceNotFound";
    /// A node that is not ready has no provider ID, so that nobody can find out whether its instance
    /// exists. Ours.
    MISSING_PROVIDER_ID = "MissingProviderID";
    /// A node is being deleted because its instance does not exist.
    DELETING_NODE = "DeletingNode";
    /// Deleting a node failed.
    DELETING_NODE_FAILED = "DeletingNodeFailed";
    /// A node does not get a Pod CIDR because none is left.
    CIDR_NOT_AVAILABLE = "CIDRNotAvailable";
    /// Writing the Pod CIDRs of a node failed.
    CIDR_ASSIGNMENT_FAILED = "CIDRAssignmentFailed";
    /// A node has a Pod CIDR that is not in any cluster CIDR. Ours: upstream ends the process.
    POD_CIDR_OUT_OF_RANGE = "PodCIDROutOfRange";
    /// The Pod CIDRs of two nodes are the same or overlap. Ours.
    POD_CIDR_CONFLICT = "PodCIDRConflict";
    /// Another component allocates Pod CIDRs too. Ours.
    OTHER_CIDR_ALLOCATOR = "OtherCIDRAllocator";
    /// Nodes whose instance does not exist are not deleted because they are too many. Ours.
    NODE_DELETION_STOPPED = "NodeDeletionStopped";
    /// The serving certificate of a kubelet was approved. Ours.
    SERVING_CERTIFICATE_APPROVED = "ServingCertificateApproved";
    /// The cloud does not confirm a request for the serving certificate of a kubelet, or a kubelet
    /// does not create such requests. Ours.
    SERVING_CERTIFICATE_NOT_APPROVED = "ServingCertificateNotApproved";
    /// The cloud does not say where the volume of a PersistentVolume can be used. Ours.
    VOLUME_NOT_LABELED = "VolumeNotLabeled";
    /// A volume is being created for a claim. As csi-provisioner, like the following.
    PROVISIONING = "Provisioning";
    /// A claim has got its volume.
    PROVISIONING_SUCCEEDED = "ProvisioningSucceeded";
    /// The volume of a claim could not be created.
    PROVISIONING_FAILED = "ProvisioningFailed";
    /// The volume of a PersistentVolume could not be deleted.
    VOLUME_FAILED_DELETE = "VolumeFailedDelete";
    /// A volume is being expanded. As csi-resizer, like the following.
    RESIZING = "Resizing";
    /// A volume could not be expanded.
    VOLUME_RESIZE_FAILED = "VolumeResizeFailed";
    /// A volume was expanded.
    VOLUME_RESIZE_SUCCESSFUL = "VolumeResizeSuccessful";
    /// A volume was expanded, and its file system has to be.
    FILE_SYSTEM_RESIZE_REQUIRED = "FileSystemResizeRequired";
    /// The properties of a volume are being changed.
    VOLUME_MODIFY = "VolumeModify";
    /// The properties of a volume could not be changed.
    VOLUME_MODIFY_FAILED = "VolumeModifyFailed";
    /// The properties of a volume were changed.
    VOLUME_MODIFY_SUCCESSFUL = "VolumeModifySuccessful";
    /// A snapshot could not be created. As csi-snapshotter, like the following.
    SNAPSHOT_CREATION_FAILED = "SnapshotCreationFailed";
    /// It is not known whether a snapshot is ready.
    SNAPSHOT_CHECK_FAILED = "SnapshotContentCheckandUpdateFailed";
    /// A snapshot could not be deleted.
    SNAPSHOT_DELETE_ERROR = "SnapshotDeleteError";
    /// An operation in the cloud has been in progress for a long time. Ours.
    STILL_IN_PROGRESS = "StillInProgress";
    /// A load balancer is being created or updated.
    ENSURING_LB = "EnsuringLoadBalancer";
    /// A load balancer corresponds to its Service.
    ENSURED_LB = "EnsuredLoadBalancer";
    /// A load balancer is being deleted.
    DELETING_LB = "DeletingLoadBalancer";
    /// A load balancer was deleted.
    DELETED_LB = "DeletedLoadBalancer";
    /// The nodes behind a load balancer were changed.
    UPDATED_LB = "UpdatedLoadBalancer";
    /// There are no nodes for a load balancer.
    UNAVAILABLE_LB = "UnAvailableLoadBalancer";
    /// Creating, updating or deleting the load balancer of a Service failed.
    SYNC_LB_FAILED = "SyncLoadBalancerFailed";
    /// Deleting the load balancer of a Service that does not exist failed.
    DELETE_LB_FAILED = "DeleteLoadBalancerFailed";
    /// Changing the nodes behind a load balancer failed.
    UPDATE_LB_FAILED = "UpdateLoadBalancerFailed";
    /// The provider leaves a Service to another implementation. Ours.
    IMPLEMENTED_ELSEWHERE = "ImplementedElsewhere";
    /// A route to a node could not be created.
    FAILED_TO_CREATE_ROUTE = "FailedToCreateRoute";
    /// The existing routes could not be listed. Ours.
    FAILED_TO_LIST_ROUTES = "FailedToListRoutes";
    /// The number of routes is close to the limit. Ours.
    ROUTES_NEAR_LIMIT = "RoutesNearLimit";
    /// This process has become the leader.
    LEADER_ELECTION = "LeaderElection";
    /// A plugin or its configuration was replaced. Ours.
    PLUGIN_SWAPPED = "PluginSwapped";
    /// A new plugin or configuration was rejected. Ours.
    PLUGIN_REJECTED = "PluginRejected";
}

/// Reasons of Kubernetes' other components, sorted. Those of Kubernetes 1.36 are all that `pkg/kubelet`
/// (`events/event.go`, and the reasons of `lifecycle`, `cm/admission`, `nodeshutdown` and `eviction`),
/// `pkg/scheduler`, `pkg/controller`, `pkg/registry`, `pkg/controlplane`, `pkg/proxy`, `cmd/kube-proxy`,
/// `pkg/volume`, `k8s.io/cloud-provider` and `k8s.io/endpointslice` publish, on any object, because
/// people search events by their reason. The others are those of earlier versions, of the autoscalers
/// and of the node problem detector.
const KUBERNETES: &[&str] = &[
    "AlreadyMountedVolume",
    "AmbiguousSelector",
    "AppArmor",
    "AwaitingVolumeDetachment",
    "BackOff",
    "Binding",
    "BindingConditionsPending",
    "CalculateExpectedPodCountFailed",
    "CertificateExpired",
    "CertificateOverdueForRefresh",
    "CgroupV1",
    "CheckLimitsForResolvConf",
    "ClusterIPAllocation",
    "ClusterIPAlreadyAllocated",
    "ClusterIPNotAllocated",
    "ClusterIPNotValid",
    "ClusterIPOutOfRange",
    "ClusterIPValidation",
    "Completed",
    "ConflictingController",
    "ContainerGCFailed",
    "ContainerdStart",
    "CorruptDockerImage",
    "CorruptDockerOverlay2",
    "Created",
    "DNSConfigForming",
    "DeletingAllPods",
    "DeploymentRollback",
    "DeviceTaintManagerEviction",
    "DisruptionBlocked",
    "DisruptionLaunching",
    "DisruptionTerminating",
    "DisruptionWaitingReadiness",
    "DockerHung",
    "DockerStart",
    "EmptyPodSharedPoolError",
    "ErrImageNeverPull",
    "Evicted",
    "EvictionThresholdMet",
    "ExceededGracePeriod",
    "ExternalExpanding",
    "ExternalProvisioning",
    "ExternalTrafficPolicy",
    "Failed",
    "FailedAttachVolume",
    "FailedBinding",
    "FailedComputeMetricsReplicas",
    "FailedCreate",
    "FailedCreatePodContainer",
    "FailedCreatePodSandBox",
    "FailedDaemonPod",
    "FailedDelete",
    "FailedDetachVolume",
    "FailedDraining",
    "FailedGet",
    "FailedGetScale",
    "FailedKillPod",
    "FailedMapVolume",
    "FailedMount",
    "FailedMountOnFilesystemMismatch",
    "FailedNodeAllocatableEnforcement",
    "FailedNodeDeclaredFeaturesCheck",
    "FailedPodSandBoxStatus",
    "FailedPostStartHook",
    "FailedPreStopHook",
    "FailedPrepareDynamicResources",
    "FailedRescale",
    "FailedResourceClaimCreation",
    "FailedScheduling",
    "FailedSync",
    "FailedToCreateEndpoint",
    "FailedToCreateEndpointSlices",
    "FailedToDeleteEndpoint",
    "FailedToDeleteEndpointSlices",
    "FailedToListEndpointSlices",
    "FailedToListPods",
    "FailedToRetrieveImagePullSecret",
    "FailedToScaleUpGroup",
    "FailedToStartMetricServer",
    "FailedToStartProxierHealthcheck",
    "FailedToStartServiceHealthcheck",
    "FailedToUpdateEndpoint",
    "FailedToUpdateEndpointSlices",
    "FailedToUpdateServiceStatus",
    "FailedUnMount",
    "FailedUpdateStatus",
    "FailedValidation",
    "FileSystemResizeFailed",
    "FileSystemResizeSuccessful",
    "FilesystemIsReadOnly",
    "FreeDiskSpaceFailed",
    "FreqUnregisterNetDevice",
    "FrequentContainerdRestart",
    "FrequentDockerRestart",
    "FrequentKubeletRestart",
    "GracefulNodeShutdown",
    "HostIPsIPFamilyMismatch",
    "HostNetworkNotSupported",
    "HostPortConflict",
    "IPAddressAllocation",
    "IPAddressNotAllocated",
    "IPAddressWrongReference",
    "IPVSDeprecation",
    "ImageGCFailed",
    "InitContainerRestartPolicyForbidden",
    "InspectFailed",
    "InsufficientFreeCPU",
    "InsufficientFreeMemory",
    "InvalidDiskCapacity",
    "InvalidEnvironmentVariableNames",
    "InvalidIPAddress",
    "InvalidImageID",
    "InvalidNodeInfo",
    "InvalidSchedule",
    "InvalidSelector",
    "JobAlreadyActive",
    "KernelDeadlock",
    "KernelOops",
    "Killing",
    "KubeProxyUnhealthy",
    "KubeletIsDown",
    "KubeletSetupFailed",
    "KubeletStart",
    "KubeletUnhealthy",
    "KubernetesDefaultServiceCIDRError",
    "KubernetesDefaultServiceCIDRInconsistent",
    "KubernetesServiceCIDRError",
    "LifecycleHTTPFallback",
    "Listen",
    "LoadBalancerIP",
    "LoadBalancerSourceRanges",
    "MaxNodesTotalReached",
    "MemoryReadError",
    "MissSchedule",
    "MissingClusterDNS",
    "MissingJob",
    "MultiplePodDisruptionBudgets",
    "MultipleSELinuxLabels",
    "NTPProblem",
    "NetworkNotReady",
    "NilShaper",
    "NoPods",
    "NodeAffinity",
    "NodeAllocatableEnforced",
    "NodeControllerEviction",
    "NodeHasDiskPressure",
    "NodeHasInsufficientMemory",
    "NodeHasInsufficientPID",
    "NodeHasNoDiskPressure",
    "NodeHasSufficientMemory",
    "NodeHasSufficientPID",
    "NodeName",
    "NodeNotReady",
    "NodeNotSchedulable",
    "NodePorts",
    "NodeReady",
    "NodeRebooted",
    "NodeSchedulable",
    "NodeSelectorMismatching",
    "NodeShutdown",
    "NodeTerminating",
    "NotDeleted",
    "NotTriggerScaleUp",
    "OOMKilling",
    "OutOfDisk",
    "OutOfcpu",
    "OutOfmemory",
    "OutOfpods",
    "OwnerRefInvalidNamespace",
    "PodFeatureUnsupported",
    "PodLevelResourcesNotSupported",
    "PodOSNotSupported",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "PortAllocation",
    "PortAlreadyAllocated",
    "PortNotAllocated",
    "PortOutOfRange",
    "PortRangeFull",
    "PossibleMemoryBackedVolumesOnDisk",
    "Preempted",
    "Preempting",
    "ProbeWarning",
    "ProvisioningCleanupFailed",
    "ProvisioningFailed",
    "ProvisioningSucceeded",
    "Pulled",
    "Pulling",
    "ReadonlyFilesystem",
    "Rebooted",
    "RecyclerPod",
    "RegisteredNode",
    "RemovingNode",
    "ReplicaSetCreateError",
    "ResizeCompleted",
    "ResizeDeferred",
    "ResizeError",
    "ResizeInfeasible",
    "ResizeStarted",
    "Resumed",
    "SMTAlignmentError",
    "SandboxChanged",
    "SawCompletedJob",
    "ScaleDown",
    "ScaleDownEmpty",
    "ScaleDownFailed",
    "ScaleDownWaiting",
    "ScaleUpTimedOut",
    "ScaledUpGroup",
    "ScalingReplicaSet",
    "Scheduled",
    "Scheduling",
    "SelectingAll",
    "SelectorRequired",
    "ServiceCIDRFull",
    "Shutdown",
    "ShutdownManagerFailed",
    "StartKubeProxy",
    "Started",
    "Starting",
    "SucceededDaemonPod",
    "SuccessfulAttachVolume",
    "SuccessfulCreate",
    "SuccessfulDelete",
    "SuccessfulDetachVolume",
    "SuccessfulMountVolume",
    "SuccessfulRescale",
    "SuccessfulUnMountVolume",
    "SupplementalGroupsPolicyNotSupported",
    "Suspended",
    "SystemOOM",
    "TaintManagerEviction",
    "TaskHung",
    "Terminated",
    "TerminatingEvictedPod",
    "TooManyAddressesToMirror",
    "TooManyMissedTimes",
    "TooManySucceededPods",
    "TopologyAffinityError",
    "TopologyAwareHintsDisabled",
    "TopologyAwareHintsEnabled",
    "TriggeredScaleUp",
    "Type",
    "UnParseableCronJobSchedule",
    "Unconsolidatable",
    "UnexpectedAdmissionError",
    "UnexpectedJob",
    "UnexpectedPredicateFailureType",
    "UnfinishedPreStopHook",
    "Unhealthy",
    "UnknownCompletionMode",
    "UnknownError",
    "UnknownReason",
    "UnknownTimeZone",
    "UnmanagedPods",
    "UnparseableSchedule",
    "UnregisterNetDevice",
    "UnsupportedMountOption",
    "UnsupportedSchedule",
    "VolumeConditionAbnormal",
    "VolumeDelete",
    "VolumeFailedRecycle",
    "VolumeMismatch",
    "VolumePermissionChangeInProgress",
    "VolumeRecycled",
    "VolumeResizeFailed",
    "VolumeResizeSuccessful",
    "WorkloadCreated",
];

/// Returns true if a provider cannot publish events with this reason.
#[must_use]
pub fn is_reserved(reason: &str) -> bool {
    let is_it = |reserved: &&str| reserved.eq_ignore_ascii_case(reason);
    SKYDOCK.iter().chain(KUBERNETES).any(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_skydock_and_kubernetes_are_reserved() {
        for reserved in [
            NODE_DELETION_STOPPED,
            SYNC_LB_FAILED,
            LEADER_ELECTION,
            "NodeNotReady",
            "nodenotready",
            "ENSUREDLOADBALANCER",
            // API server, service controller, kubelet, kube-proxy, endpoint slices, autoscaler,
            // scheduler and node problem detector.
            "ClusterIPNotAllocated",
            "PortAlreadyAllocated",
            "LoadbalancerIP",
            "Type",
            "NodeShutdown",
            "MissingClusterDNS",
            "CgroupV1",
            "FailedToStartServiceHealthcheck",
            "TopologyAwareHintsEnabled",
            "ScaleDown",
            "FailedScheduling",
            "KernelDeadlock",
            "Evicted",
            "Killing",
            "HostPortConflict",
            "Preempted",
            "Unhealthy",
            "SuccessfulAttachVolume",
            "ScalingReplicaSet",
            "ProvisioningFailed",
            "TopologyAffinityError",
            "StartKubeProxy",
        ] {
            assert!(is_reserved(reserved), "{reserved}");
        }
        for free in ["AddressConflict", "NodeNotReadyYet", "Ensured", ""] {
            assert!(!is_reserved(free), "{free}");
        }
    }

    #[test]
    fn the_list_is_sorted() {
        assert!(KUBERNETES.is_sorted_by(|one, next| one < next));
    }

    /// Reasons that are not upstream's have `Ours` in their comment.
    #[test]
    fn every_own_reason_is_documented() {
        let page = include_str!("../../../docs/operating.md");
        let (_, table) = include_str!("reason.rs")
            .split_once("\nreasons! {")
            .unwrap();
        let entries = table.split(';').map_while(|entry| entry.split_once(" = "));
        let ours: Vec<_> = entries
            .filter(|(comment, _)| comment.contains("Ours"))
            .map(|(_, text)| format!("`{}`", text.trim_matches('"')))
            .collect();
        assert!(
            ours.contains(&"`NodeDeletionStopped`".to_owned()),
            "{ours:?}"
        );
        let missing: Vec<_> = ours.iter().filter(|name| !page.contains(*name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
