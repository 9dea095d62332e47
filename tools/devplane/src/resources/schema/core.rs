//! Types of the core group.

use super::{
    Object,
    Type::{
        self, Bool, Bytes, Int32, Int64, IntOrString, Keyed, List, Map, MicroTime,
        Object as Nested, Quantity, Set, Str, Time,
    },
    meta::{CONDITION, EVENT_SERIES, OBJECT_META, STRINGS},
};

const QUANTITIES: Type = Map(&Quantity);

pub(crate) static NODE: Object = Object {
    name: "io.k8s.api.core.v1.Node",
    fields: &[
        (0, "apiVersion", Str),
        (0, "kind", Str),
        (1, "metadata", Nested(&OBJECT_META)),
        (2, "spec", Nested(&NODE_SPEC)),
        (3, "status", Nested(&NODE_STATUS)),
    ],
};

static NODE_SPEC: Object = Object {
    name: "io.k8s.api.core.v1.NodeSpec",
    fields: &[
        (6, "configSource", Nested(&NODE_CONFIG_SOURCE)),
        (2, "externalID", Str),
        (1, "podCIDR", Str),
        (7, "podCIDRs", Set(&Str)),
        (3, "providerID", Str),
        (5, "taints", List(&Nested(&TAINT))),
        (4, "unschedulable", Bool),
    ],
};

static TAINT: Object = Object {
    name: "io.k8s.api.core.v1.Taint",
    fields: &[
        (3, "effect", Str),
        (1, "key", Str),
        (4, "timeAdded", Time),
        (2, "value", Str),
    ],
};

static NODE_CONFIG_SOURCE: Object = Object {
    name: "io.k8s.api.core.v1.NodeConfigSource",
    fields: &[(2, "configMap", Nested(&CONFIG_MAP_NODE_CONFIG_SOURCE))],
};

static CONFIG_MAP_NODE_CONFIG_SOURCE: Object = Object {
    name: "io.k8s.api.core.v1.ConfigMapNodeConfigSource",
    fields: &[
        (5, "kubeletConfigKey", Str),
        (2, "name", Str),
        (1, "namespace", Str),
        (4, "resourceVersion", Str),
        (3, "uid", Str),
    ],
};

static NODE_STATUS: Object = Object {
    name: "io.k8s.api.core.v1.NodeStatus",
    fields: &[
        (5, "addresses", Keyed(&NODE_ADDRESS, "type")),
        (2, "allocatable", QUANTITIES),
        (1, "capacity", QUANTITIES),
        (4, "conditions", Keyed(&NODE_CONDITION, "type")),
        (11, "config", Nested(&NODE_CONFIG_STATUS)),
        (6, "daemonEndpoints", Nested(&NODE_DAEMON_ENDPOINTS)),
        (14, "declaredFeatures", List(&Str)),
        (13, "features", Nested(&NODE_FEATURES)),
        (8, "images", List(&Nested(&CONTAINER_IMAGE))),
        (7, "nodeInfo", Nested(&NODE_SYSTEM_INFO)),
        (3, "phase", Str),
        (12, "runtimeHandlers", List(&Nested(&NODE_RUNTIME_HANDLER))),
        (10, "volumesAttached", List(&Nested(&ATTACHED_VOLUME))),
        (9, "volumesInUse", List(&Str)),
    ],
};

static NODE_ADDRESS: Object = Object {
    name: "io.k8s.api.core.v1.NodeAddress",
    fields: &[(2, "address", Str), (1, "type", Str)],
};

static NODE_CONDITION: Object = Object {
    name: "io.k8s.api.core.v1.NodeCondition",
    fields: &[
        (3, "lastHeartbeatTime", Time),
        (4, "lastTransitionTime", Time),
        (6, "message", Str),
        (5, "reason", Str),
        (2, "status", Str),
        (1, "type", Str),
    ],
};

static NODE_CONFIG_STATUS: Object = Object {
    name: "io.k8s.api.core.v1.NodeConfigStatus",
    fields: &[
        (2, "active", Nested(&NODE_CONFIG_SOURCE)),
        (1, "assigned", Nested(&NODE_CONFIG_SOURCE)),
        (4, "error", Str),
        (3, "lastKnownGood", Nested(&NODE_CONFIG_SOURCE)),
    ],
};

static NODE_DAEMON_ENDPOINTS: Object = Object {
    name: "io.k8s.api.core.v1.NodeDaemonEndpoints",
    fields: &[(1, "kubeletEndpoint", Nested(&DAEMON_ENDPOINT))],
};

static DAEMON_ENDPOINT: Object = Object {
    name: "io.k8s.api.core.v1.DaemonEndpoint",
    fields: &[(1, "Port", Int32)],
};

