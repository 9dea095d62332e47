//! Features of AWS that moto lacks.

mod balancers;
mod groups;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use serde_json::json;

use super::forward::Asked;
use super::serve::aws_error;
use crate::aws::{AwsClient, REGION, xml};
use crate::operation::parameter;

/// States of an instance that does not send packets.
const GONE: [&str; 2] = ["terminated", "shutting-down"];

/// Answers requests instead of moto, and corrects moto's answers.
#[derive(Debug)]
pub(super) struct Shim {
    client: AwsClient,
    health: Mutex<BTreeMap<String, String>>,
}

impl Shim {
    pub(super) fn new(client: AwsClient) -> Self {
        Self {
            client,
            health: Mutex::default(),
        }
    }

    pub(super) fn set_target_health(&self, target: &str, state: &str) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.insert(target.to_owned(), state.to_owned());
    }

    /// Returns the answer to a request that is not sent to the cloud. The signature of such a
    /// request is not verified.
    pub(super) async fn instead(&self, operation: &str, asked: &Asked) -> Option<Response<Bytes>> {
        match operation {
            "ec2:DescribeInstanceTopology" => {
                let body = "<DescribeInstanceTopologyResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">\
                    <requestId>00000000-0000-0000-0000-000000000000</requestId><instanceSet/></DescribeInstanceTopologyResponse>";
                Some(text("text/xml", body.to_owned()))
            }
            "imds:GET /latest/dynamic/instance-identity/document" => {
                let document = json!({
                    "accountId": "123456789012", "architecture": "x86_64", "availabilityZone": format!("{REGION}a"), "region": REGION,
                    "imageId": "ami-moto-virtual", "instanceId": "i-fake", "instanceType": "m5.large", "privateIp": "127.0.0.1",
                    "version": "2017-09-30",
                });
                Some(text("text/plain", document.to_string()))
            }
            "ec2:DeleteSecurityGroup" => {
                let group = parameter(asked.form(), "GroupId")?;
                let message = format!("resource {group} has a dependent object");
                self.in_use(group)
                    .await
                    .then(|| aws_error(operation, 400, "DependencyViolation", &message))
            }
            "elbv2:RegisterTargets" => {
                let stopped = self
                    .not_running(&listed(asked.form(), "Targets", "Id"))
                    .await;
                let message = format!(
                    "The following targets are not in a running state and cannot be registered: '{}'",
                    stopped.join("', '")
                );
                (!stopped.is_empty()).then(|| aws_error(operation, 400, "InvalidTarget", &message))
            }
            "elb:RegisterInstancesWithLoadBalancer" => {
                let ids = listed(asked.form(), "Instances", "InstanceId");
                let stopped = self.not_running(&ids).await;
                let message = format!("EC2 instance {} is not in running state.", stopped.first()?);
                Some(aws_error(operation, 400, "InvalidInstance", &message))
            }
            "elbv2:CreateLoadBalancer" => {
                let name = parameter(asked.form(), "Name")?;
                let message = format!(
                    "A load balancer with the same name '{name}' exists, but with different settings"
                );
                self.is_taken(name)
                    .await
                    .then(|| aws_error(operation, 400, "DuplicateLoadBalancerName", &message))
            }
            _ => None,
        }
    }

    /// Returns whether a load balancer has this name.
    async fn is_taken(&self, name: &str) -> bool {
        let named = [("Names.member.1", name)];
        let answer = self
            .client
            .call("elbv2", "DescribeLoadBalancers", &named)
            .await;
        answer.is_ok_and(|answer| xml::all(&answer, "LoadBalancerName").contains(&name))
    }

    /// Returns the cloud's answer with corrections that make it more like AWS'.
    pub(super) async fn repaired(
        &self,
        operation: &str,
        asked: &Asked,
        answer: Response<Bytes>,
    ) -> Response<Bytes> {
        if !answer.status().is_success() {
            let instead = self.excused(operation, asked, answer.body()).await;
            return instead.map_or(answer, |body| text("text/xml", body));
        }
        let (head, body) = answer.into_parts();
        let seen = String::from_utf8_lossy(&body);
        let repaired = match operation {
            "ec2:DescribeRouteTables" if seen.contains("<instanceId>") => Some(with_blackholes(
                &seen,
                &self.gone(&xml::all(&seen, "instanceId")).await,
            )),
            "elbv2:DescribeTargetHealth" => Some(with_health(
                &seen,
                &self.health.lock().unwrap_or_else(PoisonError::into_inner),
            )),
            "elbv2:DescribeLoadBalancers" | "elbv2:CreateLoadBalancer" => {
                Some(balancers::with_network_names(&seen))
            }
            "elb:DescribeLoadBalancers" => Some(balancers::with_health_checks(&seen)),
            _ => None,
        };
        Response::from_parts(head, repaired.map_or(body.clone(), Bytes::from))
    }

    /// Returns the answer of AWS to a request that is an error only for moto.
    async fn excused(&self, operation: &str, asked: &Asked, error: &[u8]) -> Option<String> {
        let (form, error) = (asked.form(), String::from_utf8_lossy(error));
        match operation {
            "elbv2:DescribeTargetGroups" => groups::none_of_balancer(form, &error),
            "elbv2:CreateTargetGroup" if error.contains("DuplicateTargetGroupName") => {
                let named = [("Names.member.1", parameter(form, "Name")?)];
                let found = self
                    .client
                    .call("elbv2", "DescribeTargetGroups", &named)
                    .await
                    .ok()?;
                groups::created_again(form, &found)
            }
            _ => None,
        }
    }

    /// Returns whether a network interface, a load balancer or a rule of another group refers to
    /// this group.
    async fn in_use(&self, group: &str) -> bool {
        let member = format!(">{group}<");
        let filter = |name: &'static str| [("Filter.1.Name", name), ("Filter.1.Value.1", group)];
        let of_interface = filter("group-id");
        let of_rule = filter("ip-permission.group-id");
        let asked = [
            ("ec2", "DescribeNetworkInterfaces", &of_interface[..]),
            ("elb", "DescribeLoadBalancers", &[]),
            ("elbv2", "DescribeLoadBalancers", &[]),
        ];
        for (api, action, parameters) in asked {
            if self
                .client
                .call(api, action, parameters)
                .await
                .is_ok_and(|answer| answer.contains(&member))
            {
                return true;
            }
        }
        // A rule of a group can refer to the group itself.
        let others = self
            .client
            .call("ec2", "DescribeSecurityGroups", &of_rule)
            .await
            .unwrap_or_default();
        xml::items(&others, "securityGroupInfo")
            .iter()
            .any(|other| !is_group(other, group))
    }

    /// Returns which of these instances are terminated.
    async fn gone(&self, ids: &[&str]) -> Vec<String> {
        self.in_states(ids, &GONE).await
    }

    /// Returns which of these instances cannot be registered with a load balancer.
    async fn not_running(&self, ids: &[&str]) -> Vec<String> {
        if ids.is_empty() {
            return Vec::new();
        }
        self.in_states(ids, &[&GONE[..], &["stopping", "stopped"]].concat())
            .await
    }

    /// Returns which of these instances have one of these states. moto keeps those that are
    /// terminated, and a list of all would have several pages.
    async fn in_states(&self, ids: &[&str], states: &[&str]) -> Vec<String> {
        let names: Vec<String> = (1..=states.len())
            .map(|number| format!("Filter.1.Value.{number}"))
            .collect();
        let values: Vec<String> = (1..=ids.len())
            .map(|number| format!("Filter.2.Value.{number}"))
            .collect();
        let mut parameters = vec![
            ("Filter.1.Name", "instance-state-name"),
            ("Filter.2.Name", "instance-id"),
        ];
        parameters.extend(names.iter().map(String::as_str).zip(states.iter().copied()));
        parameters.extend(values.iter().map(String::as_str).zip(ids.iter().copied()));
        let answer = self
            .client
            .call("ec2", "DescribeInstances", &parameters)
            .await
            .unwrap_or_default();
        xml::all(&answer, "instanceId")
            .into_iter()
            .map(str::to_owned)
            .collect()
    }
}

