//! The command line: upstream's flags under upstream's names, and our few own ones.
//!
//! A flag that is parsed here is honoured. Those of upstream that are not are refused by name (see [`upstream`]).

pub mod feature_gates;
mod ipam;
mod nodes;
pub mod plugin_limits;
pub mod routes;
mod services;
mod upstream;

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use clap::{
    ArgAction, Args, Parser, Subcommand, ValueEnum,
    error::{ContextKind, ContextValue, ErrorKind},
};

use ipnet::IpNet;
use skydock_cloud::text::escape;

use crate::telemetry;

pub use self::ipam::{IpamArgs, IpamArgsError};
pub use self::nodes::NodeArgs;
pub use self::services::{ServiceArgs, ServiceArgsError};

/// One cloud controller manager for every cloud: providers are WebAssembly plugins.
///
/// Without a subcommand it runs as a Kubernetes cloud-controller-manager.
#[derive(Debug, Parser)]
#[command(name = "skydock", version, args_conflicts_with_subcommands = true, max_term_width = 120)]
pub struct Cli {
    /// What to do instead.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The flags of a cloud-controller-manager.
    #[command(flatten)]
    pub ccm: CcmArgs,
}

/// What else the binary can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Develop a plugin: an embedded control plane, simulated kubelets, the manager and the plugin in one process.
    ///
    /// The plugin and its configuration are watched, and swapped in when they change.
    Dev(DevArgs),
    /// Look at configuration files.
    Config {
        /// What to do with a configuration file.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Look at plugins.
    Plugin {
        /// What to do with a plugin.
        #[command(subcommand)]
        command: PluginCommand,
    },
}

/// What can be done with a configuration file.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Read a file as `--config` does, and say what is wrong with it.
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Print the form of the file as JSON Schema.
    Schema,
}

/// What can be done with a plugin.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Load a plugin as the manager would, and say who it is and what it can do.
    Inspect(InspectArgs),
}

/// The flags of a cloud-controller-manager.
#[derive(Args, Debug)]
pub struct CcmArgs {
    /// Configuration of Skydock: the plugin, its limits, and what it is granted. Flags win over it; `skydock config schema` has
    /// its form.
    #[arg(long, value_name = "FILE", help_heading = "Provider")]
    pub config: Option<PathBuf>,
    /// Name of the provider: which of the plugins serves this cluster.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true, help_heading = "Provider")]
    pub cloud_provider: String,
    /// Configuration of the provider; its text goes to the plugin, and a change of the file is taken up.
    #[arg(long, value_name = "FILE", help_heading = "Provider")]
    pub cloud_config: Option<PathBuf>,
    /// A plugin: name and WebAssembly component. May be repeated; a change of the file is taken up.
    #[arg(long = "plugin", value_name = "NAME=FILE", value_parser = parse_plugin, help_heading = "Provider")]
    pub plugins: Vec<NamedPlugin>,
    /// Directory of plugins: NAME is served by NAME.wasm in it.
    #[arg(long, value_name = "DIR", help_heading = "Provider")]
    pub plugin_dir: Option<PathBuf>,
    /// Directory for compiled plugins. Skydock makes a directory of its own in it, skydock-compiled-2, and touches nothing
    /// else [default: skydock/compiled in $XDG_CACHE_HOME or ~/.cache].
    #[arg(long, value_name = "DIR", help_heading = "Provider")]
    pub plugin_cache_dir: Option<PathBuf>,
    /// What the plugin may use at most.
    #[arg(long = "plugin-limit", value_name = "KEY=VALUE", value_parser = plugin_limits::parse,
          long_help = plugin_limits::help(), help_heading = "Provider")]
    pub plugin_limits: Vec<plugin_limits::PluginLimit>,
    /// An option of the provider, as it documents them. No secrets. May be repeated.
    #[arg(long = "plugin-option", value_name = "KEY=VALUE", value_parser = parse_option, help_heading = "Provider")]
    pub plugin_options: Vec<(String, String)>,

    /// How to reach the cluster; without it, the Pod's own service account is used.
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// Address of the API server, instead of that of the kubeconfig.
    #[arg(long, value_name = "URL", help_heading = "Cluster")]
    pub master: Option<http::Uri>,
    /// Name of the cluster, by which the cloud's resources are told from those of other clusters.
    #[arg(long, value_name = "NAME", default_value = "kubernetes", help_heading = "Cluster")]
    pub cluster_name: String,
    /// Where Pods get their addresses: at most one CIDR per IP family.
    #[arg(long = "cluster-cidr", value_name = "CIDR", value_delimiter = ',', help_heading = "Cluster")]
    pub cluster_cidrs: Vec<String>,
    /// Run each controller under its own service account, with tokens that are renewed.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", action = ArgAction::Set, help_heading = "Cluster")]
    pub use_service_account_credentials: bool,

    /// Say in the log what would be done, and do nothing: no write is kept by the API server, the cloud is only asked, and the
    /// lease stays with whoever has it.
    #[arg(long, help_heading = "Controllers")]
    pub dry_run: bool,
    /// Controllers to run: `*` is all that are on by default, `NAME` switches one on, `-NAME` off.
    #[arg(
        long,
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

    /// Run only while holding the lease, so that several instances can stand by.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
          default_missing_value = "true", action = ArgAction::Set, help_heading = "Leader election")]
    pub leader_elect: bool,
    /// How long others wait for a leader that does not renew.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "15s", help_heading = "Leader election")]
    pub leader_elect_lease_duration: Duration,
    /// How long a leader tries to renew before it gives up and ends.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s", help_heading = "Leader election")]
    pub leader_elect_renew_deadline: Duration,
    /// How long to wait between tries to get or renew the lease.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "2s", help_heading = "Leader election")]
    pub leader_elect_retry_period: Duration,
    /// Name of the lease.
    #[arg(long, value_name = "NAME", default_value = "cloud-controller-manager", help_heading = "Leader election")]
    pub leader_elect_resource_name: String,
    /// Namespace of the lease.
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system", help_heading = "Leader election")]
    pub leader_elect_resource_namespace: String,

    /// Where /metrics, /healthz, /livez and /readyz are served, as plain HTTP; `0` switches it off.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10258", value_parser = parse_bind_address,
          help_heading = "Serving and logs")]
    pub metrics_bind_address: BindAddress,
    /// Verbosity of the log: 4 shows decisions, 6 all.
    #[arg(short, long, value_name = "LEVEL", value_parser = parse_verbosity, default_value_t = 0,
          help_heading = "Serving and logs")]
    pub v: u8,
    /// Form of the log.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LoggingFormat::Text, help_heading = "Serving and logs")]
    pub logging_format: LoggingFormat,
}

