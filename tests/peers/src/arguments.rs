//! The command line. Pure.

use std::path::PathBuf;

/// The number of workers in large clusters. The default is one.
const WORKERS: u16 = 20;

/// The settings of a peer. They are not printed, because the environment may contain secrets.
#[derive(Clone)]
pub struct Settings {
    /// Its folder, which must exist. Files are written to it.
    pub folder: PathBuf,
    /// The kubeconfig of its account.
    pub kubeconfig: PathBuf,
    /// The cloud configuration, as returned by [`crate::openstack::cloud_conf`] and
    /// [`crate::aws::cloud_conf`].
    pub cloud_config: PathBuf,
    /// `--cluster-name`, which is part of the names of load balancers in OpenStack.
    pub cluster: String,
    /// `--controllers`, for example `service-lb-controller` or `-node-route-controller`. `*` stands
    /// for the default controllers.
    pub controllers: Vec<String>,
    /// The number of nodes, and of Services, that are processed concurrently.
    pub workers: u16,
    /// Whether it uses leader election.
    pub leader_elect: bool,
    /// The address range of Pods. Routes are configured only if it is set.
    pub cluster_cidr: Option<String>,
    /// The port on loopback at which `/metrics` and `/healthz` are served over TLS without
    /// authentication.
    pub secure_port: Option<u16>,
    /// The environment variables.
    pub environment: Vec<(String, String)>,
}

impl Settings {
    /// Creates settings with all controllers except routes, 20 workers, leader election, and no
    /// port.
    #[must_use]
    pub fn new(
        folder: impl Into<PathBuf>,
        kubeconfig: impl Into<PathBuf>,
        cloud_config: impl Into<PathBuf>,
    ) -> Self {
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

    /// Returns the arguments after `--cloud-provider`.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--cloud-config={}", self.cloud_config.display()),
            format!("--kubeconfig={}", self.kubeconfig.display()),
            format!("--cluster-name={}", self.cluster),
            format!("--controllers={}", self.controllers.join(",")),
            format!("--concurrent-node-syncs={}", self.workers),
            format!("--concurrent-service-syncs={}", self.workers),
            // A negative rate means no limit.
            "--kube-api-qps=-1".to_owned(),
            format!("--leader-elect={}", self.leader_elect),
            "--allocate-node-cidrs=false".to_owned(),
            format!("--configure-cloud-routes={}", self.cluster_cidr.is_some()),
            format!("--secure-port={}", self.secure_port.unwrap_or_default()),
        ];
        arguments.extend(
            self.cluster_cidr
                .iter()
                .map(|cidr| format!("--cluster-cidr={cidr}")),
        );
        if self.secure_port.is_some() {
            arguments.extend([
                "--bind-address=127.0.0.1".to_owned(),
                format!("--cert-dir={}", self.folder.join("certificates").display()),
                format!("--authentication-kubeconfig={}", self.kubeconfig.display()),
                // Otherwise it repeatedly looks up the CA of aggregated APIs, which a bare control
                // plane does not have.
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
        settings
            .arguments()
            .iter()
            .any(|argument| argument == wanted)
    }

    #[test]
    fn default_arguments_tune_the_peer_and_elect_a_leader() {
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
    fn routes_are_configured_with_a_cluster_cidr() {
        assert!(has(&settings(), "--configure-cloud-routes=false"));
        let routes = Settings {
            cluster_cidr: Some("10.244.0.0/16".to_owned()),
            ..settings()
        };
        assert!(
            has(&routes, "--configure-cloud-routes=true")
                && has(&routes, "--cluster-cidr=10.244.0.0/16")
        );
    }

    #[test]
    fn the_port_is_served_only_on_loopback() {
        assert!(!has(&settings(), "--bind-address=127.0.0.1"));
        let served = Settings {
            secure_port: Some(1234),
            ..settings()
        };
        assert!(has(&served, "--secure-port=1234") && has(&served, "--bind-address=127.0.0.1"));
    }

    #[test]
    fn controllers_are_chosen_by_name() {
        let controllers = vec!["*".to_owned(), "-service-lb-controller".to_owned()];
        assert!(has(
            &Settings {
                controllers,
                ..settings()
            },
            "--controllers=*,-service-lb-controller"
        ));
    }
}