/// Returns this field of each member of a list in a request.
fn listed<'a>(form: &'a str, list: &str, field: &str) -> Vec<&'a str> {
    (1..)
        .map_while(|number| parameter(form, &format!("{list}.member.{number}.{field}")))
        .collect()
}

/// Returns whether this description is that of this group: the group's own ID is outside its rules.
fn is_group(description: &str, group: &str) -> bool {
    let mut own = description.to_owned();
    for list in ["ipPermissions", "ipPermissionsEgress"] {
        if let Some(rules) = xml::first(description, list) {
            own = own.replace(rules, "");
        }
    }
    xml::first(&own, "groupId") == Some(group)
}

/// Returns the answer with routes to these instances as blackholes.
fn with_blackholes(answer: &str, gone: &[String]) -> String {
    let mut repaired = answer.to_owned();
    for table in xml::items(answer, "routeTableSet") {
        for route in xml::items(table, "routeSet") {
            if xml::first(route, "instanceId").is_some_and(|id| gone.iter().any(|one| one == id)) {
                repaired = repaired.replace(
                    route,
                    &route.replace("<state>active</state>", "<state>blackhole</state>"),
                );
            }
        }
    }
    repaired
}

/// Returns the answer with these health states of targets.
fn with_health(answer: &str, health: &BTreeMap<String, String>) -> String {
    let mut repaired = answer.to_owned();
    for target in xml::items(answer, "TargetHealthDescriptions") {
        let state = xml::first(target, "Id").and_then(|id| health.get(id));
        if let (Some(state), Some(seen)) = (state, xml::first(target, "State")) {
            let changed = target.replace(
                &format!("<State>{seen}</State>"),
                &format!("<State>{state}</State>"),
            );
            repaired = repaired.replace(target, &changed);
        }
    }
    repaired
}

