//! The context of one call of the host: the configuration, access to AWS, and cached answers.

use sha1::{Digest as _, Sha1};
use skydock_sdk::{
    log,
    types::{CloudError, Node, Service},
};

use crate::{client::api::wire::Wire, config::Config, store::Store};

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Setup {
    pub(crate) config: Config,
    scope: String,
}

impl Setup {
    /// Checks the text of `--cloud-config` and the plugin's options.
    ///
    /// # Errors
    /// Returns `PATH:LINE: REASON` for the operator.
    pub fn read(text: &str, path: &str, options: &[(String, String)]) -> Result<Self, String> {
        let config = Config::parse(text, options).map_err(|problem| match problem.line {
            0 => format!("{path}: {}", problem.reason),
            line => format!("{path}:{line}: {}", problem.reason),
        })?;

        // Entries cached for another configuration are not used.
        let scope = hex::encode(Sha1::digest(format!("{config:?}")))
            .chars()
            .take(12)
            .collect();
        Ok(Self { config, scope })
    }

    /// Adds what the host knows about the cluster: `--cluster-name` and `--cluster-cidr`.
    #[must_use]
    pub fn for_cluster(mut self, name: &str, cidrs: &[String]) -> Self {
        name.clone_into(&mut self.config.cluster_name);
        self.config.cluster_cidrs = cidrs.to_vec();
        self
    }

    /// Returns the hosts of the APIs as `https://HOST:PORT`.
    #[must_use]
    pub fn hosts(&self) -> Vec<String> {
        let endpoints = &self.config.endpoints;
        let mut hosts: Vec<String> = [&endpoints.ec2, &endpoints.elb, &endpoints.elbv2]
            .iter()
            .map(|one| origin(&one.url))
            .collect();
        hosts.sort();
        hosts.dedup();
        hosts
    }
}

/// Returns scheme, host and port of a URL.
fn origin(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
    let host = rest.split('/').next().unwrap_or_default();
    let port = if scheme == "http" { ":80" } else { ":443" };
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    format!("{scheme}://{host}{}", if has_port { "" } else { port })
}

/// The context of one call.
#[derive(Clone, Copy)]
pub struct Cloud<'a> {
    pub(crate) config: &'a Config,
    scope: &'a str,
    pub(crate) wire: &'a dyn Wire,
    pub(crate) store: &'a dyn Store,
    pub(crate) nodes: &'a dyn Fn() -> Vec<Node>,
    pub(crate) now: u64,
    /// Publishes a warning on a Service: reason and message.
    pub(crate) publish_event: &'a dyn Fn(&Service, &str, &str),
}

impl std::fmt::Debug for Cloud<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Cloud")
            .field("region", &self.config.region)
            .finish_non_exhaustive()
    }
}

impl<'a> Cloud<'a> {
    /// Creates the context of a call at the time `now`, in seconds since 1970. `nodes` returns the
    /// cluster's nodes. It is only called to list routes, and if the configuration does not
    /// identify the cluster.
    #[must_use]
    pub fn new(
        setup: &'a Setup,
        wire: &'a dyn Wire,
        store: &'a dyn Store,
        nodes: &'a dyn Fn() -> Vec<Node>,
        now: u64,
    ) -> Self {
        Self {
            config: &setup.config,
            scope: &setup.scope,
            wire,
            store,
            nodes,
            now,
            publish_event: &logged,
        }
    }

    /// Publishes warnings on Services with this function, instead of writing them to the log.
    #[must_use]
    pub fn with_events(self, publish_event: &'a dyn Fn(&Service, &str, &str)) -> Self {
        Self {
            publish_event,
            ..self
        }
    }

    /// Returns a key of the store that is specific to this configuration.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.scope)
    }
}

fn logged(service: &Service, reason: &str, message: &str) {
    log::warn(
        "events",
        format_args!(
            "{}/{}: {reason}: {message}",
            service.namespace, service.name
        ),
    );
}

/// Returns the error for a Service that asks for something impossible, whatever the state of AWS.
/// It is not retried until the Service changes.
pub(crate) fn invalid(text: impl Into<String>) -> CloudError {
    CloudError::invalid(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_hosts_are_listed_once_with_their_ports() {
        let setup = Setup::read("[Global]\nRegion = eu-west-1\n", "f", &[]).unwrap();
        let expected = [
            "https://ec2.eu-west-1.amazonaws.com:443",
            "https://elasticloadbalancing.eu-west-1.amazonaws.com:443",
        ];
        assert_eq!(setup.hosts(), expected);
        let setup = Setup::read(
            "[Global]\nRegion = a-1\n",
            "f",
            &[("endpoint".into(), "http://h:81/x".into())],
        );
        assert_eq!(setup.unwrap().hosts(), ["http://h:81"]);
    }

    #[test]
    fn a_config_error_names_file_and_line() {
        let problem =
            Setup::read("[Global]\nRegion = a-1\nFoo = b\n", "/etc/cloud.conf", &[]).unwrap_err();
        assert_eq!(problem, "/etc/cloud.conf:3: unknown option Foo");
    }
}
