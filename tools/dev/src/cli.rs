//! The command line of `skydock dev`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Parser;
use skydock::cli::{parse_verbosity, plugin_limits};

/// Run a plugin in a development cluster: an API server, simulated nodes and Skydock, all in this
/// process.
///
/// When the file of the plugin or its configuration changes, Skydock loads it into the running
/// cluster. If that fails, the previous plugin stays in service. Use the cluster with `kubectl
/// --kubeconfig .skydock/kubeconfig`. Press Ctrl-C to stop.
#[derive(Debug, Parser)]
#[command(
    name = "skydock-dev",
    bin_name = "skydock dev",
    version,
    max_term_width = 120
)]
pub(crate) struct DevArgs {
    /// File of the plugin, a WebAssembly component. Takes precedence over the file in --config.
    #[arg(long, value_name = "FILE", required_unless_present = "config")]
    pub(crate) plugin: Option<PathBuf>,
    /// Configuration file of Skydock: the plugin, its limits, and the egress rules and credentials
    /// for its cloud.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Allow requests that change the cloud. By default, only reads are sent, whatever the egress
    /// rules of --config allow.
    #[arg(long)]
    pub(crate) allow_cloud_writes: bool,
    /// Start simcloud, the example cloud, with a server for each node, and let the plugin use and
    /// change it: with its URL in the cloud configuration and the options `endpoint` and `region`,
    /// an egress rule, and its token as a credential. With --config, only the cloud is started.
    #[arg(long)]
    pub(crate) simcloud: bool,
    /// Configuration file of the provider, passed to the plugin, for example cloud.conf. Takes
    /// precedence over --config.
    #[arg(long, value_name = "FILE")]
    pub(crate) cloud_config: Option<PathBuf>,
    /// Resource limit of the plugin, for example memory=256Mi. May be repeated; --help lists all.
    #[arg(long = "plugin-limit", value_name = "KEY=VALUE", value_parser = plugin_limits::parse,
          long_help = plugin_limits::help())]
    pub(crate) plugin_limits: Vec<plugin_limits::PluginLimit>,
    /// Directory for recordings of all calls of the plugin, for `skydock plugin replay`. Must not
    /// be accessible by other users.
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    /// Allow addresses of nodes for load balancers.
    #[arg(long)]
    pub(crate) load_balancer_allow_node_addresses: bool,
    /// Run the route controller, which has the plugin create routes to the Pods of each node.
    #[arg(long)]
    pub(crate) routes: bool,
    /// Number of simulated nodes: node-1, node-2, …
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(..=1000))]
    pub(crate) nodes: u16,
    /// Loopback address and port of the API server. With port 0, the system chooses a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// File to which the kubeconfig of the development cluster is written, with a token that the
    /// API server requires. An existing file is only replaced if `skydock dev` wrote it.
    #[arg(long, value_name = "FILE", default_value = ".skydock/kubeconfig")]
    pub(crate) write_kubeconfig: PathBuf,
    /// File for the cluster's objects, so that they survive a restart. By default, they are lost.
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// Log verbosity: 4 logs decisions and requests, 6 details, 8 also libraries.
    #[arg(short, long, value_name = "LEVEL", value_parser = parse_verbosity, default_value_t = 0)]
    pub(crate) v: u8,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new::NewArgs;

    const README: &str = include_str!("../../../README.md");

    #[test]
    fn every_command_in_the_readme_is_accepted() {
        let lines = README
            .split("skydock dev ")
            .skip(1)
            .filter_map(|rest| rest.split(['`', '\n']).next());
        let lines: Vec<_> = lines.filter(|line| line.starts_with("--")).collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        for line in lines {
            DevArgs::try_parse_from(["skydock-dev"].into_iter().chain(line.split(' '))).unwrap();
        }
        let (_, new) = README.split_once("skydock plugin new ").unwrap();
        let words = new.lines().next().unwrap().split(' ');
        NewArgs::try_parse_from(["skydock-dev"].into_iter().chain(words)).unwrap();

        assert!(README.contains("`--allow-cloud-writes`"));
        assert!(
            DevArgs::try_parse_from(["skydock-dev", "--config=c", "--allow-cloud-writes"]).is_ok()
        );
    }
}