fn text(kind: &'static str, body: String) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::from(body));
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_to_terminated_instances_are_blackholes() {
        let route =
            |id: &str| format!("<item><instanceId>{id}</instanceId><state>active</state></item>");
        let answer = |routes: &str| {
            format!("<routeTableSet><item><routeSet>{routes}</routeSet></item></routeTableSet>")
        };
        let before = answer(&[route("i-1"), route("i-2")].concat());
        let after = answer(&[route("i-1").replace("active", "blackhole"), route("i-2")].concat());
        assert_eq!(with_blackholes(&before, &["i-1".to_owned()]), after);
        assert_eq!(with_blackholes(&before, &[]), before);
    }

    #[test]
    fn target_health_can_be_set() {
        let answer = "<TargetHealthDescriptions><member><Target><Id>i-1</Id></Target><State>healthy</State></member>\
            <member><Target><Id>i-2</Id></Target><State>healthy</State></member></TargetHealthDescriptions>";
        let health = BTreeMap::from([("i-2".to_owned(), "unhealthy".to_owned())]);
        let repaired = with_health(answer, &health);
        assert_eq!(xml::all(&repaired, "State"), ["healthy", "unhealthy"]);
    }

    #[test]
    fn a_field_of_each_member_is_read_from_a_request() {
        let form =
            "Action=A&Targets.member.1.Id=i-1&Targets.member.1.Port=1&Targets.member.2.Id=i-2";
        assert_eq!(listed(form, "Targets", "Id"), ["i-1", "i-2"]);
        assert_eq!(listed(form, "Instances", "Id"), [""; 0]);
    }

    #[test]
    fn a_rule_for_its_own_group_is_not_a_dependency() {
        let own = "<ipPermissions><item><groupId>sg-1</groupId></item></ipPermissions><groupId>sg-1</groupId>";
        let other = "<ipPermissions><item><groupId>sg-1</groupId></item></ipPermissions><groupId>sg-2</groupId>";
        assert!(is_group(own, "sg-1") && !is_group(other, "sg-1"));
    }
}
