//! Requests to Elastic Load Balancing, version 2012 (classic load balancers), and their answers,
//! with only the fields that are used.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{answer::Members, call::Call, failure::Answer};
use crate::{endpoint::Api, tags::Tags};

/// A load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Description {
    pub(crate) load_balancer_name: String,
    #[serde(rename = "DNSName")]
    pub(crate) dns_name: String,
    #[serde(rename = "VPCId")]
    pub(crate) vpc_id: String,
    /// `internet-facing` or `internal`.
    pub(crate) scheme: String,
    pub(crate) listener_descriptions: Members<ListenerDescription>,
    pub(crate) backend_server_descriptions: Members<Backend>,
    pub(crate) policies: Policies,
    pub(crate) subnets: Members<String>,
    pub(crate) security_groups: Members<String>,
    pub(crate) instances: Members<Instance>,
    pub(crate) health_check: HealthCheck,
}

/// A listener and its policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct ListenerDescription {
    pub(crate) listener: Listener,
    pub(crate) policy_names: Members<String>,
}

/// A listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Listener {
    /// `TCP`, `SSL`, `HTTP` or `HTTPS`, in any case.
    pub(crate) protocol: String,
    pub(crate) load_balancer_port: u16,
    /// The protocol to the instances, with the same values.
    pub(crate) instance_protocol: String,
    pub(crate) instance_port: u16,
    #[serde(rename = "SSLCertificateId")]
    pub(crate) certificate: String,
}

impl Listener {
    /// Returns true if both listeners are the same, ignoring case.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.protocol.eq_ignore_ascii_case(&other.protocol)
            && self
                .instance_protocol
                .eq_ignore_ascii_case(&other.instance_protocol)
            && self.instance_port == other.instance_port
            && self.load_balancer_port == other.load_balancer_port
            && self.certificate.eq_ignore_ascii_case(&other.certificate)
    }

    /// Returns true if both listeners are the same except for their certificates.
    pub(crate) fn is_except_certificate(&self, other: &Self) -> bool {
        self.is(&Self {
            certificate: self.certificate.clone(),
            ..other.clone()
        })
    }

    /// Returns true if clients connect with TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.protocol.eq_ignore_ascii_case("ssl") || self.protocol.eq_ignore_ascii_case("https")
    }
}

/// Policies of a port of the instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Backend {
    pub(crate) instance_port: u16,
    pub(crate) policy_names: Members<String>,
}

/// The existing policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Policies {
    pub(crate) other_policies: Members<String>,
}

/// An instance behind a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Instance {
    pub(crate) instance_id: String,
}

/// The health check of the instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct HealthCheck {
    /// For example `HTTP:30080/healthz`.
    pub(crate) target: String,
    pub(crate) interval: u32,
    pub(crate) timeout: u32,
    pub(crate) unhealthy_threshold: u32,
    pub(crate) healthy_threshold: u32,
}

/// The attributes of a load balancer. `None` leaves the choice to AWS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Attributes {
    pub(crate) access_log: AccessLog,
    pub(crate) connection_draining: Draining,
    pub(crate) connection_settings: Settings,
    pub(crate) cross_zone_load_balancing: Enabled,
}

/// The settings of the access log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct AccessLog {
    pub(crate) enabled: bool,
    pub(crate) emit_interval: Option<u32>,
    #[serde(rename = "S3BucketName")]
    pub(crate) bucket: Option<String>,
    #[serde(rename = "S3BucketPrefix")]
    pub(crate) prefix: Option<String>,
}

/// How long connections to a deregistered instance can continue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Draining {
    pub(crate) enabled: bool,
    pub(crate) timeout: Option<u32>,
}

/// How long a connection can be idle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Settings {
    pub(crate) idle_timeout: Option<u32>,
}

