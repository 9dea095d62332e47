//! Checks the answers of a plugin against the contract before anything else uses them.
//!
//! A plugin may be faulty or hostile; an answer that passes can be written to a Node or a Service.

mod addresses;

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

pub use addresses::{IngressRules, Refused};
use ipnet::IpNet;
use skydock_cloud::{
    self as cloud, CloudError, Pairs, ProviderInfo,
    text::{SENTENCE, is_plain, shown},
};

use crate::{
    bindings::{
        exports::skydock::provider::{instances, plugin, routes, zones},
        skydock::provider::types as wit,
    },
    overlap::Overlap,
    redact::redact,
    text::Quoted,
};

/// Maximum number of addresses of a node, of additional labels, and of ingress points, as in the contract.
const MAX_LIST: usize = 64;
/// Maximum bytes of a provider ID, as in the contract.
const MAX_PROVIDER_ID: usize = 512;
/// Maximum bytes of a DNS name, of a node's name and of a label's prefix (RFC 1123, and Kubernetes' own limit).
const MAX_NAME: usize = 253;
/// Maximum bytes of a label's value, of its name, and of a provider's name (Kubernetes' own limit).
const MAX_LABEL: usize = 63;
/// Maximum bytes of a cloud's name for a route. The longest known names are Azure resource IDs.
const MAX_ROUTE_NAME: usize = 1024;
/// Maximum bytes of a version, as in the contract.
const MAX_VERSION: usize = 64;
/// Maximum number of prefixes that a plugin may own, and of hosts that it may request: more than any provider needs.
const MAX_WISHES: usize = 64;
/// Maximum number of annotation prefixes, as in the contract.
const MAX_ANNOTATION_PREFIXES: usize = 16;

/// Maximum bytes of an annotation's value, as in the contract.
pub(crate) const MAX_ANNOTATION: usize = 4 << 10;
/// Maximum bytes of the token of the next page of a list, as in the contract.
const MAX_NEXT: usize = 4 << 10;
/// Maximum number of nodes in one call, and the default if the plugin sets none, as in the contract.
const MAX_BATCH: u32 = 1000;
const DEFAULT_BATCH: u32 = 100;
/// Bounds of the delay before a retry, as in the contract.
const RETRY: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60 * 60);

/// Bounds of the delay before the next maintenance, as in the contract.
const MAINTENANCE: std::ops::RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_secs(24 * 60 * 60);

/// Violations of the contract by an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The answer to a batch has the wrong number of elements.
    #[error("{answers} answers to {questions} questions")]
    Length {
        /// Number of elements in the request.
        questions: usize,
        /// Number of elements in the answer.
        answers: usize,
    },
    /// A list is too long.
    #[error("{count} {what}, but at most {limit} are allowed")]
    TooMany {
        /// What the list contains.
        what: &'static str,
        /// Number of elements.
        count: usize,
        /// Maximum number of elements.
        limit: usize,
    },
    /// There are more routes than the operator's limit allows.
    #[error(
        "{count} routes, but at most {limit} are allowed: raise the limit, for example --plugin-limit routes={}", .count.saturating_mul(2)
    )]
    TooManyRoutes {
        /// Number of routes.
        count: usize,
        /// Maximum number of routes.
        limit: usize,
    },
    /// A value is not valid.
    #[error("{what} {value} is not {expected}")]
    Value {
        /// Name of the field.
        what: &'static str,
        /// Its value.
        value: Quoted,
        /// The expected form.
        expected: &'static str,
    },
    /// An IP address is one that a node or a load balancer cannot have.
    #[error("{what} {address} is rejected: {why}")]
    Address {
        /// Name of the field.
        what: &'static str,
        /// Its value.
        address: IpAddr,
        /// Reason for the rejection.
        why: Refused,
    },
    /// A name stands for an IP address that a node cannot have.
    #[error("{what} {name} is rejected: {why}")]
    Name {
        /// Name of the field.
        what: &'static str,
        /// Its value.
        name: Quoted,
        /// Reason for the rejection.
        why: Refused,
    },
    /// A provider ID does not have one of the plugin's prefixes.
    #[error("provider ID {0} does not have a prefix of the plugin")]
    ForeignProviderId(Quoted),
    /// A key occurs twice.
    #[error("duplicate {what} {value}")]
    Twice {
        /// Name of the field.
        what: &'static str,
        /// The key.
        value: Quoted,
    },
    /// A required value is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
}

type Checked<T> = Result<T, AnswerError>;

