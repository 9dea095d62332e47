//! Network access of plugins: rules and credentials of the configuration, and the addresses of the
//! cluster.

mod nodes;
mod review;

use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak},
    time::Duration,
};

use ipnet::{IpNet, Ipv6Net};
use prometheus_client::registry::Registry;
use skydock_cloud::Cluster;
use skydock_credentials::{
    BindError, Credential, CredentialMetrics, Credentials, CredentialsErrors, Dependencies,
    SystemClock, Withheld,
    config::{ClientCertificate, ClientCertificateConfig, CredentialConfig},
};
use skydock_egress::{
    Audit, AuditConfig, Closed, ConfigErrors, EgressMetrics, EgressRule, Gateway,
    GatewayDependencies, HostIssuer, Settings, TlsConfig, own_addresses, translated,
};
use skydock_sandbox::{GatewayProvider, WithheldRule};

use self::nodes::NodeAddresses;

pub use self::review::{Finding, Review, Subject, review};

/// Maximum number of remembered API server addresses, since some names resolve to different
/// addresses every minute.
const API_SERVERS: usize = 64;

/// How often the name of the API server is resolved.
const LOOK_UP: Duration = Duration::from_secs(60);

/// How often the name is resolved until it is found for the first time.
const SOON: Duration = Duration::from_secs(1);

/// The network access of a plugin in the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Permits {
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
    api_server: Arc<RwLock<Vec<SocketAddr>>>,
    own_ports: Arc<RwLock<Vec<u16>>>,
    nodes: Arc<NodeAddresses>,
    /// A gateway that denies everything.
    shut: Arc<Gateway>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    opened: Opened,
    /// The gateways by the digest of the component. An entry is dead when no plugin generation uses
    /// it.
    gateways: HashMap<String, Weak<Gateway>>,
}

/// The current rules, and the credentials created from them.
#[derive(Debug)]
struct Opened {
    permits: Permits,
    credentials: Credentials,
}

/// Returns the TLS settings for the issuer of a credential: those of the first rule that has `tls`
/// and uses the credential, with the client certificate if it is for the same plugin.
fn issuers_tls<'a>(
    permits: &'a Permits,
    credential: &str,
) -> Option<(&'a TlsConfig, Option<ClientCertificate>)> {
    let of_it = permits
        .rules
        .iter()
        .filter(|rule| rule.credential.as_deref() == Some(credential));
    let tls = of_it.filter_map(|rule| rule.tls.as_ref()).next()?;

    let find = |name: &str| permits.credentials.iter().find(|it| it.name() == name);
    let plugin = find(credential).map(|it| &it.binding().plugin);
    let certificate = tls.client_certificate.as_deref().and_then(find);
    let certificate = certificate.and_then(CredentialConfig::client_certificate);
    let certificate = certificate.filter(|it| Some(&it.binding.plugin) == plugin);

    Some((tls, certificate.map(ClientCertificateConfig::certificate)))
}

/// Creates all credentials, each with a client for its issuer.
fn credentials(
    permits: &Permits,
    metrics: &CredentialMetrics,
) -> Result<Credentials, CredentialsErrors> {
    let of = permits.clone();
    let dependencies = Dependencies {
        issuers: Box::new(move |name| {
            let (tls, certificate) = issuers_tls(&of, name).unzip();
            Arc::new(HostIssuer::new(
                tls.cloned().unwrap_or_default(),
                certificate.flatten(),
            ))
        }),
        clock: Arc::new(SystemClock),
        metrics: metrics.clone(),
    };

    Credentials::new(&permits.credentials, &dependencies)
}

