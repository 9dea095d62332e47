//! Keys of annotations and labels that no plugin may write, because they steer Kubernetes, the
//! network, the scheduler, autoscalers, tools or other controllers.
//!
//! The list cannot be complete, which is why a plugin needs a permission for every key. It ensures
//! that a permission for a whole domain does not include them.

use crate::words::keys::is_under;

/// Domains of which no plugin may write a key, also in their subdomains. Kubernetes' own projects
/// come first; the others are sorted.
const DOMAINS: &[&str] = &[
    "k8s.io",
    "kubernetes.io",
    "x-k8s.io",
    "skydock.dev",
    "amazonaws.com",
    "amd.com",
    "antrea.io",
    "antrea.tanzu.vmware.com",
    "apache.org",
    "argoproj.io",
    "cattle.io",
    "ceph.com",
    "cert-manager.io",
    "cilium.io",
    "cncf.io",
    "containo.us",
    "coreos.com",
    "crossplane.io",
    "descheduler.io",
    "egressgateway.io",
    "elbv2.k8s.aws",
    "external-dns.io",
    "flatcar-linux.net",
    "fluxcd.io",
    "gardener.cloud",
    "gatekeeper.sh",
    "gateway.k8s.aws",
    "gpu.intel.com",
    "habana.ai",
    "haproxy.com",
    "haproxy.org",
    "harvesterhci.io",
    "hashicorp.com",
    "helm.sh",
    "ingress.k8s.aws",
    "istio.io",
    "jetstack.io",
    "k3s.io",
    "karmada.io",
    "karpenter.k8s.aws",
    "karpenter.sh",
    "keda.sh",
    "knative.dev",
    "konghq.com",
    "koordinator.sh",
    "kube-router.io",
    "kube-vip.io",
    "kubeovn.io",
    "kubesphere.io",
    "kubevirt.io",
    "kuma.io",
    "kured.dev",
    "kyverno.io",
    "linkerd.io",
    "longhorn.io",
    "loxilb.io",
    "metallb.io",
    "metallb.universe.tf",
    "networking.k8s.aws",
    "nginx.com",
    "nginx.org",
    "nvidia.com",
    "openebs.io",
    "openshift.io",
    "openyurt.io",
    "operatorframework.io",
    "ovn.org",
    "projectcalico.org",
    "prometheus.io",
    "rancher.io",
    "rke2.io",
    "rook.io",
    "run.ai",
    "service.k8s.aws",
    "spidernet.io",
    "stakater.com",
    "submariner.io",
    "tailscale.com",
    "tigera.io",
    "traefik.io",
    "velero.io",
    "volcano.sh",
    "vpc.k8s.aws",
    "weave.works",
];

/// Words in the domains of managed Kubernetes, and of the clouds whose own controllers use their main
/// domain: these read labels and annotations there, such as `kubernetes.azure.com/managed`.
const PLATFORMS: &[&str] = &[
    "ack",
    "aks",
    "alibabacloud",
    "aliyun",
    "azure",
    "cce",
    "doks",
    "eks",
    "eksctl",
    "gke",
    "google",
    "googleapis",
    "huaweicloud",
    "iks",
    "kapsule",
    "karpenter",
    "lke",
    "oke",
    "oraclecloud",
    "ovhcloud",
    "tke",
    "vke",
];

/// Returns true for domains of managed platforms, in which a plugin may write only if the operator
/// names the domain.
pub(super) fn is_of_platform(domain: &str) -> bool {
    domain.split('.').any(|label| PLATFORMS.contains(&label))
}

/// The domain of Kubernetes in which annotations of Services belong to providers, by the beginning
/// of their name.
const OF_PROVIDERS: &str = "service.beta.kubernetes.io";

/// The annotations there that belong to Kubernetes itself.
const OF_KUBERNETES: &[&str] = &[
    "external-traffic",
    "healthcheck-nodeport",
    "load-balancer-source-ranges",
];

/// Returns true if no plugin may write this key.
pub(crate) fn is_reserved(key: &str) -> bool {
    let Some((domain, name)) = key.split_once('/') else {
        return false;
    };
    // Providers have always had annotations in this domain of Kubernetes.
    if domain == OF_PROVIDERS {
        return OF_KUBERNETES.contains(&name);
    }

    DOMAINS.iter().any(|reserved| is_under(domain, reserved))
}

/// Returns true if no plugin may write one of the keys that begin like this. `prefix` is a key, or
/// `DOMAIN/` with or without the beginning of a name.
pub(crate) fn covers_reserved(prefix: &str) -> bool {
    match prefix.split_once('/') {
        Some((OF_PROVIDERS, begin)) => {
            begin.is_empty() || OF_KUBERNETES.iter().any(|own| own.starts_with(begin))
        }
        _ => is_reserved(prefix),
    }
}
