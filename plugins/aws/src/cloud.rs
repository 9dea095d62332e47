//! What one call of the host has at hand: the configuration, ways to AWS, and what was kept of earlier answers.

use sha1::{Digest as _, Sha1};
use skydock_sdk::{
    Result,
    instances::{Instance, Presence},
    types::{CloudError, Node},
};

use crate::{api::wire::Wire, config::Config, instances, store::Store};

/// A configuration that was checked.
#[derive(Clone, Debug)]
pub struct Setup {
    pub(crate) config: Config,
    scope: String,
}

impl Setup {
    /// Checks the text of `--cloud-config` and the plugin's options.
    ///
    /// # Errors
    /// `PATH:LINE: REASON`, for the operator.
    pub fn read(text: &str, path: &str, options: &[(String, String)]) -> std::result::Result<Self, String> {
        let config = Config::parse(text, options).map_err(|problem| match problem.line {
            0 => format!("{path}: {}", problem.reason),
            line => format!("{path}:{line}: {}", problem.reason),
        })?;
        // What was kept for another configuration is not for this one.
        let scope = hex::encode(Sha1::digest(format!("{config:?}"))).chars().take(12).collect();
        Ok(Self { config, scope })
    }

    /// With what the host says of the cluster: `--cluster-name` and `--cluster-cidr`.
    #[must_use]
    pub fn for_cluster(mut self, name: &str, cidrs: &[String]) -> Self {
        name.clone_into(&mut self.config.cluster_name);
        self.config.cluster_cidrs = cidrs.to_vec();
        self
    }

    /// Hosts of the APIs, as `https://HOST:PORT`.
    #[must_use]
    pub fn hosts(&self) -> Vec<String> {
        let endpoints = &self.config.endpoints;
        let mut hosts: Vec<String> =
            [&endpoints.ec2, &endpoints.elb, &endpoints.elbv2].iter().map(|one| origin(&one.url)).collect();
        hosts.sort();
        hosts.dedup();
        hosts
    }
}

/// Scheme, host and port of a URL.
fn origin(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
    let host = rest.split('/').next().unwrap_or_default();
    let port = if scheme == "http" { ":80" } else { ":443" };
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    format!("{scheme}://{host}{}", if has_port { "" } else { port })
}

/// What one call has at hand.
#[derive(Clone, Copy)]
pub struct Cloud<'a> {
    pub(crate) config: &'a Config,
    scope: &'a str,
    pub(crate) wire: &'a dyn Wire,
    pub(crate) store: &'a dyn Store,
    pub(crate) nodes: &'a dyn Fn() -> Vec<Node>,
    pub(crate) now: u64,
}

impl std::fmt::Debug for Cloud<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Cloud").field("region", &self.config.region).finish_non_exhaustive()
    }
}

impl<'a> Cloud<'a> {
    /// A call at this second since 1970. `nodes` are the cluster's, asked for only if the configuration does not say who the
    /// cluster is.
    #[must_use]
    pub fn new(
        setup: &'a Setup,
        wire: &'a dyn Wire,
        store: &'a dyn Store,
        nodes: &'a dyn Fn() -> Vec<Node>,
        now: u64,
    ) -> Self {
        Self { config: &setup.config, scope: &setup.scope, wire, store, nodes, now }
    }

    /// A key of the store that is this configuration's alone.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.scope)
    }

    /// What has become of the machine of each node.
    ///
    /// # Errors
    /// If AWS cannot be asked.
    pub fn check(&self, nodes: &[Node]) -> Result<Vec<Result<Presence>>> {
        instances::check(self, nodes)
    }

    /// What each node is to know about its machine.
    ///
    /// # Errors
    /// If AWS cannot be asked.
    pub fn describe(&self, nodes: &[Node]) -> Result<Vec<Result<Instance>>> {
        instances::describe(self, nodes)
    }
}

/// A refusal of what a user or operator asks for.
pub(crate) fn invalid(text: impl Into<String>) -> CloudError {
    CloudError::invalid(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_of_the_apis_are_told_once_with_their_ports() {
        let setup = Setup::read("[Global]\nRegion = eu-west-1\n", "f", &[]).unwrap();
        let expected =
            ["https://ec2.eu-west-1.amazonaws.com:443", "https://elasticloadbalancing.eu-west-1.amazonaws.com:443"];
        assert_eq!(setup.hosts(), expected);
        let setup = Setup::read("[Global]\nRegion = a-1\n", "f", &[("endpoint".into(), "http://h:81/x".into())]);
        assert_eq!(setup.unwrap().hosts(), ["http://h:81"]);
    }

    #[test]
    fn a_problem_is_told_with_file_and_line() {
        let problem = Setup::read("[Global]\nRegion = a-1\nFoo = b\n", "/etc/cloud.conf", &[]).unwrap_err();
        assert_eq!(problem, "/etc/cloud.conf:3: there is no option Foo");
    }
}
