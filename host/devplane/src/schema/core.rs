//! Types of the core group.

use super::{
    Object,
    Type::{
        self, AtomicMap, AtomicObject, Bool, Int32, Int64, IntOrString, Keyed, List, Map, Object as Nested, Quantity,
        Set, Str, Time,
    },
    meta::{CONDITION, EVENT_SERIES, OBJECT_META, STRINGS},
};

const QUANTITIES: Type = Map(&Quantity);

pub(crate) static NODE: Object = Object {
    name: "io.k8s.api.core.v1.Node",
    fields: &[
        ("apiVersion", Str),
        ("kind", Str),
        ("metadata", Nested(&OBJECT_META)),
        ("spec", Nested(&NODE_SPEC)),
        ("status", Nested(&NODE_STATUS)),
    ],
};

static NODE_SPEC: Object = Object {
    name: "io.k8s.api.core.v1.NodeSpec",
    fields: &[
        ("configSource", Nested(&NODE_CONFIG_SOURCE)),
        ("externalID", Str),
        ("podCIDR", Str),
        ("podCIDRs", Set(&Str)),
        ("providerID", Str),
        ("taints", List(&Nested(&TAINT))),
        ("unschedulable", Bool),
    ],
};

static TAINT: Object = Object {
    name: "io.k8s.api.core.v1.Taint",
    fields: &[("effect", Str), ("key", Str), ("timeAdded", Time), ("value", Str)],
};

static NODE_CONFIG_SOURCE: Object = Object {
    name: "io.k8s.api.core.v1.NodeConfigSource",
    fields: &[("configMap", Nested(&CONFIG_MAP_NODE_CONFIG_SOURCE))],
};

static CONFIG_MAP_NODE_CONFIG_SOURCE: Object = Object {
    name: "io.k8s.api.core.v1.ConfigMapNodeConfigSource",
    fields: &[("kubeletConfigKey", Str), ("name", Str), ("namespace", Str), ("resourceVersion", Str), ("uid", Str)],
};

static NODE_STATUS: Object = Object {
    name: "io.k8s.api.core.v1.NodeStatus",
    fields: &[
        ("addresses", Keyed(&NODE_ADDRESS, "type", &["type"])),
        ("allocatable", QUANTITIES),
        ("capacity", QUANTITIES),
        ("conditions", Keyed(&NODE_CONDITION, "type", &["type"])),
        ("config", Nested(&NODE_CONFIG_STATUS)),
        ("daemonEndpoints", Nested(&NODE_DAEMON_ENDPOINTS)),
        ("declaredFeatures", List(&Str)),
        ("features", Nested(&NODE_FEATURES)),
        ("images", List(&Nested(&CONTAINER_IMAGE))),
        ("nodeInfo", Nested(&NODE_SYSTEM_INFO)),
        ("phase", Str),
        ("runtimeHandlers", List(&Nested(&NODE_RUNTIME_HANDLER))),
        ("volumesAttached", List(&Nested(&ATTACHED_VOLUME))),
        ("volumesInUse", List(&Str)),
    ],
};

static NODE_ADDRESS: Object =
    Object { name: "io.k8s.api.core.v1.NodeAddress", fields: &[("address", Str), ("type", Str)] };

static NODE_CONDITION: Object = Object {
    name: "io.k8s.api.core.v1.NodeCondition",
    fields: &[
        ("lastHeartbeatTime", Time),
        ("lastTransitionTime", Time),
        ("message", Str),
        ("reason", Str),
        ("status", Str),
        ("type", Str),
    ],
};

static NODE_CONFIG_STATUS: Object = Object {
    name: "io.k8s.api.core.v1.NodeConfigStatus",
    fields: &[
        ("active", Nested(&NODE_CONFIG_SOURCE)),
        ("assigned", Nested(&NODE_CONFIG_SOURCE)),
        ("error", Str),
        ("lastKnownGood", Nested(&NODE_CONFIG_SOURCE)),
    ],
};

static NODE_DAEMON_ENDPOINTS: Object =
    Object { name: "io.k8s.api.core.v1.NodeDaemonEndpoints", fields: &[("kubeletEndpoint", Nested(&DAEMON_ENDPOINT))] };

static DAEMON_ENDPOINT: Object = Object { name: "io.k8s.api.core.v1.DaemonEndpoint", fields: &[("Port", Int32)] };

