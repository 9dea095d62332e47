//! Parsing and validation of egress rules.

use std::{fmt::Display, net::IpAddr, sync::Arc, time::Duration};

use http::Method;
use ipnet::IpNet;
use skydock_credentials::{
    AbsolutePath, Credential, config::ClientCertificate, request::glob::Glob,
};

use super::{CompiledRule, Limits, METHODS, Pin, units};
use crate::{
    rules::{
        address::{AddressPolicy, is_metadata, is_metadata_address},
        config::{
            ConfigError, ConfigErrors, EgressRule, Mode, RuleLimits, TlsConfig, WildcardCredential,
        },
        headers::{Listed, is_identity, is_reserved, is_set_by_skydock, replaces_target},
        path::Prefix,
        settings::Settings,
        suffix::{Below, below},
        uri::is_metadata_name,
    },
    target::{Host, Scheme, Target, TargetPattern},
};

const MINUTE: Duration = Duration::from_secs(60);

/// Parses all rules.
///
/// # Errors
/// All mistakes in all rules.
pub(crate) fn compile(settings: &Settings) -> Result<Vec<CompiledRule>, ConfigErrors> {
    let Settings { rules, nat64, .. } = settings;
    let mut errors = Vec::new();
    let mut compiled = Vec::new();

    for (at, rule) in rules.iter().enumerate() {
        let mut reader = Reader {
            rule: label(rule, at),
            index: at,
            errors: &mut errors,
        };

        if rules.iter().take(at).any(|other| other.name == rule.name) {
            reader.error(
                "name",
                format!(
                    "`{}` is the name of another rule; names are unique",
                    rule.name
                ),
            );
        }

        compiled.extend(reader.read(rule, settings));
    }

    if let Some(prefix) = nat64
        .iter()
        .find(|it| ![32, 40, 48, 56, 64, 96].contains(&it.prefix_len()))
    {
        let problem = format!(
            "{prefix} does not have a valid prefix length (RFC 6052); expected 32, 40, 48, 56, 64 or 96"
        );
        errors.push(ConfigError {
            rule: "(all)".to_owned(),
            index: 0,
            field: "nat64",
            item: None,
            problem,
        });
    }

    if errors.is_empty() {
        Ok(compiled)
    } else {
        Err(ConfigErrors(errors))
    }
}

