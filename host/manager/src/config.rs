//! The validated configuration of a run: what the flags ([`crate::cli`]) and the configuration file
//! ([`crate::file`]) say together. It also applies changes of the file while the process runs.

mod error;
mod follow;
mod metrics;
mod notice;
mod plugin;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::{Path, PathBuf},
};

use ipnet::IpNet;
use k8s_openapi::api::core::v1::ObjectReference;
use skydock_controllers::{
    ClusterCidrsError, Controller, Options as ControllerOptions,
    ipam::{self, IpamOptions},
    route,
    service::{self, ServiceOptions},
};
use skydock_egress::Official;
use skydock_kube::{
    clients::ClusterAccess,
    election::{ElectionConfig, Timings, TimingsError},
};
use skydock_sandbox::{AddressRules, ConfigSecrets};
use skydock_serving::secure::SecureServing;

use crate::{
    cli::{AcceptedFlag, BindAddress, CcmArgs, IpamArgsError, LoggingFormat, PluginFallback},
    egress::EgressPolicy,
    file::SkydockConfiguration,
    process::telemetry::LogOptions,
};

use self::plugin::Sources;

pub(crate) use self::plugin::{AWS, REGION, source_in_file};
pub use self::{
    error::ConfigError,
    follow::{Followed, follow},
    metrics::FileMetrics,
    notice::Notice,
    plugin::{PluginFlags, PluginSettings},
};

/// The configuration of a run.
#[derive(Debug)]
pub struct Config {
    /// The plugin that serves the cluster.
    pub plugin: PluginSettings,
    /// What the command line says about it.
    pub plugin_flags: PluginFlags,
    /// Directory for compiled plugins; `None` disables the cache.
    pub plugin_cache_dir: Option<PathBuf>,
    /// Whether the last good build of the plugin may serve while its file cannot be loaded.
    pub last_good: bool,
    /// Where calls of the plugin are recorded; `None` if they are not.
    pub record: Option<RecordTo>,
    /// Network access of the plugin.
    pub egress_policy: EgressPolicy,
    /// Whether the cloud is only queried, even if the cluster is written to.
    pub only_reads: bool,
    /// Whether to wait for a plugin that cannot be loaded, instead of exiting.
    pub waits_for_plugin: bool,
    /// The Lease in which what was accepted of the plugin is kept; `None` if it is not kept.
    pub accepted_in: Option<LeaseName>,
    /// The configuration file, if there is one.
    pub file: Option<PathBuf>,
    /// `--cluster-cidr`.
    pub cluster_cidrs: Vec<String>,
    /// Rules for addresses of load balancers.
    pub ingress: AddressRules,
    /// How to connect to the cluster.
    pub cluster: ClusterAccess,
    /// Run each controller under its own service account.
    pub service_account_credentials: bool,
    /// The controllers to run.
    pub controllers: BTreeSet<Controller>,
    /// Options of the controllers, including the name of the cluster.
    pub options: ControllerOptions,
    /// Socket for the sidecars of a CSI driver, if there is one.
    pub csi_socket: Option<PathBuf>,
    /// Leader election, if enabled.
    pub election: Option<ElectionConfig>,
    /// How to serve HTTPS, if enabled.
    pub secure_serving: Option<SecureServing>,
    /// Address for plain HTTP, if enabled.
    pub serve: Option<SocketAddr>,
    /// The official cloud-controller-manager whose names of metrics are served too.
    pub metrics_compat: Option<Official>,
    /// Log options.
    pub log: LogOptions,
    /// All flags with the values that are in effect, without secrets.
    pub effective_flags: BTreeMap<String, String>,
    /// Flags of upstream that are accepted although Skydock does not have them.
    pub accepted_flags: Vec<AcceptedFlag>,
    /// What is logged at startup about flags and defaults.
    pub notices: Vec<Notice>,
}

/// Paths that are used, if they exist, without a flag.
#[derive(Clone, Debug)]
struct Defaults {
    /// Of `--plugin-dir`.
    plugin_dir: PathBuf,
    /// Of `--config`.
    config: PathBuf,
}

impl Default for Defaults {
    /// Where images and manifests have plugins and the configuration.
    fn default() -> Self {
        Self {
            plugin_dir: "/plugins".into(),
            config: "/etc/skydock/config.yaml".into(),
        }
    }
}

/// Where calls are recorded.
#[derive(Clone, Debug)]
pub struct RecordTo {
    /// The directory of the recordings.
    pub directory: PathBuf,
    /// Maximum bytes of all recordings.
    pub limit: u64,
}

