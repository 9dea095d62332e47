//! A parsed rule, and its decisions about requests; how paths are compared is in `path.rs`. A field
//! begins in `config.rs`.

mod compile;
mod units;
mod warn;

use std::{sync::Arc, time::Duration};

use http::Method;
use skydock_credentials::{
    Credential,
    config::ClientCertificate,
    request::actions::{Actions, can_read, is_bodiless},
    request::glob::Glob,
};

use crate::{
    rules::{
        address::AddressPolicy,
        config::{GuestAuth, TlsConfig},
        headers::Listed,
        path::{Meaning, Prefix},
    },
    target::{Target, TargetPattern},
};

pub(crate) use self::{compile::compile, units::size, warn::warnings};

/// Methods that rules can allow.
pub(crate) const METHODS: &[Method] = &[
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::OPTIONS,
];

/// SHA-256 of a server's certificate.
pub(crate) type Pin = [u8; 32];

/// Limits of a rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limits {
    pub(crate) connect: Duration,
    pub(crate) first_byte: Duration,
    pub(crate) between_bytes: Duration,
    pub(crate) total: Option<Duration>,
    pub(crate) request_body: u64,
    pub(crate) response_body: u64,
    pub(crate) concurrency: u16,
    pub(crate) rate: f64,
    pub(crate) burst: u16,
    pub(crate) pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            // The usual timeout of proxies in front of clouds. A busy Octavia takes more than 30 s
            // to accept a load balancer.
            first_byte: Duration::from_secs(60),
            between_bytes: Duration::from_secs(15),
            total: None,
            request_body: 8 << 20,
            response_body: 16 << 20,
            // As many as concurrent calls of a plugin, so that waiting Services, 20 by default,
            // leave capacity for nodes and routes.
            concurrency: 36,
            // Common limits of vendors for one account: 20 requests per second (EC2), and more in a
            // burst.
            rate: 20.0,
            burst: 40,
            // A cloud that needs a longer pause asks again, and a short pause delays requests only
            // briefly after it has recovered.
            pause: Duration::from_secs(60),
        }
    }
}

/// A parsed rule.
#[derive(Clone, Debug)]
pub(crate) struct CompiledRule {
    pub(crate) name: Arc<str>,
    pub(crate) to: TargetPattern,
    pub(crate) methods: Vec<Method>,
    pub(crate) paths: Vec<Prefix>,
    pub(crate) actions: Vec<Glob>,
    pub(crate) reads: Vec<Glob>,
    pub(crate) addresses: AddressPolicy,
    pub(crate) credential: Option<Arc<dyn Credential>>,
    pub(crate) guest_auth: GuestAuth,
    pub(crate) listed: Listed,
    /// It decides nothing: what it would deny is reported.
    pub(crate) report_only: bool,
    pub(crate) tls: TlsConfig,
    pub(crate) certificate: Option<ClientCertificate>,
    pub(crate) pin: Option<Pin>,
    pub(crate) proxy: Option<Target>,
    pub(crate) limits: Limits,
}

/// The decision of a rule about actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActionMatch {
    Yes,
    No,
    /// It depends on the body.
    Open,
}

impl CompiledRule {
    pub(crate) fn allows_path(&self, path: &str) -> bool {
        self.paths.is_empty() || self.paths.iter().any(|prefix| prefix.allows(path))
    }

    /// Returns the prefix that some servers would read a path with this meaning as below.
    pub(crate) fn may_allow_path(&self, meaning: &Meaning) -> Option<&Prefix> {
        self.paths.iter().find(|prefix| prefix.may_allow(meaning))
    }

    /// Returns true if the rule allows only certain methods, or actions.
    pub(crate) fn limits_methods(&self) -> bool {
        !self.actions.is_empty() || METHODS.iter().any(|it| !self.methods.contains(it))
    }