fn value<T>(what: &'static str, text: &str, expected: &'static str, parsed: Option<T>) -> Checked<T> {
    parsed.ok_or_else(|| AnswerError::Value { what, value: Quoted::new(text), expected })
}

fn count(what: &'static str, count: usize, limit: usize) -> Checked<()> {
    if count > limit { Err(AnswerError::TooMany { what, count, limit }) } else { Ok(()) }
}

/// Returns true for letters, digits, `-`, `_` and `.`, starting and ending with a letter or digit (Kubernetes' qualified name part).
fn is_label_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()].into_iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric));
    ends && text.len() <= MAX_LABEL && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

/// Returns true for an RFC 1123 subdomain in lower case.
fn is_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    text.len() <= MAX_NAME && text.split('.').all(label)
}

/// Returns true for `name` or `prefix/name`.
pub(crate) fn is_qualified(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_label_name(name),
        None => is_label_name(text),
    }
}

/// Returns true for a valid name of a machine: a DNS name, in which older clouds also use upper-case letters and underscores.
fn is_host_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// Checks a label's value. An empty value counts as absent.
fn label_value(what: &'static str, text: Option<String>) -> Checked<Option<String>> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let ok = is_label_name(&text);
    value(what, &text, "a label value (63 letters, digits, `-`, `_` or `.`)", ok.then_some(()))?;
    Ok(Some(text))
}

fn ip(what: &'static str, text: &str) -> Checked<IpAddr> {
    value(what, text, "an IP address", text.parse::<IpAddr>().ok())
}

/// Checks an address that a cloud's route contains for its node. It is only compared, and never written.
fn noted_address(address: wit::NodeAddress) -> Checked<cloud::NodeAddress> {
    let (kind, is_ip) = match address.kind {
        wit::AddressKind::Hostname => (cloud::AddressKind::Hostname, false),
        wit::AddressKind::InternalIp => (cloud::AddressKind::InternalIp, true),
        wit::AddressKind::ExternalIp => (cloud::AddressKind::ExternalIp, true),
        wit::AddressKind::InternalDns => (cloud::AddressKind::InternalDns, false),
        wit::AddressKind::ExternalDns => (cloud::AddressKind::ExternalDns, false),
    };
    let address = if is_ip {
        ip("address", &address.address)?.to_string()
    } else {
        let ok = is_host_name(&address.address);
        value("address", &address.address, "a DNS name", ok.then_some(()))?;
        address.address
    };
    Ok(cloud::NodeAddress { kind, address })
}

/// Checks an address that is written to the node. The API server may connect to any of them, also to a host name, and some clouds use
/// IP addresses as names.
fn address(address: wit::NodeAddress) -> Checked<cloud::NodeAddress> {
    let checked = noted_address(address)?;
    let what = "address";
    match checked.address.parse() {
        Ok(address) => addresses::node(address).map_err(|why| AnswerError::Address { what, address, why })?,
        Err(_) => {
            let refused = |why| AnswerError::Name { what, name: Quoted::new(&checked.address), why };
            addresses::name(&checked.address).map_err(refused)?;
        }
    }
    Ok(checked)
}

fn addresses(
    all: Vec<wit::NodeAddress>,
    check: impl Fn(wit::NodeAddress) -> Checked<cloud::NodeAddress>,
) -> Checked<Vec<cloud::NodeAddress>> {
    count("addresses", all.len(), MAX_LIST)?;
    all.into_iter().map(check).collect()
}

/// Returns true for keys that belong to Kubernetes: under `kubernetes.io` or `k8s.io`.
fn is_reserved(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    ["kubernetes.io", "k8s.io"]
        .into_iter()
        .any(|domain| prefix.strip_suffix(domain).is_some_and(|before| before.is_empty() || before.ends_with('.')))
}

fn labels(all: Vec<(String, String)>) -> Checked<Pairs> {
    count("labels", all.len(), MAX_LIST)?;
    let mut labels = Pairs::new();
    for (key, text) in all {
        value("label", &key, "a qualified name", is_qualified(&key).then_some(()))?;
        let text = label_value("label value", Some(text))?.unwrap_or_default();
        if is_reserved(&key) {
            continue;
        }
        if labels.contains_key(&key) {
            return Err(AnswerError::Twice { what: "label", value: Quoted::new(&key) });
        }
        labels.insert(key, text);
    }
    Ok(labels)
}

