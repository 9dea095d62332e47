//! Describes the resources of a cluster in a VPC.

use anyhow::Result;
use serde_json::{Map, Value, json};
use skydock_clouds::{Aws, Network, xml};

use super::Words;
use super::xml::value;

/// The tag with the Service of a load balancer.
const SERVICE: &str = "kubernetes.io/service-name";

/// Describes load balancers with listeners, target groups, targets and tags, by Service and port,
/// and security groups by name.
pub(crate) async fn aws(cloud: &Aws, network: &Network, words: &mut Words) -> Result<Value> {
    words.say(&network.vpc_id, "vpc");
    words.say(&network.route_table_id, "route table");
    words.say(&network.security_group_id, "group of the nodes");
    for zone in &network.zones {
        words.say(&zone.subnet_id, &format!("subnet({})", zone.name));
    }
    let mut balancers = Map::new();
    let answer = cloud.call("elbv2", "DescribeLoadBalancers", &[]).await?;
    for one in xml::items(&answer, "LoadBalancers") {
        if xml::first(one, "VpcId") == Some(&network.vpc_id) {
            let arn = xml::first(one, "LoadBalancerArn").unwrap_or_default();
            let tags = tags(cloud, arn).await?;
            let whose = tags
                .get(SERVICE)
                .and_then(Value::as_str)
                .unwrap_or("nobody")
                .to_owned();
            let attributes = pairs(
                &cloud
                    .call(
                        "elbv2",
                        "DescribeLoadBalancerAttributes",
                        &[("LoadBalancerArn", arn)],
                    )
                    .await?,
                "Attributes",
            );
            let listeners = listeners(cloud, arn).await?;
            let told = json!({"itself": value(one), "tags": tags, "attributes": attributes, "listeners": listeners});
            balancers.insert(words.text(&whose), words.value(&told));
        }
    }
    let mut groups = Map::new();
    let filter = [
        ("Filter.1.Name", "vpc-id"),
        ("Filter.1.Value.1", network.vpc_id.as_str()),
    ];
    let answer = cloud.call("ec2", "DescribeSecurityGroups", &filter).await?;
    for group in xml::items(&answer, "securityGroupInfo") {
        let name = words.text(xml::first(group, "groupName").unwrap_or_default());
        let mut told = value(group);
        // A rule for several ranges is split into one rule per range.
        for direction in ["ipPermissions", "ipPermissionsEgress"] {
            if let Some(rules) = told.get_mut(direction) {
                *rules = each(rules);
            }
        }
        groups.insert(name, words.value(&told));
    }
    let classic = cloud.call("elb", "DescribeLoadBalancers", &[]).await?;
    let classic: Vec<_> = xml::items(&classic, "LoadBalancerDescriptions")
        .into_iter()
        .map(value)
        .collect();
    Ok(
        json!({"load balancers": balancers, "classic": words.value(&Value::Array(classic)), "security groups": groups}),
    )
}

async fn listeners(cloud: &Aws, balancer: &str) -> Result<Value> {
    let mut all = Map::new();
    let answer = cloud
        .call(
            "elbv2",
            "DescribeListeners",
            &[("LoadBalancerArn", balancer)],
        )
        .await?;
    for listener in xml::items(&answer, "Listeners") {
        let field = |name: &str| xml::first(listener, name).unwrap_or_default();
        let group = field("TargetGroupArn");
        let of_group = [("TargetGroupArn", group)];
        let groups = cloud
            .call(
                "elbv2",
                "DescribeTargetGroups",
                &[("TargetGroupArns.member.1", group)],
            )
            .await?;
        let itself = xml::items(&groups, "TargetGroups")
            .into_iter()
            .map(value)
            .next();
        let attributes = pairs(
            &cloud
                .call("elbv2", "DescribeTargetGroupAttributes", &of_group)
                .await?,
            "Attributes",
        );
        let health = cloud
            .call("elbv2", "DescribeTargetHealth", &of_group)
            .await?;
        let targets: Vec<_> = xml::items(&health, "TargetHealthDescriptions")
            .into_iter()
            .filter_map(|one| xml::first(one, "Target"))
            .map(value)
            .collect();
        let told = json!({
            "itself": value(listener), "tags": tags(cloud, field("ListenerArn")).await?,
            "group": {"itself": itself, "attributes": attributes, "tags": tags(cloud, group).await?, "targets": targets},
        });
        all.insert(format!("{}/{}", field("Protocol"), field("Port")), told);
    }
    Ok(Value::Object(all))
}

async fn tags(cloud: &Aws, arn: &str) -> Result<Value> {
    Ok(pairs(
        &cloud
            .call("elbv2", "DescribeTags", &[("ResourceArns.member.1", arn)])
            .await?,
        "Tags",
    ))
}

/// Returns a list of `Key` and `Value` as an object.
fn pairs(answer: &str, list: &str) -> Value {
    let mut all = Map::new();
    for pair in xml::items(answer, list) {
        let field = |name: &str| xml::first(pair, name).unwrap_or_default().to_owned();
        all.insert(field("Key"), Value::String(field("Value")));
    }
    Value::Object(all)
}

/// Splits rules into rules with one source each.
fn each(rules: &Value) -> Value {
    let mut all = Vec::new();
    for rule in rules.as_array().into_iter().flatten() {
        for sources in ["groups", "ipRanges", "ipv6Ranges", "prefixListIds"] {
            for source in rule
                .get(sources)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                let field = |name: &str| rule.get(name).cloned();
                all.push(json!({
                    "protocol": field("ipProtocol"), "from": field("fromPort"), "to": field("toPort"), sources: source,
                }));
            }
        }
    }
    Value::Array(all)
}
