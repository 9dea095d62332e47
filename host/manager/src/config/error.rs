//! Errors of the configuration: why a set of flags is not valid.

use std::path::PathBuf;

use skydock_kube::election::TimingsError;

use crate::{
    cli::{
        IpamArgsError, ServiceArgsError, ServingArgsError, plugin_limits::PluginLimitsError,
        routes::RouteArgsError,
    },
    file::ConfigurationError,
};

/// Why a set of flags is not valid.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// No provider is set.
    #[error("--cloud-provider is missing: set it to the name of the plugin{}", known(.0))]
    NoProvider(Vec<String>),
    /// There is no plugin for the provider.
    #[error(
        "no plugin for --cloud-provider={name}: mount it as /plugins/{name}.wasm, or set --plugin {name}=FILE, or --plugin-dir \
         to a directory with {name}.wasm"
    )]
    NoPlugin {
        /// Name of the provider.
        name: String,
    },
    /// The plugin directory does not contain the plugin.
    #[error(
        "no plugin for --cloud-provider={name}: {file} does not exist; set {}--plugin {name}=FILE, or another --plugin-dir",
        instead(.others)
    )]
    NotInDirectory {
        /// Name of the provider.
        name: String,
        /// The file that was expected.
        file: String,
        /// The plugins in the directory.
        others: Vec<String>,
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
    /// There is no directory for the last good build.
    #[error(
        "--plugin-fallback=last-good needs --plugin-cache-dir, on a volume that outlives the container"
    )]
    NoCacheDir,
    /// The configuration file is not valid.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// A file does not exist or cannot be read.
    #[error("{what}: cannot read {file}")]
    File {
        /// What the file is, or the flag that names it.
        what: &'static str,
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
    /// The flags of the HTTPS server are not valid.
    #[error(transparent)]
    Serving(#[from] ServingArgsError),
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
    if names.is_empty() {
        ", and mount that as /plugins/NAME.wasm, or set --plugin, --plugin-dir or --config"
            .to_owned()
    } else {
        format!(" (given: {})", names.join(", "))
    }
}

/// Returns the other names that could be set.
fn instead(names: &[String]) -> String {
    if names.is_empty() {
        String::new()
    } else {
        format!("--cloud-provider to one of {}, or ", names.join(", "))
    }
}
