//! Network access of plugins: rules and credentials of the configuration, and the addresses of the
//! cluster.

mod closed;
mod nodes;
mod review;
mod settings;

use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    sync::{Arc, Weak},
};

use ipnet::{IpNet, Ipv6Net};
use parking_lot::{Mutex, MutexGuard};
use prometheus_client::registry::Registry;
use skydock_cloud::Cluster;
use skydock_credentials::{
    CredentialError, CredentialMetrics, Credentials, CredentialsErrors, Dependencies, Issuer,
    SystemClock,
    config::{AwsConfig, AwsSource, ClientCertificate, ClientCertificateConfig, CredentialConfig},
    instance_region,
};
use skydock_egress::{
    Audit, AuditConfig, ConfigErrors, EgressMetrics, EgressRule, Gateway, GatewayDependencies,
    HostIssuer, Minute, Official, Settings, TlsConfig, translated,
};
use skydock_sandbox::{GatewayProvider, WithheldRule};

use self::{
    closed::ClosedAddresses,
    settings::{settings, unbound},
};

pub use self::review::{Finding, Review, Subject, review};

/// The network access of a plugin in the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EgressPolicy {
    /// The plugin's `egress` list.
    pub rules: Vec<EgressRule>,
    /// The `credentials` list.
    pub credentials: Vec<CredentialConfig>,
    /// The `nat64` list.
    pub nat64: Vec<Ipv6Net>,
    /// The audit of its requests.
    pub audit: Option<AuditConfig>,
}

/// Why the network access of a plugin is not valid.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// A credential is not valid.
    #[error(transparent)]
    Credentials(#[from] CredentialsErrors),
    /// The audit cannot be written.
    #[error("audit: cannot open its file: {0}")]
    Audit(io::Error),
    /// Rules are not valid.
    #[error("egress: {0}")]
    Rules(#[from] ConfigErrors),
    /// A rule names an unknown credential.
    #[error("egress rule `{rule}`: unknown credential `{credential}`")]
    NoCredential {
        /// Name of the rule.
        rule: String,
        /// Name of the unknown credential.
        credential: String,
    },
    /// A rule names a client certificate as its credential.
    #[error(
        "egress rule `{rule}`: credential `{credential}` is a client certificate: name it in `tls.clientCertificate`"
    )]
    Certificate {
        /// Name of the rule.
        rule: String,
        /// Name of the client certificate.
        credential: String,
    },
}

/// The network access of a plugin.
#[derive(Debug)]
pub struct Egress {
    plugin: String,
    dependencies: GatewayDependencies,
    metrics: CredentialMetrics,
    closed: Arc<ClosedAddresses>,
    /// A gateway that denies everything.
    deny_all: Arc<Gateway>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    active: ActivePolicy,
    /// The gateways by the digest of the component. An entry is dead when no plugin generation uses
    /// it.
    gateways: HashMap<String, Weak<Gateway>>,
}

/// The current rules, and the credentials created from them.
#[derive(Debug)]
struct ActivePolicy {
    policy: EgressPolicy,
    credentials: Credentials,
}

/// Returns the TLS settings for the issuer of a credential: those of the first rule that has `tls`
/// and uses the credential, with the client certificate if it is for the same plugin.
fn issuers_tls<'a>(
    policy: &'a EgressPolicy,
    credential: &str,
) -> Option<(&'a TlsConfig, Option<ClientCertificate>)> {
    let of_it = policy
        .rules
        .iter()
        .filter(|rule| rule.credential.as_deref() == Some(credential));
    let tls = of_it.filter_map(|rule| rule.tls.as_ref()).next()?;

    let find = |name: &str| policy.credentials.iter().find(|it| it.name() == name);
    let plugin = find(credential).map(|it| &it.binding().plugin);
    let certificate = tls.client_certificate.as_deref().and_then(find);
    let certificate = certificate.and_then(CredentialConfig::client_certificate);
    let certificate = certificate.filter(|it| Some(&it.binding.plugin) == plugin);

    Some((tls, certificate.map(ClientCertificateConfig::certificate)))
}

/// Returns the first credential of a plugin with keys from the EC2 metadata service.
pub(crate) fn of_instance<'a>(policy: &'a EgressPolicy, plugin: &str) -> Option<&'a AwsConfig> {
    let credentials = policy.credentials.iter();
    let mut of_aws = credentials.filter_map(|credential| match credential {
        CredentialConfig::AwsSigv4(config) => Some(config),
        _ => None,
    });
    of_aws.find(|config| {
        config.binding.plugin == plugin && matches!(config.source, AwsSource::Imds { .. })
    })
}

