use super::*;

fn parse(text: &str) -> Result<Config, Problem> {
    Config::parse(text, &[])
}

#[test]
fn only_the_region_is_required() {
    let config = parse("[Global]\nRegion = eu-west-1\n").unwrap();
    assert_eq!(config.region, "eu-west-1");
    assert_eq!(
        config.endpoints.ec2.url.as_str(),
        "https://ec2.eu-west-1.amazonaws.com/"
    );
    assert_eq!(
        config.endpoints.elbv2.url.as_str(),
        "https://elasticloadbalancing.eu-west-1.amazonaws.com/"
    );
    assert_eq!(config.families, [Family::V4]);
    assert_eq!(
        (config.vpc, config.cluster_id, config.shared_probe),
        (None, None, None)
    );
    assert!(!config.legacy_tags && !config.keep_node_groups && !config.nlb_groups_managed);
}

#[test]
fn every_option_of_the_official_file_is_read() {
    let config = parse(
        "[global]\nzone = eu-west-1b\nVPC = vpc-1\nSubnetID = subnet-1\nRouteTableID = rtb-1\n\
         KubernetesClusterTag = c1\nKubernetesClusterID = c1\nDisableSecurityGroupIngress\nElbSecurityGroup = sg-1\n\
         NodeIPFamilies = ipv6\nNodeIPFamilies = ipv4\nClusterServiceLoadBalancerHealthProbeMode = Shared\n\
         ClusterServiceSharedLoadBalancerHealthProbePort = 8080\nClusterServiceSharedLoadBalancerHealthProbePath = /h\n\
         SupportedTopologyInstanceTypePattern = ^x\nNLBSecurityGroupMode = Managed\nDisableStrictZoneCheck = true\n",
    )
    .unwrap();
    let expected = Config {
        region: "eu-west-1".into(),
        vpc: Some("vpc-1".into()),
        subnet: Some("subnet-1".into()),
        route_table: Some("rtb-1".into()),
        cluster_id: Some("c1".into()),
        legacy_tags: true,
        keep_node_groups: true,
        elb_security_group: Some("sg-1".into()),
        families: vec![Family::V6, Family::V4],
        shared_probe: Some(SharedProbe {
            port: 8080,
            path: "/h".into(),
        }),
        topology_pattern: "^x".into(),
        nlb_groups_managed: true,
        volumes: false,
        endpoints: config.endpoints.clone(),
        cluster_name: String::new(),
        cluster_cidrs: Vec::new(),
    };

    assert_eq!(config, expected);
}

#[test]
fn the_shared_probe_defaults_to_kube_proxy() {
    let config =
        parse("[Global]\nRegion=a-b-1\nClusterServiceLoadBalancerHealthProbeMode=Shared\n")
            .unwrap();
    assert_eq!(
        config.shared_probe,
        Some(SharedProbe {
            port: 10256,
            path: "/healthz".into()
        })
    );
}

#[test]
fn service_overrides_apply_to_the_configured_region() {
    let text = "[Global]\nRegion = eu-west-1\n[ServiceOverride \"1\"]\nService = EC2\nRegion = eu-west-1\n\
                URL = https://ec2.example\nSigningRegion = r\nSigningMethod = v4\nSigningName = n\n\
                [ServiceOverride \"2\"]\nService = Elastic Load Balancing v2\nRegion = eu-west-1\nURL = http://v2:1/p\n\
                SigningRegion = r2\n[ServiceOverride \"3\"]\nService = elasticloadbalancing\nRegion = elsewhere-1\n\
                URL = https://no.example\nSigningRegion = r\n[ServiceOverride \"4\"]\nService = s3\nRegion = eu-west-1\n\
                URL = https://s3.example\nSigningRegion = r\n";
    let endpoints = parse(text).unwrap().endpoints;
    let shown = |endpoint: &Endpoint| {
        format!(
            "{} {} {}",
            endpoint.url.as_str(),
            endpoint.signing_region,
            endpoint.signing_name
        )
    };

    assert_eq!(shown(&endpoints.ec2), "https://ec2.example/ r n");
    assert_eq!(
        shown(&endpoints.elbv2),
        "http://v2:1/p r2 elasticloadbalancing"
    );
    assert_eq!(
        shown(&endpoints.elb),
        "https://elasticloadbalancing.eu-west-1.amazonaws.com/ eu-west-1 elasticloadbalancing"
    );
}

#[test]
fn plugin_options_override_the_file() {
    let given = [
        ("Region", "eu-north-1"),
        ("nodeIPFamilies", "ipv4, ipv6"),
        ("endpoint", "http://127.0.0.1:5000"),
        ("volumes", "true"),
    ];
    let given = given.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let config = Config::parse("[Global]\nRegion = eu-west-1\nVPC = v\n", &given).unwrap();

    assert_eq!(
        (config.region.as_str(), config.vpc.as_deref()),
        ("eu-north-1", Some("v"))
    );
    assert_eq!(config.families, [Family::V4, Family::V6]);
    assert!(config.volumes);
    for endpoint in [
        &config.endpoints.ec2,
        &config.endpoints.elb,
        &config.endpoints.elbv2,
    ] {
        assert_eq!(endpoint.url.as_str(), "http://127.0.0.1:5000/");
    }
    assert_eq!(config.endpoints.elb.signing_name, "elasticloadbalancing");
}