/// Checks the annotations that an instance sets on its node.
fn annotations(all: Vec<(String, String)>, info: &ProviderInfo) -> Checked<Pairs> {
    count("annotations", all.len(), MAX_LIST)?;
    let mut annotations = Pairs::new();
    for (key, text) in all {
        let owned = info.annotation_prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()));
        let ok = owned && is_qualified(&key);
        value("annotation", &key, "a qualified name under one of the plugin's annotation prefixes", ok.then_some(()))?;
        count("bytes of an annotation", text.len(), MAX_ANNOTATION)?;
        if annotations.contains_key(&key) {
            return Err(AnswerError::Twice { what: "annotation", value: Quoted::new(&key) });
        }
        annotations.insert(key, text);
    }
    Ok(annotations)
}

/// Returns true for a valid prefix of a plugin's annotation keys: a domain and `/`, optionally with the beginning of a name after it.
/// Prefixes that cover all of Kubernetes' annotations, or any of Skydock's, are not valid.
fn is_annotation_prefix(text: &str) -> bool {
    let Some((domain, family)) = text.split_once('/') else { return false };
    let of = |owner: &str| domain.strip_suffix(owner).is_some_and(|before| before.is_empty() || before.ends_with('.'));
    let named =
        family.is_empty() || (is_label_name(family.trim_end_matches(['-', '.', '_'])) && family.len() < MAX_LABEL);
    let closed = of("skydock.dev") || (family.is_empty() && (of("kubernetes.io") || of("k8s.io")));
    is_subdomain(domain) && domain.contains('.') && named && !closed
}

fn provider_id(id: String, info: &ProviderInfo) -> Checked<String> {
    let printable = id.len() <= MAX_PROVIDER_ID && id.bytes().all(|b| b.is_ascii_graphic());
    value("provider ID", &id, "printable ASCII of at most 512 bytes", printable.then_some(()))?;
    // A prefix alone does not identify an instance.
    let owned = info.provider_id_prefixes.iter().any(|prefix| id.len() > prefix.len() && id.starts_with(prefix));
    if owned { Ok(id) } else { Err(AnswerError::ForeignProviderId(Quoted::new(&id))) }
}

pub(crate) fn presence(presence: instances::Presence) -> cloud::Presence {
    match presence {
        instances::Presence::Running => cloud::Presence::Running,
        instances::Presence::Stopped => cloud::Presence::Stopped,
        instances::Presence::Absent => cloud::Presence::Absent,
    }
}

pub(crate) fn instance(instance: instances::Instance, info: &ProviderInfo) -> Checked<cloud::Instance> {
    let id = instance.provider_id.filter(|id| !id.is_empty());
    Ok(cloud::Instance {
        provider_id: id.map(|id| provider_id(id, info)).transpose()?,
        instance_type: label_value("instance type", instance.instance_type)?,
        zone: label_value("zone", instance.zone)?,
        region: label_value("region", instance.region)?,
        addresses: addresses(instance.addresses, address)?,
        labels: labels(instance.labels)?,
        annotations: annotations(instance.annotations, info)?,
    })
}

pub(crate) fn zone(zone: zones::Zone) -> Checked<cloud::Zone> {
    Ok(cloud::Zone { zone: label_value("zone", zone.zone)?, region: label_value("region", zone.region)? })
}

fn ingress(ingress: wit::Ingress, service: &cloud::Service, rules: &IngressRules) -> Checked<cloud::Ingress> {
    let what = "ingress address";
    let address = ingress.ip.filter(|text| !text.is_empty()).map(|text| ip(what, &text)).transpose()?;
    if let Some(address) = address {
        let checked = rules.check(address, &service.cluster_ips);
        checked.map_err(|why| AnswerError::Address { what, address, why })?;
    }
    let hostname = ingress.hostname.filter(|text| !text.is_empty());
    if let Some(name) = &hostname {
        let ok = is_subdomain(name) && name.parse::<IpAddr>().is_err();
        value("ingress host name", name, "a DNS name in lower case", ok.then_some(()))?;
    }
    if address.is_none() && hostname.is_none() {
        return Err(AnswerError::Missing("address and host name of an ingress point"));
    }
    count("port states of an ingress point", ingress.ports.len(), service.ports.len())?;
    // The API server rejects a mode without an address.
    let ip_mode = ingress.ip_mode.filter(|_| address.is_some()).map(|mode| match mode {
        wit::IpMode::Vip => cloud::IpMode::Vip,
        wit::IpMode::Proxy => cloud::IpMode::Proxy,
    });
    Ok(cloud::Ingress {
        ip: address.map(|address| address.to_string()),
        hostname,
        ip_mode,
        ports: ingress.ports.into_iter().map(port_status).collect::<Checked<_>>()?,
    })
}

