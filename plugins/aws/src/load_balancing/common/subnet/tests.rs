use super::*;
use crate::{
    client::api::call::Call,
    testing::{Memory, Scripted, nothing, setup},
};

fn cluster() -> Cluster {
    Cluster {
        id: "c".into(),
        legacy: false,
    }
}

/// Returns a subnet from `ID ZONE TAG...`.
fn subnet(line: &str) -> Subnet {
    let mut words = line.split(' ');
    let (id, zone) = (words.next().unwrap(), words.next().unwrap());
    let tags: String = words
        .map(|tag| {
            let (key, value) = tag.split_once('=').unwrap_or((tag, ""));
            format!("<item><key>{key}</key><value>{value}</value></item>")
        })
        .collect();
    let text = format!(
        "<item><subnetId>subnet-{id}</subnetId><availabilityZone>{zone}</availabilityZone>\
         <cidrBlock>10.0.0.0/24</cidrBlock><tagSet>{tags}</tagSet></item>"
    );
    let mut subnet: Subnet = quick_xml::de::from_str(&text).unwrap();
    subnet.available_ip_address_count = Some(if line.contains(" full") { 3 } else { 200 });
    if line.contains(" v6only") {
        subnet.cidr_block.clear();
    }
    subnet
}

/// Returns two route tables: the main one with a route to the internet, and one without for the
/// subnets in `private`.
fn tables(private: &[&str]) -> Vec<RouteTable> {
    let associations: String = private
        .iter()
        .map(|id| format!("<item><subnetId>subnet-{id}</subnetId><main>false</main></item>"))
        .collect();
    let text = |name: &str, routes: &str, associations: &str| {
        let text = format!(
            "<item><routeTableId>{name}</routeTableId><routeSet>{routes}</routeSet>\
             <associationSet>{associations}</associationSet></item>"
        );
        quick_xml::de::from_str::<RouteTable>(&text).unwrap()
    };
    vec![
        text(
            "private",
            "<item><natGatewayId>nat-1</natGatewayId></item>",
            &associations,
        ),
        text(
            "main",
            "<item><gatewayId>igw-1</gatewayId></item>",
            "<item><main>true</main></item>",
        ),
    ]
}

fn chosen(lines: &[&str], private: &[&str], internal: bool) -> String {
    let subnets: Vec<Subnet> = lines.iter().map(|line| subnet(line)).collect();
    let zone = |name: &str, kind: &str| Zone {
        zone_name: name.into(),
        zone_type: kind.into(),
        ..Zone::default()
    };
    let zones = [
        zone("a", "availability-zone"),
        zone("b", "availability-zone"),
        zone("l", "local-zone"),
    ];
    let vpc_subnets = vpc_subnets(&subnets, &tables(private), &zones, &cluster());
    let need = Need {
        internal,
        ipv6: false,
    };
    match choose(&vpc_subnets, need, Some("subnet-fallback"), &[]) {
        Ok(subnets) => subnets
            .iter()
            .map(|subnet| subnet.id.trim_start_matches("subnet-"))
            .collect::<Vec<_>>()
            .join(" "),
        Err(_) => "none".into(),
    }
}

const OURS: &str = "kubernetes.io/cluster/c=shared";
const THEIRS: &str = "kubernetes.io/cluster/d=owned";

#[test]
fn one_subnet_per_zone_is_chosen_like_the_official_provider() {
    let cases: [(&[&str], &[&str], bool, &str); 12] = [
        (&["2 b", "1 a"], &[], false, "1 2"),
        (&["1 a", "2 b"], &["1"], false, "2"),
        (&["1 a", "2 b"], &["1"], true, "1 2"),
        (&["1 a", "2 a"], &[], false, "1"),
        (&["1 a", "2 a kubernetes.io/role/elb=1"], &[], false, "2"),
        (&["1 a", "2 a kubernetes.io/role/elb=1"], &[], true, "1"),
        (
            &["1 a", "2 a kubernetes.io/role/internal-elb"],
            &[],
            true,
            "2",
        ),
        (&["1 a", &format!("2 a {OURS}")], &[], false, "2"),
        (
            &["1 a kubernetes.io/role/elb", &format!("2 a {OURS}")],
            &[],
            false,
            "1",
        ),
        (&["1 a", &format!("2 b {THEIRS}")], &[], false, "1"),
        (
            &[&format!("1 a {THEIRS}"), &format!("fallback b {THEIRS}")],
            &[],
            false,
            "fallback",
        ),
        (&["1 a", "2 l"], &[], false, "1"),
    ];

    for (lines, private, internal, expected) in cases {
        assert_eq!(
            chosen(lines, private, internal),
            expected,
            "{lines:?} {private:?} {internal}"
        );
    }
    assert_eq!(chosen(&["1 a"], &["1"], false), "none");
}