static NODE_FEATURES: Object =
    Object { name: "io.k8s.api.core.v1.NodeFeatures", fields: &[("supplementalGroupsPolicy", Bool)] };

static CONTAINER_IMAGE: Object =
    Object { name: "io.k8s.api.core.v1.ContainerImage", fields: &[("names", List(&Str)), ("sizeBytes", Int64)] };

static NODE_SYSTEM_INFO: Object = Object {
    name: "io.k8s.api.core.v1.NodeSystemInfo",
    fields: &[
        ("architecture", Str),
        ("bootID", Str),
        ("containerRuntimeVersion", Str),
        ("kernelVersion", Str),
        ("kubeProxyVersion", Str),
        ("kubeletVersion", Str),
        ("machineID", Str),
        ("operatingSystem", Str),
        ("osImage", Str),
        ("swap", Nested(&NODE_SWAP_STATUS)),
        ("systemUUID", Str),
    ],
};

static NODE_SWAP_STATUS: Object = Object { name: "io.k8s.api.core.v1.NodeSwapStatus", fields: &[("capacity", Int64)] };

static NODE_RUNTIME_HANDLER: Object = Object {
    name: "io.k8s.api.core.v1.NodeRuntimeHandler",
    fields: &[("features", Nested(&NODE_RUNTIME_HANDLER_FEATURES)), ("name", Str)],
};

static NODE_RUNTIME_HANDLER_FEATURES: Object = Object {
    name: "io.k8s.api.core.v1.NodeRuntimeHandlerFeatures",
    fields: &[("recursiveReadOnlyMounts", Bool), ("userNamespaces", Bool)],
};

static ATTACHED_VOLUME: Object =
    Object { name: "io.k8s.api.core.v1.AttachedVolume", fields: &[("devicePath", Str), ("name", Str)] };

pub(crate) static SERVICE: Object = Object {
    name: "io.k8s.api.core.v1.Service",
    fields: &[
        ("apiVersion", Str),
        ("kind", Str),
        ("metadata", Nested(&OBJECT_META)),
        ("spec", Nested(&SERVICE_SPEC)),
        ("status", Nested(&SERVICE_STATUS)),
    ],
};

static SERVICE_SPEC: Object = Object {
    name: "io.k8s.api.core.v1.ServiceSpec",
    fields: &[
        ("allocateLoadBalancerNodePorts", Bool),
        ("clusterIP", Str),
        ("clusterIPs", List(&Str)),
        ("externalIPs", List(&Str)),
        ("externalName", Str),
        ("externalTrafficPolicy", Str),
        ("healthCheckNodePort", Int32),
        ("internalTrafficPolicy", Str),
        ("ipFamilies", List(&Str)),
        ("ipFamilyPolicy", Str),
        ("loadBalancerClass", Str),
        ("loadBalancerIP", Str),
        ("loadBalancerSourceRanges", List(&Str)),
        ("ports", Keyed(&SERVICE_PORT, "port", &["port", "protocol"])),
        ("publishNotReadyAddresses", Bool),
        ("selector", AtomicMap(&Str)),
        ("sessionAffinity", Str),
        ("sessionAffinityConfig", Nested(&SESSION_AFFINITY_CONFIG)),
        ("trafficDistribution", Str),
        ("type", Str),
    ],
};

static SERVICE_PORT: Object = Object {
    name: "io.k8s.api.core.v1.ServicePort",
    fields: &[
        ("appProtocol", Str),
        ("name", Str),
        ("nodePort", Int32),
        ("port", Int32),
        ("protocol", Str),
        ("targetPort", IntOrString),
    ],
};

static SESSION_AFFINITY_CONFIG: Object =
    Object { name: "io.k8s.api.core.v1.SessionAffinityConfig", fields: &[("clientIP", Nested(&CLIENT_IP_CONFIG))] };

static CLIENT_IP_CONFIG: Object =
    Object { name: "io.k8s.api.core.v1.ClientIPConfig", fields: &[("timeoutSeconds", Int32)] };

static SERVICE_STATUS: Object = Object {
    name: "io.k8s.api.core.v1.ServiceStatus",
    fields: &[("conditions", Keyed(&CONDITION, "type", &["type"])), ("loadBalancer", Nested(&LOAD_BALANCER_STATUS))],
};