/// Parses a network, for example one that a rule opens. An address without a prefix length is a
/// single address.
fn network(text: &str) -> Option<IpNet> {
    let text = text.trim();
    text.parse::<IpNet>()
        .ok()
        .or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

fn label(rule: &EgressRule, at: usize) -> String {
    if is_name(&rule.name) {
        rule.name.clone()
    } else {
        format!("number {}", at + 1)
    }
}

fn is_name(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn method(text: &str) -> Result<Method, String> {
    METHODS
        .iter()
        .find(|method| method.as_str() == text)
        .cloned()
        .ok_or_else(|| {
            format!("`{text}` is not one of GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS")
        })
}

fn action(text: &str) -> Result<Glob, String> {
    let why =
        "is not a valid action; expected letters, digits, `_`, `-`, `.`, `:`, and `*` for any text";
    Glob::parse(text).ok_or_else(|| format!("`{text}` {why}"))
}

fn parameter(text: &str) -> Result<Glob, String> {
    let why =
        "is not a valid name; expected letters, digits, `_`, `-`, `.`, `:`, and `*` for any text";
    Glob::parse(&text.to_lowercase()).ok_or_else(|| format!("`{text}` {why}"))
}

fn opened_network(text: &str) -> Result<IpNet, String> {
    let net = network(text)
        .ok_or_else(|| format!("`{text}` is not a valid CIDR; expected for example 10.1.0.0/16"))?;
    if is_metadata(&net) {
        return Err(format!(
            "{net} contains a metadata service, which is always denied; use a credential"
        ));
    }
    Ok(net)
}

/// Parses the name of a header that a plugin may send.
fn header(text: &str) -> Result<Glob, String> {
    let name = text.to_lowercase();
    if is_identity(&name) {
        return Err(format!(
            "`{text}` tells a server who is asking, and is never sent for a plugin"
        ));
    }
    if is_reserved(&name) {
        return Err(format!(
            "`{text}` authenticates; use a credential, or `guestAuth: allowed`"
        ));
    }
    if replaces_target(&name) {
        return Err(format!(
            "`{text}` could change the target, path or method of a request, and is always denied"
        ));
    }
    if is_set_by_skydock(&name) {
        return Err(format!(
            "`{text}` belongs to the connection, and is set by Skydock"
        ));
    }

    // Requests with headers of other names are denied, whatever a rule lists.
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-*".contains(&byte);
    Glob::parse(&name)
        .filter(|_| name.bytes().all(is_name))
        .ok_or_else(|| {
            format!("`{text}` is not a valid header; expected letters, digits, `-`, and `*` for any text")
        })
}

struct Reader<'a> {
    rule: String,
    index: usize,
    errors: &'a mut Vec<ConfigError>,
}

impl Reader<'_> {
    fn error(&mut self, field: &'static str, problem: impl Display) {
        self.error_in(field, None, problem);
    }

    fn error_in(&mut self, field: &'static str, item: Option<usize>, problem: impl Display) {
        self.errors.push(ConfigError {
            rule: self.rule.clone(),
            index: self.index,
            field,
            item,
            problem: problem.to_string(),
        });
    }

    /// Returns the value, or records the error.
    fn checked<T, E: Display>(&mut self, field: &'static str, value: Result<T, E>) -> Option<T> {
        value.map_err(|problem| self.error(field, problem)).ok()
    }

    fn each<T, E: Display>(
        &mut self,
        field: &'static str,
        texts: &[String],
        read: impl Fn(&str) -> Result<T, E>,
    ) -> Vec<T> {
        let mut all = Vec::new();
        for (item, text) in texts.iter().enumerate() {
            match read(text) {
                Ok(value) => all.push(value),
                Err(problem) => self.error_in(field, Some(item), problem),
            }
        }
        all
    }

    fn read(&mut self, rule: &EgressRule, settings: &Settings) -> Option<CompiledRule> {
        self.check_name(&rule.name);
        let to = self.target(&rule.to);

        let methods = self.each("methods", &rule.methods, method);
        let paths = self.each("paths", &rule.paths, |text| {
            Prefix::parse(text).map_err(|why| format!("`{text}`: {why}"))
        });
        let actions = self.each("actions", &rule.actions, action);
        let reads = self.each("reads", &rule.reads, action);
        let opened = self.each("addresses", &rule.addresses, opened_network);

        let credential = self.credential(rule, settings);
        let headers = self.each("headers", &rule.headers, header);
        let parameters = self.each("queryParameters", &rule.query_parameters, parameter);

        let domain = to.as_ref().and_then(TargetPattern::domain);
        if let (Some(domain), Some(credential)) = (domain, &credential) {
            self.wildcard(domain, &**credential, rule.wildcard_credential);
        }

        let pin = self.tls(rule.tls.as_ref(), to.as_ref());
        let certificate = self.certificate(rule, settings);
        let proxy = rule.proxy.as_ref().and_then(|text| self.proxy(text));
        let limits = self.limits(&rule.limits);

        Some(CompiledRule {
            name: rule.name.as_str().into(),
            // Only at the end, so that the mistakes of all fields are reported.
            to: to?,
            methods: if methods.is_empty() {
                METHODS.to_vec()
            } else {
                methods
            },
            paths,
            actions,
            reads,
            addresses: AddressPolicy {
                opened,
                nat64: settings.nat64.clone(),
            },
            credential,
            guest_auth: rule.guest_auth,
            listed: Listed {
                headers,
                parameters,
            },
            report_only: rule.mode == Mode::ReportOnly,
            tls: rule.tls.clone().unwrap_or_default(),
            certificate,
            pin,
            proxy,
            limits,
        })
    }

    fn check_name(&mut self, name: &str) {
        if !is_name(name) {
            self.error(
                "name",
                "not a valid name; expected 1 to 63 lower-case letters, digits and `-`, for example `api`",
            );
        }
    }

    fn target(&mut self, text: &str) -> Option<TargetPattern> {
        let to = self.checked("to", text.parse::<TargetPattern>())?;

        let host = to.exact().map(|it| it.host);
        let is_metadata_host = host.as_ref().is_some_and(|host| match host {
            Host::Address(address) => is_metadata_address(*address),
            Host::Name(name) => is_metadata_name(name),
        });
        if let Some(host) = host.filter(|_| is_metadata_host) {
            self.error(
                "to",
                format!("{host} is a metadata service, which is always denied; use a credential"),
            );
        }

        Some(to)
    }

    fn credential(
        &mut self,
        rule: &EgressRule,
        settings: &Settings,
    ) -> Option<Arc<dyn Credential>> {
        let name = rule.credential.as_ref()?;
        let found = settings.credentials.get(name).cloned();
        let problem = format!("unknown credential `{name}`; add it under `credentials`");
        self.checked("credential", found.ok_or(problem))
    }

    /// Checks that nobody else receives a credential that is sent to every name below a domain.
    fn wildcard(
        &mut self,
        domain: &str,
        credential: &dyn Credential,
        confirmed: WildcardCredential,
    ) {
        match below(domain) {
            Below::Anybody => self.error(
                "to",
                format!(
                    "`*.{domain}` allows names that anybody can register, which would receive the credential; list the hosts of the cloud"
                ),
            ),
            // Who receives a signed request cannot send others with it.
            Below::Shared if !credential.signs() => self.error(
                "to",
                format!(
                    "`*.{domain}` allows names of the cloud's customers, which would receive the credential; list the hosts of the cloud"
                ),
            ),
            Below::One if !credential.signs() && confirmed == WildcardCredential::Denied => self
                .error(
                    "credential",
                    format!(
                        "it would be sent to every name below {domain}; list the hosts, or, if all these names belong to the cloud, set \
                         `wildcardCredential: allowed`"
                    ),
                ),
            _ => {}
        }
    }

    fn tls(&mut self, tls: Option<&TlsConfig>, to: Option<&TargetPattern>) -> Option<Pin> {
        let tls = tls?;

        if to.is_some_and(|to| to.scheme() == Scheme::Http) {
            self.error("tls", "`to` is http: use https, or remove `tls`");
        }

        if let Some(name) = &tls.server_name
            && rustls_pki_types::ServerName::try_from(name.as_str()).is_err()
        {
            self.error(
                "tls",
                format!("serverName `{name}` is neither a DNS name nor an address"),
            );
        }

        let pin = tls.pin.as_ref().map(|text| {
            // `openssl x509 -fingerprint` writes colons between the bytes.
            let digits = text
                .strip_prefix("sha256:")
                .map(|digits| digits.replace(':', ""));
            let bytes = digits
                .and_then(|digits| hex::decode(digits).ok())
                .and_then(|bytes| bytes.try_into().ok());
            bytes.ok_or("pin is not valid; expected `sha256:` and 64 hexadecimal digits")
        });

        pin.and_then(|pin| self.checked("tls", pin))
    }

    fn certificate(&mut self, rule: &EgressRule, settings: &Settings) -> Option<ClientCertificate> {
        let tls = rule.tls.as_ref()?;

        if tls.cert_file.is_some() || tls.key_file.is_some() {
            let path = |file: &Option<AbsolutePath>| match file {
                Some(file) => file.display().to_string(),
                None => "FILE".to_owned(),
            };
            self.error(
                "tls",
                format!(
                    "a client certificate is a credential: replace certFile and keyFile by `clientCertificate: {0}-client`, and \
                     add to `credentials`: `- {{name: {0}-client, type: client-certificate, for: {{plugin: NAME, digest: any}}, \
                     certFile: {1}, keyFile: {2}}}`",
                    rule.name,
                    path(&tls.cert_file),
                    path(&tls.key_file)
                ),
            );
        }

        let name = tls.client_certificate.as_ref()?;
        let found = settings.certificates.get(name).cloned();
        let problem = format!(
            "unknown client certificate `{name}`; add it under `credentials` with `type: client-certificate`"
        );
        self.checked("tls", found.ok_or(problem))
    }

    fn proxy(&mut self, text: &str) -> Option<Target> {
        let read = text
            .strip_suffix('/')
            .unwrap_or(text)
            .parse::<TargetPattern>();
        let target = self
            .checked("proxy", read)?
            .exact()
            .filter(|target| target.scheme == Scheme::Http);

        self.checked(
            "proxy",
            target.ok_or("not a valid proxy; expected http://host:port, without `*`"),
        )
    }

    fn limits(&mut self, limits: &RuleLimits) -> Limits {
        let default = Limits::default();
        Limits {
            connect: self
                .duration("limits.connect", limits.connect.as_deref(), MINUTE)
                .unwrap_or(default.connect),
            first_byte: self
                .duration(
                    "limits.firstByte",
                    limits.first_byte.as_deref(),
                    10 * MINUTE,
                )
                .unwrap_or(default.first_byte),
            between_bytes: self
                .duration(
                    "limits.betweenBytes",
                    limits.between_bytes.as_deref(),
                    10 * MINUTE,
                )
                .unwrap_or(default.between_bytes),
            total: self.duration("limits.total", limits.total.as_deref(), 10 * MINUTE),
            request_body: self
                .size(
                    "limits.requestBody",
                    limits.request_body.as_deref(),
                    64 << 20,
                )
                .unwrap_or(default.request_body),
            response_body: self
                .size(
                    "limits.responseBody",
                    limits.response_body.as_deref(),
                    256 << 20,
                )
                .unwrap_or(default.response_body),
            concurrency: self
                .number("limits.concurrency", limits.concurrency, 1..=64)
                .unwrap_or(default.concurrency),
            rate: self
                .number("limits.rate", limits.rate, 0.01..=10_000.0)
                .unwrap_or(default.rate),
            burst: self
                .number("limits.burst", limits.burst, 1..=10_000)
                .unwrap_or(default.burst),
            pause: self
                .duration("limits.pause", limits.pause.as_deref(), 10 * MINUTE)
                .unwrap_or(default.pause),
        }
    }

    fn duration(
        &mut self,
        field: &'static str,
        text: Option<&str>,
        most: Duration,
    ) -> Option<Duration> {
        let text = text?;
        let read = units::duration(text).filter(|it| !it.is_zero() && *it <= most);

        let problem = || {
            let most = units::written(most);
            format!(
                "`{text}` is not a valid duration from 1ms to {most}; expected for example 5s or 1m30s"
            )
        };

        self.checked(field, read.ok_or_else(problem))
    }

    fn size(&mut self, field: &'static str, text: Option<&str>, most: u64) -> Option<u64> {
        let text = text?;
        let read = units::size(text).filter(|it| *it <= most);
        let problem = || {
            format!(
                "`{text}` is not a valid size of up to {}MiB; expected for example 512KiB or 8MiB",
                most >> 20
            )
        };

        self.checked(field, read.ok_or_else(problem))
    }

    fn number<T: PartialOrd + Copy + Display>(
        &mut self,
        field: &'static str,
        value: Option<T>,
        range: std::ops::RangeInclusive<T>,
    ) -> Option<T> {
        let value = value?;

        let problem = || {
            format!(
                "{value} is out of range; expected {} to {}",
                range.start(),
                range.end()
            )
        };

        self.checked(
            field,
            if range.contains(&value) {
                Ok(value)
            } else {
                Err(problem())
            },
        )
    }
}

#[cfg(test)]
mod tests;
