//! The validated configuration of a run.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use ipnet::IpNet;
use k8s_openapi::api::core::v1::ObjectReference;
use skydock_cloud::Pairs;
use skydock_controllers::{ClusterCidrsError, Controller, Options as ControllerOptions, service::ServiceOptions};
use skydock_kube::{
    clients::ClusterAccess,
    election::{ElectionConfig, Timings, TimingsError},
};
use skydock_plugin::{Grants, IngressRules, Limits, Overlap};

use crate::{
    cli::{
        BindAddress, CcmArgs, IpamArgsError, LoggingFormat, NamedPlugin, ServiceArgsError,
        plugin_limits::{self, PluginLimit, PluginLimitsError},
        routes::RouteArgsError,
    },
    configuration::{ConfigurationError, PluginConfiguration, SkydockConfiguration},
    egress::Permits,
    telemetry::LogOptions,
};

/// The configuration of a run.
#[derive(Debug)]
pub struct Config {
    /// The plugin that serves the cluster.
    pub plugin: NamedPlugin,
    /// The provider configuration file.
    pub cloud_config: Option<PathBuf>,
    /// Directory for compiled plugins; `None` disables the cache.
    pub plugin_cache_dir: Option<PathBuf>,
    /// Directory for recordings, and the limit of their size in bytes.
    pub record: Option<(PathBuf, u64)>,
    /// Resource limits of the plugin.
    pub plugin_limits: Limits,
    /// The operator's options for the provider.
    pub plugin_options: Pairs,
    /// Required SHA-256 of the plugin, in hexadecimal.
    pub plugin_digest: Option<String>,
    /// Which calls may run concurrently; overrides what the plugin declares.
    pub plugin_overlap: Option<Overlap>,
    /// Grants for the plugin.
    pub grants: Grants,
    /// Network access of the plugin.
    pub permits: Permits,
    /// Whether the provider configuration is a `cloud.conf` whose secrets a credential uses.
    pub is_cloud_conf: bool,
    /// Whether the cloud is only queried, even if the cluster is written to.
    pub only_reads: bool,
    /// Whether to wait for a plugin that cannot be loaded, instead of exiting.
    pub waits_for_plugin: bool,
    /// The configuration file, if there is one.
    pub configuration: Option<PathBuf>,
    /// `--cluster-cidr`.
    pub cluster_cidrs: Vec<String>,
    /// Rules for addresses of load balancers.
    pub ingress: IngressRules,
    /// How to connect to the cluster.
    pub cluster: ClusterAccess,
    /// Run each controller under its own service account.
    pub service_account_credentials: bool,
    /// The controllers to run.
    pub controllers: BTreeSet<Controller>,
    /// Options of the controllers, including the name of the cluster.
    pub options: ControllerOptions,
    /// Leader election, if enabled.
    pub election: Option<ElectionConfig>,
    /// Address for metrics and health, if enabled.
    pub serve: Option<SocketAddr>,
    /// Log options.
    pub log: LogOptions,
}