/// A setting that is on or off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Enabled {
    pub(crate) enabled: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Root {
    #[serde(
        alias = "DescribeLoadBalancersResult",
        alias = "CreateLoadBalancerResult",
        alias = "DescribeLoadBalancerAttributesResult",
        alias = "DescribeTagsResult"
    )]
    result: Lists,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Lists {
    load_balancer_descriptions: Members<Description>,
    load_balancer_attributes: Attributes,
    tag_descriptions: Members<TagDescription>,
    #[serde(rename = "DNSName")]
    dns_name: String,
    next_marker: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct TagDescription {
    tags: Members<Pair>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Pair {
    key: String,
    value: String,
}

/// The answer of any of these actions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) balancers: Vec<Description>,
    pub(crate) attributes: Attributes,
    pub(crate) tags: Tags,
    /// The DNS name of a load balancer that was created.
    pub(crate) dns_name: String,
}

/// Parses an answer.
///
/// # Errors
/// Fails if the answer does not have the expected structure.
pub(crate) fn read(call: &Call, body: &str) -> Answer<Found> {
    let Root { result } = super::read(call, body)?;
    let tags: BTreeMap<String, String> = result
        .tag_descriptions
        .items
        .into_iter()
        .flat_map(|one| one.tags.items)
        .map(|pair| (pair.key, pair.value))
        .collect();

    Ok(Found {
        balancers: result.load_balancer_descriptions.items,
        attributes: result.load_balancer_attributes,
        tags,
        dns_name: result.dns_name,
    })
}

/// Returns all load balancers of the region.
///
/// # Errors
/// See [`super::failure::Failure`].
pub(crate) fn all(wire: &dyn super::wire::Wire) -> Answer<Vec<Description>> {
    let call = Call::new(Api::Elb, "DescribeLoadBalancers").with("PageSize", 400);
    let pages = super::pages(wire, &call, |root: &Root| root.result.next_marker.clone())?;
    Ok(pages
        .into_iter()
        .flat_map(|root| root.result.load_balancer_descriptions.items)
        .collect())
}

/// Creates a `DescribeLoadBalancers` request by name.
pub(crate) fn balancer_named(name: &str) -> Call {
    Call::new(Api::Elb, "DescribeLoadBalancers").list("LoadBalancerNames", [name])
}

pub(crate) fn tags(name: &str) -> Call {
    Call::new(Api::Elb, "DescribeTags").list("LoadBalancerNames", [name])
}

/// The action that adds tags.
pub(crate) const ADD_TAGS: &str = "AddTags";

/// Returns the load balancer and the tags of an `AddTags` request.
pub(crate) fn tags_in(call: &Call) -> (String, Tags) {
    let values = |part: &'static str, suffix: &'static str| {
        let params = call.params.iter();
        let fits = move |key: &str| key.starts_with(part) && key.ends_with(suffix);
        params
            .filter(move |(key, _)| fits(key))
            .map(|(_, value)| value.clone())
    };
    let tags = values("Tags.", ".Key").zip(values("Tags.", ".Value"));
    let name = values("LoadBalancerNames.", "").next();
    (name.unwrap_or_default(), tags.collect())
}

pub(crate) fn add_tags(name: &str, tags: &Tags) -> Call {
    Call::new(Api::Elb, ADD_TAGS)
        .list("LoadBalancerNames", [name])
        .tags("Tags", tags)
}

pub(crate) fn remove_tags<'a>(name: &str, keys: impl IntoIterator<Item = &'a String>) -> Call {
    let call = Call::new(Api::Elb, "RemoveTags").list("LoadBalancerNames", [name]);
    let numbered = keys.into_iter().enumerate();
    numbered.fold(call, |call, (index, key)| {
        call.with(format!("Tags.member.{}.Key", index + 1), key)
    })
}

/// Creates a request about one load balancer.
pub(crate) fn on(action: &'static str, name: &str) -> Call {
    Call::new(Api::Elb, action).with("LoadBalancerName", name)
}

