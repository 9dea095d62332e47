//! The command line: upstream's flags with upstream's names, and a few of Skydock's own.
//!
//! Every flag that is parsed here has an effect. The words are read as upstream reads them
//! (`arguments`); upstream's flags that Skydock does not have are accepted with a warning, or
//! rejected by name (`arguments/upstream.rs`).
//!
//! A flag is a field of the `Args` struct of its group, in `cli/`; the comment on the field is the
//! text of `--help`. It becomes a field of the options of its controller, such as
//! `LifecycleOptions`, which have the same default. [`crate::config`] checks all flags together,
//! and [`crate::ccm`] passes the options to [`skydock_controllers::run()`]. If upstream has the
//! flag, remove it from the tables in `arguments/upstream.rs`. `docs/flags.md` is then out of date;
//! the beginning of that page says how it is written.

pub(crate) mod arguments;
mod csi;
mod effective;
mod ipam;
mod nodes;
mod plugin;
pub mod plugin_limits;
pub mod routes;
mod services;
mod serving;
mod stop;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    path::PathBuf,
    time::Duration,
};

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use ipnet::IpNet;
use jiff::SignedDuration;

use self::stop::{Why, is_request};

pub use self::arguments::AcceptedFlag;
pub use self::arguments::feature_gates::FeatureGate;
pub(crate) use self::arguments::feature_gates::WATCH_BASED_ROUTES;
pub use self::arguments::upstream::{
    ForeignFlag, Otherwise, Takes, flags_of_providers, foreign_flags,
};
pub use self::csi::CsiArgs;
pub use self::ipam::{IpamArgs, IpamArgsError};
pub use self::nodes::NodeArgs;
pub use self::plugin::{
    AcceptedArgs, Forwarded, InspectArgs, InspectFormat, PluginCommand, PluginTool, PrecompileArgs,
    ReplayArgs, ToolCommand,
};
pub use self::services::{ServiceArgs, ServiceArgsError};
pub use self::serving::{ServingArgs, ServingArgsError};
pub use self::stop::Stop;

const PROGRAM: &str = "skydock";

/// A cloud-controller-manager for every cloud: providers are WebAssembly plugins.
///
/// Without a subcommand, it runs as a Kubernetes cloud-controller-manager.
#[derive(Debug, Parser)]
#[command(
    name = PROGRAM,
    version,
    args_conflicts_with_subcommands = true,
    // As upstream, the last of several values counts; most lists add up.
    args_override_self = true,
    max_term_width = 120
)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The flags of a cloud-controller-manager.
    #[command(flatten)]
    pub ccm: CcmArgs,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a plugin in a development cluster: an API server, simulated nodes and Skydock, all in
    /// one process.
    ///
    /// When the plugin or its configuration changes, it is reloaded.
    #[command(disable_help_flag = true)]
    Dev {
        /// Arguments for `skydock-dev`, the program that this runs.
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "ARGUMENTS"
        )]
        arguments: Vec<OsString>,
    },
    /// Check configuration files.
    Config {
        /// The subcommand.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Find out why nodes wait for their cloud.
    ///
    /// Reads the cluster and changes nothing. It looks for the cloud-controller-manager, which need
    /// not be Skydock and need not run, and for what keeps it from initializing nodes: taints,
    /// labels, ports, network, permissions, flags, probes, other programs that do the same. Each
    /// finding says what was seen, why it matters, and the command that fixes it. The exit code is
    /// 0 if there is no problem, 1 if there is one, 2 if not everything could be checked.
    Doctor(DoctorArgs),
    /// Print the manifest of another cloud-controller-manager as it is with Skydock.
    ///
    /// Standard output has the changed manifest and a configuration file to fill in, standard error
    /// what was dropped and why. Deployments, DaemonSets, StatefulSets and Pods are known, also in
    /// lists and among other objects, which are not changed. Templates must be rendered before.
    Migrate(MigrateArgs),
    /// Inspect and create plugins.
    Plugin {
        /// The subcommand.
        #[command(subcommand)]
        command: PluginCommand,
    },
}

/// Subcommands of `skydock config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Validate a file for `--config`, the files that it names, and the plugin with its
    /// configuration, and report all errors and warnings.
    Check(CheckArgs),
    /// Print the JSON Schema of the file.
    Schema,
}