/// Why a set of flags is not valid.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// No provider is set.
    #[error("--cloud-provider is missing: set it to the name of the plugin{}", known(.0))]
    NoProvider(Vec<String>),
    /// There is no plugin for the provider.
    #[error(
        "no plugin for --cloud-provider={name}: set --plugin {name}=FILE, or --plugin-dir to a directory with {name}.wasm"
    )]
    NoPlugin {
        /// Name of the provider.
        name: String,
    },
    /// The plugin directory does not contain the plugin.
    #[error(
        "no plugin for --cloud-provider={name}: {file} does not exist; set --plugin {name}=FILE, or another --plugin-dir"
    )]
    NotInDirectory {
        /// Name of the provider.
        name: String,
        /// The file that was expected.
        file: String,
    },
    /// Two plugins have the same name.
    #[error("--plugin sets {0:?} twice")]
    PluginTwice(String),
    /// The flag and the configuration file name different plugins.
    #[error("--cloud-provider={flag}, but the plugin in {file} is {configured}: set --plugin {flag}=FILE, or remove the flag", file = .file.display())]
    OtherPlugin {
        /// The plugin in the flag.
        flag: String,
        /// The plugin in the configuration file.
        configured: String,
        /// The configuration file.
        file: PathBuf,
    },
    /// The configuration file is not valid.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// A file does not exist or cannot be read.
    #[error("{flag}: cannot read {file}")]
    File {
        /// The flag that names the file.
        flag: &'static str,
        /// The file.
        file: String,
        /// The reason.
        source: std::io::Error,
    },
    /// `--controllers` is not valid.
    #[error("--controllers: {0}")]
    Controllers(#[from] skydock_controllers::UnknownController),
    /// A dry run must not create service accounts or tokens.
    #[error(
        "--dry-run and --use-service-account-credentials are mutually exclusive, because service accounts and tokens would be created"
    )]
    DryRunAccounts,
    /// The flags of the node IPAM controller are not valid.
    #[error(transparent)]
    Ipam(#[from] IpamArgsError),
    /// The flags of the service controller are not valid together.
    #[error(transparent)]
    Services(#[from] ServiceArgsError),
    /// The limits of the plugin are not valid together.
    #[error(transparent)]
    PluginLimits(#[from] PluginLimitsError),
    /// The durations of leader election are not valid together.
    #[error(transparent)]
    Timings(#[from] TimingsError),
    /// The flags of the route controller are not valid.
    #[error(transparent)]
    Routes(#[from] RouteArgsError),
}

fn known(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(" (given: {})", names.join(", ")) }
}

impl TryFrom<CcmArgs> for Config {
    type Error = ConfigError;

    fn try_from(args: CcmArgs) -> Result<Self, ConfigError> {
        let configuration = args.config.as_deref().map(SkydockConfiguration::read).transpose()?;
        let permits = configuration.as_ref().and_then(|it| Some(it.permits(it.plugins.first()?)));
        let configured = configuration.and_then(|it| it.plugins.into_iter().next());
        let plugin = choose_plugin(&args, configured.as_ref())?;
        // The settings in the file do not apply if another plugin is selected.
        let configured = configured.filter(|it| it.name == plugin.name);
        let permits = permits.filter(|_| configured.is_some()).unwrap_or_default();
        must_be_readable("--plugin", &plugin.file, skydock_plugin::open)?;
        let cloud_config = args.cloud_config.clone().or_else(|| configured.as_ref()?.cloud_config.clone());
        if let Some(file) = &cloud_config {
            must_be_readable("--cloud-config", file, skydock_plugin::open)?;
        }
        if let Some(file) = &args.kubeconfig {
            must_be_readable("--kubeconfig", file, |file| std::fs::File::open(file))?;
        }
        if args.dry_run && args.use_service_account_credentials {
            return Err(ConfigError::DryRunAccounts);
        }
        let ingress = ingress_rules(&args, std::env::var("KUBERNETES_SERVICE_HOST").ok().as_deref())?;
        // A dry run may run next to the active instance, which keeps its Lease.
        let election = (args.leader_elect && !args.dry_run).then(|| {
            let timings = Timings::new(
                args.leader_elect_lease_duration,
                args.leader_elect_renew_deadline,
                args.leader_elect_retry_period,
            )?;
            Ok::<_, TimingsError>(ElectionConfig {
                namespace: args.leader_elect_resource_namespace.clone(),
                name: args.leader_elect_resource_name.clone(),
                timings,
            })
        });
        let defaults = ControllerOptions::default();
        let ipam = args.ipam.options(&args.cluster_cidrs)?;
        let routes = args.routes.options(&args.cluster_cidrs)?;
        let services: ServiceOptions = args.services.try_into()?;
        let configured = Configured::of(configured.as_ref(), args.config.as_deref())?;
        let limits = plugin_limits::merged(configured.limits, args.plugin_limits);
        let mut plugin_options = configured.options;
        plugin_options.extend(args.plugin_options);
        Ok(Self {
            plugin_limits: plugin_limits::limits(services.concurrent_syncs, &limits)?,
            plugin_options,
            plugin_digest: configured.digest,
            plugin_overlap: configured.overlap,
            grants: configured.grants,
            is_cloud_conf: cloud_config.as_deref().is_some_and(|file| is_cloud_conf(&permits, file)),
            permits,
            only_reads: args.dry_run,
            waits_for_plugin: false,
            configuration: args.config,
            plugin,
            cloud_config,
            plugin_cache_dir: args.plugin_cache_dir.or_else(default_cache_dir),
            record: args.record.map(|directory| (directory, args.record_limit)),
            cluster_cidrs: args.cluster_cidrs,
            ingress,
            cluster: ClusterAccess { kubeconfig: args.kubeconfig, master: args.master },
            service_account_credentials: args.use_service_account_credentials,
            controllers: skydock_controllers::parse_controllers(&args.controllers)?,
            options: ControllerOptions {
                cluster_name: args.cluster_name,
                node: args.nodes.node_options(),
                lifecycle: args.nodes.lifecycle_options(),
                services,
                ipam,
                dry_run: args.dry_run,
                routes,
                process: ObjectReference {
                    namespace: Some(args.leader_elect_resource_namespace),
                    name: Some(args.leader_elect_resource_name),
                    ..defaults.process
                },
                ..defaults
            },
            election: election.transpose()?,
            serve: match args.metrics_bind_address {
                BindAddress::At(address) => Some(address),
                BindAddress::Off => None,
            },
            log: LogOptions { verbosity: args.v, json: args.logging_format == LoggingFormat::Json, quiet: false },
        })
    }
}

/// Returns the rules for load balancer addresses, from the flags and, in a Pod, the environment.
fn ingress_rules(args: &CcmArgs, api_server: Option<&str>) -> Result<IngressRules, ConfigError> {
    let pods = nets(&args.cluster_cidrs, |text| ClusterCidrsError::Unreadable(text).into())?;
    let mut services = nets(&args.ipam.service_cluster_ip_range, IpamArgsError::UnreadableServiceRange)?;
    services.extend(api_server.and_then(|address| address.parse().ok()).map(|address: IpAddr| IpNet::from(address)));
    Ok(IngressRules { pods, services, allowed: args.services.load_balancer_allowed_cidrs.clone() })
}

/// Parses CIDRs. A value that is not valid is an error even if it would not be used otherwise: if it were ignored, its addresses
/// would be allowed.
fn nets(texts: &[String], unreadable: fn(String) -> IpamArgsError) -> Result<Vec<IpNet>, ConfigError> {
    let texts = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
    let nets = texts.map(|text| text.parse().map_err(|_| unreadable(text.to_owned())));
    Ok(nets.collect::<Result<_, _>>()?)
}

/// Returns true if a credential reads its secrets from this file, even if the paths differ.
pub fn is_cloud_conf(permits: &Permits, file: &Path) -> bool {
    let same = |other: &Path| {
        other == file || other.canonicalize().is_ok_and(|other| file.canonicalize().is_ok_and(|file| file == other))
    };
    permits.credentials.iter().filter_map(|credential| credential.cloud_conf()).any(same)
}

/// The settings of the plugin in the configuration file.
#[derive(Default)]
pub struct Configured {
    /// Resource limits.
    pub limits: Vec<PluginLimit>,
    /// Options for the provider.
    pub options: Pairs,
    /// Required SHA-256 of its file.
    pub digest: Option<String>,
    /// Which calls may run concurrently; overrides what the plugin declares.
    pub overlap: Option<Overlap>,
    /// Grants for the plugin.
    pub grants: Grants,
}

impl Configured {
    /// Returns the settings of a plugin in a file; the defaults if either is missing.
    ///
    /// # Errors
    /// If a setting is not valid.
    pub fn of(plugin: Option<&PluginConfiguration>, file: Option<&Path>) -> Result<Self, ConfigError> {
        let (Some(plugin), Some(file)) = (plugin, file) else { return Ok(Self::default()) };
        let wrong = |sentence| ConfigurationError::said(file, sentence);
        Ok(Self {
            limits: plugin.limits().map_err(wrong)?,
            options: plugin.options.clone(),
            digest: plugin.sha256().map_err(wrong)?,
            overlap: plugin.overlap.map(Into::into),
            grants: plugin.grants.grants().map_err(wrong)?,
        })
    }
}

/// Selects the plugin named by `--cloud-provider`, or else by the configuration. Its file comes from `--plugin`, then from the
/// configuration, then from `--plugin-dir`.
fn choose_plugin(args: &CcmArgs, configured: Option<&PluginConfiguration>) -> Result<NamedPlugin, ConfigError> {
    let mut names = BTreeSet::new();
    if let Some(twice) = args.plugins.iter().find(|plugin| !names.insert(&plugin.name)) {
        return Err(ConfigError::PluginTwice(twice.name.clone()));
    }
    let mut name = args.cloud_provider.clone();
    if let Some(configured) = configured.filter(|_| name.is_empty()) {
        name.clone_from(&configured.name);
    }
    if name.is_empty() {
        return Err(ConfigError::NoProvider(args.plugins.iter().map(|plugin| plugin.name.clone()).collect()));
    }
    if let Some(plugin) = args.plugins.iter().find(|plugin| plugin.name == name) {
        return Ok(plugin.clone());
    }
    if let Some(configured) = configured.filter(|configured| configured.name == name) {
        return Ok(NamedPlugin { name, file: configured.file.clone() });
    }
    let Some(dir) = &args.plugin_dir else {
        return Err(match (configured, &args.config) {
            (Some(configured), Some(file)) => {
                ConfigError::OtherPlugin { flag: name, configured: configured.name.clone(), file: file.clone() }
            }
            _ => ConfigError::NoPlugin { name },
        });
    };
    let file = dir.join(format!("{name}.wasm"));
    if file.is_file() {
        Ok(NamedPlugin { name, file })
    } else {
        Err(ConfigError::NotInDirectory { name, file: file.display().to_string() })
    }
}

fn must_be_readable(
    flag: &'static str,
    file: &Path,
    open: impl Fn(&Path) -> std::io::Result<std::fs::File>,
) -> Result<(), ConfigError> {
    let failed = |source| ConfigError::File { flag, file: file.display().to_string(), source };
    let meta = open(file).and_then(|file| file.metadata()).map_err(failed)?;
    if meta.is_dir() { Err(failed(std::io::ErrorKind::IsADirectory.into())) } else { Ok(()) }
}

/// Returns `skydock/compiled` in `$XDG_CACHE_HOME` or `~/.cache`; `None` if neither is set, which disables the cache.
#[must_use]
pub fn default_cache_dir() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("skydock").join("compiled"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(args: &[&str]) -> Result<Config, ConfigError> {
        let cli = crate::cli::parse([&["skydock"], args].concat()).expect("flags parse");
        Config::try_from(cli.ccm)
    }

    fn plugin_dir() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("static.wasm"), b"").unwrap();
        dir
    }

    #[test]
    fn the_provider_is_found_by_plugin_flag_then_plugin_dir() {
        let dir = plugin_dir();
        let file = dir.path().join("static.wasm");
        let named = format!("--plugin=mine={}", file.display());
        let in_dir = format!("--plugin-dir={}", dir.path().display());
        assert_eq!(config(&["--cloud-provider=mine", &named]).unwrap().plugin.file, file);
        assert_eq!(config(&["--cloud-provider=static", &named, &in_dir]).unwrap().plugin.file, file);
        let missing = config(&["--cloud-provider=aws", &in_dir]).unwrap_err().to_string();
        assert!(missing.contains("aws.wasm does not exist"), "{missing}");
    }

    // Holds: OPS-117
    #[test]
    fn cloud_conf_is_recognized_through_symlinks() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("cloud.conf"), "").unwrap();
        std::fs::write(path("other.conf"), "").unwrap();
        std::os::unix::fs::symlink(path("cloud.conf"), path("link.conf")).unwrap();
        let text = format!(
            "[{{name: k, type: session, for: {{plugin: a, digest: any}}, login: {{keystone: {{cloudConf: {}}}}}}}]",
            path("link.conf").display()
        );
        let permits = Permits { credentials: serde_saphyr::from_str(&text).unwrap(), ..Permits::default() };
        for (file, expected) in [("link.conf", true), ("cloud.conf", true), ("other.conf", false), ("none", false)] {
            assert_eq!(is_cloud_conf(&permits, &path(file)), expected, "{file}");
        }
    }

    // Holds: OPS-106
    #[test]
    fn flags_override_the_configuration_file() {
        let dir = plugin_dir();
        let file = dir.path().join("config.yaml");
        let text = "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\nplugins:\n- name: static\n  file: static.wasm\n  \
                    cloudConfig: config.yaml\n  options: {a: '1', b: '1'}\n  limits: {memory: 64Mi, uses: '7'}\n  overlap: none\n";
        std::fs::write(&file, text).unwrap();
        let flag = format!("--config={}", file.display());
        let read = config(&[&flag]).unwrap();
        assert_eq!(
            (read.plugin.name.as_str(), read.plugin.file.as_path()),
            ("static", &*dir.path().join("static.wasm"))
        );
        assert_eq!((read.cloud_config.as_deref(), read.plugin_overlap), (Some(&*file), Some(Overlap::None)));
        assert_eq!((read.plugin_limits.memory, read.plugin_limits.uses), (64 << 20, 7));
        let over =
            config(&[&flag, "--plugin-limit=memory=65Mi", "--plugin-option=b=2", "--plugin-option=c=3"]).unwrap();
        assert_eq!((over.plugin_limits.memory, over.plugin_limits.uses), (65 << 20, 7));
        let options: Vec<_> = over.plugin_options.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(options, ["a=1", "b=2", "c=3"]);
        let other = format!("--plugin=other={}", dir.path().join("static.wasm").display());
        let other = config(&[&flag, "--cloud-provider=other", &other]).unwrap();
        assert_eq!((other.plugin.name.as_str(), other.cloud_config, other.plugin_overlap), ("other", None, None));
        let none = config(&[&flag, "--cloud-provider=other"]).unwrap_err().to_string();
        assert!(none.contains("the plugin in") && none.contains("is static"), "{none}");
    }

    #[test]
    fn a_missing_setting_is_named_with_its_flag() {
        assert!(config(&[]).unwrap_err().to_string().starts_with("--cloud-provider is missing"));
        let none = config(&["--cloud-provider=static"]).unwrap_err().to_string();
        assert!(none.contains("--plugin static=FILE"), "{none}");
        let gone = config(&["--cloud-provider=a", "--plugin=a=/nowhere/a.wasm"]).unwrap_err().to_string();
        assert!(gone.starts_with("--plugin: cannot read /nowhere/a.wasm"), "{gone}");
        let twice = config(&["--cloud-provider=a", "--plugin=a=1", "--plugin=a=2"]).unwrap_err().to_string();
        assert!(twice.contains("twice"), "{twice}");
    }

    // Holds: OPS-81
    #[test]
    fn cluster_addresses_come_from_flags_and_environment() {
        let flags = [
            "skydock",
            "--cluster-cidr=10.244.0.0/16, fd00:1::/56",
            "--service-cluster-ip-range=10.96.0.0/12",
            "--load-balancer-allowed-cidrs=10.244.9.0/24,10.244.8.1/32",
        ];
        let rules = ingress_rules(&crate::cli::parse(flags).unwrap().ccm, Some("172.20.0.1")).unwrap();
        let texts = |nets: Vec<IpNet>| nets.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(texts(rules.pods), ["10.244.0.0/16", "fd00:1::/56"]);
        assert_eq!(texts(rules.services), ["10.96.0.0/12", "172.20.0.1/32"]);
        assert_eq!(texts(rules.allowed), ["10.244.9.0/24", "10.244.8.1/32"]);
        assert!(crate::cli::parse(["skydock", "--load-balancer-allowed-cidrs=10.244.9.0"]).is_err());
    }

    // Holds: OPS-81, OPS-82
    #[test]
    fn ingress_rules_are_checked_even_without_routes() {
        let dir = plugin_dir();
        let in_dir = format!("--plugin-dir={}", dir.path().display());
        let flags = ["--cloud-provider=static", &in_dir, "--cluster-cidr=10.244.0.0/16"];
        let allowed = "--load-balancer-allowed-cidrs=10.244.9.0/24";
        let rules = config(&[&flags[..], &[allowed]].concat()).unwrap().ingress;
        assert_eq!((rules.pods.len(), rules.allowed.len()), (1, 1));
        // Neither Pod CIDRs nor routes are used, but a range that is ignored would not protect anything.
        for (wrong, sentence) in [
            ("--cluster-cidr=10.245.0.0", "--cluster-cidr: \"10.245.0.0\" is not a valid CIDR"),
            ("--service-cluster-ip-range=10.96", "--service-cluster-ip-range: \"10.96\" is not a valid CIDR"),
        ] {
            let refused = config(&[&flags[..], &[wrong, "--configure-cloud-routes=false"]].concat()).unwrap_err();
            assert!(refused.to_string().starts_with(sentence), "{refused}");
        }
    }

    // Holds: P-20
    #[test]
    fn rejects_inconsistent_leader_election_durations() {
        let dir = plugin_dir();
        let in_dir = format!("--plugin-dir={}", dir.path().display());
        let refused = config(&["--cloud-provider=static", &in_dir, "--leader-elect-renew-deadline=20s"]).unwrap_err();
        assert!(refused.to_string().contains("--leader-elect-lease-duration"), "{refused}");
        assert!(config(&["--cloud-provider=static", &in_dir, "--leader-elect=false"]).unwrap().election.is_none());
    }

    // Holds: OPS-04
    #[test]
    fn a_dry_run_takes_no_part_in_leader_election() {
        let dir = plugin_dir();
        let in_dir = format!("--plugin-dir={}", dir.path().display());
        let flags = ["--cloud-provider=static", in_dir.as_str(), "--leader-elect=true", "--dry-run"];
        assert!(config(&flags[..3]).unwrap().election.is_some());
        assert!(config(&flags).unwrap().election.is_none());
    }

    // Holds: OPS-89
    #[test]
    fn process_events_refer_to_the_configured_lease() {
        let dir = plugin_dir();
        let in_dir = format!("--plugin-dir={}", dir.path().display());
        let flags = ["--leader-elect-resource-name=mine", "--leader-elect-resource-namespace=here"];
        let process = config(&[&["--cloud-provider=static", &in_dir], &flags[..]].concat()).unwrap().options.process;
        assert_eq!((process.kind.as_deref(), process.name.as_deref()), (Some("Lease"), Some("mine")));
        assert_eq!(process.namespace.as_deref(), Some("here"));
    }

    // Holds: P-02
    #[test]
    fn an_unknown_controller_is_named() {
        let dir = plugin_dir();
        let in_dir = format!("--plugin-dir={}", dir.path().display());
        let refused = config(&["--cloud-provider=static", &in_dir, "--controllers=cloud-nodes"]).unwrap_err();
        assert!(refused.to_string().contains("cloud-nodes"), "{refused}");
    }
}
