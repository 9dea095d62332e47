//! The resources of an account, for tests that check that nothing is left at the end.

use std::collections::BTreeMap;

use super::{Aws, xml};
use crate::Error;

/// Kind, API, action, the list in the answer, and the fields that identify a resource.
const KINDS: [(&str, &str, &str, &str, &[&str]); 4] = [
    (
        "load balancers",
        "elbv2",
        "DescribeLoadBalancers",
        "LoadBalancers",
        &["LoadBalancerName", "LoadBalancerArn"],
    ),
    (
        "classic load balancers",
        "elb",
        "DescribeLoadBalancers",
        "LoadBalancerDescriptions",
        &["LoadBalancerName"],
    ),
    (
        "target groups",
        "elbv2",
        "DescribeTargetGroups",
        "TargetGroups",
        &["TargetGroupName", "TargetGroupArn"],
    ),
    (
        "security groups",
        "ec2",
        "DescribeSecurityGroups",
        "securityGroupInfo",
        &["groupName", "groupId"],
    ),
];

impl Aws {
    /// Returns the resources that a cloud controller creates, by kind, each as a short text: load
    /// balancers of both APIs, target groups, listeners, security groups, rules of security groups,
    /// and routes. If two calls return the same, nothing was left and nothing was lost.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails.
    pub async fn holdings(&self) -> Result<BTreeMap<&'static str, Vec<String>>, Error> {
        let mut all = BTreeMap::new();
        for (kind, api, action, list, fields) in KINDS {
            let answer = self.call(api, action, &[]).await?;
            let text = |thing: &&str| {
                let fields: Vec<&str> = fields
                    .iter()
                    .filter_map(|field| xml::first(thing, field))
                    .collect();
                fields.join(" ")
            };
            all.insert(
                kind,
                xml::items(&answer, list)
                    .iter()
                    .map(text)
                    .collect::<Vec<String>>(),
            );
        }
        let mut listeners = Vec::new();
        let answer = self.call("elbv2", "DescribeLoadBalancers", &[]).await?;
        for arn in xml::all(&answer, "LoadBalancerArn") {
            let answer = self
                .call("elbv2", "DescribeListeners", &[("LoadBalancerArn", arn)])
                .await?;
            listeners.extend(
                xml::all(&answer, "ListenerArn")
                    .into_iter()
                    .map(str::to_owned),
            );
        }
        all.insert("listeners", listeners);
        let answer = self.call("ec2", "DescribeSecurityGroupRules", &[]).await?;
        all.insert(
            "rules",
            xml::all(&answer, "securityGroupRuleId")
                .into_iter()
                .map(str::to_owned)
                .collect(),
        );
        let answer = self.call("ec2", "DescribeRouteTables", &[]).await?;
        let mut routes = Vec::new();
        for table in xml::items(&answer, "routeTableSet") {
            let id = xml::first(table, "routeTableId").unwrap_or_default();
            routes.extend(xml::items(table, "routeSet").into_iter().map(|route| {
                let fields = [
                    "destinationCidrBlock",
                    "destinationIpv6CidrBlock",
                    "gatewayId",
                    "instanceId",
                    "networkInterfaceId",
                ];
                let fields = fields
                    .iter()
                    .filter_map(|field| xml::first(route, field))
                    .collect::<Vec<_>>();
                format!("{id} {}", fields.join(" "))
            }));
        }
        all.insert("routes", routes);
        for texts in all.values_mut() {
            texts.sort();
        }
        Ok(all)
    }
}
