//! Targets of rules in the form `scheme://host:port`.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// Why a text is not a valid target. Each error quotes the text, without what may be a secret: its
/// user, path and query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not of the form scheme://host:port: {problem}")]
pub struct TargetPatternError {
    text: String,
    problem: Problem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("it must start with http:// or https://")]
    Scheme,
    #[error("user and password are not allowed")]
    UserInfo,
    #[error("path, query and fragment are not allowed")]
    Path,
    #[error("a port from 1 to 65535 is required after the host, for example `:443`")]
    Port,
    #[error("the host is empty")]
    EmptyHost,
    #[error("`*` is only allowed as the first label, as in `*.example.com`")]
    Wildcard,
    #[error("the host is neither a DNS name nor an IPv4 address nor an IPv6 address in brackets")]
    Host,
}

/// The protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Unencrypted; default port 80.
    Http,
    /// Over TLS; default port 443.
    Https,
}

impl Scheme {
    /// Returns the scheme as in a URL.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Returns the port of a URL without one.
    pub(crate) fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    /// Parses the scheme of a URL, ignoring case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Http, Self::Https]
            .into_iter()
            .find(|scheme| scheme.as_str().eq_ignore_ascii_case(text))
    }
}

/// A host: a DNS name in lower case without a trailing dot, or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A DNS name.
    Name(String),
    /// An IP address.
    Address(IpAddr),
}

impl Host {
    /// Parses the host of a URL. Returns `None` if it is not valid, or if it is an address in an
    /// unusual notation (`127.1`, `0x7f000001`), which resolvers interpret differently.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(inner) = text.strip_prefix('[') {
            return inner
                .strip_suffix(']')?
                .parse::<Ipv6Addr>()
                .ok()
                .map(|address| Self::Address(address.into()));
        }

        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }

        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        // RFC 1035, section 2.3.4: at most 63 bytes per label and 253 in total. Underscores are not
        // allowed in host names.
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };

        let last = name.rsplit('.').next()?;
        // Resolvers may read a name whose last label is a number as an address.
        let numeric = last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x");
        (name.len() <= 253 && !numeric && name.split('.').all(label)).then_some(Self::Name(name))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Whether the request is sent over TLS.
    pub scheme: Scheme,
    /// Where the request goes: a name that is resolved, or an address.
    pub host: Host,
    /// The port of the URL, or the default one of the scheme; never 0.
    pub port: u16,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme.as_str(), self.host, self.port)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Exact(Host),
    /// Any name with this suffix, which starts with a dot; not the parent name itself.
    Under(String),
}

/// An allowed target: `scheme://host:port`. A host that starts with `*.` matches every name below
/// it, but not the name itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetPattern {
    scheme: Scheme,
    pattern: Pattern,
    port: u16,
}

impl TargetPattern {
    /// Returns true if the rule allows this target.
    #[must_use]
    pub fn allows(&self, target: &Target) -> bool {
        let host = match (&self.pattern, &target.host) {
            (Pattern::Exact(host), asked) => host == asked,
            (Pattern::Under(suffix), Host::Name(name)) => name.ends_with(suffix.as_str()),
            (Pattern::Under(_), Host::Address(_)) => false,
        };
        host && self.scheme == target.scheme && self.port == target.port
    }

    /// Returns the target if the rule allows exactly one.
    pub(crate) fn exact(&self) -> Option<Target> {
        let Pattern::Exact(host) = &self.pattern else {
            return None;
        };
        Some(Target {
            scheme: self.scheme,
            host: host.clone(),
            port: self.port,
        })
    }

    /// Returns the domain below which the rule allows every name.
    pub(crate) fn domain(&self) -> Option<&str> {
        match &self.pattern {
            Pattern::Exact(_) => None,
            Pattern::Under(suffix) => Some(suffix.trim_start_matches('.')),
        }
    }

    /// Returns the host if the rule allows exactly one.
    #[must_use]
    pub fn host(&self) -> Option<&Host> {
        match &self.pattern {
            Pattern::Exact(host) => Some(host),
            Pattern::Under(_) => None,
        }
    }

    pub(crate) fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns true if this rule allows all targets that the other one allows.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let host = match (&self.pattern, &other.pattern) {
            (Pattern::Exact(host), Pattern::Exact(other)) => host == other,
            (Pattern::Exact(_), Pattern::Under(_))
            | (Pattern::Under(_), Pattern::Exact(Host::Address(_))) => false,
            (Pattern::Under(suffix), Pattern::Exact(Host::Name(name)) | Pattern::Under(name)) => {
                name.ends_with(suffix.as_str())
            }
        };
        host && self.scheme == other.scheme && self.port == other.port
    }
}