/// Flags of `skydock config check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The file.
    pub file: PathBuf,
    /// Check only the file itself: neither the files that it names, nor the plugin. For machines
    /// that do not have them.
    #[arg(long)]
    pub offline: bool,
    /// Exit with code 1 also if there are only warnings.
    #[arg(long)]
    pub strict: bool,
}

/// Flags of `skydock doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Path to a kubeconfig file, for example that of an administrator. By default, the one that
    /// kubectl uses, or the service account of the Pod.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Address of the API server. Overrides the kubeconfig.
    #[arg(long, value_name = "URL")]
    pub master: Option<http::Uri>,
    /// Manifest of a cloud-controller-manager, in YAML or JSON, that is not applied yet: check
    /// whether it can start in this cluster.
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// Configuration file of Skydock: check it, and ask the cloud about nodes with it. Nothing is
    /// changed in the cloud.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Look only for what is wrong with this node.
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Format of the output.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = InspectFormat::Text)]
    pub output: InspectFormat,
}

/// Flags of `skydock migrate`.
#[derive(Args, Debug)]
pub struct MigrateArgs {
    /// The manifest, in YAML or JSON.
    pub manifest: PathBuf,
    /// The plugin: the configuration file gets a rule for the host that it names, and others as
    /// comments.
    #[arg(long, value_name = "FILE")]
    pub plugin: Option<PathBuf>,
    /// Image of Skydock for the manifest [default: one with this version, of a registry to fill in].
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
}