/// Which Lease a run uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseName {
    /// `--leader-elect-resource-namespace`.
    pub namespace: String,
    /// `--leader-elect-resource-name`.
    pub name: String,
}

impl LeaseName {
    fn of(args: &CcmArgs) -> Self {
        Self {
            namespace: args.leader_elect_resource_namespace.clone(),
            name: args.leader_elect_resource_name.clone(),
        }
    }
}

impl TryFrom<CcmArgs> for Config {
    type Error = ConfigError;

    fn try_from(args: CcmArgs) -> Result<Self, ConfigError> {
        Self::with_defaults(args, &Defaults::default())
    }
}

impl Config {
    fn with_defaults(mut args: CcmArgs, defaults: &Defaults) -> Result<Self, ConfigError> {
        let mut notices = notice::of_command_line(&args);
        let file = configuration_file(&mut args, defaults, &mut notices)?;

        // Manifests keep the flags of a controller that is disabled.
        let controllers = skydock_controllers::parse_controllers(&args.controllers)?;
        let runs_services = controllers.contains(&service::CONTROLLER);
        let services = args.services.clone().options(runs_services)?;

        let plugin_flags = plugin_flags(&args, file.as_ref(), &services, defaults, &mut notices)?;
        let plugin = plugin_flags.settings(file.as_ref().zip(args.config.as_deref()))?;
        let egress_policy = egress_policy(file.as_ref(), &plugin);

        notices.extend(notice::of_variables(&egress_policy));
        let secure_serving = args.serving.options()?.map(|(serving, told)| {
            notices.extend(told.into_iter().map(Notice::Warning));
            serving
        });

        let plugin_cache_dir = plugin_cache_dir(&args, default_cache_dir(), &mut notices)?;
        check_files(&args, &plugin)?;
        if args.dry_run && args.use_service_account_credentials {
            return Err(ConfigError::DryRunAccounts);
        }

        Ok(Self {
            last_good: falls_back(&args),
            log: log_options(&args),
            accepted_in: Some(LeaseName::of(&args)),
            ingress: ingress_rules(&args)?,
            options: controller_options(&args, &controllers, services)?,
            csi_socket: args.csi.csi_endpoint.clone(),
            election: election(&args).transpose()?,
            egress_policy,
            only_reads: args.dry_run,
            waits_for_plugin: false,
            file: args.config,
            plugin,
            plugin_flags,
            plugin_cache_dir,
            record: args.record.map(|directory| RecordTo {
                directory,
                limit: args.record_limit,
            }),
            cluster_cidrs: args.cluster_cidrs,
            cluster: ClusterAccess {
                kubeconfig: args.kubeconfig,
                master: args.master,
            },
            service_account_credentials: args.use_service_account_credentials,
            controllers,
            secure_serving,
            metrics_compat: args.serving.metrics_compat,
            serve: match args.serving.metrics_bind_address {
                BindAddress::At(address) => Some(address),
                BindAddress::Off => None,
            },
            effective_flags: args.effective,
            accepted_flags: args.accepted,
            notices,
        })
    }
}

/// Reads the configuration file, if there is one. The default file counts as `--config`.
fn configuration_file(
    args: &mut CcmArgs,
    defaults: &Defaults,
    notices: &mut Vec<Notice>,
) -> Result<Option<SkydockConfiguration>, ConfigError> {
    if args.config.is_none() && exists(&defaults.config) {
        notices.push(Notice::default_taken("--config", &defaults.config));
        args.config = Some(defaults.config.clone());
    }

    let file = args
        .config
        .as_deref()
        .map(SkydockConfiguration::read)
        .transpose()?;
    Ok(file)
}

/// Returns the rules and credentials of the plugin. Without any in the file, it reaches nothing.
fn egress_policy(file: Option<&SkydockConfiguration>, plugin: &PluginSettings) -> EgressPolicy {
    file.and_then(|it| Some(it.egress_policy(it.plugin(&plugin.name)?)))
        .unwrap_or_default()
}