static NODE_FEATURES: Object = Object {
    name: "io.k8s.api.core.v1.NodeFeatures",
    fields: &[(1, "supplementalGroupsPolicy", Bool)],
};

static CONTAINER_IMAGE: Object = Object {
    name: "io.k8s.api.core.v1.ContainerImage",
    fields: &[(1, "names", List(&Str)), (2, "sizeBytes", Int64)],
};

static NODE_SYSTEM_INFO: Object = Object {
    name: "io.k8s.api.core.v1.NodeSystemInfo",
    fields: &[
        (10, "architecture", Str),
        (3, "bootID", Str),
        (6, "containerRuntimeVersion", Str),
        (4, "kernelVersion", Str),
        (8, "kubeProxyVersion", Str),
        (7, "kubeletVersion", Str),
        (1, "machineID", Str),
        (9, "operatingSystem", Str),
        (5, "osImage", Str),
        (11, "swap", Nested(&NODE_SWAP_STATUS)),
        (2, "systemUUID", Str),
    ],
};

static NODE_SWAP_STATUS: Object = Object {
    name: "io.k8s.api.core.v1.NodeSwapStatus",
    fields: &[(1, "capacity", Int64)],
};

static NODE_RUNTIME_HANDLER: Object = Object {
    name: "io.k8s.api.core.v1.NodeRuntimeHandler",
    fields: &[
        (2, "features", Nested(&NODE_RUNTIME_HANDLER_FEATURES)),
        (1, "name", Str),
    ],
};

static NODE_RUNTIME_HANDLER_FEATURES: Object = Object {
    name: "io.k8s.api.core.v1.NodeRuntimeHandlerFeatures",
    fields: &[
        (1, "recursiveReadOnlyMounts", Bool),
        (2, "userNamespaces", Bool),
    ],
};

static ATTACHED_VOLUME: Object = Object {
    name: "io.k8s.api.core.v1.AttachedVolume",
    fields: &[(2, "devicePath", Str), (1, "name", Str)],
};

pub(crate) static SERVICE: Object = Object {
    name: "io.k8s.api.core.v1.Service",
    fields: &[
        (0, "apiVersion", Str),
        (0, "kind", Str),
        (1, "metadata", Nested(&OBJECT_META)),
        (2, "spec", Nested(&SERVICE_SPEC)),
        (3, "status", Nested(&SERVICE_STATUS)),
    ],
};

static SERVICE_SPEC: Object = Object {
    name: "io.k8s.api.core.v1.ServiceSpec",
    fields: &[
        (20, "allocateLoadBalancerNodePorts", Bool),
        (3, "clusterIP", Str),
        (18, "clusterIPs", List(&Str)),
        (5, "externalIPs", List(&Str)),
        (10, "externalName", Str),
        (11, "externalTrafficPolicy", Str),
        (12, "healthCheckNodePort", Int32),
        (22, "internalTrafficPolicy", Str),
        (19, "ipFamilies", List(&Str)),
        (17, "ipFamilyPolicy", Str),
        (21, "loadBalancerClass", Str),
        (8, "loadBalancerIP", Str),
        (9, "loadBalancerSourceRanges", List(&Str)),
        (1, "ports", Keyed(&SERVICE_PORT, "port")),
        (13, "publishNotReadyAddresses", Bool),
        (2, "selector", Map(&Str)),
        (7, "sessionAffinity", Str),
        (
            14,
            "sessionAffinityConfig",
            Nested(&SESSION_AFFINITY_CONFIG),
        ),
        (23, "trafficDistribution", Str),
        (4, "type", Str),
    ],
};

static SERVICE_PORT: Object = Object {
    name: "io.k8s.api.core.v1.ServicePort",
    fields: &[
        (6, "appProtocol", Str),
        (1, "name", Str),
        (5, "nodePort", Int32),
        (3, "port", Int32),
        (2, "protocol", Str),
        (4, "targetPort", IntOrString),
    ],
};

static SESSION_AFFINITY_CONFIG: Object = Object {
    name: "io.k8s.api.core.v1.SessionAffinityConfig",
    fields: &[(1, "clientIP", Nested(&CLIENT_IP_CONFIG))],
};

static CLIENT_IP_CONFIG: Object = Object {
    name: "io.k8s.api.core.v1.ClientIPConfig",
    fields: &[(1, "timeoutSeconds", Int32)],
};

static SERVICE_STATUS: Object = Object {
    name: "io.k8s.api.core.v1.ServiceStatus",
    fields: &[
        (2, "conditions", Keyed(&CONDITION, "type")),
        (1, "loadBalancer", Nested(&LOAD_BALANCER_STATUS)),
    ],
};

static LOAD_BALANCER_STATUS: Object = Object {
    name: "io.k8s.api.core.v1.LoadBalancerStatus",
    fields: &[(1, "ingress", List(&Nested(&LOAD_BALANCER_INGRESS)))],
};