/// Flags of `skydock dev`.
#[derive(Args, Debug)]
pub struct DevArgs {
    /// The plugin: a WebAssembly component, watched for changes.
    #[arg(long, value_name = "FILE", required_unless_present = "config")]
    pub plugin: Option<PathBuf>,
    /// Configuration of Skydock, with what the plugin may reach.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Let the plugin change the cloud that the configuration opens to it, and not only ask it.
    #[arg(long)]
    pub allow_cloud_writes: bool,
    /// Configuration of the provider, watched for changes.
    #[arg(long, value_name = "FILE")]
    pub cloud_config: Option<PathBuf>,
    /// What the plugin may use at most.
    #[arg(long = "plugin-limit", value_name = "KEY=VALUE", value_parser = plugin_limits::parse,
          long_help = plugin_limits::help())]
    pub plugin_limits: Vec<plugin_limits::PluginLimit>,
    /// Have the plugin make routes to the Pods of the nodes.
    #[arg(long)]
    pub routes: bool,
    /// How many simulated kubelets to start: node-1, node-2, …
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(..=1000))]
    pub nodes: u16,
    /// Where the embedded API server listens, on loopback; port 0 takes any.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Where to write the kubeconfig of the embedded control plane. A file that `skydock dev` has not written is left alone.
    #[arg(long, value_name = "FILE", default_value = ".skydock/kubeconfig")]
    pub write_kubeconfig: PathBuf,
    /// Keep the cluster's objects in this file, so that they survive a restart.
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Verbosity of the log: 4 shows decisions, 6 all.
    #[arg(short, long, value_name = "LEVEL", value_parser = parse_verbosity, default_value_t = 0)]
    pub v: u8,
}

/// Flags of `skydock plugin inspect`.
#[derive(Args, Debug)]
pub struct InspectArgs {
    /// The plugin: a WebAssembly component.
    pub plugin: PathBuf,
    /// Configuration to try it with.
    #[arg(long, value_name = "FILE")]
    pub cloud_config: Option<PathBuf>,
    /// What the plugin may use at most.
    #[arg(long = "plugin-limit", value_name = "KEY=VALUE", value_parser = plugin_limits::parse,
          long_help = plugin_limits::help())]
    pub plugin_limits: Vec<plugin_limits::PluginLimit>,
}