/// The flags of a cloud-controller-manager.
#[derive(Args, Debug)]
pub struct CcmArgs {
    /// Path to Skydock's configuration file: the plugin, its limits and its permissions. Flags take
    /// precedence over the file; see `skydock config schema` for its format [default:
    /// /etc/skydock/config.yaml, if it exists].
    #[arg(long, value_name = "FILE", help_heading = "Provider")]
    pub config: Option<PathBuf>,
    /// Name of the provider, which selects the plugin for this cluster. If there is only one
    /// plugin, it serves whatever the name is.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true,
        help_heading = "Provider"
    )]
    pub cloud_provider: String,
    /// Path to the provider configuration file. Its contents are passed to the plugin, which is
    /// reconfigured when the file changes.
    #[arg(long, value_name = "FILE", help_heading = "Provider")]
    pub cloud_config: Option<PathBuf>,
    /// Name and WebAssembly component of a plugin. May be repeated. The plugin is reloaded when the
    /// file changes.
    #[arg(long = "plugin", value_name = "NAME=FILE", value_parser = parse_plugin, help_heading = "Provider")]
    pub plugins: Vec<NamedPlugin>,
    /// Directory with plugins: the plugin for provider NAME is NAME.wasm [default: /plugins, if it
    /// exists].
    #[arg(long, value_name = "DIR", help_heading = "Provider")]
    pub plugin_dir: Option<PathBuf>,
    /// Directory for compiled plugins. Skydock creates the directory skydock-compiled-2 in it, and
    /// changes nothing else [default: skydock/compiled in $XDG_CACHE_HOME or ~/.cache; if that cannot
    /// be written, plugins are compiled at each start].
    #[arg(long, value_name = "DIR", help_heading = "Provider")]
    pub plugin_cache_dir: Option<PathBuf>,
    /// What serves after a start if the plugin cannot be loaded: `last-good` is the build that was
    /// in service before, which Skydock keeps in --plugin-cache-dir. The plugin's file is retried
    /// when it changes.
    #[arg(long, value_name = "BUILD", value_enum, default_value_t = PluginFallback::None, help_heading = "Provider")]
    pub plugin_fallback: PluginFallback,
    /// Resource limit of the plugin. May be repeated.
    #[arg(long = "plugin-limit", value_name = "KEY=VALUE", value_parser = plugin_limits::parse,
          long_help = plugin_limits::help(), help_heading = "Provider")]
    pub plugin_limits: Vec<plugin_limits::PluginLimit>,
    /// Option of the provider; see its documentation. Must not contain secrets. May be repeated.
    #[arg(long = "plugin-option", value_name = "KEY=VALUE", value_parser = parse_option, help_heading = "Provider")]
    pub plugin_options: Vec<(String, String)>,

    /// Directory for recordings of all calls of the plugin with what it sees and does, for `skydock
    /// plugin replay`. Recordings contain no secrets from Skydock's credentials, but they do
    /// contain all other cluster and cloud data that the plugin sees. Must not be accessible by
    /// other users.
    #[arg(long, value_name = "DIR", help_heading = "Provider")]
    pub record: Option<PathBuf>,
    /// Size of all recordings, for example 512Mi. The oldest are removed.
    #[arg(long, value_name = "SIZE", value_parser = parse_record_limit, default_value = "1Gi", help_heading = "Provider")]
    pub record_limit: u64,

    /// Path to a kubeconfig file. By default, the service account of the Pod is used.
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// Address of the API server. Overrides the kubeconfig.
    #[arg(long, value_name = "URL", help_heading = "Cluster")]
    pub master: Option<http::Uri>,
    /// Name of the cluster. It distinguishes its cloud resources from those of other clusters.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "kubernetes",
        help_heading = "Cluster"
    )]
    pub cluster_name: String,
    /// Pod address range of the cluster: one CIDR, or an IPv4 and an IPv6 CIDR separated by a
    /// comma. Needed for routes and --allocate-node-cidrs.
    #[arg(
        long = "cluster-cidr",
        value_name = "CIDR",
        value_delimiter = ',',
        help_heading = "Cluster"
    )]
    pub cluster_cidrs: Vec<String>,
    /// Use a separate service account for each controller. Their tokens are renewed automatically.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", action = ArgAction::Set, help_heading = "Cluster")]
    pub use_service_account_credentials: bool,

    /// Log changes instead of making them: API writes use server-side dry run, the cloud is only
    /// queried, and the Lease is not acquired.
    #[arg(long, help_heading = "Controllers")]
    pub dry_run: bool,
    /// Controllers to run.
    #[arg(
        long,
        help = controllers_help(),
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true,
        help_heading = "Controllers"
    )]
    pub controllers: Vec<String>,
    /// Flags of the node and lifecycle controllers.
    #[command(flatten)]
    pub nodes: NodeArgs,

    /// Flags of the node IPAM controller.
    #[command(flatten)]
    pub ipam: IpamArgs,
    /// Flags of the route controller.
    #[command(flatten)]
    pub routes: routes::RouteArgs,
    /// Flags of the service controller.
    #[command(flatten)]
    pub services: ServiceArgs,
    /// Flags of the controller part of a CSI driver.
    #[command(flatten)]
    pub csi: CsiArgs,

    /// Run the controllers only while holding the Lease, so that several replicas can run.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
          default_missing_value = "true", action = ArgAction::Set, help_heading = "Leader election")]
    pub leader_elect: bool,
    /// How long the other replicas wait for a leader that does not renew the Lease.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "15s", help_heading = "Leader election")]
    pub leader_elect_lease_duration: Duration,
    /// How long a leader tries to renew the Lease before it exits.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s", help_heading = "Leader election")]
    pub leader_elect_renew_deadline: Duration,
    /// How long to wait between attempts to acquire or renew the Lease.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "2s", help_heading = "Leader election")]
    pub leader_elect_retry_period: Duration,
    /// Name of the Lease.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "cloud-controller-manager",
        help_heading = "Leader election"
    )]
    pub leader_elect_resource_name: String,
    /// Namespace of the Lease.
    #[arg(
        long,
        value_name = "NAMESPACE",
        default_value = "kube-system",
        help_heading = "Leader election"
    )]
    pub leader_elect_resource_namespace: String,

    /// Flags of the servers.
    #[command(flatten)]
    pub serving: ServingArgs,
    /// Log verbosity: 4 logs decisions and requests, 6 details, 8 also libraries.
    #[arg(short, long, value_name = "LEVEL", value_parser = parse_verbosity, default_value_t = 0,
          help_heading = "Logs and flags")]
    pub v: u8,
    /// Log format. Lines in JSON have the keys of other components of Kubernetes: ts, caller, msg, v,
    /// err.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LoggingFormat::Text, help_heading = "Logs and flags")]
    pub logging_format: LoggingFormat,

    /// Reject flags of upstream that have no effect, instead of logging a warning.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", action = ArgAction::Set, help_heading = "Logs and flags")]
    pub strict_flags: bool,

    /// Flags that are accepted although Skydock does not have them.
    #[arg(skip)]
    pub accepted: Vec<AcceptedFlag>,
    /// Paths of executables of other images, which were before the flags.
    #[arg(skip)]
    pub executables: Vec<String>,
    /// All flags with the values that are in effect, by name. Nothing of it is secret.
    #[arg(skip)]
    pub effective: BTreeMap<String, String>,
}