/// Returns a client for the issuer of a credential.
fn issuer(policy: &EgressPolicy, credential: &str) -> Arc<dyn Issuer> {
    let (tls, certificate) = issuers_tls(policy, credential).unzip();
    Arc::new(HostIssuer::new(
        tls.cloned().unwrap_or_default(),
        certificate.flatten(),
    ))
}

/// Creates all credentials, each with a client for its issuer.
fn credentials(
    policy: &EgressPolicy,
    metrics: &CredentialMetrics,
) -> Result<Credentials, CredentialsErrors> {
    let of = policy.clone();
    let dependencies = Dependencies {
        issuers: Box::new(move |name| issuer(&of, name)),
        clock: Arc::new(SystemClock),
        metrics: metrics.clone(),
    };

    Credentials::new(&policy.credentials, &dependencies)
}

impl Egress {
    /// Creates the network access for these rules. The networks of the cluster are closed. Warnings
    /// about the rules are logged.
    ///
    /// # Errors
    /// [`EgressError`] with the mistake.
    pub fn new(
        plugin: &str,
        policy: EgressPolicy,
        cluster: Vec<IpNet>,
        registry: &mut Registry,
    ) -> Result<Self, EgressError> {
        for warning in review(plugin, &policy).warnings {
            tracing::warn!(plugin, "{}", warning.sentence);
        }
        let metrics = CredentialMetrics::default();
        metrics.register(registry);

        let closed = Arc::new(ClosedAddresses::new(cluster));
        let dependencies = GatewayDependencies {
            metrics: EgressMetrics::register(registry),
            // Called for each connection, since addresses change.
            closed: {
                let closed = Arc::clone(&closed);
                Arc::new(move || closed.now())
            },
            ..GatewayDependencies::default()
        };

        let active = ActivePolicy {
            credentials: credentials(&policy, &metrics)?,
            policy,
        };

        // All names of credentials are known.
        settings(plugin, &active, "")?;

        // This gateway serves nobody: creating it validates the rules.
        let all = unbound(&active.policy, active.credentials.all());
        Gateway::new(plugin, &all, dependencies.clone())?;

        let deny_all = Gateway::new(plugin, &Settings::default(), dependencies.clone())?;

        dependencies
            .audit
            .store(audit(active.policy.audit.as_ref(), &dependencies)?);

        let state = Mutex::new(State {
            active,
            gateways: HashMap::new(),
        });

        Ok(Self {
            plugin: plugin.to_owned(),
            dependencies,
            metrics,
            closed,
            deny_all: Arc::new(deny_all),
            state,
        })
    }

    /// Registers metrics of requests with the names of this official cloud-controller-manager.
    pub fn measure_as(&self, official: Official, registry: &mut Registry) {
        self.dependencies.metrics.also_as(official, registry);
    }

