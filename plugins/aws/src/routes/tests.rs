use super::*;

const TABLE: &str = "<item><routeTableId>rtb-1</routeTableId><routeSet>\
    <item><destinationCidrBlock>10.0.0.0/16</destinationCidrBlock><gatewayId>local</gatewayId><state>active</state></item>\
    <item><destinationCidrBlock>10.244.1.0/24</destinationCidrBlock><instanceId>i-1</instanceId><state>active</state></item>\
    <item><destinationCidrBlock>10.244.2.0/24</destinationCidrBlock><instanceId>i-9</instanceId><state>active</state></item>\
    <item><destinationCidrBlock>10.244.3.0/24</destinationCidrBlock><networkInterfaceId>eni-1</networkInterfaceId>\
    <state>blackhole</state></item>\
    <item><destinationCidrBlock>10.244.4.0/24</destinationCidrBlock><vpcPeeringConnectionId>pcx-1</vpcPeeringConnectionId>\
    <state>blackhole</state></item>\
    <item><destinationCidrBlock>10.99.0.0/24</destinationCidrBlock><instanceId>i-1</instanceId><state>active</state></item>\
    <item><destinationIpv6CidrBlock>2001:db8:0:1::/64</destinationIpv6CidrBlock><instanceId>i-1</instanceId>\
    <state>active</state></item></routeSet></item>";

fn table() -> RouteTable {
    quick_xml::de::from_str(TABLE).unwrap()
}

fn shown(pods: &[&str]) -> Vec<String> {
    let nodes = [Node {
        name: "n1".into(),
        provider_id: Some("aws:///eu-west-1a/i-1".into()),
        ..Node::default()
    }];
    let pods: Vec<IpNet> = pods.iter().map(|cidr| cidr.parse().unwrap()).collect();
    let shown = |route: Route| {
        let node = route.target_node.unwrap_or("-".into());
        format!(
            "{} {node}{}",
            route.name,
            if route.blackhole { " blackhole" } else { "" }
        )
    };
    list(&table(), &nodes, &pods)
        .into_iter()
        .map(shown)
        .collect()
}

#[test]
fn lists_only_routes_inside_the_cluster_cidrs() {
    assert_eq!(
        shown(&["10.244.0.0/16", "2001:db8::/48"]),
        [
            "rtb-1/10.244.1.0/24 n1",
            "rtb-1/10.244.2.0/24 -",
            "rtb-1/10.244.3.0/24 - blackhole",
            "rtb-1/2001:db8:0:1::/64 n1",
        ]
    );
}

#[test]
fn without_cluster_cidrs_only_routes_to_nodes_are_listed() {
    assert_eq!(
        shown(&[]),
        [
            "rtb-1/10.244.1.0/24 n1",
            "rtb-1/10.99.0.0/24 n1",
            "rtb-1/2001:db8:0:1::/64 n1"
        ]
    );
}

#[test]
fn existing_routes_decide_between_create_and_replace() {
    let change = |cidr: &str, instance| change(&table(), cidr.parse().unwrap(), instance);
    assert_eq!(change("10.244.1.0/24", "i-1"), Ok(RouteChange::Exists));
    assert_eq!(change("10.244.1.0/24", "i-2"), Ok(RouteChange::Replace));
    assert_eq!(change("10.244.3.0/24", "i-2"), Ok(RouteChange::Replace));
    assert_eq!(change("10.244.7.0/24", "i-2"), Ok(RouteChange::Create));
    assert!(matches!(
        change("10.244.4.0/24", "i-2"),
        Err(CloudError::Internal(_))
    ));
    assert!(matches!(
        change("10.0.0.0/16", "i-2"),
        Err(CloudError::Internal(_))
    ));
}

#[test]
fn an_instance_with_several_interfaces_is_named_by_one_of_them() {
    let instance = |interfaces: &[(&str, u32, &str, &str, bool)]| -> ec2::Instance {
        let item = |(id, index, status, address, check): &(&str, u32, &str, &str, bool)| {
            format!(
                "<item><networkInterfaceId>{id}</networkInterfaceId><status>{status}</status><sourceDestCheck>{check}</sourceDestCheck>\
                 <attachment><deviceIndex>{index}</deviceIndex></attachment><privateIpAddressesSet><item>\
                 <privateIpAddress>{address}</privateIpAddress></item></privateIpAddressesSet></item>"
            )
        };
        let items: String = interfaces.iter().map(item).collect();
        quick_xml::de::from_str(&format!(
            "<item><instanceId>i-1</instanceId><sourceDestCheck>false</sourceDestCheck><networkInterfaceSet>{items}\
             </networkInterfaceSet></item>"
        ))
        .unwrap()
    };
    let (first, second) = (
        ("eni-1", 0, "in-use", "10.0.0.4", true),
        ("eni-2", 1, "in-use", "10.0.9.4", false),
    );
    let coming = ("eni-3", 2, "attaching", "10.0.7.4", true);
    let primary = (NextHop::Interface("eni-1"), true);

    for (interfaces, addresses, expected) in [
        (&[][..], &[][..], (NextHop::Instance("i-1"), false)),
        (&[first], &["10.0.0.4"], (NextHop::Instance("i-1"), false)),
        (&[second, first], &["10.0.0.4", "10.0.9.4"], primary),
        (&[second, first], &["web.example.com"], primary),
        (
            &[second, first],
            &["10.0.9.4"],
            (NextHop::Interface("eni-2"), false),
        ),
        (&[coming, first], &["10.0.7.4", "10.0.0.4"], primary),
    ] {
        let addresses: Vec<NodeAddress> = addresses
            .iter()
            .map(|address| NodeAddress {
                kind: skydock_sdk::types::AddressKind::InternalIp,
                address: (*address).to_owned(),
            })
            .collect();
        let instance = instance(interfaces);
        let next_hop = NextHop::to(&instance, &addresses);
        assert_eq!(next_hop, expected, "{interfaces:?} {addresses:?}");
    }
}