impl FromStr for TargetPattern {
    type Err = TargetPatternError;

    fn from_str(text: &str) -> Result<Self, TargetPatternError> {
        parse(text).map_err(|problem| TargetPatternError {
            text: without_secrets(text),
            problem,
        })
    }
}

fn without_secrets(text: &str) -> String {
    let (scheme, rest) = text.split_at(text.find("://").map_or(0, |at| at + "://".len()));
    let end = rest.find(['/', '?', '#', '\\']);
    let authority = rest.get(..end.unwrap_or(rest.len())).unwrap_or(rest);

    let (user, host) = match authority.rsplit_once('@') {
        Some((_, host)) => ("…@", host),
        None => ("", authority),
    };

    // A password may have a slash.
    let (user, host) = match rest.rsplit_once('@') {
        Some((_, host)) if user.is_empty() => ("…@", host.split('/').next().unwrap_or(host)),
        _ => (user, host),
    };

    let path = if end.is_some() { "/…" } else { "" };
    format!("{scheme}{user}{host}{path}")
}

fn parse(text: &str) -> Result<TargetPattern, Problem> {
    let (scheme, rest) = text.split_once("://").ok_or(Problem::Scheme)?;
    let scheme = Scheme::parse(scheme).ok_or(Problem::Scheme)?;

    if rest.contains(['/', '?', '#', '\\']) {
        return Err(Problem::Path);
    }
    if rest.contains('@') {
        return Err(Problem::UserInfo);
    }

    let (host, port) = rest.rsplit_once(':').ok_or(if rest.is_empty() {
        Problem::EmptyHost
    } else {
        Problem::Port
    })?;
    if host.is_empty() {
        return Err(Problem::EmptyHost);
    }

    // `u16::from_str` would accept a leading `+`.
    let port = port
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| port.parse().ok())
        .flatten();
    let port = port.filter(|port| *port != 0).ok_or(Problem::Port)?;

    let pattern = match host.strip_prefix("*.") {
        Some(parent) => match Host::parse(parent) {
            // A rule for a complete top-level domain is certainly a mistake.
            Some(Host::Name(name)) if name.contains('.') && !parent.ends_with('.') => {
                Pattern::Under(format!(".{name}"))
            }
            _ => return Err(Problem::Wildcard),
        },
        None if host.contains('*') => return Err(Problem::Wildcard),
        None if host.ends_with('.') => return Err(Problem::Host),
        None => Pattern::Exact(Host::parse(host).ok_or(Problem::Host)?),
    };

    Ok(TargetPattern {
        scheme,
        pattern,
        port,
    })
}

