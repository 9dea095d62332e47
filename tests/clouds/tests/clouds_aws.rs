//! Tests of AWS on loopback, and of the features that the proxy adds.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use skydock_clouds::{Aws, Error, Fault, Keys, NewNetwork, Proxy, Rule};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

fn first<'a>(xml: &'a str, name: &str) -> Result<&'a str> {
    let inside = xml
        .split_once(&format!("<{name}>"))
        .and_then(|(_, rest)| rest.split_once(&format!("</{name}>")));
    inside
        .map(|(inside, _)| inside)
        .with_context(|| format!("no {name} in {xml}"))
}

fn rejection<T: std::fmt::Debug>(result: Result<T, Error>) -> Result<(u16, String)> {
    match result {
        Err(Error::Rejected { status, body, .. }) => Ok((status, first(&body, "Code")?.to_owned())),
        other => anyhow::bail!("not rejected: {other:?}"),
    }
}

#[tokio::test]
async fn a_wrong_secret_or_policy_is_denied() -> Result<()> {
    let aws = Aws::start().await?;
    aws.call("ec2", "DescribeVpcs", &[]).await?;
    let keys = aws.verify_signatures().await?;
    aws.call_as(&keys, "ec2", "DescribeVpcs", &[]).await?;
    aws.call_as(&keys, "elbv2", "DescribeLoadBalancers", &[])
        .await?;
    // The space is sent as `%20`.
    let spaced = [
        ("Filter.1.Name", "description"),
        ("Filter.1.Value.1", "a b"),
    ];
    aws.call_as(&keys, "ec2", "DescribeSecurityGroups", &spaced)
        .await?;
    let wrong = Keys {
        secret: "wrong".to_owned(),
        ..keys.clone()
    };
    let rejected = |api, action| aws.call_as(&wrong, api, action, &[]);
    ensure!(rejection(rejected("ec2", "DescribeVpcs").await)? == (401, "AuthFailure".to_owned()));
    ensure!(
        rejection(rejected("elbv2", "DescribeLoadBalancers").await)?.1 == "SignatureDoesNotMatch"
    );
    let unknown = Keys {
        id: "AKIAUNKNOWN".to_owned(),
        ..keys
    };
    ensure!(
        rejection(aws.call_as(&unknown, "sts", "GetCallerIdentity", &[]).await)?.1
            == "InvalidClientTokenId"
    );

    let policy = json!({
        "Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "ec2:DescribeInstances", "Resource": "*"}],
    });
    let narrow = aws.user("narrow", Some(&policy)).await?;
    aws.call_as(&narrow, "ec2", "DescribeInstances", &[])
        .await?;
    let (status, code) = rejection(aws.call_as(&narrow, "ec2", "DescribeVpcs", &[]).await)?;
    ensure!(status == 403 && code == "AccessDenied", "{status} {code}");
    Ok(())
}

#[tokio::test]
async fn a_network_has_instances_in_its_zones() -> Result<()> {
    let aws = Aws::start().await?;
    aws.verify_signatures().await?;
    let network = aws.network(&NewNetwork::of_cluster("kube")).await?;
    let mut ids = aws
        .run_instances(&network, 0, &["node-1", "node-2"])
        .await?;
    ids.extend(aws.run_instances(&network, 1, &["node-3"]).await?);
    let filter = [
        ("Filter.1.Name", "tag:kubernetes.io/cluster/kube"),
        ("Filter.1.Value.1", "owned"),
    ];
    let seen = aws.call("ec2", "DescribeInstances", &filter).await?;
    for text in ids
        .iter()
        .map(String::as_str)
        .chain(["us-east-1a", "us-east-1b", "node-3"])
    {
        ensure!(seen.contains(text), "no {text} in {seen}");
    }
    aws.change_instances("StopInstances", &ids[..1]).await?;
    aws.change_instances("TerminateInstances", &ids[1..2])
        .await?;
    for (id, state) in [
        (&ids[0], "stopped"),
        (&ids[1], "terminated"),
        (&ids[2], "running"),
    ] {
        let seen = aws
            .call("ec2", "DescribeInstances", &[("InstanceId.1", id)])
            .await?;
        ensure!(
            first(first(&seen, "instanceState")?, "name")? == state,
            "{id} is not {state}: {seen}"
        );
    }
    let missing = aws
        .call(
            "ec2",
            "DescribeInstances",
            &[("InstanceId.1", "i-00000000000000000")],
        )
        .await;
    ensure!(rejection(missing)?.1 == "InvalidInstanceID.NotFound");
    Ok(())
}