/// A plugin and the name `--cloud-provider` chooses it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPlugin {
    /// Name.
    pub name: String,
    /// Component.
    pub file: PathBuf,
}

/// Where to serve, or nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// Serve here.
    At(SocketAddr),
    /// Do not serve.
    Off,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoggingFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

fn parse_option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

fn parse_plugin(text: &str) -> Result<NamedPlugin, String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok(NamedPlugin { name: name.to_owned(), file: file.into() })
        }
        _ => Err("expected NAME=FILE, such as static=plugins/static.wasm".to_owned()),
    }
}

/// The longest duration that a flag takes. Clocks cannot be set arbitrarily far ahead, and what is longer is a slip.
const LONGEST_DURATION: Duration = Duration::from_secs(365 * 24 * 3600);

/// A duration as Go writes it: `15s`, `5m0s`, `1h30m`, `100ms`; `0` is zero.
fn parse_duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let duration = text.parse::<jiff::SignedDuration>();
    let duration = duration.map_err(|_| "expected a duration such as 15s, 5m0s or 100ms, up to 8760h".to_owned())?;
    let duration = Duration::try_from(duration).map_err(|_| "a duration cannot be negative".to_owned())?;
    if duration > LONGEST_DURATION {
        return Err("a duration cannot be longer than a year (8760h)".to_owned());
    }
    Ok(duration)
}

/// A number of things.
fn parse_count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a number, such as 10".to_owned())
}

fn parse_verbosity(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| "expected a number from 0 to 255, such as 4".to_owned())
}

fn parse_cidr(text: &str) -> Result<IpNet, String> {
    text.trim().parse().map_err(|_| "expected a CIDR, such as 192.0.2.0/24, or 192.0.2.7/32 for one address".to_owned())
}

fn parse_bind_address(text: &str) -> Result<BindAddress, String> {
    match text {
        "0" => Ok(BindAddress::Off),
        _ => text
            .parse()
            .map(BindAddress::At)
            .map_err(|_| "expected ADDRESS:PORT, such as 127.0.0.1:10258, or 0".to_owned()),
    }
}

/// Why parsing ended: a mistake, or `--help` or `--version`.
#[derive(Debug)]
pub struct Stop(clap::Error);

impl Stop {
    /// Prints what there is to say: a mistake is one line. The exit code is 2 for a mistake.
    pub fn print(&self) -> ExitCode {
        if matches!(self.0.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
            // Nobody is left to tell if standard output is closed.
            let _ = self.0.print();
            return ExitCode::SUCCESS;
        }
        telemetry::say(&format!("{} (see skydock --help)", escape(&self.sentence())));
        ExitCode::from(2)
    }

    /// The mistake as one line.
    fn sentence(&self) -> String {
        if let Some(refusal) = upstream::refusal(&self.0) {
            return refusal;
        }
        if matches!(self.0.kind(), ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand) {
            return "plugin needs to be told what to do, such as: skydock plugin inspect FILE".to_owned();
        }
        let rendered = self.0.render().to_string();
        // It is taken for a subcommand.
        if let Some(word) =
            ["true", "false"].into_iter().find(|word| rendered.contains(&format!("subcommand '{word}'")))
        {
            return format!("'{word}' stands alone: a flag takes it behind =, such as --leader-elect={word}");
        }
        let what: Vec<_> = rendered.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
        let what = what.join(" ");
        let what = what.strip_prefix("error: ").unwrap_or(&what);
        match self.0.get(ContextKind::SuggestedArg) {
            Some(ContextValue::String(similar)) => format!("{what}; did you mean {similar}?"),
            _ => what.to_owned(),
        }
    }
}

/// What this program is started with to compile a plugin for another process of itself.
pub const COMPILER: [&str; 2] = ["plugin", "compile"];

/// True if this process is to compile a plugin for another one.
pub fn is_compiler(args: impl IntoIterator<Item = OsString>) -> bool {
    args.into_iter().skip(1).eq(COMPILER.map(OsString::from))
}

/// Parses a command line.
///
/// # Errors
/// A mistake, or a wish for help or the version.
pub fn parse(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Cli, Stop> {
    Cli::try_parse_from(upstream::without_settled(args)).map_err(Stop)
}

#[cfg(test)]
mod tests;