    /// Returns what happened to requests in the last minutes, by rule.
    pub(crate) fn last_minutes(&self) -> Vec<(Arc<str>, Vec<Minute>)> {
        self.dependencies.metrics.last_minutes()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Replaces rules and credentials without a new generation of the plugin.
    ///
    /// # Errors
    /// [`EgressError`] with the mistake. In this case, nothing has changed.
    pub fn update(&self, policy: EgressPolicy) -> Result<(), EgressError> {
        let mut state = self.state();
        if state.active.policy == policy {
            return Ok(());
        }
        let next = self.next_policy(policy, &state.active)?;

        // Everything that can fail comes before the first change.
        self.validate(&next)?;
        let served = state
            .gateways
            .iter()
            .filter_map(|(digest, gateway)| Some((digest, gateway.upgrade()?)));
        let served: Vec<_> = served
            .map(|(digest, gateway)| {
                let settings = settings(&self.plugin, &next, digest)?;
                self.try_out(&settings)?;
                Ok((settings, gateway))
            })
            .collect::<Result<_, EgressError>>()?;
        let audit = (state.active.policy.audit != next.policy.audit)
            .then(|| audit(next.policy.audit.as_ref(), &self.dependencies))
            .transpose()?;

        // Gateways are changed in place, so that requests that wait obey the rules, too (SEC-31).
        for (settings, gateway) in served {
            gateway.update(&settings)?;
        }
        if let Some(audit) = audit {
            self.dependencies.audit.store(audit);
        }
        state.active = next;
        Ok(())
    }

    /// Creates the credentials of a policy. They keep their sessions when rules change, or when
    /// another build of the plugin may use them: requests that wait at that moment are sent
    /// nevertheless.
    fn next_policy(
        &self,
        policy: EgressPolicy,
        before: &ActivePolicy,
    ) -> Result<ActivePolicy, EgressError> {
        let mut next = ActivePolicy {
            credentials: credentials(&policy, &self.metrics)?,
            policy,
        };

        let find = |policy: &EgressPolicy, name: &str| {
            policy
                .credentials
                .iter()
                .find(|it| it.name() == name)
                .cloned()
        };
        next.credentials.take_over(&before.credentials, |name| {
            let both = find(&before.policy, name).zip(find(&next.policy, name));
            both.is_some_and(|(one, other)| one.is_like(&other))
                && issuers_tls(&before.policy, name) == issuers_tls(&next.policy, name)
        });
        Ok(next)
    }

    /// Validates all rules, whatever component they are for.
    fn validate(&self, policy: &ActivePolicy) -> Result<(), EgressError> {
        settings(&self.plugin, policy, "")?;
        self.try_out(&unbound(&policy.policy, policy.credentials.all()))
    }

    /// Validates settings: creates a gateway that serves nobody.
    fn try_out(&self, settings: &Settings) -> Result<(), EgressError> {
        Gateway::new(&self.plugin, settings, self.dependencies.clone())?;
        Ok(())
    }

    /// Returns the region of this instance, if a credential of the plugin has its keys from the EC2
    /// metadata service.
    ///
    /// # Errors
    /// If the service does not answer with a region.
    pub(crate) async fn instance_region(&self) -> Result<Option<String>, CredentialError> {
        let found = {
            let state = self.state();
            let policy = &state.active.policy;
            let config = of_instance(policy, &self.plugin);
            config.map(|config| (config.clone(), issuer(policy, &config.name)))
        };

        match found {
            Some((config, issuer)) => instance_region(&config, issuer).await,
            None => Ok(None),
        }
    }

    /// Closes a port of this machine.
    pub fn close_port(&self, port: u16) {
        self.closed.close_port(port);
    }

    /// Closes the control plane and the kubelets on the nodes of this cluster.
    pub fn close_nodes(&self, cluster: Arc<dyn Cluster>) {
        self.closed.close_nodes(cluster);
    }

    /// Keeps the addresses of the API server closed when its name resolves to other ones. Never
    /// ends.
    pub async fn follow_api_server(self: Arc<Self>, url: http::Uri) {
        self.closed.follow_api_server(&url).await;
    }
}

impl GatewayProvider for Egress {
    fn withheld(&self, digest: &str) -> Vec<WithheldRule> {
        let active = &self.state().active;
        let plugin = &self.plugin;
        let digest = format!("sha256:{digest}");

        let withheld = |rule: &EgressRule| {
            let credential = rule.credential.iter().filter(|name| {
                let bound = active.credentials.bind(name, plugin, &digest);
                bound.is_err()
            });

            let tls = rule.tls.as_ref();
            let certificate = tls.and_then(|tls| tls.client_certificate.as_ref());
            let certificate = certificate.into_iter().filter(|name| {
                let bound = active.credentials.bind_certificate(name, plugin, &digest);
                bound.is_err()
            });

            let rules = credential.chain(certificate).map(|name| WithheldRule {
                rule: rule.name.clone(),
                credential: name.clone(),
            });
            rules.collect::<Vec<_>>()
        };

        active.policy.rules.iter().flat_map(withheld).collect()
    }

    fn gateway(&self, digest: &str) -> Arc<Gateway> {
        // The lock is held until the gateway is registered, so that concurrent updates reach it.
        let mut state = self.state();
        if let Some(gateway) = state.gateways.get(digest).and_then(Weak::upgrade) {
            return gateway;
        }

        let settings = settings(&self.plugin, &state.active, digest);
        let created = settings.and_then(|settings| {
            Ok(Gateway::new(
                &self.plugin,
                &settings,
                self.dependencies.clone(),
            )?)
        });

        let gateway = match created {
            Ok(gateway) => Arc::new(gateway),
            Err(error) => {
                tracing::error!(
                    plugin = self.plugin,
                    "cannot apply the egress rules, so all requests of the plugin are denied: {error}"
                );
                return Arc::clone(&self.deny_all);
            }
        };

        // Each build that was replaced leaves a dead entry.
        state
            .gateways
            .retain(|_, gateway| gateway.strong_count() > 0);
        state
            .gateways
            .insert(digest.to_owned(), Arc::downgrade(&gateway));

        gateway
    }

    fn is_api_server(&self, address: IpAddr) -> bool {
        self.closed.is_api_server(address)
    }

    fn translated(&self, address: IpAddr) -> IpAddr {
        translated(&self.state().active.policy.nat64, address)
    }
}

/// Starts an audit, if there is to be one.
fn audit(
    config: Option<&AuditConfig>,
    dependencies: &GatewayDependencies,
) -> Result<Option<Arc<Audit>>, EgressError> {
    let start = |config| Audit::start(config, dependencies.metrics.clone());
    let audit = config.map(start).transpose();
    audit
        .map(|audit| audit.map(Arc::new))
        .map_err(EgressError::Audit)
}

#[cfg(test)]
mod tests;