/// Returns whether there is something at this path, also if it cannot be read, or is a link to
/// nothing.
fn exists(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(_) => true,
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// Checks the flags that do not depend on the plugin.
pub(crate) fn check_controllers(args: &CcmArgs) -> Result<(), ConfigError> {
    let controllers = skydock_controllers::parse_controllers(&args.controllers)?;
    let runs_services = controllers.contains(&service::CONTROLLER);
    let services = args.services.clone().options(runs_services)?;
    controller_options(args, &controllers, services)?;
    ingress_rules(args)?;
    election(args).transpose()?;
    args.serving.options()?;
    Ok(())
}

/// Returns what the flags say about the plugin that they, or else the file, select.
fn plugin_flags(
    args: &CcmArgs,
    file: Option<&SkydockConfiguration>,
    services: &ServiceOptions,
    defaults: &Defaults,
    notices: &mut Vec<Notice>,
) -> Result<PluginFlags, ConfigError> {
    let configured = file.and_then(|it| it.plugins.first());
    let default_directory = defaults.plugin_dir.as_path();
    let is_default = args.plugin_dir.is_none() && default_directory.is_dir();

    let sources = Sources {
        provider: &args.cloud_provider,
        flags: &args.plugins,
        configured: configured.zip(args.config.as_deref()),
        directory: args.plugin_dir.as_deref(),
        default_directory: is_default.then_some(default_directory),
    };
    let chosen = sources.choose()?;

    let component = chosen.file.as_deref();
    if is_default && component.is_some_and(|it| it.parent() == Some(default_directory)) {
        notices.push(Notice::default_taken("--plugin-dir", default_directory));
    }
    if chosen.is_only_one {
        notices.push(Notice::only_plugin(&args.cloud_provider, &chosen.name));
    }

    Ok(PluginFlags {
        name: chosen.name,
        file: chosen.file,
        cloud_config: args.cloud_config.clone(),
        options: args.plugin_options.clone(),
        limits: args.plugin_limits.clone(),
        services: services.concurrent_syncs,
        permissions: None,
    })
}

/// Returns the directory for compiled plugins, in which the last good build is kept, too.
fn plugin_cache_dir(
    args: &CcmArgs,
    default: Option<PathBuf>,
    notices: &mut Vec<Notice>,
) -> Result<Option<PathBuf>, ConfigError> {
    let directory = args.plugin_cache_dir.clone().or(default);
    if directory.is_some() {
        return Ok(directory);
    }

    if falls_back(args) {
        return Err(ConfigError::NoCacheDir);
    }
    notices.push(Notice::without_cache_dir());
    Ok(None)
}

fn log_options(args: &CcmArgs) -> LogOptions {
    LogOptions {
        verbosity: args.v,
        json: args.logging_format == LoggingFormat::Json,
        quiet: false,
    }
}

/// Returns whether the last good build of the plugin may serve.
fn falls_back(args: &CcmArgs) -> bool {
    args.plugin_fallback == PluginFallback::LastGood
}

/// Checks that the files that the flags name can be read.
fn check_files(args: &CcmArgs, plugin: &PluginSettings) -> Result<(), ConfigError> {
    // The last good build can serve without the file.
    if !falls_back(args) {
        let is_flag = args.plugins.iter().any(|named| named.file == plugin.file);
        let what = if is_flag { "--plugin" } else { "the plugin" };
        must_be_readable(what, &plugin.file, skydock_sandbox::open)?;
    }

    if let Some(file) = &plugin.cloud_config {
        let is_flag = args.cloud_config.as_ref() == Some(file);
        let what = if is_flag {
            "--cloud-config"
        } else {
            "cloudConfig"
        };
        must_be_readable(what, file, skydock_sandbox::open)?;
    }
    let serving = &args.serving;
    for (flag, file) in [
        ("--kubeconfig", &args.kubeconfig),
        (
            "--authentication-kubeconfig",
            &serving.authentication_kubeconfig,
        ),
        (
            "--authorization-kubeconfig",
            &serving.authorization_kubeconfig,
        ),
    ] {
        if let Some(file) = file {
            must_be_readable(flag, file, |file| std::fs::File::open(file))?;
        }
    }
    Ok(())
}

/// Returns the options of the controllers. Those of controllers that do not run are not checked.
fn controller_options(
    args: &CcmArgs,
    controllers: &BTreeSet<Controller>,
    services: ServiceOptions,
) -> Result<ControllerOptions, ConfigError> {
    let of_nodes = args.nodes.options();
    let runs_routes = controllers.contains(&route::CONTROLLER);

    let ipam = if controllers.contains(&ipam::CONTROLLER) {
        args.ipam.options(&args.cluster_cidrs)?
    } else {
        IpamOptions::default()
    };
    let routes = args.routes.options(&args.cluster_cidrs, runs_routes)?;

    Ok(ControllerOptions {
        cluster_name: args.cluster_name.clone(),
        services,
        ipam,
        dry_run: args.dry_run,
        routes,
        process: ObjectReference {
            namespace: Some(args.leader_elect_resource_namespace.clone()),
            name: Some(args.leader_elect_resource_name.clone()),
            ..of_nodes.process
        },
        ..of_nodes
    })
}

/// Returns how to elect a leader. A dry run may run next to the active instance, which keeps its
/// Lease.
fn election(args: &CcmArgs) -> Option<Result<ElectionConfig, TimingsError>> {
    (args.leader_elect && !args.dry_run).then(|| {
        let timings = Timings::new(
            args.leader_elect_lease_duration,
            args.leader_elect_renew_deadline,
            args.leader_elect_retry_period,
        )?;
        Ok(ElectionConfig {
            namespace: args.leader_elect_resource_namespace.clone(),
            name: args.leader_elect_resource_name.clone(),
            timings,
        })
    })
}

fn ingress_rules(args: &CcmArgs) -> Result<AddressRules, ConfigError> {
    let pods = nets(&args.cluster_cidrs, |text| {
        ClusterCidrsError::Unreadable(text).into()
    })?;
    let services = nets(
        &args.ipam.service_cluster_ip_range,
        IpamArgsError::UnreadableServiceRange,
    )?;

    Ok(AddressRules {
        pods,
        services,
        allowed: args.services.load_balancer_allowed_cidrs.clone(),
        node_addresses: args.services.load_balancer_allow_node_addresses,
    })
}

/// Parses CIDRs. A value that is not valid is an error even if it would not be used otherwise: if
/// it were ignored, its addresses would be allowed.
fn nets(
    texts: &[String],
    unreadable: fn(String) -> IpamArgsError,
) -> Result<Vec<IpNet>, ConfigError> {
    let texts = texts
        .iter()
        .map(|text| text.trim())
        .filter(|text| !text.is_empty());
    let nets = texts.map(|text| text.parse().map_err(|_| unreadable(text.to_owned())));
    Ok(nets.collect::<Result<_, _>>()?)
}

/// Returns what happens to secrets in the provider configuration, which is this file.
pub fn config_secrets(policy: &EgressPolicy, file: Option<&Path>, allowed: bool) -> ConfigSecrets {
    if file.is_some_and(|file| is_cloud_conf(policy, file)) {
        ConfigSecrets::Kept
    } else if allowed {
        ConfigSecrets::Passed
    } else {
        ConfigSecrets::Rejected
    }
}

/// Returns true if a credential reads its secrets from this file, even if the paths differ.
fn is_cloud_conf(policy: &EgressPolicy, file: &Path) -> bool {
    let same = |other: &Path| {
        other == file
            || other
                .canonicalize()
                .is_ok_and(|other| file.canonicalize().is_ok_and(|file| file == other))
    };

    policy
        .credentials
        .iter()
        .filter_map(|credential| credential.cloud_conf())
        .any(same)
}

fn must_be_readable(
    what: &'static str,
    file: &Path,
    open: impl Fn(&Path) -> std::io::Result<std::fs::File>,
) -> Result<(), ConfigError> {
    let failed = |source| ConfigError::File {
        what,
        file: file.display().to_string(),
        source,
    };

    let meta = open(file)
        .and_then(|file| file.metadata())
        .map_err(failed)?;

    // A directory can be opened, too.
    if meta.is_dir() {
        Err(failed(std::io::ErrorKind::IsADirectory.into()))
    } else {
        Ok(())
    }
}

/// Returns `skydock/compiled` in `$XDG_CACHE_HOME` or `~/.cache`; `None` if neither is set, or if this
/// process cannot write there, which disables the cache. In many containers, the home directory is
/// the root directory of another user.
#[must_use]
pub fn default_cache_dir() -> Option<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            // The XDG specification demands absolute paths, and ignores others.
            .filter(|dir| dir.is_absolute())
    };

    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("skydock").join("compiled")).filter(|directory| is_writable(directory))
}

/// Returns true if this process can write to a directory, or create it.
fn is_writable(directory: &Path) -> bool {
    let exists = directory.ancestors().find(|it| it.exists());
    exists.is_some_and(|it| rustix::fs::access(it, rustix::fs::Access::WRITE_OK).is_ok())
}

#[cfg(test)]
mod tests;
