//! The way of plugins to their clouds: rules and credentials of the configuration, and what belongs to the cluster.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak},
    time::Duration,
};

use ipnet::IpNet;
use prometheus_client::registry::Registry;
use skydock_egress::{
    Closed, ConfigErrors, EgressMetrics, EgressRule, Gateway, HostIssuer, Settings, Surroundings, TlsConfig,
    credentials::{CredentialMetrics, Credentials, CredentialsError, SystemClock, Tools, config::CredentialConfig},
    own_addresses,
};
use skydock_plugin::WayOut;

/// How often the name of the API server is looked up again.
const LOOK_UP: Duration = Duration::from_secs(60);

/// What the configuration says of a plugin's way out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Permits {
    /// The plugin's `egress` list.
    pub rules: Vec<EgressRule>,
    /// All `credentials`.
    pub credentials: Vec<CredentialConfig>,
}

/// Why a plugin has no way out.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// A credential cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// Rules cannot be used.
    #[error("egress: {0}")]
    Rules(#[from] ConfigErrors),
    /// A rule names a credential that is not there.
    #[error("egress rule `{rule}`: there is no credential `{credential}`")]
    NoCredential {
        /// The rule.
        rule: String,
        /// The credential.
        credential: String,
    },
}

/// The way out of one plugin.
#[derive(Debug)]
pub struct Egress {
    plugin: String,
    surroundings: Surroundings,
    metrics: CredentialMetrics,
    api_server: Arc<RwLock<Vec<SocketAddr>>>,
    /// Lets nothing out.
    shut: Arc<Gateway>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    opened: Opened,
    /// By the digest of the component; gone when no generation has it any more.
    gateways: HashMap<String, Weak<Gateway>>,
}

/// What is permitted, and the credentials made of it.
#[derive(Debug)]
struct Opened {
    permits: Permits,
    credentials: Credentials,
}

/// All credentials, each with its way to who issues it: trusted as the first rule with `tls` that it is for says.
fn credentials(permits: &Permits, metrics: &CredentialMetrics) -> Result<Credentials, CredentialsError> {
    let mut tls: BTreeMap<&str, TlsConfig> = BTreeMap::new();
    for rule in &permits.rules {
        if let (Some(credential), Some(of_rule)) = (&rule.credential, &rule.tls) {
            tls.entry(credential).or_insert_with(|| of_rule.clone());
        }
    }
    let tls: BTreeMap<String, TlsConfig> = tls.into_iter().map(|(name, tls)| (name.to_owned(), tls)).collect();
    let tools = Tools {
        issuers: Box::new(move |name| Arc::new(HostIssuer::new(tls.get(name).cloned().unwrap_or_default()))),
        clock: Arc::new(SystemClock),
        metrics: metrics.clone(),
    };
    Credentials::new(&permits.credentials, &tools)
}

/// Checks what types cannot tell. Connects to nobody.
///
/// # Errors
/// [`EgressError`] with what is wrong.
pub fn check(plugin: &str, permits: &Permits) -> Result<(), EgressError> {
    Egress::build(plugin, permits.clone(), Vec::new(), &mut Registry::default()).map(drop)
}

impl Egress {
    /// The way out that these permits open, with the networks of the cluster closed. What is doubtful about them is logged.
    ///
    /// # Errors
    /// [`EgressError`] with what is wrong.
    pub fn new(
        plugin: &str,
        permits: Permits,
        cluster: Vec<IpNet>,
        registry: &mut Registry,
    ) -> Result<Self, EgressError> {
        let (egress, warnings) = Self::build(plugin, permits, cluster, registry)?;
        warnings.iter().for_each(|warning| tracing::warn!(plugin, "{warning}"));
        Ok(egress)
    }