#[tokio::test]
async fn holdings_are_restored_after_deletion() -> Result<()> {
    let aws = Aws::start().await?;
    let network = aws.network(&NewNetwork::of_cluster("kube")).await?;
    let before = aws.holdings().await?;
    let (one, two) = (
        network.zones[0].subnet_id.as_str(),
        network.zones[1].subnet_id.as_str(),
    );
    let subnets = [
        ("Name", "lb"),
        ("Type", "network"),
        ("Subnets.member.1", one),
        ("Subnets.member.2", two),
    ];
    let made = aws.call("elbv2", "CreateLoadBalancer", &subnets).await?;
    let lb = first(&made, "LoadBalancerArn")?;
    let fields = [
        ("Name", "tg"),
        ("Protocol", "TCP"),
        ("Port", "30080"),
        ("VpcId", network.vpc_id.as_str()),
    ];
    let made = aws.call("elbv2", "CreateTargetGroup", &fields).await?;
    let group = first(&made, "TargetGroupArn")?;
    let fields = [
        ("LoadBalancerArn", lb),
        ("Protocol", "TCP"),
        ("Port", "80"),
        ("DefaultActions.member.1.Type", "forward"),
        ("DefaultActions.member.1.TargetGroupArn", group),
    ];
    aws.call("elbv2", "CreateListener", &fields).await?;
    let during = aws.holdings().await?;
    for kind in ["load balancers", "target groups", "listeners"] {
        ensure!(
            during[kind].len() == 1 && before[kind].is_empty(),
            "{kind}: {during:?}"
        );
    }
    aws.call("elbv2", "DeleteLoadBalancer", &[("LoadBalancerArn", lb)])
        .await?;
    aws.call("elbv2", "DeleteTargetGroup", &[("TargetGroupArn", group)])
        .await?;
    let after = aws.holdings().await?;
    ensure!(after == before, "before {before:#?}\nafter {after:#?}");
    Ok(())
}

#[tokio::test]
async fn the_proxy_corrects_answers_of_moto() -> Result<()> {
    let aws = Aws::start().await?;
    let keys = aws.verify_signatures().await?;
    let network = aws.network(&NewNetwork::of_cluster("kube")).await?;
    let instances = aws
        .run_instances(&network, 0, &["node-1", "node-2"])
        .await?;
    let proxy = Proxy::before_aws(&aws, 1).await?;
    let through = proxy.aws_client(keys);

    let group = [("GroupId", network.security_group_id.as_str())];
    ensure!(
        rejection(through.call("ec2", "DeleteSecurityGroup", &group).await)?
            == (400, "DependencyViolation".to_owned())
    );
    let fields = [
        ("GroupName", "free"),
        ("GroupDescription", "free"),
        ("VpcId", network.vpc_id.as_str()),
    ];
    let free = through.call("ec2", "CreateSecurityGroup", &fields).await?;
    through
        .call(
            "ec2",
            "DeleteSecurityGroup",
            &[("GroupId", first(&free, "groupId")?)],
        )
        .await?;

    let subnet = network.zones[0].subnet_id.as_str();
    let once = [
        ("Name", "once"),
        ("Type", "network"),
        ("Subnets.member.1", subnet),
    ];
    through.call("elbv2", "CreateLoadBalancer", &once).await?;
    let twice = rejection(through.call("elbv2", "CreateLoadBalancer", &once).await)?;
    ensure!(
        twice == (400, "DuplicateLoadBalancerName".to_owned()),
        "{twice:?}"
    );

    for (at, instance) in instances.iter().enumerate() {
        let cidr = format!("10.244.{at}.0/24");
        let table = network.route_table_id.as_str();
        let route = [
            ("RouteTableId", table),
            ("DestinationCidrBlock", cidr.as_str()),
            ("InstanceId", instance.as_str()),
        ];
        through.call("ec2", "CreateRoute", &route).await?;
    }
    // More than moto lists on a page, and terminated before.
    let names: Vec<String> = (0..110).map(|number| format!("old-{number}")).collect();
    let old = aws.run_instances(&network, 1, &names).await?;
    aws.change_instances("TerminateInstances", &old).await?;
    aws.change_instances("TerminateInstances", &instances[..1])
        .await?;
    let tables = through
        .call(
            "ec2",
            "DescribeRouteTables",
            &[("RouteTableId.1", &network.route_table_id)],
        )
        .await?;
    ensure!(
        tables.matches("<state>blackhole</state>").count() == 1,
        "{tables}"
    );

    let fields = [
        ("Name", "tg"),
        ("Protocol", "TCP"),
        ("Port", "30080"),
        ("VpcId", network.vpc_id.as_str()),
    ];
    let made = through.call("elbv2", "CreateTargetGroup", &fields).await?;
    let target = [
        ("TargetGroupArn", first(&made, "TargetGroupArn")?),
        ("Targets.member.1.Id", instances[1].as_str()),
    ];
    through.call("elbv2", "RegisterTargets", &target).await?;
    proxy.set_target_health(&instances[1], "unhealthy");
    let health = through
        .call("elbv2", "DescribeTargetHealth", &target[..1])
        .await?;
    ensure!(first(&health, "State")? == "unhealthy", "{health}");

    ensure!(
        through
            .call("ec2", "DescribeInstanceTopology", &[])
            .await?
            .contains("<instanceSet/>")
    );
    ensure!(
        proxy.count("ec2:DescribeInstanceTopology") == 1 && proxy.count("ec2:Create*") == 3,
        "{:?}",
        proxy.counts()
    );
    Ok(())
}

