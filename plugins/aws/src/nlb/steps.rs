//! Each step as a call, and what a thing is like after it.

use super::{
    health::Health,
    plan::Step,
    wish::{Front, Group, Wish},
};
use crate::api::{
    call::Call,
    elbv2::{self, Action, Certificate, Listener, TargetGroup},
};

/// The call of a step.
pub(crate) fn call(step: &Step, wish: &Wish, balancer: &str, vpc: &str) -> Call {
    match step {
        Step::CreateGroup(group) => create_group(group, vpc).tags("Tags", &wish.tags),
        Step::Register(group, targets) => elbv2::change_targets("RegisterTargets", group, targets),
        Step::Deregister(group, targets) => elbv2::change_targets("DeregisterTargets", group, targets),
        Step::CreateListener(front, group) => {
            listener(elbv2::on_balancer("CreateListener", balancer), front, group).tags("Tags", &wish.tags)
        }
        Step::ModifyListener(arn, front, group) => listener(elbv2::on_listener("ModifyListener", arn), front, group),
        Step::DeleteListener(arn) => elbv2::on_listener("DeleteListener", arn),
        Step::DeleteGroup(arn) => elbv2::on_group("DeleteTargetGroup", arn),
        Step::ModifyGroup(arn, group) => health(elbv2::on_group("ModifyTargetGroup", arn), &group.health),
        Step::SetAttributes(set) => {
            elbv2::with_attributes(elbv2::on_balancer("ModifyLoadBalancerAttributes", balancer), set)
        }
        Step::SetGroupAttributes(arn, set) => {
            elbv2::with_attributes(elbv2::on_group("ModifyTargetGroupAttributes", arn), set)
        }
        Step::AddTags(arns, tags) => elbv2::add_tags(arns.iter().map(String::as_str), tags),
        Step::SetSecurityGroups(groups) => {
            elbv2::on_balancer("SetSecurityGroups", balancer).list("SecurityGroups", groups)
        }
        Step::SetIpAddressType(kind) => elbv2::on_balancer("SetIpAddressType", balancer).with("IpAddressType", kind),
    }
}

fn create_group(group: &Group, vpc: &str) -> Call {
    let call = elbv2::create_group(&group.name)
        .with("VpcId", vpc)
        .with("Port", group.port)
        .with("Protocol", group.protocol)
        .with("TargetType", "instance")
        .with("HealthCheckIntervalSeconds", group.health.interval)
        .with("HealthCheckProtocol", group.health.protocol);
    health(call, &group.health).with_some("IpAddressType", group.ipv6.then_some("ipv6"))
}

/// What can be changed of a health check.
fn health(call: Call, health: &Health) -> Call {
    call.with("HealthCheckPort", &health.port)
        .with("HealthyThresholdCount", health.healthy)
        .with("UnhealthyThresholdCount", health.unhealthy)
        .with_some("HealthCheckTimeoutSeconds", health.timeout)
        .with_some("HealthCheckPath", health.path.as_ref())
}

fn listener(call: Call, front: &Front, group: &str) -> Call {
    call.with("Port", front.port)
        .with("Protocol", front.protocol)
        .with("DefaultActions.member.1.Type", "forward")
        .with("DefaultActions.member.1.TargetGroupArn", group)
        .with_some("SslPolicy", front.policy.as_ref())
        .with_some("Certificates.member.1.CertificateArn", front.certificate.as_ref())
}

/// A listener after it was modified.
pub(crate) fn as_modified(listener: &mut Listener, front: &Front, group: &str) {
    front.protocol.clone_into(&mut listener.protocol);
    listener.default_actions = vec![Action { target_group_arn: group.to_owned() }].into();
    let certificates = front.certificate.iter();
    listener.certificates =
        certificates.map(|arn| Certificate { certificate_arn: arn.clone() }).collect::<Vec<_>>().into();
    if let Some(policy) = &front.policy {
        policy.clone_into(&mut listener.ssl_policy);
    }
}

/// A target group after its health check was modified.
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