    /// Returns the first of the named methods that the rule does not allow.
    pub(crate) fn denied_method<'a>(&self, named: &'a [String]) -> Option<&'a str> {
        let is_allowed = |name: &&String| self.methods.iter().any(|it| it.as_str() == **name);
        // If a rule allows all methods, it does not matter which one is named.
        let denied = || named.iter().find(|name| !is_allowed(name));
        let limits = METHODS.iter().any(|it| !self.methods.contains(it));
        if limits {
            denied().map(String::as_str)
        } else {
            None
        }
    }

    /// Decides whether the actions are allowed.
    pub(crate) fn allows_actions(&self, actions: &Actions) -> ActionMatch {
        if self.actions.is_empty() {
            ActionMatch::Yes
        } else {
            judge(&self.actions, actions)
        }
    }

    /// Returns the first of the actions that is not allowed, or `None` if the request names none.
    pub(crate) fn denied_action<'a>(&self, actions: &'a Actions) -> Option<&'a str> {
        let is_allowed = |name: &&String| self.actions.iter().any(|glob| glob.matches(name));
        actions
            .named
            .iter()
            .find(|name| !is_allowed(name))
            .map(String::as_str)
    }

    /// Decides whether the request is a read, as far as can be determined: a method that reads and
    /// no action, or only actions that the rule lists as reads.
    pub(crate) fn reads(&self, method: &Method, actions: &Actions) -> ActionMatch {
        if !can_read(method) {
            ActionMatch::No
        } else if is_bodiless(method) && actions.named.is_empty() {
            ActionMatch::Yes
        } else {
            judge(&self.reads, actions)
        }
    }

    /// Returns true if this rule, listed first, allows all requests that the other one allows.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let paths = || {
            other
                .paths
                .iter()
                .all(|path| self.paths.iter().any(|prefix| prefix.covers(path)))
        };

        let actions = || {
            other
                .actions
                .iter()
                .all(|action| self.actions.iter().any(|glob| glob.covers(action)))
        };

        self.to.covers(&other.to)
            && other
                .methods
                .iter()
                .all(|method| self.methods.contains(method))
            && (self.paths.is_empty() || !other.paths.is_empty() && paths())
            && (self.actions.is_empty() || !other.actions.is_empty() && actions())
    }

    /// Returns true if both rules may allow some of the same requests.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let either = |one: &Prefix, two: &Prefix| one.covers(two) || two.covers(one);
        let globs = |one: &Glob, two: &Glob| one.covers(two) || two.covers(one);

        (self.to.covers(&other.to) || other.to.covers(&self.to))
            && other
                .methods
                .iter()
                .any(|method| self.methods.contains(method))
            && (self.paths.is_empty()
                || other.paths.is_empty()
                || pairs(&self.paths, &other.paths, either))
            && (self.actions.is_empty()
                || other.actions.is_empty()
                || pairs(&self.actions, &other.actions, globs))
    }

    /// Returns true if both rules send requests in the same way, except for limits.
    pub(crate) fn acts_like(&self, other: &Self) -> bool {
        same_credential(self.credential.as_ref(), other.credential.as_ref())
            && self.guest_auth == other.guest_auth
            && self.listed == other.listed
            && self.connects_like(other)
    }

    /// Returns true if connections of one rule could be used for the other.
    pub(crate) fn connects_like(&self, other: &Self) -> bool {
        self.tls == other.tls
            && self.certificate == other.certificate
            && self.proxy == other.proxy
            && self.addresses == other.addresses
    }
}

fn pairs<T>(one: &[T], two: &[T], either: impl Fn(&T, &T) -> bool) -> bool {
    one.iter().any(|one| two.iter().any(|two| either(one, two)))
}

fn same_credential(one: Option<&Arc<dyn Credential>>, two: Option<&Arc<dyn Credential>>) -> bool {
    match (one, two) {
        (None, None) => true,
        (Some(one), Some(two)) => Arc::ptr_eq(one, two),
        _ => false,
    }
}

fn judge(globs: &[Glob], actions: &Actions) -> ActionMatch {
    if !actions
        .named
        .iter()
        .all(|name| globs.iter().any(|glob| glob.matches(name)))
        || globs.is_empty()
    {
        return ActionMatch::No;
    }

    match (actions.open, actions.named.is_empty()) {
        (true, _) => ActionMatch::Open,
        (false, false) => ActionMatch::Yes,
        (false, true) => ActionMatch::No,
    }
}

#[cfg(test)]
mod tests;
