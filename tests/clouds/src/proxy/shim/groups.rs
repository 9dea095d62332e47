//! Answers for requests of target groups that are errors only for moto. Pure.

use crate::aws::xml;
use crate::operation::parameter;

/// The settings of a target group that are compared, named as in requests. Their values need no
/// decoding.
const SETTINGS: [&str; 10] = [
    "Protocol",
    "Port",
    "VpcId",
    "TargetType",
    "HealthCheckProtocol",
    "HealthCheckPort",
    "HealthCheckIntervalSeconds",
    "HealthCheckTimeoutSeconds",
    "HealthyThresholdCount",
    "UnhealthyThresholdCount",
];

/// Returns the empty list of the target groups of a load balancer, for which moto returns an error.
pub(super) fn none_of_balancer(form: &str, error: &str) -> Option<String> {
    parameter(form, "LoadBalancerArn").filter(|_| error.contains("TargetGroupNotFound"))?;
    Some(
        "<DescribeTargetGroupsResponse xmlns=\"http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/\">\
         <DescribeTargetGroupsResult><TargetGroups/></DescribeTargetGroupsResult><ResponseMetadata>\
         <RequestId>00000000-0000-0000-0000-000000000000</RequestId></ResponseMetadata></DescribeTargetGroupsResponse>"
            .to_owned(),
    )
}

/// Returns the answer to the creation of a target group that exists with the same settings, from
/// its description: AWS returns the existing one.
pub(super) fn created_again(form: &str, description: &str) -> Option<String> {
    let group = xml::items(description, "TargetGroups").into_iter().next()?;
    let is_same = |setting: &&str| {
        parameter(form, setting).is_none_or(|value| xml::first(group, setting) == Some(value))
    };
    SETTINGS
        .iter()
        .all(is_same)
        .then(|| description.replace("DescribeTargetGroups", "CreateTargetGroup"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_balancer_may_have_no_target_groups() {
        let error = "<Code>TargetGroupNotFound</Code>";
        let answer =
            none_of_balancer("Action=DescribeTargetGroups&LoadBalancerArn=arn", error).unwrap();
        assert!(xml::items(&answer, "TargetGroups").is_empty());
        assert_eq!(
            none_of_balancer("Action=DescribeTargetGroups&Names.member.1=a", error),
            None
        );
        assert_eq!(
            none_of_balancer("LoadBalancerArn=arn", "<Code>LoadBalancerNotFound</Code>"),
            None
        );
    }

    #[test]
    fn a_target_group_is_created_again_with_the_same_settings_only() {
        let description = "<DescribeTargetGroupsResult><TargetGroups><member><Protocol>TCP</Protocol><Port>80</Port>\
            <HealthCheckIntervalSeconds>10</HealthCheckIntervalSeconds><TargetGroupArn>arn</TargetGroupArn></member></TargetGroups></DescribeTargetGroupsResult>";
        let answer = created_again("Name=a&Protocol=TCP&Port=80", description).unwrap();
        assert_eq!(xml::first(&answer, "TargetGroupArn"), Some("arn"));
        assert!(answer.starts_with("<CreateTargetGroupResult>"));
        for other in [
            "Name=a&Protocol=UDP&Port=80",
            "Name=a&Protocol=TCP&Port=80&HealthCheckIntervalSeconds=30",
        ] {
            assert_eq!(created_again(other, description), None, "{other}");
        }
    }
}