#[test]
fn subnets_that_aws_cannot_use_are_left_out() {
    let role = "kubernetes.io/role/elb";
    for (lines, expected) in [
        (&["1 a full", "2 a", "3 b"][..], "2 3"),
        (&["1 a v6only", "2 a", "3 b"], "2 3"),
        (&["1 a", "2 a full"], "1"),
        (&["1 a full", "2 b"], "2"),
        (&["1 a v6only", "2 b"], "2"),
        (&["1 a full", "2 b full"], "1 2"),
        (&[&format!("1 a full {role}"), "2 a", "3 b"], "3"),
    ] {
        assert_eq!(chosen(lines, &[], false), expected, "{lines:?}");
    }
}

#[test]
fn an_existing_load_balancer_keeps_its_suitable_subnets() {
    let kept = |lines: &[&str], private: &[&str], there: &[&str]| {
        let subnets: Vec<Subnet> = lines.iter().map(|line| subnet(line)).collect();
        let vpc_subnets = vpc_subnets(&subnets, &tables(private), &[], &cluster());
        let need = Need {
            internal: false,
            ipv6: false,
        };
        let there = there.iter().map(|id| format!("subnet-{id}")).collect();
        let chosen = choose(&vpc_subnets, need, None, &[]).unwrap();
        let kept: Vec<String> = keeping(&vpc_subnets, need, &there, &chosen)
            .into_iter()
            .collect();
        kept.join(" ").replace("subnet-", "")
    };

    assert_eq!(kept(&["1 a", "2 a"], &[], &["2"]), "2");
    assert_eq!(kept(&["1 a", "2 a full"], &[], &["2"]), "2");
    assert_eq!(kept(&["1 a", "2 a", "3 b"], &[], &["2"]), "2 3");
    assert_eq!(kept(&["1 a", "2 a"], &["2"], &["2"]), "1", "it is private");
    assert_eq!(kept(&["1 a", &format!("2 a {THEIRS}")], &[], &["2"]), "1");
    assert_eq!(
        kept(&["1 a kubernetes.io/role/elb", "2 a"], &[], &["2"]),
        "2"
    );
}

#[test]
fn named_subnets_keep_their_order() {
    let subnets: Vec<Subnet> = ["1 a Name=x", "2 b Name=y", "3 a Name=y"]
        .iter()
        .map(|line| subnet(line))
        .collect();
    let vpc_subnets = vpc_subnets(&subnets, &tables(&[]), &[], &cluster());
    let named = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        named(&vpc_subnets, &words).map(|subnets| {
            subnets
                .iter()
                .map(|subnet| subnet.id.clone())
                .collect::<Vec<_>>()
        })
    };

    assert_eq!(
        named(&["subnet-2", "x"]),
        Ok(vec!["subnet-2".to_owned(), "subnet-1".to_owned()])
    );
    assert!(matches!(named(&["subnet-9"]), Err(CloudError::NotFound(_))));
    assert!(matches!(named(&["y"]), Err(CloudError::Internal(_))));
}

#[test]
fn ranges_of_other_vpcs_stay_known() {
    let (setup, store, none) = (setup(), Memory::default(), Vec::new);
    let subnet = |id: &str| {
        format!(
            "<item><subnetId>{id}</subnetId><availabilityZone>a</availabilityZone><cidrBlock>10.0.0.0/24</cidrBlock></item>"
        )
    };
    let wire = Scripted::new(|call: &Call| match call.action {
        "DescribeSubnets" => {
            let asks = |text: &str| call.params.iter().any(|(_, value)| value == text);
            let found = subnet(if asks("vpc-id") {
                "subnet-1"
            } else {
                "subnet-other"
            });
            Ok(format!(
                "<DescribeSubnetsResponse><subnetSet>{found}</subnetSet></DescribeSubnetsResponse>"
            ))
        }
        _ => nothing(call),
    });
    let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
    let other = ["subnet-other".to_owned()];

    assert!(cloud.ranges(&other).is_ok());
    assert!(cloud.zones_of_subnets(&cluster(), "v").is_ok());
    wire.sent.borrow_mut().clear();
    assert!(cloud.ranges(&other).is_ok());
    assert!(cloud.ranges(&["subnet-1".to_owned()]).is_ok());
    assert_eq!(wire.sent.borrow().len(), 0);
}
