//! The command line of `skydock dev`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Parser;
use skydock::cli::{parse_verbosity, plugin_limits};

/// Develop a plugin: an embedded control plane, simulated kubelets, the manager and the plugin in one process.
///
/// The plugin and its configuration are watched, and swapped in when they change.
#[derive(Debug, Parser)]
#[command(name = "skydock-dev", bin_name = "skydock dev", version, max_term_width = 120)]
pub(crate) struct DevArgs {
    /// The plugin: a WebAssembly component, watched for changes.
    #[arg(long, value_name = "FILE", required_unless_present = "config")]
    pub(crate) plugin: Option<PathBuf>,
    /// Configuration of Skydock, with what the plugin may reach.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Let the plugin change the cloud that the configuration opens to it, and not only ask it.
    #[arg(long)]
    pub(crate) allow_cloud_writes: bool,
    /// Configuration of the provider, watched for changes.
    #[arg(long, value_name = "FILE")]
    pub(crate) cloud_config: Option<PathBuf>,
    /// What the plugin may use at most.
    #[arg(long = "plugin-limit", value_name = "KEY=VALUE", value_parser = plugin_limits::parse,
          long_help = plugin_limits::help())]
    pub(crate) plugin_limits: Vec<plugin_limits::PluginLimit>,
    /// Have the plugin make routes to the Pods of the nodes.
    #[arg(long)]
    pub(crate) routes: bool,
    /// How many simulated kubelets to start: node-1, node-2, …
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(..=1000))]
    pub(crate) nodes: u16,
    /// Where the embedded API server listens, on loopback; port 0 takes any.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Where to write the kubeconfig of the embedded control plane. A file that `skydock dev` has not written is left alone.
    #[arg(long, value_name = "FILE", default_value = ".skydock/kubeconfig")]
    pub(crate) write_kubeconfig: PathBuf,
    /// Keep the cluster's objects in this file, so that they survive a restart.
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// Verbosity of the log: 4 shows decisions, 6 all.
    #[arg(short, long, value_name = "LEVEL", value_parser = parse_verbosity, default_value_t = 0)]
    pub(crate) v: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = include_str!("../../../README.md");

    #[test]
    fn every_command_in_the_readme_is_accepted() {
        let lines = README.split("skydock dev ").skip(1).filter_map(|rest| rest.split(['`', '\n']).next());
        let lines: Vec<_> = lines.filter(|line| line.starts_with("--")).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        for line in lines {
            DevArgs::try_parse_from(["skydock-dev"].into_iter().chain(line.split(' '))).unwrap();
        }
        assert!(README.contains("`--allow-cloud-writes`"));
        assert!(DevArgs::try_parse_from(["skydock-dev", "--config=c", "--allow-cloud-writes"]).is_ok());
    }
}