/// A plugin, and the name with which `--cloud-provider` selects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPlugin {
    /// The name.
    pub name: String,
    /// File of the WebAssembly component.
    pub file: PathBuf,
}

/// The address to serve on, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// Serve on this address.
    At(SocketAddr),
    /// Do not serve.
    Off,
}

/// What serves after a start if the plugin cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PluginFallback {
    /// Nothing: Skydock exits.
    None,
    /// The build that was in service before.
    LastGood,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoggingFormat {
    /// Human-readable lines.
    Text,
    /// One JSON object per line.
    Json,
}

/// Returns the help of `--controllers`, with the names of all controllers.
fn controllers_help() -> String {
    let off: Vec<_> = skydock_controllers::controllers_off_by_default()
        .map(|controller| controller.alias)
        .collect();
    let on: Vec<_> = skydock_controllers::controllers()
        .map(|controller| controller.alias)
        .filter(|name| !off.contains(name))
        .collect();

    format!(
        "Controllers to run: `*` means all that the list does not name, `NAME` enables a controller, `-NAME` disables it. Names: {}. \
         Only if named, for example `*,{}`: {}",
        on.join(", "),
        off.join(","),
        off.join(", ")
    )
}

/// Parses an option of the provider.
///
/// # Errors
/// What is expected instead.
pub fn parse_option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE, for example region=eu-1".to_owned()),
    }
}

fn parse_plugin(text: &str) -> Result<NamedPlugin, String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => Ok(NamedPlugin {
            name: name.to_owned(),
            file: file.into(),
        }),
        _ => Err("expected NAME=FILE, for example static=plugins/static.wasm".to_owned()),
    }
}

/// Minimum of `--record-limit`.
const LEAST_RECORDED: u64 = 1 << 20;

/// Default of `--record-limit`.
pub const RECORD_LIMIT: u64 = 1 << 30;

fn parse_record_limit(text: &str) -> Result<u64, String> {
    let bytes = plugin_limits::parse_bytes(text).and_then(|bytes| u64::try_from(bytes).ok());
    let bytes = bytes.filter(|bytes| *bytes >= LEAST_RECORDED);
    bytes.ok_or_else(|| "expected a number of bytes from 1Mi, for example 512Mi".to_owned())
}

/// The maximum duration for flags. Timers cannot be set arbitrarily far ahead, and longer durations
/// are mistakes.
const LONGEST_DURATION: Duration = Duration::from_secs(365 * 24 * 3600);

/// Parses a duration in Go's notation: `15s`, `5m0s`, `1h30m`, `100ms`; `0` is zero.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.strip_prefix('+').unwrap_or(text);
    if ["0", "-0"].contains(&text) {
        return Ok(Duration::ZERO);
    }

    let duration = text.parse::<SignedDuration>().ok();
    let duration = duration.or_else(|| sum_of_parts(text)).ok_or_else(|| {
        "expected a duration, for example 15s, 5m0s or 100ms, of at most 8760h".to_owned()
    })?;
    let duration =
        Duration::try_from(duration).map_err(|_| "a duration cannot be negative".to_owned())?;

    if duration > LONGEST_DURATION {
        return Err("a duration cannot be longer than a year (8760h)".to_owned());
    }
    Ok(duration)
}