impl fmt::Display for TargetPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.scheme.as_str();
        match &self.pattern {
            Pattern::Exact(host) => write!(f, "{scheme}://{host}:{}", self.port),
            Pattern::Under(suffix) => write!(f, "{scheme}://*{suffix}:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(scheme: Scheme, host: &str, port: u16) -> Target {
        Target {
            scheme,
            host: Host::parse(host).expect(host),
            port,
        }
    }

    #[test]
    fn a_rule_round_trips_through_text() {
        for text in [
            "https://api.example.com:443",
            "https://s3-eu-1.example.com:443",
            "http://*.example.com:8080",
            "https://10.0.0.1:1",
            "https://[::1]:65535",
        ] {
            assert_eq!(text.parse::<TargetPattern>().expect(text).to_string(), text);
        }

        assert_eq!(
            "HTTPS://API.Example.com:443"
                .parse::<TargetPattern>()
                .unwrap()
                .to_string(),
            "https://api.example.com:443"
        );
    }

    #[test]
    fn an_invalid_rule_is_rejected_with_its_text_and_the_reason() {
        let table = [
            ("", Problem::Scheme),
            ("example.com:443", Problem::Scheme),
            ("ftp://example.com:21", Problem::Scheme),
            ("*://example.com:443", Problem::Scheme),
            ("https://", Problem::EmptyHost),
            ("https://:443", Problem::EmptyHost),
            ("https://example.com", Problem::Port),
            ("https://example.com:", Problem::Port),
            ("https://example.com:0", Problem::Port),
            ("https://example.com:65536", Problem::Port),
            ("https://example.com:+443", Problem::Port),
            ("https://example.com:*", Problem::Port),
            ("https://example.com:443/", Problem::Path),
            ("https://example.com:443/v1?x#y", Problem::Path),
            ("https://user:secret@example.com:443", Problem::UserInfo),
            ("https://*:443", Problem::Wildcard),
            ("https://*example.com:443", Problem::Wildcard),
            ("https://a.*.example.com:443", Problem::Wildcard),
            ("https://*.com:443", Problem::Wildcard),
            ("https://*.10.0.0.1:443", Problem::Wildcard),
            ("https://*.:443", Problem::Wildcard),
            ("https://example.com.:443", Problem::Host),
            ("https://exa mple.com:443", Problem::Host),
            ("https://bücher.example:443", Problem::Host),
            ("https://127.1:443", Problem::Host),
            ("https://2130706433:443", Problem::Host),
            ("https://0x7f000001:443", Problem::Host),
            ("https://0177.0.0.1:443", Problem::Host),
            ("https://::1:443", Problem::Host),
            ("https://[::1:443", Problem::Host),
            ("https://-a.example.com:443", Problem::Host),
            ("https://a..example.com:443", Problem::Host),
        ];
        for (text, problem) in table {
            let error = text.parse::<TargetPattern>().expect_err(text);
            assert_eq!(error.problem, problem, "{text}");
            let shown = match problem {
                Problem::Path | Problem::UserInfo => "example.com:443".to_owned(),
                _ => format!("`{text}`"),
            };
            assert!(error.to_string().contains(&shown), "{error}");
        }
    }

    #[test]
    fn an_error_shows_no_user_path_or_query() {
        for (text, shown) in [
            ("https://a.example/bot123:Secret/", "`https://a.example/…`"),
            (
                "https://a.example:443?token=Secret",
                "`https://a.example:443/…`",
            ),
            (
                "https://u:Secret@a.example:443",
                "`https://…@a.example:443`",
            ),
            (
                "https://u:Sec/Secret@a.example:443",
                "`https://…@a.example:443/…`",
            ),
        ] {
            let said = text.parse::<TargetPattern>().unwrap_err().to_string();
            assert!(said.contains(shown) && !said.contains("Sec"), "{said}");
        }
    }

    #[test]
    fn scheme_host_and_port_must_all_match() {
        let rules = [
            "https://api.example.com:443",
            "https://*.cloud.example:8443",
            "http://[fd00::1]:80",
        ]
        .map(|text| text.parse::<TargetPattern>().unwrap());

        let table = [
            (Scheme::Https, "api.example.com", 443, true),
            (Scheme::Https, "API.example.com.", 443, true),
            (Scheme::Http, "api.example.com", 443, false),
            (Scheme::Https, "api.example.com", 8443, false),
            (Scheme::Https, "xapi.example.com", 443, false),
            (Scheme::Https, "api.example.com.evil.example", 443, false),
            (Scheme::Https, "eu.cloud.example", 8443, true),
            (Scheme::Https, "a.b.cloud.example", 8443, true),
            (Scheme::Https, "cloud.example", 8443, false),
            (Scheme::Https, "evilcloud.example", 8443, false),
            (Scheme::Http, "[fd00:0::1]", 80, true),
            (Scheme::Http, "[fd00::2]", 80, false),
        ];
        for (scheme, host, port, permitted) in table {
            let asked = target(scheme, host, port);
            assert_eq!(
                rules.iter().any(|rule| rule.allows(&asked)),
                permitted,
                "{asked}"
            );
        }
    }

    #[test]
    fn a_rule_covers_another_if_it_allows_all_its_targets() {
        let covers = |one: &str, other: &str| {
            one.parse::<TargetPattern>()
                .unwrap()
                .covers(&other.parse().unwrap())
        };
        for (one, other) in [
            ("https://a.example.com:443", "https://a.example.com:443"),
            ("https://10.0.0.1:443", "https://10.0.0.1:443"),
            ("https://*.example.com:443", "https://a.example.com:443"),
            ("https://*.example.com:443", "https://*.b.example.com:443"),
        ] {
            assert!(covers(one, other), "{one} {other}");
        }

        for (one, other) in [
            ("https://a.example.com:443", "https://b.example.com:443"),
            ("https://a.example.com:443", "http://a.example.com:443"),
            ("https://a.example.com:443", "https://a.example.com:444"),
            ("https://a.example.com:443", "https://*.example.com:443"),
            ("https://*.example.com:443", "https://example.com:443"),
            ("https://*.example.com:443", "https://10.0.0.1:443"),
            ("https://*.b.example.com:443", "https://*.example.com:443"),
        ] {
            assert!(!covers(one, other), "{one} {other}");
        }
    }
}