#[tokio::test]
async fn load_balancers_change_as_in_aws_or_not() -> Result<()> {
    let aws = Aws::start().await?;
    let network = aws.network(&NewNetwork::of_cluster("kube")).await?;
    let (vpc, group) = (&network.vpc_id, &network.security_group_id);
    let [a, b] = [0, 1].map(|zone| network.zones[zone].subnet_id.as_str());
    let subnet = async |cidr| {
        let fields = [
            ("VpcId", vpc.as_str()),
            ("CidrBlock", cidr),
            ("AvailabilityZone", "us-east-1a"),
        ];
        let made = aws.call("ec2", "CreateSubnet", &fields).await?;
        first(&made, "subnetId").map(str::to_owned)
    };
    let (beside, full) = (
        subnet("10.9.200.0/24").await?,
        subnet("10.9.201.0/29").await?,
    );

    // Network load balancers.
    let create = async |name, subnets: &[&str]| {
        let mut fields = vec![("Name", name), ("Type", "network")];
        let keys = ["Subnets.member.1", "Subnets.member.2"];
        fields.extend(keys.into_iter().zip(subnets.iter().copied()));
        aws.call("elbv2", "CreateLoadBalancer", &fields).await
    };
    ensure!(rejection(create("full", &[&full]).await)?.1 == "InvalidSubnet");
    let twice = rejection(create("twice", &[a, &beside]).await)?;
    ensure!(twice.1 == "InvalidConfigurationRequest", "{twice:?}");
    let made = create("net", &[a, b]).await?;
    let of = ("LoadBalancerArn", first(&made, "LoadBalancerArn")?);
    let secured = [of, ("SecurityGroups.member.1", group.as_str())];
    let rejected = rejection(aws.call("elbv2", "SetSecurityGroups", &secured).await)?;
    ensure!(rejected.1 == "InvalidConfigurationRequest", "{rejected:?}");
    let target_group = async |name, protocol| {
        let fields = [
            ("Name", name),
            ("Protocol", protocol),
            ("Port", "30080"),
            ("VpcId", vpc.as_str()),
        ];
        let made = aws.call("elbv2", "CreateTargetGroup", &fields).await?;
        first(&made, "TargetGroupArn").map(str::to_owned)
    };
    let (tcp, udp) = (
        target_group("tcp", "TCP").await?,
        target_group("udp", "UDP").await?,
    );
    let leads = "DefaultActions.member.1.TargetGroupArn";
    let forward = ("DefaultActions.member.1.Type", "forward");
    let fields = [
        of,
        ("Port", "80"),
        ("Protocol", "TCP"),
        forward,
        (leads, &tcp),
    ];
    let made = aws.call("elbv2", "CreateListener", &fields).await?;
    let listener = ("ListenerArn", first(&made, "ListenerArn")?);
    let modified = [listener, ("Protocol", "UDP"), forward, (leads, &udp)];
    let answer = aws.call("elbv2", "ModifyListener", &modified).await?;
    ensure!(first(&answer, "Protocol")? == "UDP", "{answer}");
    let groups = aws.call("elbv2", "DescribeTargetGroups", &[of]).await?;
    ensure!(groups.contains(&udp) && !groups.contains(&tcp), "{groups}");
    let tls = [listener, ("Protocol", "TLS"), forward, (leads, &tcp)];
    let rejected = rejection(aws.call("elbv2", "ModifyListener", &tls).await)?;
    ensure!(rejected.1 == "CertificateNotFound", "{rejected:?}");

    // Classic load balancers.
    let named = ("LoadBalancerName", "classic");
    let listeners = [
        ("Listeners.member.1.Protocol", "tcp"),
        ("Listeners.member.1.LoadBalancerPort", "80"),
        ("Listeners.member.1.InstancePort", "30080"),
        ("Listeners.member.2.Protocol", "https"),
        ("Listeners.member.2.InstanceProtocol", "http"),
        ("Listeners.member.2.LoadBalancerPort", "443"),
        ("Listeners.member.2.InstancePort", "30443"),
        (
            "Listeners.member.2.SSLCertificateId",
            "arn:aws:iam::1:server-certificate/x",
        ),
    ];
    let mut fields = vec![named, ("Subnets.member.1", a)];
    fields.extend(listeners);
    aws.call("elb", "CreateLoadBalancer", &fields).await?;
    for (action, subnet) in [
        ("DetachLoadBalancerFromSubnets", a),
        ("AttachLoadBalancerToSubnets", beside.as_str()),
    ] {
        let fields = [named, ("Subnets.member.1", subnet)];
        let rejected = rejection(aws.call("elb", action, &fields).await)?;
        ensure!(rejected.1 == "InvalidConfigurationRequest", "{rejected:?}");
    }
    let there = aws.call("elb", "DescribeLoadBalancers", &[]).await?;
    ensure!(there.contains("<InstanceProtocol>HTTP<"), "{there}");
    let ports = [
        named,
        ("LoadBalancerPorts.member.1", "80"),
        ("LoadBalancerPorts.member.2", "443"),
    ];
    aws.call("elb", "DeleteLoadBalancerListeners", &ports)
        .await?;
    let there = aws.call("elb", "DescribeLoadBalancers", &[]).await?;
    ensure!(!there.contains("<LoadBalancerPort>"), "{there}");
    Ok(())
}

