//! The context of one call of the host: the configuration, access to AWS, and cached answers.

use sha1::{Digest as _, Sha1};
use skydock_sdk::{
    log,
    types::{CloudError, Node, Service},
};

use crate::{client::api::wire::Wire, config::Config, store::Store};

mod identity;

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Setup {
    pub(crate) config: Config,
    /// Identifies the configuration in keys of the store, so that entries for another one are not
    /// used.
    scope: String,
}

impl Setup {
    /// Checks the text of `--cloud-config` and the plugin's options.
    ///
    /// # Errors
    /// Returns `PATH:LINE: REASON` for the operator.
    pub fn read(text: &str, path: &str, options: &[(String, String)]) -> Result<Self, String> {
        let config = Config::parse(text, options).map_err(|problem| match problem.line {
            None => format!("{path}: {problem}"),
            Some(line) => format!("{path}:{line}: {problem}"),
        })?;
        Ok(Self::of(config))
    }

    fn of(config: Config) -> Self {
        // The text can differ between versions of the plugin. This only costs the cached entries.
        let scope = hex::encode(Sha1::digest(format!("{config:?}")))
            .chars()
            .take(12)
            .collect();
        Self { config, scope }
    }

    /// Adds what the host knows about the cluster: `--cluster-name` and `--cluster-cidr`.
    #[must_use]
    pub fn for_cluster(self, name: &str, cidrs: &[String]) -> Self {
        Self::of(Config {
            cluster_name: name.to_owned(),
            cluster_cidrs: cidrs.to_vec(),
            ..self.config
        })
    }

    /// Returns true if this is the controller part of the driver for volumes.
    #[must_use]
    pub fn has_volumes(&self) -> bool {
        self.config.volumes
    }

    /// Returns the hosts of the APIs as `https://HOST:PORT`.
    #[must_use]
    pub fn hosts(&self) -> Vec<String> {
        let endpoints = &self.config.endpoints;
        let mut hosts: Vec<String> = [&endpoints.ec2, &endpoints.elb, &endpoints.elbv2]
            .iter()
            .map(|endpoint| endpoint.url.origin().to_owned())
            .collect();
        hosts.sort();
        hosts.dedup();
        hosts
    }
}

/// A warning on a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The reason in CamelCase.
    pub reason: &'a str,
    /// The message, one or more sentences.
    pub message: &'a str,
}

/// The context of one call.
#[derive(Clone, Copy)]
pub struct Cloud<'a> {
    pub(crate) config: &'a Config,
    /// See [`Setup`].
    scope: &'a str,
    /// Sends calls to AWS.
    pub(crate) wire: &'a dyn Wire,
    /// Texts that are kept between calls of the host.
    pub(crate) store: &'a dyn Store,
    /// Returns the cluster's nodes.
    pub(crate) nodes: &'a dyn Fn() -> Vec<Node>,
    /// The time of the call, in seconds since 1970.
    pub(crate) now: u64,
    /// Publishes a warning on a Service.
    pub(crate) publish_event: &'a dyn Fn(&Service, Event<'_>),
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
    /// cluster's nodes. It is only called to list routes, for volumes that may be in any zone, and if
    /// the configuration does not identify the cluster.
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
            publish_event: &log_event,
        }
    }

    /// Publishes warnings on Services with this function, instead of writing them to the log.
    #[must_use]
    pub fn with_events(self, publish_event: &'a dyn Fn(&Service, Event<'_>)) -> Self {
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

fn log_event(service: &Service, Event { reason, message }: Event<'_>) {
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
    fn entries_of_another_configuration_or_cluster_are_not_used() {
        let setup = |vpc: &str, name: &str, cidr: &str| {
            let text = format!("[Global]\nRegion = a-1\nVPC = {vpc}\n");
            let setup = Setup::read(&text, "f", &[]).unwrap();
            setup.for_cluster(name, &[cidr.to_owned()])
        };
        let base = setup("v", "c", "10.0.0.0/16");
        assert_eq!(base.scope, setup("v", "c", "10.0.0.0/16").scope);
        for other in [
            setup("w", "c", "10.0.0.0/16"),
            setup("v", "d", "10.0.0.0/16"),
            setup("v", "c", "10.1.0.0/16"),
        ] {
            assert_ne!(base.scope, other.scope, "{other:?}");
        }
    }

    #[test]
    fn a_config_error_names_file_and_line() {
        let problem =
            Setup::read("[Global]\nRegion = a-1\nFoo = b\n", "/etc/cloud.conf", &[]).unwrap_err();
        assert_eq!(problem, "/etc/cloud.conf:3: unknown option Foo");
    }
}
