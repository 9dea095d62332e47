use super::*;

fn route(destination: &str, nexthop: &str) -> ExtraRoute {
    ExtraRoute { destination: destination.to_owned(), nexthop: nexthop.to_owned() }
}

fn internal(address: &str) -> NodeAddress {
    NodeAddress { kind: AddressKind::InternalIp, address: address.to_owned() }
}

#[test]
fn a_route_without_a_node_leads_nowhere_and_keeps_its_next_hop() {
    let node = Node { name: "n1".to_owned(), addresses: vec![internal("2001:db8::1")], ..Node::default() };
    let leads = told(&route("2001:db8:1::/64", "2001:DB8:0::1"), std::slice::from_ref(&node));
    assert_eq!((leads.target_node.as_deref(), leads.blackhole), (Some("n1"), false));
    let lost = told(&route("10.244.0.0/24", "10.0.0.9"), &[node]);
    assert_eq!((lost.target_node, lost.blackhole), (None, true));
    assert_eq!(named(&lost.name), Some(route("10.244.0.0/24", "10.0.0.9")));
    assert_eq!(named("other"), None);
}

#[test]
fn routes_of_others_are_left_out() {
    let cidrs: Vec<IpNet> = vec!["10.244.0.0/16".parse().unwrap()];
    assert!(is_clusters(&route("10.244.3.0/24", "10.0.0.1"), &cidrs));
    assert!(!is_clusters(&route("192.168.0.0/24", "10.0.0.1"), &cidrs));
    assert!(is_clusters(&route("192.168.0.0/24", "10.0.0.1"), &[]));
}

#[test]
fn the_next_hop_is_an_internal_address_of_the_family() {
    let addresses = vec![
        NodeAddress { kind: AddressKind::ExternalIp, address: "203.0.113.1".to_owned() },
        internal("2001:db8::1"),
        internal("10.0.0.1"),
    ];
    let new = |cidr: &str| NewRoute {
        name_hint: String::new(),
        target_node: "n1".to_owned(),
        target_provider_id: None,
        target_addresses: addresses.clone(),
        destination_cidr: cidr.to_owned(),
    };
    assert_eq!(nexthop(&new("10.244.0.0/24")).unwrap().nexthop, "10.0.0.1");
    assert_eq!(nexthop(&new("2001:db8:1::/64")).unwrap().nexthop, "2001:db8::1");
    let none = NewRoute { target_addresses: addresses[..1].to_vec(), ..new("10.244.0.0/24") };
    assert!(matches!(nexthop(&none), Err(CloudError::NotFound(_))));
}

#[test]
fn a_list_is_changed_without_losing_what_others_have() {
    let there = [route("a", "1"), route("b", "2")];
    assert_eq!(
        changed(&there, &[route("b", "2"), route("c", "3")], true),
        [route("a", "1"), route("b", "2"), route("c", "3")]
    );
    assert_eq!(changed(&there, &[route("b", "2"), route("c", "3")], false), [route("a", "1")]);
    assert_eq!(changed(&there, &[route("b", "9")], false), there);
}

#[test]
fn one_bad_route_does_not_spoil_the_others() {
    let read =
        |number: &u8| if *number == 0 { Err(CloudError::invalid("bad")) } else { Ok(route(&number.to_string(), "1")) };
    let act = |routes: &[ExtraRoute]| {
        if routes.iter().any(|route| route.destination == "2") {
            return Err(CloudError::invalid("two"));
        }
        Ok(vec![Ok(()); routes.len()])
    };
    let answers = each(&[1, 0, 2, 3], read, act);
    assert_eq!(answers, [Ok(()), Err(CloudError::invalid("bad")), Err(CloudError::invalid("two")), Ok(())]);
    let down = each(&[1, 3], read, |_| Err(CloudError::unavailable("down")));
    assert_eq!(down, vec![Err(CloudError::unavailable("down")); 2]);
}