static LOAD_BALANCER_INGRESS: Object = Object {
    name: "io.k8s.api.core.v1.LoadBalancerIngress",
    fields: &[
        (2, "hostname", Str),
        (1, "ip", Str),
        (3, "ipMode", Str),
        (4, "ports", List(&Nested(&PORT_STATUS))),
    ],
};

static PORT_STATUS: Object = Object {
    name: "io.k8s.api.core.v1.PortStatus",
    fields: &[(3, "error", Str), (1, "port", Int32), (2, "protocol", Str)],
};

pub(crate) static EVENT: Object = Object {
    name: "io.k8s.api.core.v1.Event",
    fields: &[
        (12, "action", Str),
        (0, "apiVersion", Str),
        (8, "count", Int32),
        (10, "eventTime", MicroTime),
        (6, "firstTimestamp", Time),
        (2, "involvedObject", Nested(&OBJECT_REFERENCE)),
        (0, "kind", Str),
        (7, "lastTimestamp", Time),
        (4, "message", Str),
        (1, "metadata", Nested(&OBJECT_META)),
        (3, "reason", Str),
        (13, "related", Nested(&OBJECT_REFERENCE)),
        (14, "reportingComponent", Str),
        (15, "reportingInstance", Str),
        (11, "series", Nested(&EVENT_SERIES)),
        (5, "source", Nested(&EVENT_SOURCE)),
        (9, "type", Str),
    ],
};

pub(super) static EVENT_SOURCE: Object = Object {
    name: "io.k8s.api.core.v1.EventSource",
    fields: &[(1, "component", Str), (2, "host", Str)],
};

pub(super) static OBJECT_REFERENCE: Object = Object {
    name: "io.k8s.api.core.v1.ObjectReference",
    fields: &[
        (5, "apiVersion", Str),
        (7, "fieldPath", Str),
        (1, "kind", Str),
        (3, "name", Str),
        (2, "namespace", Str),
        (6, "resourceVersion", Str),
        (4, "uid", Str),
    ],
};

pub(crate) static NAMESPACE: Object = Object {
    name: "io.k8s.api.core.v1.Namespace",
    fields: &[
        (0, "apiVersion", Str),
        (0, "kind", Str),
        (1, "metadata", Nested(&OBJECT_META)),
        (2, "spec", Nested(&NAMESPACE_SPEC)),
        (3, "status", Nested(&NAMESPACE_STATUS)),
    ],
};

static NAMESPACE_SPEC: Object = Object {
    name: "io.k8s.api.core.v1.NamespaceSpec",
    fields: &[(1, "finalizers", List(&Str))],
};

static NAMESPACE_STATUS: Object = Object {
    name: "io.k8s.api.core.v1.NamespaceStatus",
    fields: &[
        (2, "conditions", Keyed(&NAMESPACE_CONDITION, "type")),
        (1, "phase", Str),
    ],
};

static NAMESPACE_CONDITION: Object = Object {
    name: "io.k8s.api.core.v1.NamespaceCondition",
    fields: &[
        (4, "lastTransitionTime", Time),
        (6, "message", Str),
        (5, "reason", Str),
        (2, "status", Str),
        (1, "type", Str),
    ],
};

pub(crate) static CONFIG_MAP: Object = Object {
    name: "io.k8s.api.core.v1.ConfigMap",
    fields: &[
        (0, "apiVersion", Str),
        (3, "binaryData", Map(&Bytes)),
        (2, "data", STRINGS),
        (4, "immutable", Bool),
        (0, "kind", Str),
        (1, "metadata", Nested(&OBJECT_META)),
    ],
};

pub(crate) static SERVICE_ACCOUNT: Object = Object {
    name: "io.k8s.api.core.v1.ServiceAccount",
    fields: &[
        (0, "apiVersion", Str),
        (4, "automountServiceAccountToken", Bool),
        (
            3,
            "imagePullSecrets",
            Keyed(&LOCAL_OBJECT_REFERENCE, "name"),
        ),
        (0, "kind", Str),
        (1, "metadata", Nested(&OBJECT_META)),
        (2, "secrets", Keyed(&OBJECT_REFERENCE, "name")),
    ],
};

static LOCAL_OBJECT_REFERENCE: Object = Object {
    name: "io.k8s.api.core.v1.LocalObjectReference",
    fields: &[(1, "name", Str)],
};

/// Pods are listed, but never stored: their fields do not matter here.
pub(crate) static POD: Object = Object {
    name: "io.k8s.api.core.v1.Pod",
    fields: &[
        (0, "apiVersion", Str),
        (0, "kind", Str),
        (1, "metadata", Nested(&OBJECT_META)),
    ],
};