    fn build(
        plugin: &str,
        permits: Permits,
        cluster: Vec<IpNet>,
        registry: &mut Registry,
    ) -> Result<(Self, Vec<String>), EgressError> {
        let metrics = CredentialMetrics::default();
        metrics.register(registry);
        let api_server = Arc::<RwLock<Vec<SocketAddr>>>::default();
        let closed = Arc::clone(&api_server);
        let surroundings = Surroundings {
            metrics: EgressMetrics::register(registry),
            closed: Arc::new(move || Closed {
                api_server: closed.read().unwrap_or_else(PoisonError::into_inner).clone(),
                cluster: cluster.clone(),
                own: own_addresses().unwrap_or_default(),
            }),
            ..Surroundings::default()
        };
        let opened = Opened { credentials: credentials(&permits, &metrics)?, permits };
        Gateway::new(plugin, &unbound(&opened.permits), surroundings.clone())?;
        // With no component's digest, credentials for any are tried, and the rest of the rules.
        let tried = Gateway::new(plugin, &settings(plugin, &opened, "")?, surroundings.clone())?;
        let shut = Arc::new(Gateway::new(plugin, &Settings::default(), surroundings.clone())?);
        let state = Mutex::new(State { opened, gateways: HashMap::new() });
        let egress = Self { plugin: plugin.to_owned(), surroundings, metrics, api_server, shut, state };
        Ok((egress, tried.warnings()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens other ways from now on, without another generation of the plugin.
    ///
    /// # Errors
    /// [`EgressError`] with what is wrong; then nothing has changed.
    pub fn update(&self, permits: Permits) -> Result<(), EgressError> {
        let mut state = self.state();
        if state.opened.permits == permits {
            return Ok(());
        }
        let opened = Opened { credentials: credentials(&permits, &self.metrics)?, permits };
        // Before any of them changes, all rules are known to be good.
        Gateway::new(&self.plugin, &unbound(&opened.permits), self.surroundings.clone())?;
        let served = state.gateways.iter().filter_map(|(digest, gateway)| Some((digest, gateway.upgrade()?)));
        let served = served.map(|(digest, gateway)| Ok((settings(&self.plugin, &opened, digest)?, gateway)));
        for (settings, gateway) in served.collect::<Result<Vec<_>, EgressError>>()? {
            gateway.update(&settings)?;
        }
        state.opened = opened;
        Ok(())
    }

    /// Keeps the addresses of the API server closed, whatever its name leads to. Never ends.
    pub async fn follow_api_server(self: Arc<Self>, url: http::Uri) {
        let port = url.port_u16().unwrap_or(if url.scheme_str() == Some("http") { 80 } else { 443 });
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        loop {
            self.find_api_server(&host, port).await;
            tokio::time::sleep(LOOK_UP).await;
        }
    }

    async fn find_api_server(&self, host: &str, port: u16) {
        let mut found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(address) => vec![(address, port).into()],
            Err(_) => tokio::net::lookup_host((host, port)).await.map(Iterator::collect).unwrap_or_default(),
        };
        let service = std::env::var("KUBERNETES_SERVICE_HOST").ok().and_then(|text| text.parse::<IpAddr>().ok());
        found.extend(service.map(|address| SocketAddr::from((address, 443))));
        let mut known = self.api_server.write().unwrap_or_else(PoisonError::into_inner);
        // A name that leads nowhere for a moment opens nothing.
        found.extend(known.iter().filter(|old| !found.contains(old)).copied().collect::<Vec<_>>());
        *known = found;
    }
}

impl WayOut for Egress {
    fn gateway(&self, digest: &str) -> Arc<Gateway> {
        // Held until it is known: what is opened meanwhile has to reach it.
        let mut state = self.state();
        if let Some(gateway) = state.gateways.get(digest).and_then(Weak::upgrade) {
            return gateway;
        }
        let settings = settings(&self.plugin, &state.opened, digest);
        let made = settings.and_then(|settings| Ok(Gateway::new(&self.plugin, &settings, self.surroundings.clone())?));
        let gateway = match made {
            Ok(gateway) => Arc::new(gateway),
            Err(error) => {
                tracing::error!(plugin = self.plugin, "the plugin has no way out: {error}");
                return Arc::clone(&self.shut);
            }
        };
        state.gateways.retain(|_, gateway| gateway.strong_count() > 0);
        state.gateways.insert(digest.to_owned(), Arc::downgrade(&gateway));
        gateway
    }
}

/// All rules, whatever component their credentials are for, without these.
fn unbound(permits: &Permits) -> Settings {
    let rules = permits.rules.iter().map(|rule| EgressRule { credential: None, ..rule.clone() });
    Settings { rules: rules.collect(), ..Settings::default() }
}

/// What a component with this digest may reach: rules whose credential is not for it are left out.
fn settings(plugin: &str, opened: &Opened, digest: &str) -> Result<Settings, EgressError> {
    let mut settings = Settings::default();
    for rule in &opened.permits.rules {
        if let Some(name) = &rule.credential {
            let known = opened.permits.credentials.iter().any(|credential| credential.name() == name);
            if !known {
                return Err(EgressError::NoCredential { rule: rule.name.clone(), credential: name.clone() });
            }
            match opened.credentials.bind(name, plugin, &format!("sha256:{digest}")) {
                Ok(credential) => drop(settings.credentials.insert(name.clone(), credential)),
                Err(error) => {
                    // No component is asked about while the configuration is only looked at.
                    if !digest.is_empty() {
                        tracing::warn!(plugin, rule = rule.name, "the rule is left out: {error}");
                    }
                    continue;
                }
            }
        }
        settings.rules.push(rule.clone());
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(digest: &str) -> Permits {
        let credentials =
            format!("[{{type: header, name: api, for: {{plugin: a, digest: {digest}}}, valueFile: /nowhere/token}}]");
        let rules =
            "[{name: open, to: 'https://a.example:443'}, {name: known, to: 'https://b.example:443', credential: api}]";
        let (rules, credentials) = (serde_saphyr::from_str(rules), serde_saphyr::from_str(&credentials));
        Permits { rules: rules.unwrap(), credentials: credentials.unwrap() }
    }

    fn rules(plugin: &str, permits: &Permits, digest: &str) -> Vec<String> {
        let credentials = credentials(permits, &CredentialMetrics::default()).unwrap();
        let opened = Opened { permits: permits.clone(), credentials };
        settings(plugin, &opened, digest).unwrap().rules.into_iter().map(|rule| rule.name).collect()
    }

    // Holds: SEC-19, OPS-115
    #[test]
    fn a_credential_is_for_one_plugin_and_one_component_of_it() {
        let (one, other) = ("1".repeat(64), "2".repeat(64));
        let pinned = permits(&format!("'sha256:{one}'"));
        assert_eq!(rules("a", &pinned, &one), ["open", "known"]);
        assert_eq!(rules("a", &pinned, &other), ["open"], "another component");
        assert_eq!(rules("b", &pinned, &one), ["open"], "another plugin");
        assert_eq!(rules("a", &permits("any"), &other), ["open", "known"]);
    }

    #[test]
    fn a_generation_keeps_its_gateway_and_another_component_has_another() {
        let egress = Egress::new("a", permits("any"), Vec::new(), &mut Registry::default()).unwrap();
        let first = egress.gateway("1");
        assert!(Arc::ptr_eq(&first, &egress.gateway("1")) && !Arc::ptr_eq(&first, &egress.gateway("2")));
        let unknown = Permits { credentials: Vec::new(), ..permits("any") };
        let refused = egress.update(unknown).unwrap_err().to_string();
        assert_eq!(refused, "egress rule `known`: there is no credential `api`");
        egress.update(Permits::default()).unwrap();
        assert!(Arc::ptr_eq(&first, &egress.gateway("1")), "its rules are others");
    }

    // Holds: OPS-118, OPS-119, OPS-120, OPS-121
    #[test]
    fn every_metric_of_the_way_out_is_on_the_page() {
        let page = include_str!("../../../docs/operating.md");
        // A family without series is not written: so they are looked for where they are registered.
        let of = |prefix: &str, source: &str| -> Vec<String> {
            let calls = source.split("registry.register").skip(1).filter(|call| call.starts_with(['(', '_']));
            calls.filter_map(|call| Some(format!("{prefix}_{}", call.split('"').nth(1)?))).collect()
        };
        let egress = of("skydock_egress", include_str!("../../egress/src/metrics.rs"));
        let credentials = of("skydock_credential", include_str!("../../egress/src/credentials/metrics.rs"));
        assert!(egress.len() >= 8 && credentials.len() == 1, "{egress:?} {credentials:?}");
        let missing: Vec<_> = egress.iter().chain(&credentials).filter(|name| !page.contains(*name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    fn broken(digest: &str) -> Permits {
        let mut broken = permits(&format!("'sha256:{digest}'"));
        broken.rules[1].methods = vec!["NONE".to_owned()];
        broken
    }

    #[test]
    fn a_rule_of_one_component_is_checked_as_the_others_are() {
        assert!(check("a", &broken(&"1".repeat(64))).is_err());
    }

    #[test]
    fn rules_that_are_wrong_for_one_component_change_nothing_for_another() {
        let ones = "1".repeat(64);
        let others: Vec<String> = (2..9).map(|digit: u32| digit.to_string().repeat(64)).collect();
        let egress = Egress::new("a", permits(&format!("'sha256:{ones}'")), Vec::new(), &mut Registry::default());
        let egress = egress.unwrap();
        let gateways: Vec<_> = others.iter().chain([&ones]).map(|digest| egress.gateway(digest)).collect();
        let mut next = broken(&ones);
        // Something that can be seen.
        next.rules[0].addresses = vec!["0.0.0.0/0".to_owned()];
        egress.update(next).unwrap_err();
        let changed = gateways.iter().filter(|gateway| !gateway.warnings().is_empty()).count();
        assert_eq!(changed, 0, "of 8 gateways");
    }
}