fn port_status(status: wit::PortStatus) -> Checked<cloud::PortStatus> {
    if let Some(error) = &status.error {
        value("error of a port", error, "a CamelCase word or a qualified name", is_qualified(error).then_some(()))?;
    }
    let transport = match status.transport {
        wit::Transport::Tcp => cloud::Transport::Tcp,
        wit::Transport::Udp => cloud::Transport::Udp,
        wit::Transport::Sctp => cloud::Transport::Sctp,
    };
    Ok(cloud::PortStatus { port: status.port, transport, error: status.error })
}

/// Checks the status of the load balancer of this Service.
pub(crate) fn load_balancer(
    status: wit::LoadBalancerStatus,
    service: &cloud::Service,
    rules: &IngressRules,
) -> Checked<cloud::LoadBalancerStatus> {
    count("ingress points", status.ingress.len(), MAX_LIST)?;
    let ingress = status.ingress.into_iter().map(|it| ingress(it, service, rules)).collect::<Checked<_>>()?;
    Ok(cloud::LoadBalancerStatus { ingress })
}

fn route(route: routes::Route) -> Checked<cloud::Route> {
    let named = (1..=MAX_ROUTE_NAME).contains(&route.name.len()) && is_plain(&route.name);
    value("route name", &route.name, "1 to 1024 bytes of plain text", named.then_some(()))?;
    if let Some(node) = &route.target_node {
        value("target node", node, "a node's name", is_host_name(node).then_some(()))?;
    }
    let cidr = &route.destination_cidr;
    let destination = value("destination", cidr, "a CIDR", cidr.parse::<IpNet>().ok())?;
    Ok(cloud::Route {
        name: route.name,
        target_node: route.target_node,
        target_addresses: route.target_addresses.map(|all| addresses(all, noted_address)).transpose()?,
        destination_cidr: destination.trunc().to_string(),
        blackhole: route.blackhole,
    })
}

/// Checks one page of the list of routes, after `before` routes on earlier pages, and returns it with the token of the next page. One
/// invalid route makes the whole list invalid: without that route, the host would create or delete the wrong ones.
pub(crate) fn route_page(
    page: routes::RoutePage,
    before: usize,
    limit: usize,
) -> Checked<(Vec<cloud::Route>, Option<String>)> {
    let count = page.routes.len().saturating_add(before);
    if count > limit {
        return Err(AnswerError::TooManyRoutes { count, limit });
    }
    if let Some(next) = &page.next {
        self::count("bytes of where the next routes begin", next.len(), MAX_NEXT)?;
    }
    Ok((page.routes.into_iter().map(route).collect::<Checked<_>>()?, page.next))
}

/// Returns the delay before the next maintenance, within its bounds.
pub(crate) fn pause(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds).clamp(*MAINTENANCE.start(), *MAINTENANCE.end())
}

/// Converts a plugin's error for controllers: its text is cut off and escaped, its delay is kept within the bounds.
pub(crate) fn cloud_error(error: wit::CloudError) -> CloudError {
    told(error, |text| shown(&text, SENTENCE).into_owned())
}

/// Converts a plugin's rejection of its configuration, and redacts what the text quotes from the configuration.
pub(crate) fn config_refusal(error: wit::CloudError, settings: &plugin::Settings) -> CloudError {
    let config = settings.cloud_config.as_deref().unwrap_or_default();
    let path = settings.cloud_config_path.as_deref().unwrap_or_default();
    told(error, |text| redact(&shown(&text, SENTENCE), config, path))
}

fn told(error: wit::CloudError, text: impl Fn(String) -> String) -> CloudError {
    let retry = |retry: wit::Retry| cloud::Retry {
        after: Duration::from_millis(retry.after_ms).clamp(*RETRY.start(), *RETRY.end()),
        message: text(retry.message),
    };
    match error {
        wit::CloudError::NotFound(it) => CloudError::NotFound(text(it)),
        wit::CloudError::ImplementedElsewhere => CloudError::ImplementedElsewhere,
        wit::CloudError::Conflict(it) => CloudError::Conflict(text(it)),
        wit::CloudError::Throttled(it) => CloudError::Throttled(retry(it)),
        wit::CloudError::InProgress(it) => CloudError::InProgress(retry(it)),
        wit::CloudError::Denied(it) => CloudError::Denied(text(it)),
        wit::CloudError::Invalid(it) => CloudError::Invalid(text(it)),
        wit::CloudError::Unavailable(it) => CloudError::Unavailable(text(it)),
        wit::CloudError::Internal(it) => CloudError::Internal(text(it)),
    }
}

