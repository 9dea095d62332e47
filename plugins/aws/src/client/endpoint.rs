//! The endpoints of the APIs, and the scope of request signatures.

/// One of the APIs that the plugin uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// EC2: instances, networks, security groups, routes.
    Ec2,
    /// Elastic Load Balancing, version 2012: classic load balancers.
    Elb,
    /// Elastic Load Balancing, version 2015: network load balancers.
    Elbv2,
}

impl Api {
    /// Returns the parameter `Version` of every request.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::Ec2 => "2016-11-15",
            Self::Elb => "2012-06-01",
            Self::Elbv2 => "2015-12-01",
        }
    }
}

/// The URL of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    text: String,
    origin: String,
}

impl Url {
    /// Parses `https://HOST` or `http://HOST`, optionally with port and path. Returns `None` for
    /// anything else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let default_port = match scheme {
            "https" => 443,
            "http" => 80,
            _ => return None,
        };
        if rest.contains(['?', '#', '@']) || rest.contains(char::is_whitespace) {
            return None;
        }

        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match authority.rsplit_once(':') {
            // The colon is part of an IPv6 address.
            Some((_, end)) if end.ends_with(']') => (authority, default_port),
            Some((host, port)) => (host, port_of(port)?),
            None => (authority, default_port),
        };
        if host.is_empty() || (host.contains(':') && !is_bracketed_v6(host)) {
            return None;
        }

        Some(Self {
            text: format!("{scheme}://{authority}/{path}"),
            origin: format!("{scheme}://{host}:{port}"),
        })
    }

    /// Returns the complete URL.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns scheme, host and port.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }
}

/// Parses a port. A sign, which the standard library allows, is not part of a URL.
fn port_of(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port != 0)
}

fn is_bracketed_v6(host: &str) -> bool {
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok())
}

/// The endpoint of one API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The URL that requests are posted to.
    pub(crate) url: Url,
    /// The region in the scope of the signature.
    pub(crate) signing_region: String,
    /// The service in the scope of the signature.
    pub(crate) signing_name: String,
}

/// The endpoint of each API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoints {
    pub(crate) ec2: Endpoint,
    /// Elastic Load Balancing, version 2012.
    pub(crate) elb: Endpoint,
    /// Elastic Load Balancing, version 2015.
    pub(crate) elbv2: Endpoint,
}

/// A section `[ServiceOverride "…"]` of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Override {
    /// The name of the service in AWS SDK for Go, version 1 or 2.
    pub(crate) service: String,
    /// The region that it applies to.
    pub(crate) region: String,
    /// The endpoint that replaces the default. If its signing name is empty, the default one is
    /// used.
    pub(crate) endpoint: Endpoint,
}

impl Endpoints {
    /// Returns the endpoint of this API.
    pub(crate) fn of(&self, api: Api) -> &Endpoint {
        match api {
            Api::Ec2 => &self.ec2,
            Api::Elb => &self.elb,
            Api::Elbv2 => &self.elbv2,
        }
    }

    /// Replaces the endpoints of the APIs with this name. Names of other services, for example
    /// `s3`, are accepted and ignored, as in the official provider.
    pub(crate) fn replace(&mut self, service: &str, with: &Endpoint) {
        let moved: &mut [&mut Endpoint] = match service.to_ascii_lowercase().as_str() {
            "ec2" => &mut [&mut self.ec2],
            "elastic load balancing" => &mut [&mut self.elb],
            "elastic load balancing v2" => &mut [&mut self.elbv2],
            // The name of both APIs in version 1 of the SDK.
            "elasticloadbalancing" => &mut [&mut self.elb, &mut self.elbv2],
            _ => &mut [],
        };

        for endpoint in moved {
            let name = if with.signing_name.is_empty() {
                &endpoint.signing_name
            } else {
                &with.signing_name
            };
            **endpoint = Endpoint {
                signing_name: name.clone(),
                ..with.clone()
            };
        }
    }
}

/// Returns the domain of a region's partition, from AWS' list of partitions (`partitions.json` of
/// the SDKs).
pub(crate) fn partition_suffix(region: &str) -> &'static str {
    match region.split('-').next().unwrap_or_default() {
        "cn" => "amazonaws.com.cn",
        "eusc" => "amazonaws.eu",
        _ if region.starts_with("us-isob-") => "sc2s.sgov.gov",
        _ if region.starts_with("us-isof-") => "csp.hci.ic.gov",
        _ if region.starts_with("eu-isoe-") => "cloud.adc-e.uk",
        _ if region.starts_with("us-iso-") => "c2s.ic.gov",
        _ => "amazonaws.com",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_and_a_port() {
        for (text, url, origin) in [
            ("https://h", "https://h/", "https://h:443"),
            ("http://h/a/b", "http://h/a/b", "http://h:80"),
            ("https://h:8443", "https://h:8443/", "https://h:8443"),
            ("http://[::1]", "http://[::1]/", "http://[::1]:80"),
            ("http://[::1]:81/", "http://[::1]:81/", "http://[::1]:81"),
        ] {
            let parsed = Url::parse(text).unwrap();
            assert_eq!((parsed.as_str(), parsed.origin()), (url, origin));
        }
        for text in [
            "",
            "h",
            "ftp://h",
            "https://",
            "https:///a",
            "https://:443",
            "https://h:",
            "https://h:/a",
            "https://h:0",
            "https://h:+1",
            "https://h:65536",
            "https://h:https",
            "https://a:b:1",
            "https://[::1]:",
            "https://[::g]:1",
            "https://::1",
            "https://u@h",
            "https://h?x",
            "https://h#x",
            "https://h x",
        ] {
            assert_eq!(Url::parse(text), None, "{text}");
        }
    }
}