/// Adds listeners to a request.
pub(crate) fn with_listeners<'a>(
    mut call: Call,
    listeners: impl IntoIterator<Item = &'a Listener>,
) -> Call {
    for (index, listener) in listeners.into_iter().enumerate() {
        let item = format!("Listeners.member.{}", index + 1);
        let certificate = Some(&listener.certificate).filter(|arn| !arn.is_empty());
        call = call
            .with(format!("{item}.Protocol"), &listener.protocol)
            .with(
                format!("{item}.LoadBalancerPort"),
                listener.load_balancer_port,
            )
            .with(
                format!("{item}.InstanceProtocol"),
                &listener.instance_protocol,
            )
            .with(format!("{item}.InstancePort"), listener.instance_port)
            .with_some(&format!("{item}.SSLCertificateId"), certificate);
    }
    call
}

/// Creates a `RegisterInstancesWithLoadBalancer` or `DeregisterInstancesFromLoadBalancer` request.
pub(crate) fn change_instances<'a>(
    action: &'static str,
    name: &str,
    ids: impl IntoIterator<Item = &'a String>,
) -> Call {
    let numbered = ids.into_iter().enumerate();
    numbered.fold(on(action, name), |call, (index, id)| {
        call.with(format!("Instances.member.{}.InstanceId", index + 1), id)
    })
}

/// Creates a `CreateLoadBalancerPolicy` request with one attribute.
pub(crate) fn create_policy(
    balancer: &str,
    policy: &str,
    kind: &str,
    key: &str,
    value: &str,
) -> Call {
    on("CreateLoadBalancerPolicy", balancer)
        .with("PolicyName", policy)
        .with("PolicyTypeName", kind)
        .with("PolicyAttributes.member.1.AttributeName", key)
        .with("PolicyAttributes.member.1.AttributeValue", value)
}

/// Creates a `SetLoadBalancerListenerSSLCertificate` request for the certificate of this listener.
pub(crate) fn set_certificate(balancer: &str, listener: &Listener) -> Call {
    on("SetLoadBalancerListenerSSLCertificate", balancer)
        .with("LoadBalancerPort", listener.load_balancer_port)
        .with("SSLCertificateId", &listener.certificate)
}

/// Creates a `ModifyLoadBalancerAttributes` request with the settings of the access log.
pub(crate) fn set_access_log(name: &str, log: &AccessLog) -> Call {
    let key = |name: &str| format!("LoadBalancerAttributes.AccessLog.{name}");
    on("ModifyLoadBalancerAttributes", name)
        .with(key("Enabled"), log.enabled)
        .with_some(&key("EmitInterval"), log.emit_interval)
        .with_some(&key("S3BucketName"), log.bucket.as_ref())
        .with_some(&key("S3BucketPrefix"), log.prefix.as_ref())
}

/// Creates a `ModifyLoadBalancerAttributes` request with all attributes except for the access log.
pub(crate) fn set_attributes(name: &str, attributes: &Attributes) -> Call {
    let Attributes {
        connection_draining,
        connection_settings,
        cross_zone_load_balancing,
        access_log: _,
    } = attributes;

    let key = |name: &str| format!("LoadBalancerAttributes.{name}");
    on("ModifyLoadBalancerAttributes", name)
        .with(
            key("ConnectionDraining.Enabled"),
            connection_draining.enabled,
        )
        .with_some(
            &key("ConnectionDraining.Timeout"),
            connection_draining.timeout,
        )
        .with_some(
            &key("ConnectionSettings.IdleTimeout"),
            connection_settings.idle_timeout,
        )
        .with(
            key("CrossZoneLoadBalancing.Enabled"),
            cross_zone_load_balancing.enabled,
        )
}

pub(crate) fn set_health(name: &str, health: &HealthCheck) -> Call {
    on("ConfigureHealthCheck", name)
        .with("HealthCheck.Target", &health.target)
        .with("HealthCheck.Interval", health.interval)
        .with("HealthCheck.Timeout", health.timeout)
        .with("HealthCheck.UnhealthyThreshold", health.unhealthy_threshold)
        .with("HealthCheck.HealthyThreshold", health.healthy_threshold)
}