impl Egress {
    /// Creates the network access for these rules. The networks of the cluster are closed. Warnings
    /// about the rules are logged.
    ///
    /// # Errors
    /// [`EgressError`] with the mistake.
    pub fn new(
        plugin: &str,
        permits: Permits,
        cluster: Vec<IpNet>,
        registry: &mut Registry,
    ) -> Result<Self, EgressError> {
        for warning in review(plugin, &permits).warnings {
            tracing::warn!(plugin, "{}", warning.sentence);
        }
        let metrics = CredentialMetrics::default();
        metrics.register(registry);

        let api_server = Arc::<RwLock<Vec<SocketAddr>>>::default();
        let own_ports = Arc::<RwLock<Vec<u16>>>::default();
        let nodes = Arc::<NodeAddresses>::default();
        let closed = Arc::clone(&api_server);
        let closed_ports = Arc::clone(&own_ports);
        let closed_nodes = Arc::clone(&nodes);
        let own = Mutex::new(own_addresses().unwrap_or_default());

        let dependencies = GatewayDependencies {
            metrics: EgressMetrics::register(registry),
            // Called for each connection, since addresses change.
            closed: Arc::new(move || {
                let known = closed_nodes.now();
                let mut cluster = cluster.clone();
                cluster.extend(known.pods);
                Closed {
                    api_server: closed
                        .read()
                        .unwrap_or_else(PoisonError::into_inner)
                        .clone(),
                    cluster,
                    own: own_now(&own),
                    own_ports: closed_ports
                        .read()
                        .unwrap_or_else(PoisonError::into_inner)
                        .clone(),
                    nodes: known.nodes,
                }
            }),
            ..GatewayDependencies::default()
        };

        let opened = Opened {
            credentials: credentials(&permits, &metrics)?,
            permits,
        };

        // All names of credentials are known.
        settings(plugin, &opened, "")?;

        // This gateway serves nobody: creating it validates the rules.
        let all = unbound(&opened.permits, opened.credentials.all());
        Gateway::new(plugin, &all, dependencies.clone())?;

        let shut = Arc::new(Gateway::new(
            plugin,
            &Settings::default(),
            dependencies.clone(),
        )?);

        dependencies
            .audit
            .store(audit(opened.permits.audit.as_ref(), &dependencies)?);

        let state = Mutex::new(State {
            opened,
            gateways: HashMap::new(),
        });

        Ok(Self {
            plugin: plugin.to_owned(),
            dependencies,
            metrics,
            api_server,
            own_ports,
            nodes,
            shut,
            state,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces rules and credentials without a new generation of the plugin.
    ///
    /// # Errors
    /// [`EgressError`] with the mistake. In this case, nothing has changed.
    pub fn update(&self, permits: Permits) -> Result<(), EgressError> {
        let mut state = self.state();
        if state.opened.permits == permits {
            return Ok(());
        }

        let mut opened = Opened {
            credentials: credentials(&permits, &self.metrics)?,
            permits,
        };

        let before = &state.opened;
        let find = |permits: &Permits, name: &str| {
            permits
                .credentials
                .iter()
                .find(|it| it.name() == name)
                .cloned()
        };

        // Credentials keep their sessions when rules change, or when another build of the plugin
        // may use them: requests that wait at that moment are sent nevertheless.
        opened.credentials.take_over(&before.credentials, |name| {
            let both = find(&before.permits, name).zip(find(&opened.permits, name));
            both.is_some_and(|(one, other)| one.is_like(&other))
                && issuers_tls(&before.permits, name) == issuers_tls(&opened.permits, name)
        });

        // All rules are validated before any gateway is changed.
        settings(&self.plugin, &opened, "")?;
        let all = unbound(&opened.permits, opened.credentials.all());
        Gateway::new(&self.plugin, &all, self.dependencies.clone())?;

        // Opened before any gateway is changed, since this can fail.
        let audit = (state.opened.permits.audit != opened.permits.audit)
            .then(|| audit(opened.permits.audit.as_ref(), &self.dependencies))
            .transpose()?;

        let served = state
            .gateways
            .iter()
            .filter_map(|(digest, gateway)| Some((digest, gateway.upgrade()?)));
        let served =
            served.map(|(digest, gateway)| Ok((settings(&self.plugin, &opened, digest)?, gateway)));

        // Gateways are changed in place, so that requests that wait obey the rules, too (SEC-31).
        for (settings, gateway) in served.collect::<Result<Vec<_>, EgressError>>()? {
            gateway.update(&settings)?;
        }

        if let Some(audit) = audit {
            self.dependencies.audit.store(audit);
        }
        state.opened = opened;
        Ok(())
    }

    /// Closes a port of this machine.
    pub fn close_port(&self, port: u16) {
        self.own_ports
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(port);
    }

    /// Closes the control plane and the kubelets on the nodes of this cluster.
    pub fn close_nodes(&self, cluster: Arc<dyn Cluster>) {
        self.nodes.follow(cluster);
    }

    /// Keeps the addresses of the API server closed when its name resolves to other ones. Never
    /// ends.
    pub async fn follow_api_server(self: Arc<Self>, url: http::Uri) {
        let port = url
            .port_u16()
            .unwrap_or(if url.scheme_str() == Some("http") {
                80
            } else {
                443
            });

        let host = url
            .host()
            .unwrap_or_default()
            // The host in a URL has brackets if it is an IPv6 address.
            .trim_matches(['[', ']'])
            .to_owned();

        loop {
            self.find_api_server(&host, port).await;
            let is_known = !self
                .api_server
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .is_empty();

            tokio::time::sleep(if is_known { LOOK_UP } else { SOON }).await;
        }
    }

    async fn find_api_server(&self, host: &str, port: u16) {
        let mut found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(address) => vec![(address, port).into()],
            Err(_) => tokio::net::lookup_host((host, port))
                .await
                .map(Iterator::collect)
                .unwrap_or_default(),
        };

        // Pods reach the API server at this address, even if the kubeconfig has another one.
        let service = std::env::var("KUBERNETES_SERVICE_HOST")
            .ok()
            .and_then(|text| text.parse::<IpAddr>().ok());
        found.extend(service.map(|address| SocketAddr::from((address, 443))));

        let mut known = self
            .api_server
            .write()
            .unwrap_or_else(PoisonError::into_inner);

        // The known addresses stay closed if the name temporarily cannot be resolved.
        found.extend(
            known
                .iter()
                .filter(|old| !found.contains(old))
                .copied()
                .collect::<Vec<_>>(),
        );
        // Those that were found last come first, and stay.
        found.truncate(API_SERVERS);
        *known = found;
    }
}

impl GatewayProvider for Egress {
    fn withheld(&self, digest: &str) -> Vec<WithheldRule> {
        let opened = &self.state().opened;
        let plugin = &self.plugin;
        let digest = format!("sha256:{digest}");

        let refused = |rule: &EgressRule| {
            let credential = rule.credential.iter().filter(|name| {
                let bound = opened.credentials.bind(name, plugin, &digest);
                bound.is_err()
            });

            let tls = rule.tls.as_ref();
            let certificate = tls.and_then(|tls| tls.client_certificate.as_ref());
            let certificate = certificate.into_iter().filter(|name| {
                let bound = opened.credentials.bind_certificate(name, plugin, &digest);
                bound.is_err()
            });

            let withheld = credential.chain(certificate).map(|name| WithheldRule {
                rule: rule.name.clone(),
                credential: name.clone(),
            });
            withheld.collect::<Vec<_>>()
        };

        opened.permits.rules.iter().flat_map(refused).collect()
    }

    fn gateway(&self, digest: &str) -> Arc<Gateway> {
        // The lock is held until the gateway is registered, so that concurrent updates reach it.
        let mut state = self.state();
        if let Some(gateway) = state.gateways.get(digest).and_then(Weak::upgrade) {
            return gateway;
        }

        let settings = settings(&self.plugin, &state.opened, digest);
        let made = settings.and_then(|settings| {
            Ok(Gateway::new(
                &self.plugin,
                &settings,
                self.dependencies.clone(),
            )?)
        });

        let gateway = match made {
            Ok(gateway) => Arc::new(gateway),
            Err(error) => {
                tracing::error!(
                    plugin = self.plugin,
                    "cannot apply the egress rules, so all requests of the plugin are denied: {error}"
                );
                return Arc::clone(&self.shut);
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
        self.api_server
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .any(|known| known.ip().to_canonical() == address)
    }

    fn translated(&self, address: IpAddr) -> IpAddr {
        translated(&self.state().opened.permits.nat64, address)
    }
}

/// Returns this machine's addresses, or the last known ones if they cannot be determined.
fn own_now(known: &Mutex<Vec<IpAddr>>) -> Vec<IpAddr> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Ok(now) = own_addresses() {
        *known = now;
    }
    known.clone()
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

/// Returns all rules, credentials and client certificates, whatever component these are for, to
/// validate them.
fn unbound(permits: &Permits, credentials: BTreeMap<String, Arc<dyn Credential>>) -> Settings {
    let certificates = permits.credentials.iter();
    let certificates = certificates.filter_map(CredentialConfig::client_certificate);

    Settings {
        rules: permits.rules.clone(),
        credentials,
        certificates: certificates
            .map(|it| (it.name.clone(), it.certificate()))
            .collect(),
        nat64: permits.nat64.clone(),
        ..Settings::default()
    }
}

/// Returns the settings for the component with this digest. A rule whose credential or client
/// certificate is for another component denies the requests that match it, so that no later rule can
/// allow them.
fn settings(plugin: &str, opened: &Opened, digest: &str) -> Result<Settings, EgressError> {
    let mut settings = Settings {
        nat64: opened.permits.nat64.clone(),
        digest: format!("sha256:{digest}"),
        ..Settings::default()
    };

    for rule in &opened.permits.rules {
        match bind(plugin, opened, digest, rule, &mut settings)? {
            None => settings.rules.push(rule.clone()),
            // Without a digest, the configuration is only validated.
            Some(_) if digest.is_empty() => {}
            Some(error) => {
                tracing::warn!(
                    plugin,
                    rule = rule.name,
                    "the rule denies all requests: {error}"
                );
                let withheld = withhold(rule, &mut settings);
                settings.rules.push(withheld);
            }
        }
    }

    Ok(settings)
}

/// Adds the credential and the client certificate of a rule to the settings, or returns why the
/// component must not use one of them.
fn bind(
    plugin: &str,
    opened: &Opened,
    digest: &str,
    rule: &EgressRule,
    settings: &mut Settings,
) -> Result<Option<BindError>, EgressError> {
    let digest = format!("sha256:{digest}");
    let mut refused = None;

    if let Some(name) = &rule.credential {
        let known = opened.permits.credentials.iter();
        let mut known = known.filter(|credential| credential.name() == name);
        let names = || (rule.name.clone(), name.clone());

        match known.next() {
            None => {
                let (rule, credential) = names();
                return Err(EgressError::NoCredential { rule, credential });
            }
            Some(CredentialConfig::ClientCertificate(_)) => {
                let (rule, credential) = names();
                return Err(EgressError::Certificate { rule, credential });
            }
            Some(_) => match opened.credentials.bind(name, plugin, &digest) {
                Ok(credential) => drop(settings.credentials.insert(name.clone(), credential)),
                Err(error) => refused = Some(error),
            },
        }
    }

    let tls = rule.tls.as_ref();
    if let Some(name) = tls.and_then(|tls| tls.client_certificate.as_ref()) {
        match opened.credentials.bind_certificate(name, plugin, &digest) {
            Ok(certificate) => drop(settings.certificates.insert(name.clone(), certificate)),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Ok(refused)
}

/// Returns the rule with a credential that denies its requests.
fn withhold(rule: &EgressRule, settings: &mut Settings) -> EgressRule {
    let tls = rule.tls.as_ref();
    let certificate = tls.and_then(|tls| tls.client_certificate.clone());
    let name = rule.credential.clone().or(certificate).unwrap_or_default();

    // The rule may have a credential that another rule uses.
    let denied = format!("{name} of {}", rule.name);
    settings
        .credentials
        .insert(denied.clone(), Arc::new(Withheld::new(&name)));

    let tls = tls.map(|tls| TlsConfig {
        client_certificate: None,
        ..tls.clone()
    });

    EgressRule {
        credential: Some(denied),
        tls,
        ..rule.clone()
    }
}

#[cfg(test)]
mod tests;