#[tokio::test]
async fn the_proxy_throttles_with_the_error_of_each_api() -> Result<()> {
    let aws = Aws::start().await?;
    let keys = aws.verify_signatures().await?;
    let proxy = Proxy::before_aws(&aws, 1).await?;
    proxy.rule(Rule::new("*:Describe*", Fault::Throttle(None)).times(2));
    let through = proxy.aws_client(keys);
    let ec2 = rejection(through.call("ec2", "DescribeVpcs", &[]).await)?;
    ensure!(ec2 == (503, "RequestLimitExceeded".to_owned()), "{ec2:?}");
    let elb = rejection(through.call("elb", "DescribeLoadBalancers", &[]).await)?;
    ensure!(elb == (400, "Throttling".to_owned()), "{elb:?}");
    through.call("ec2", "DescribeVpcs", &[]).await?;

    // Eventual consistency: the new VPC is not listed yet.
    aws.network(&NewNetwork::of_cluster("kube")).await?;
    proxy.rule(Rule::new("ec2:DescribeVpcs", Fault::Stale(Duration::from_secs(5))).times(1));
    let stale = through.call("ec2", "DescribeVpcs", &[]).await?;
    let fresh = through.call("ec2", "DescribeVpcs", &[]).await?;
    ensure!(
        !stale.contains("10.9.0.0/16") && fresh.contains("10.9.0.0/16"),
        "{stale}\n{fresh}"
    );
    Ok(())
}

#[tokio::test]
async fn instance_metadata_needs_no_signature() -> Result<()> {
    let aws = Aws::start().await?;
    aws.verify_signatures().await?;
    let proxy = Proxy::before_aws(&aws, 1).await?;
    let token = metadata(
        &proxy,
        "PUT",
        "/latest/api/token",
        "x-aws-ec2-metadata-token-ttl-seconds: 60",
    )
    .await?;
    let header = format!("x-aws-ec2-metadata-token: {token}");
    ensure!(
        metadata(&proxy, "GET", "/latest/meta-data/placement/region", &header).await?
            == "us-east-1"
    );
    let document = metadata(
        &proxy,
        "GET",
        "/latest/dynamic/instance-identity/document",
        &header,
    )
    .await?;
    ensure!(document.contains("\"region\":\"us-east-1\""), "{document}");
    ensure!(proxy.count("imds:*") == 3, "{:?}", proxy.counts());
    Ok(())
}

/// Sends an unsigned request and returns the body.
async fn metadata(proxy: &Proxy, method: &str, path: &str, header: &str) -> Result<String> {
    let host = proxy.url().trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).await?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{header}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    ensure!(head.starts_with("HTTP/1.1 200 "), "{answer}");
    Ok(body.to_owned())
}
