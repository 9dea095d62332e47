//! `skydock plugin`: its subcommands and their flags.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use super::plugin_limits;

/// The word before the name of a tool.
const PLUGIN: &str = "plugin";

/// Subcommands of `skydock plugin`.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Show the name, version, provider-ID prefixes and capabilities of a plugin, and what it asks
    /// for.
    ///
    /// With --config or --cloud-config, the plugin is loaded with it as Skydock does at startup,
    /// but without network access. Without them, what the plugin's file says is shown, and none of
    /// its code runs; a file that says nothing is loaded without a configuration. If the plugin is
    /// rejected, only what its file says is shown, and the exit code is 1.
    Inspect(InspectArgs),
    /// Compile a plugin into a directory for --plugin-cache-dir, for images and init containers.
    Precompile(PrecompileArgs),
    /// Show what was accepted of the plugins of a cluster, or forget it.
    ///
    /// A replacement of a plugin, also after a restart, may import and request no more than that,
    /// unless the configuration allows it.
    Accepted(AcceptedArgs),
    /// Repeat recorded calls with a plugin, and show where it first does something else: another
    /// request, another call of Skydock, or another answer. The exit code is 1 if it does, or if a
    /// recording cannot be read.
    ///
    /// The plugin sees what the recorded one has seen. It needs no cluster and no cloud.
    Replay(ReplayArgs),
    /// Tools for developers.
    #[command(flatten)]
    Tool(ToolCommand),
}

/// Subcommands of `skydock plugin` that are part of `skydock-dev`.
#[derive(Debug, Subcommand)]
pub enum ToolCommand {
    /// Create a provider from a template, in a folder with its name.
    #[command(disable_help_flag = true)]
    New(Forwarded),
    /// Build the plugin of a project with the tools of its language.
    #[command(disable_help_flag = true)]
    Build(Forwarded),
    /// Check whether a plugin does what the contract demands.
    #[command(disable_help_flag = true)]
    Test(Forwarded),
    /// Measure the calls of a plugin: time, CPU time, memory and requests.
    #[command(disable_help_flag = true)]
    Bench(Forwarded),
}

impl ToolCommand {
    /// Returns the command line for `skydock-dev`.
    #[must_use]
    pub fn words(self) -> (PluginTool, Vec<OsString>) {
        match self {
            Self::New(given) => (PluginTool::New, given.arguments),
            Self::Build(given) => (PluginTool::Build, given.arguments),
            Self::Test(given) => (PluginTool::Test, given.arguments),
            Self::Bench(given) => (PluginTool::Bench, given.arguments),
        }
    }
}

/// The name of a [`ToolCommand`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)] // described there
pub enum PluginTool {
    New,
    Build,
    Test,
    Bench,
}

impl PluginTool {
    /// Returns the tool that a command line of `skydock-dev` selects: `skydock-dev plugin NAME …`.
    pub fn selected(args: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut words = args.into_iter().skip(1);
        let name = (words.next()? == PLUGIN).then(|| words.next())??;
        Self::from_str(name.to_str()?, false).ok()
    }

    /// Returns the words that select it.
    #[must_use]
    pub fn words(self) -> [String; 2] {
        let name = self
            .to_possible_value()
            .map(|value| value.get_name().to_owned());
        [PLUGIN.to_owned(), name.unwrap_or_default()]
    }
}

/// The command line of a subcommand that `skydock-dev` parses.
#[derive(Args, Debug)]
pub struct Forwarded {
    /// Arguments for `skydock-dev`, the program that this runs.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENTS"
    )]
    pub arguments: Vec<OsString>,
}

/// Flags of `skydock plugin inspect`.
#[derive(Args, Clone, Debug)]
pub struct InspectArgs {
    /// The plugin: a WebAssembly component.
    pub plugin: PathBuf,
    /// Another build, for example the one in service: show what was added and removed since.
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Configuration file of Skydock: load the plugin with the configuration, options, limits and
    /// permissions of the plugin in it.
    #[arg(long, value_name = "FILE", conflicts_with = "cloud_config")]
    pub config: Option<PathBuf>,
    /// Provider configuration to load the plugin with.
    #[arg(long, value_name = "FILE")]
    pub cloud_config: Option<PathBuf>,
    /// Resource limit of the plugin. May be repeated.
    #[arg(long = "plugin-limit", value_name = "KEY=VALUE", value_parser = plugin_limits::parse,
          long_help = plugin_limits::help())]
    pub plugin_limits: Vec<plugin_limits::PluginLimit>,
    /// Format of the output.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = InspectFormat::Text,
          conflicts_with = "against")]
    pub output: InspectFormat,
}

/// Format of the output of `skydock plugin inspect` and `skydock doctor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InspectFormat {
    /// Lines for people.
    Text,
    /// A JSON object.
    Json,
}

/// Flags of `skydock plugin precompile`.
#[derive(Args, Debug)]
pub struct PrecompileArgs {
    /// The plugin: a WebAssembly component.
    pub plugin: PathBuf,
    /// Directory for compiled plugins, as in --plugin-cache-dir.
    #[arg(long, value_name = "DIR")]
    pub cache_dir: PathBuf,
    /// Resource limit of the plugin. May be repeated.
    #[arg(long = "plugin-limit", value_name = "KEY=VALUE", value_parser = plugin_limits::parse,
          long_help = plugin_limits::help())]
    pub plugin_limits: Vec<plugin_limits::PluginLimit>,
}

/// Flags of `skydock plugin replay`.
#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// The directory of --record, or one of its files.
    pub recordings: PathBuf,
    /// The plugin: a WebAssembly component, the recorded one or another.
    pub plugin: PathBuf,
    /// Resource limit of the plugin, for example memory=256Mi. May be repeated; --help lists all.
    #[arg(long = "plugin-limit", value_name = "KEY=VALUE", value_parser = plugin_limits::parse,
          long_help = plugin_limits::help())]
    pub plugin_limits: Vec<plugin_limits::PluginLimit>,
}

/// Flags of `skydock plugin accepted`.
#[derive(Args, Debug)]
pub struct AcceptedArgs {
    /// Name of the plugin. Default: all plugins.
    pub plugin: Option<String>,
    /// Forget what was accepted: the next start accepts the plugin as it is.
    #[arg(long)]
    pub reset: bool,
    /// Path to a kubeconfig file. By default, the service account of the Pod is used.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Address of the API server. Overrides the kubeconfig.
    #[arg(long, value_name = "URL")]
    pub master: Option<http::Uri>,
    /// Name of the Lease, in which it is kept.
    #[arg(long, value_name = "NAME", default_value = "cloud-controller-manager")]
    pub leader_elect_resource_name: String,
    /// Namespace of the Lease.
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    pub leader_elect_resource_namespace: String,
}