/// One element of a batch: the cloud's answer, or the violation of the contract.
pub(crate) type Element<T> = Result<Result<T, CloudError>, AnswerError>;

/// Checks each element of a batch separately. A wrong number of elements makes the whole batch invalid.
pub(crate) fn batch<W, T>(
    questions: usize,
    answers: Vec<Result<W, wit::CloudError>>,
    check: impl Fn(W) -> Checked<T>,
) -> Checked<Vec<Element<T>>> {
    if answers.len() != questions {
        return Err(AnswerError::Length { questions, answers: answers.len() });
    }
    let element = |answer: Result<W, wit::CloudError>| match answer {
        Ok(answer) => check(answer).map(Ok),
        Err(error) => Ok(Err(cloud_error(error))),
    };
    Ok(answers.into_iter().map(element).collect())
}

/// The plugin's description of itself.
pub(crate) struct Introduction {
    pub(crate) provider: ProviderInfo,
    /// The hosts that the plugin requests.
    pub(crate) wanted_hosts: Vec<String>,
    pub(crate) overlap: Overlap,
}

/// Returns the capabilities of a component without those that it does not serve with its configuration.
fn served(all: BTreeSet<cloud::Capability>, unused: &[String]) -> Checked<BTreeSet<cloud::Capability>> {
    for name in unused {
        let exported = all.iter().any(|capability| capability.name() == name);
        value("unused interface", name, "one that the component exports", exported.then_some(()))?;
    }
    Ok(all.into_iter().filter(|capability| !unused.iter().any(|name| capability.name() == name)).collect())
}

/// Checks the plugin's description of itself. `exported` are the capabilities of its component.
pub(crate) fn info(info: plugin::PluginInfo, exported: BTreeSet<cloud::Capability>) -> Checked<Introduction> {
    let capabilities = served(exported, &info.unused)?;
    let named = (1..=MAX_LABEL).contains(&info.name.len())
        && info.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    value("name", &info.name, "1 to 63 lower-case letters, digits and dashes", named.then_some(()))?;
    let versioned = info.version.len() <= MAX_VERSION && is_plain(&info.version);
    value("version", &info.version, "plain text of at most 64 bytes", versioned.then_some(()))?;
    count("provider ID prefixes", info.provider_id_prefixes.len(), MAX_WISHES)?;
    for prefix in &info.provider_id_prefixes {
        let scheme = prefix.split_once("://").map(|(scheme, _)| scheme);
        let named = scheme
            .is_some_and(|it| !it.is_empty() && it.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b)));
        let ok = named && prefix.len() < MAX_PROVIDER_ID && prefix.bytes().all(|b| b.is_ascii_graphic());
        value("provider ID prefix", prefix, "`SCHEME://` or longer", ok.then_some(()))?;
    }
    if capabilities.contains(&cloud::Capability::Instances) && info.provider_id_prefixes.is_empty() {
        return Err(AnswerError::Missing("a provider ID prefix, which a plugin with `instances` must own,"));
    }
    count("annotation prefixes", info.annotation_prefixes.len(), MAX_ANNOTATION_PREFIXES)?;
    for prefix in &info.annotation_prefixes {
        let expected =
            "a domain and `/`, or with the beginning of a name after it, that is not Kubernetes' or Skydock's own";
        value("annotation prefix", prefix, expected, is_annotation_prefix(prefix).then_some(()))?;
    }
    count("wanted hosts", info.wanted_hosts.len(), MAX_WISHES)?;
    for host in &info.wanted_hosts {
        let ok = host.parse::<skydock_egress::Rule>().is_ok();
        value("wanted host", host, "of the form scheme://host:port", ok.then_some(()))?;
    }
    let batch = value(
        "max-batch",
        &info.max_batch.to_string(),
        "0 to 1000",
        (info.max_batch <= MAX_BATCH).then_some(if info.max_batch == 0 { DEFAULT_BATCH } else { info.max_batch }),
    )?;
    let provider = ProviderInfo {
        name: info.name,
        version: info.version,
        capabilities,
        provider_id_prefixes: info.provider_id_prefixes,
        annotation_prefixes: info.annotation_prefixes,
        max_batch: usize::try_from(batch).unwrap_or(1),
    };
    let overlap = match info.overlap {
        plugin::Overlap::Any => Overlap::Any,
        plugin::Overlap::PerInterface => Overlap::PerInterface,
        plugin::Overlap::None => Overlap::None,
    };
    Ok(Introduction { provider, wanted_hosts: info.wanted_hosts, overlap })
}

#[cfg(test)]
mod tests;
