//! The calls of steps, and their effect on the observed state.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    desired_load_balancer::{DesiredListener, DesiredLoadBalancer, DesiredTargetGroup},
    health::Health,
    observed_load_balancer::{DEREGISTER, REGISTER},
};
use crate::{
    client::api::{
        call::Call,
        elbv2::{self, Action, Certificate, Listener, Target, TargetGroup},
    },
    tags::Tags,
};

/// One call that changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Creates a target group.
    CreateGroup(DesiredTargetGroup),
    /// Registers targets in a group.
    Register(String, Vec<Target>),
    /// Deregisters targets from a group.
    Deregister(String, Vec<Target>),
    /// Creates a listener that forwards to a group.
    CreateListener(DesiredListener, String),
    /// Changes a listener and the group that it forwards to.
    ModifyListener(String, DesiredListener, String),
    /// Deletes a listener.
    DeleteListener(String),
    /// Deletes a group that no listener forwards to.
    DeleteGroup(String),
    /// Changes the health check of a group.
    ModifyGroup(String, DesiredTargetGroup),
    /// Sets attributes of the load balancer.
    SetAttributes(BTreeMap<String, String>),
    /// Sets attributes of a group.
    SetGroupAttributes(String, BTreeMap<String, String>),
    /// Adds tags to resources.
    AddTags(Vec<String>, Tags),
    /// Removes tags from resources.
    RemoveTags(Vec<String>, BTreeSet<String>),
    /// Sets the load balancer's security groups.
    SetSecurityGroups(Vec<String>),
    /// Sets the load balancer's address type.
    SetIpAddressType(&'static str),
}

/// Returns the call of a step.
pub(crate) fn call(step: &Step, desired: &DesiredLoadBalancer, balancer: &str, vpc: &str) -> Call {
    match step {
        Step::CreateGroup(group) => create_group(group, vpc).tags("Tags", &desired.tags),
        Step::Register(group, targets) => elbv2::change_targets(REGISTER, group, targets),
        Step::Deregister(group, targets) => elbv2::change_targets(DEREGISTER, group, targets),
        Step::CreateListener(wanted, group) => listener(
            elbv2::on_balancer("CreateListener", balancer),
            wanted,
            group,
        )
        .tags("Tags", &desired.tags),
        Step::ModifyListener(arn, wanted, group) => {
            listener(elbv2::on_listener("ModifyListener", arn), wanted, group)
        }
        Step::DeleteListener(arn) => elbv2::on_listener("DeleteListener", arn),
        Step::DeleteGroup(arn) => elbv2::on_group("DeleteTargetGroup", arn),
        Step::ModifyGroup(arn, group) => {
            health(elbv2::on_group("ModifyTargetGroup", arn), &group.health)
        }
        Step::SetAttributes(set) => elbv2::with_attributes(
            elbv2::on_balancer("ModifyLoadBalancerAttributes", balancer),
            set,
        ),
        Step::SetGroupAttributes(arn, set) => {
            elbv2::with_attributes(elbv2::on_group("ModifyTargetGroupAttributes", arn), set)
        }
        Step::AddTags(arns, tags) => elbv2::add_tags(arns.iter().map(String::as_str), tags),
        Step::RemoveTags(arns, keys) => elbv2::remove_tags(arns.iter().map(String::as_str), keys),
        Step::SetSecurityGroups(groups) => {
            elbv2::on_balancer("SetSecurityGroups", balancer).list("SecurityGroups", groups)
        }
        Step::SetIpAddressType(kind) => {
            elbv2::on_balancer("SetIpAddressType", balancer).with("IpAddressType", kind)
        }
    }
}

fn create_group(group: &DesiredTargetGroup, vpc: &str) -> Call {
    let call = elbv2::create_group(&group.name)
        .with("VpcId", vpc)
        .with("Port", group.port)
        .with("Protocol", group.protocol)
        .with("TargetType", "instance")
        .with("HealthCheckIntervalSeconds", group.health.interval)
        .with("HealthCheckProtocol", group.health.protocol);
    health(call, &group.health).with_some("IpAddressType", group.ipv6.then_some("ipv6"))
}

/// Adds the mutable properties of a health check.
fn health(call: Call, health: &Health) -> Call {
    call.with("HealthCheckPort", &health.port)
        .with("HealthyThresholdCount", health.healthy)
        .with("UnhealthyThresholdCount", health.unhealthy)
        .with_some("HealthCheckTimeoutSeconds", health.timeout)
        .with_some("HealthCheckPath", health.path.as_ref())
}

fn listener(call: Call, wanted: &DesiredListener, group: &str) -> Call {
    call.with("Port", wanted.port)
        .with("Protocol", wanted.protocol)
        .with("DefaultActions.member.1.Type", "forward")
        .with("DefaultActions.member.1.TargetGroupArn", group)
        .with_some("SslPolicy", wanted.policy.as_ref())
        .with_some(
            "Certificates.member.1.CertificateArn",
            wanted.certificate.as_ref(),
        )
}

/// Applies a modification to a listener.
pub(crate) fn as_modified(listener: &mut Listener, wanted: &DesiredListener, group: &str) {
    wanted.protocol.clone_into(&mut listener.protocol);
    listener.default_actions = vec![Action {
        target_group_arn: group.to_owned(),
    }]
    .into();
    let certificates = wanted.certificate.iter();
    listener.certificates = certificates
        .map(|arn| Certificate {
            certificate_arn: arn.clone(),
        })
        .collect::<Vec<_>>()
        .into();
    if let Some(policy) = &wanted.policy {
        policy.clone_into(&mut listener.ssl_policy);
    }
}

/// Applies a modified health check to a target group.
pub(crate) fn as_checked(group: &mut TargetGroup, health: &Health) {
    health.port.clone_into(&mut group.health_check_port);
    group.healthy_threshold_count = health.healthy;
    group.unhealthy_threshold_count = health.unhealthy;
    if let Some(path) = &health.path {
        path.clone_into(&mut group.health_check_path);
    }
    if let Some(timeout) = health.timeout {
        group.health_check_timeout_seconds = timeout;
    }
}