static LOAD_BALANCER_STATUS: Object = Object {
    name: "io.k8s.api.core.v1.LoadBalancerStatus",
    fields: &[("ingress", List(&Nested(&LOAD_BALANCER_INGRESS)))],
};

static LOAD_BALANCER_INGRESS: Object = Object {
    name: "io.k8s.api.core.v1.LoadBalancerIngress",
    fields: &[("hostname", Str), ("ip", Str), ("ipMode", Str), ("ports", List(&Nested(&PORT_STATUS)))],
};

static PORT_STATUS: Object =
    Object { name: "io.k8s.api.core.v1.PortStatus", fields: &[("error", Str), ("port", Int32), ("protocol", Str)] };

pub(crate) static EVENT: Object = Object {
    name: "io.k8s.api.core.v1.Event",
    fields: &[
        ("action", Str),
        ("apiVersion", Str),
        ("count", Int32),
        ("eventTime", Time),
        ("firstTimestamp", Time),
        ("involvedObject", AtomicObject(&OBJECT_REFERENCE)),
        ("kind", Str),
        ("lastTimestamp", Time),
        ("message", Str),
        ("metadata", Nested(&OBJECT_META)),
        ("reason", Str),
        ("related", AtomicObject(&OBJECT_REFERENCE)),
        ("reportingComponent", Str),
        ("reportingInstance", Str),
        ("series", Nested(&EVENT_SERIES)),
        ("source", Nested(&EVENT_SOURCE)),
        ("type", Str),
    ],
};

pub(super) static EVENT_SOURCE: Object =
    Object { name: "io.k8s.api.core.v1.EventSource", fields: &[("component", Str), ("host", Str)] };

pub(super) static OBJECT_REFERENCE: Object = Object {
    name: "io.k8s.api.core.v1.ObjectReference",
    fields: &[
        ("apiVersion", Str),
        ("fieldPath", Str),
        ("kind", Str),
        ("name", Str),
        ("namespace", Str),
        ("resourceVersion", Str),
        ("uid", Str),
    ],
};

pub(crate) static NAMESPACE: Object = Object {
    name: "io.k8s.api.core.v1.Namespace",
    fields: &[
        ("apiVersion", Str),
        ("kind", Str),
        ("metadata", Nested(&OBJECT_META)),
        ("spec", Nested(&NAMESPACE_SPEC)),
        ("status", Nested(&NAMESPACE_STATUS)),
    ],
};

static NAMESPACE_SPEC: Object =
    Object { name: "io.k8s.api.core.v1.NamespaceSpec", fields: &[("finalizers", List(&Str))] };

static NAMESPACE_STATUS: Object = Object {
    name: "io.k8s.api.core.v1.NamespaceStatus",
    fields: &[("conditions", Keyed(&NAMESPACE_CONDITION, "type", &["type"])), ("phase", Str)],
};

static NAMESPACE_CONDITION: Object = Object {
    name: "io.k8s.api.core.v1.NamespaceCondition",
    fields: &[("lastTransitionTime", Time), ("message", Str), ("reason", Str), ("status", Str), ("type", Str)],
};

pub(crate) static CONFIG_MAP: Object = Object {
    name: "io.k8s.api.core.v1.ConfigMap",
    fields: &[
        ("apiVersion", Str),
        ("binaryData", STRINGS),
        ("data", STRINGS),
        ("immutable", Bool),
        ("kind", Str),
        ("metadata", Nested(&OBJECT_META)),
    ],
};

pub(crate) static SERVICE_ACCOUNT: Object = Object {
    name: "io.k8s.api.core.v1.ServiceAccount",
    fields: &[
        ("apiVersion", Str),
        ("automountServiceAccountToken", Bool),
        ("imagePullSecrets", List(&Nested(&LOCAL_OBJECT_REFERENCE))),
        ("kind", Str),
        ("metadata", Nested(&OBJECT_META)),
        ("secrets", Keyed(&OBJECT_REFERENCE, "name", &["name"])),
    ],
};

static LOCAL_OBJECT_REFERENCE: Object =
    Object { name: "io.k8s.api.core.v1.LocalObjectReference", fields: &[("name", Str)] };

/// Pods are listed, never stored: what a pod looks like does not matter here.
pub(crate) static POD: Object = Object {
    name: "io.k8s.api.core.v1.Pod",
    fields: &[("apiVersion", Str), ("kind", Str), ("metadata", Nested(&OBJECT_META))],
};