/// Parses what Go accepts in addition: parts in any order, fractions in each, no digit before or after
/// a point, and another letter for microseconds.
fn sum_of_parts(text: &str) -> Option<SignedDuration> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut rest = text;
    let mut sum = None;

    while !rest.is_empty() {
        let unit = rest.find(|c| !is_number(c)).filter(|at| *at > 0)?;
        let end = rest.get(unit..)?.find(is_number);
        let end = end.map_or(rest.len(), |length| unit + length);

        let (part, after) = rest.split_at_checked(end)?;
        let (number, unit) = part.split_at_checked(unit)?;
        if number == "." {
            return None;
        }
        let number = number.trim_end_matches('.');
        // The Greek letter stands for the sign.
        let unit = unit.replace('\u{3bc}', "\u{b5}");
        let part: SignedDuration = format!("0{number}{unit}").parse().ok()?;
        sum = Some(part.checked_add(sum.unwrap_or_default())?);
        rest = after;
    }
    sum
}

fn parse_count(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| "expected a number, for example 10".to_owned())
}

/// Parses a log verbosity, which is a number as in klog. From 255, there is nothing more to log.
///
/// # Errors
/// What is expected instead.
pub fn parse_verbosity(text: &str) -> Result<u8, String> {
    let level: i32 = text
        .parse()
        .map_err(|_| "expected a number from 0 to 255, for example 4".to_owned())?;
    Ok(u8::try_from(level.max(0)).unwrap_or(u8::MAX))
}

fn parse_cidr(text: &str) -> Result<IpNet, String> {
    text.trim().parse().map_err(|_| {
        "expected a CIDR, for example 192.0.2.0/24, or 192.0.2.7/32 for a single address".to_owned()
    })
}

fn parse_bind_address(text: &str) -> Result<BindAddress, String> {
    if text == "0" {
        return Ok(BindAddress::Off);
    }

    // As Go: without a host, it is every address.
    let address: Option<SocketAddr> = match text.split_once(':') {
        Some(("", port)) => port
            .parse()
            .ok()
            .map(|port: u16| (every_address(), port).into()),
        Some(("localhost", port)) => port
            .parse()
            .ok()
            .map(|port: u16| (Ipv4Addr::LOCALHOST, port).into()),
        _ => text.parse().ok(),
    };
    address
        .map(BindAddress::At)
        .ok_or_else(|| "expected ADDRESS:PORT, for example 127.0.0.1:10258, or 0".to_owned())
}

/// Returns the address that stands for all addresses of both IP families, or of IPv4 on a machine
/// without IPv6.
fn every_address() -> IpAddr {
    let has_ipv6 = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok();
    if has_ipv6 {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    }
}

/// Arguments with which Skydock starts itself as a child process to compile a plugin.
pub const COMPILER: [&str; 2] = ["plugin", "compile"];

/// Returns true if this process is a child process that compiles a plugin.
pub fn is_compiler(args: impl IntoIterator<Item = OsString>) -> bool {
    args.into_iter().skip(1).eq(COMPILER.map(OsString::from))
}

/// Returns the error about an unknown flag as if it was the only one.
fn unknown_flag(flag: &str) -> Option<String> {
    let error = Cli::try_parse_from(["skydock", flag]).err()?;
    Some(Stop(Why::Clap(error)).sentence())
}

/// Parses a command line.
///
/// # Errors
/// [`Stop`] for an error, or for `--help` and `--version`.
pub fn parse(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Cli, Stop> {
    let read = arguments::read(args.into_iter().map(Into::into));
    // clap reports only the first error.
    let unknown = read.unknown_flags().filter_map(unknown_flag);
    let mut rejected = read.rejected.clone();
    rejected.extend(unknown);
    let parsed = effective::parse(read.words);

    match parsed {
        Err(error) if is_request(&error) => Err(Stop(Why::Clap(error))),
        _ if !rejected.is_empty() => Err(Stop(Why::Rejected(rejected))),
        Err(error) => Err(Stop(Why::Clap(error))),
        Ok(mut cli) => {
            for accepted in &read.accepted {
                let flag = accepted.flag.trim_start_matches('-').split_once('=');
                if let Some((name, value)) = flag {
                    let effective = cli.ccm.effective.entry(name.to_owned());
                    effective.or_insert_with(|| effective::shown(name, value));
                }
            }
            cli.ccm.accepted = read.accepted;
            cli.ccm.executables = read.executables;
            Ok(cli)
        }
    }
}

#[cfg(test)]
mod tests;
