//! The command line. Pure.

use std::path::PathBuf;

/// As many as large clusters run it with; its default is one.
const WORKERS: u16 = 20;

/// How a peer is run. Its environment may hold secrets, so that it is not shown.
#[derive(Clone)]
pub struct Settings {
    /// Its home, with what it writes. It has to be there.
    pub folder: PathBuf,
    /// Of the account it uses.
    pub kubeconfig: PathBuf,
    /// The cloud's configuration, as [`crate::openstack::cloud_conf`] and [`crate::aws::cloud_conf`] have it.
    pub cloud_config: PathBuf,
    /// `--cluster-name`, a part of what OpenStack's load balancers are called.
    pub cluster: String,
    /// `--controllers`, such as `service-lb-controller` or `-node-route-controller`; `*` are those that run by default.
    pub controllers: Vec<String>,
    /// How many nodes, and how many Services, it works on at a time.
    pub workers: u16,
    /// Whether it takes a lease first.
    pub leader_elect: bool,
    /// Pods' addresses. With them it configures routes, else it does not.
    pub cluster_cidr: Option<String>,
    /// Where `/metrics` and `/healthz` are served by TLS on loopback, to anybody.
    pub secure_port: Option<u16>,
    /// Its environment.
    pub environment: Vec<(String, String)>,
}

impl Settings {
    /// All controllers but routes, with 20 workers, as the leader that it has to become first, and no port.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, kubeconfig: impl Into<PathBuf>, cloud_config: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            kubeconfig: kubeconfig.into(),
            cloud_config: cloud_config.into(),
            cluster: "kubernetes".to_owned(),
            controllers: vec!["*".to_owned()],
            workers: WORKERS,
            leader_elect: true,
            cluster_cidr: None,
            secure_port: None,
            environment: Vec::new(),
        }
    }

    /// The arguments after `--cloud-provider`.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--cloud-config={}", self.cloud_config.display()),
            format!("--kubeconfig={}", self.kubeconfig.display()),
            format!("--cluster-name={}", self.cluster),
            format!("--controllers={}", self.controllers.join(",")),
            format!("--concurrent-node-syncs={}", self.workers),
            format!("--concurrent-service-syncs={}", self.workers),
            // A negative rate is none.
            "--kube-api-qps=-1".to_owned(),
            format!("--leader-elect={}", self.leader_elect),
            "--allocate-node-cidrs=false".to_owned(),
            format!("--configure-cloud-routes={}", self.cluster_cidr.is_some()),
            format!("--secure-port={}", self.secure_port.unwrap_or_default()),
        ];
        arguments.extend(self.cluster_cidr.iter().map(|cidr| format!("--cluster-cidr={cidr}")));
        if self.secure_port.is_some() {
            arguments.extend([
                "--bind-address=127.0.0.1".to_owned(),
                format!("--cert-dir={}", self.folder.join("certificates").display()),
                format!("--authentication-kubeconfig={}", self.kubeconfig.display()),
                // Else it looks again and again for the authority of aggregated APIs, which a bare control plane has not.
                "--authentication-skip-lookup".to_owned(),
                format!("--authorization-kubeconfig={}", self.kubeconfig.display()),
                "--authorization-always-allow-paths=/healthz,/metrics".to_owned(),
            ]);
        }
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::new("/run", "/run/kubeconfig", "/run/cloud.conf")
    }

    fn has(settings: &Settings, wanted: &str) -> bool {
        settings.arguments().iter().any(|argument| argument == wanted)
    }

    #[test]
    fn a_peer_is_tuned_and_leads_by_default() {
        for wanted in [
            "--concurrent-node-syncs=20",
            "--concurrent-service-syncs=20",
            "--kube-api-qps=-1",
            "--leader-elect=true",
            "--controllers=*",
            "--secure-port=0",
        ] {
            assert!(has(&settings(), wanted), "no {wanted}");
        }
    }

    #[test]
    fn routes_are_configured_where_pods_have_addresses() {
        assert!(has(&settings(), "--configure-cloud-routes=false"));
        let routes = Settings { cluster_cidr: Some("10.244.0.0/16".to_owned()), ..settings() };
        assert!(has(&routes, "--configure-cloud-routes=true") && has(&routes, "--cluster-cidr=10.244.0.0/16"));
    }

    #[test]
    fn a_port_is_served_on_loopback_alone() {
        assert!(!has(&settings(), "--bind-address=127.0.0.1"));
        let served = Settings { secure_port: Some(1234), ..settings() };
        assert!(has(&served, "--secure-port=1234") && has(&served, "--bind-address=127.0.0.1"));
    }

    #[test]
    fn controllers_are_chosen_by_name() {
        let controllers = vec!["*".to_owned(), "-service-lb-controller".to_owned()];
        assert!(has(&Settings { controllers, ..settings() }, "--controllers=*,-service-lb-controller"));
    }
}