#[test]
fn rejects_invalid_settings_with_name_and_line() {
    for (text, line, word) in [
        ("", None, "Region"),
        ("[Global]\nRegion = x y", Some(2), "Region"),
        ("[Global]\nZone = 7", Some(2), "Zone"),
        (
            "[Global]\nRegion = a-1\nRoleARN = arn:x",
            Some(3),
            "RoleARN",
        ),
        (
            "[Global]\nRegion = a-1\nSourceARN = arn:x",
            Some(3),
            "Skydock's credential",
        ),
        ("[Global]\nRegion = a-1\nRegoin = b", Some(3), "Regoin"),
        ("[Globul]\nRegion = a-1", Some(2), "Globul"),
        ("[Global]\nRegion = a-1\nVPC", Some(3), "VPC"),
        (
            "[Global]\nRegion = a-1\n[ServiceOverride \"1\"]\nService",
            Some(4),
            "Service",
        ),
        ("[Global \"x\"]\nRegion = a-1", Some(2), "subsections"),
        ("[Global]\nRegion = a-1\nVPC = \"v", Some(3), "VPC"),
        (
            "[Global]\nRegion = a-1\nNodeIPFamilies = ipv5",
            Some(3),
            "NodeIPFamilies",
        ),
        (
            "[Global]\nRegion = a-1\nKubernetesClusterTag = a\nKubernetesClusterID = b",
            Some(3),
            "different",
        ),
        (
            "[Global]\nRegion = a-1\nDisableSecurityGroupIngress = maybe",
            Some(3),
            "true or false",
        ),
        ("[Global]\nRegion = a-1\nvolumes = x", Some(3), "volumes"),
        (
            "[Global]\nRegion = a-1\nNLBSecurityGroupMode = Own",
            Some(3),
            "Managed",
        ),
        (
            "[Global]\nRegion = a-1\nClusterServiceLoadBalancerHealthProbeMode = x",
            Some(3),
            "Shared",
        ),
        (
            "[Global]\nRegion = a-1\nClusterServiceLoadBalancerHealthProbeMode = Shared\n\
             ClusterServiceSharedLoadBalancerHealthProbePort = 70000",
            Some(4),
            "port",
        ),
        (
            "[Global]\nRegion = a-1\nSupportedTopologyInstanceTypePattern = (",
            Some(3),
            "regular expression",
        ),
        (
            "[Global]\nRegion = a-1\n[ServiceOverride \"1\"]\nService = ec2",
            Some(4),
            "region",
        ),
        (
            "[Global]\nRegion = a-1\n[ServiceOverride \"1\"]\nNose = ec2",
            Some(4),
            "Nose",
        ),
        (
            "[Global]\nRegion = a-1\n[ServiceOverride \"1\"]\nService=ec2\nRegion=a-1\nURL=ftp://x\nSigningRegion=a",
            Some(4),
            "https://HOST",
        ),
        (
            "[Global]\nRegion = a-1\n[ServiceOverride \"1\"]\nService=ec2\nRegion=a-1\nURL=https://x:\nSigningRegion=a",
            Some(4),
            "https://HOST",
        ),
    ] {
        let problem = parse(text).unwrap_err();
        assert_eq!(problem.line, line, "{text}: {problem}");
        assert!(problem.reason.contains(word), "{text}: {problem}");
    }
}

#[test]
fn an_option_without_value_is_a_flag_or_clears_a_list() {
    let config = parse(
        "[Global]\nRegion = a-1\nDisableSecurityGroupIngress ; yes\nNodeIPFamilies = ipv6\nNodeIPFamilies\n",
    )
    .unwrap();
    assert!(config.keep_node_groups);
    assert_eq!(config.families, [Family::V4]);
}

#[test]
fn rejects_two_overrides_of_the_same_service() {
    let one = |number| {
        format!(
            "[ServiceOverride \"{number}\"]\nService=ec2\nRegion=a-1\nURL=https://x\nSigningRegion=a-1\n"
        )
    };
    let text = format!("[Global]\nRegion = a-1\n{}{}", one(1), one(2));
    assert!(parse(&text).unwrap_err().reason.contains("same service"));
}

#[test]
fn each_partition_has_its_own_domain() {
    for (region, url) in [
        ("cn-north-1", "https://ec2.cn-north-1.amazonaws.com.cn/"),
        ("us-gov-west-1", "https://ec2.us-gov-west-1.amazonaws.com/"),
        ("us-iso-east-1", "https://ec2.us-iso-east-1.c2s.ic.gov/"),
        (
            "us-isob-east-1",
            "https://ec2.us-isob-east-1.sc2s.sgov.gov/",
        ),
        ("eusc-de-east-1", "https://ec2.eusc-de-east-1.amazonaws.eu/"),
    ] {
        assert_eq!(
            parse(&format!("[Global]\nRegion={region}"))
                .unwrap()
                .endpoints
                .ec2
                .url
                .as_str(),
            url
        );
    }
}
