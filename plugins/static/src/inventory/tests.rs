use super::*;
use crate::machine::{AddressType, Key, State};

const HEAD: &str = "apiVersion: static.skydock.dev/v1alpha1\nkind: Inventory\n";

/// Parses the inventory with this text, which begins in line 3.
fn parse(text: &str) -> Result<Inventory, Problems> {
    Inventory::parse(&format!("{HEAD}{text}"))
}

fn problems(text: &str) -> Vec<String> {
    parse(text)
        .unwrap_err()
        .in_file("i")
        .split("; ")
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_documented_example_is_read() {
    let inventory = Inventory::parse(include_str!("../../inventory.example.yaml")).unwrap();
    assert_eq!(
        inventory.provider_id_prefixes,
        ["static://", "kubemark://", "metal://"]
    );

    let machines = inventory.machines.unwrap();
    let [control, worker_1, worker_2] = machines.all() else {
        panic!("{machines:?}")
    };

    assert_eq!(
        (control.key.clone(), control.state),
        (Key::NodeName("control-1".into()), State::Running)
    );
    assert_eq!(worker_1.key, Key::NodeName("worker-1.example.com".into()));
    assert_eq!(worker_1.provider_id.as_deref(), Some("metal://rack-1/7"));
    assert_eq!(worker_1.zone.as_deref(), Some("rack-1"));
    assert_eq!(worker_1.addresses.len(), 4);
    assert_eq!(
        worker_1.labels,
        [("example.com/rack".to_owned(), "1".to_owned())]
    );
    assert_eq!(
        (worker_2.key.clone(), worker_2.state),
        (Key::Address([10, 0, 0, 12].into()), State::Stopped)
    );

    let [public, reserved] = inventory.pools.0.as_slice() else {
        panic!("{:?}", inventory.pools)
    };
    assert_eq!(
        (
            public.ranges.len(),
            public.auto_assign,
            reserved.auto_assign
        ),
        (3, true, false)
    );
}

#[test]
fn the_readme_shows_the_example() {
    assert!(include_str!("../../README.md").contains(include_str!("../../inventory.example.yaml")));
}

#[test]
fn missing_machines_differ_from_an_empty_list() {
    assert!(parse("").unwrap().machines.is_none());
    assert!(
        parse("machines:").unwrap().machines.is_none(),
        "cut off after the key"
    );
    assert!(parse("machines: []").unwrap().machines.is_some());
}

#[test]
fn rejects_files_that_are_not_an_inventory() {
    for (text, place, reason) in [
        ("", " ", "the file is empty"),
        ("# only a comment", "", ""),
        ("kind: Inventory\n", "1:1", "apiVersion"),
        (
            "apiVersion: v1\nkind: Inventory\n",
            "1:13",
            "`static.skydock.dev/v1alpha1`",
        ),
        (
            "apiVersion: static.skydock.dev/v1alpha1\nkind: Secret\n",
            "2:7",
            "`Inventory`",
        ),
        ("machines: [\n", "1:11", "unclosed bracket"),
        ("\u{0}", "1:1", ""),
    ] {
        let text = Inventory::parse(text).unwrap_err().in_file("i");
        assert!(
            text.starts_with(&format!("i:{place}")) && text.contains(reason),
            "{text}"
        );
    }
}

/// Every possible mistake with its position and its message.
#[test]
fn every_error_has_line_and_column() {
    for (text, place, reason) in [
        ("machine: []", "3:1", "unknown field `machine`"),
        (
            "machines: []\nmachines: []",
            "4:1",
            "duplicate mapping key: machines",
        ),
        (
            "machines:\n- name: a\n  zome: x",
            "5:3",
            "unknown field `zome`",
        ),
        ("machines:\n- zone: a", "4:3", "missing field `name`"),
        (
            "machines:\n- name: A",
            "4:9",
            "`A` cannot be the name of a machine",
        ),
        (
            "machines:\n- name: a\n- name: a",
            "5:9",
            "duplicate machine `a`, first in line 4",
        ),
        (
            "machines:\n- name: a\n  match: {nodeName: B_}",
            "5:21",
            "`B_` cannot be the name of a node",
        ),
        (
            "machines:\n- name: a\n- name: b\n  match: {nodeName: a}",
            "6:21",
            "duplicate node name `a`",
        ),
        (
            "machines:\n- name: a\n  match: {node: x}",
            "5:11",
            "unknown field `node`",
        ),
        (
            "machines:\n- name: a\n  match: {nodeName: x, address: 10.0.0.1}",
            "5:10",
            "exactly one of",
        ),
        (
            "machines:\n- name: a\n  match: {}",
            "5:10",
            "exactly one of",
        ),
        (
            "machines:\n- name: a\n  match: {address: x}",
            "5:20",
            "`x` is not a valid IP address",
        ),
        (
            "machines:\n- name: a\n  providerID: x",
            "5:15",
            "`x` is not a valid provider ID",
        ),
        (
            "machines:\n- name: a\n  providerID: m://",
            "5:15",
            "`m://` is not a valid provider ID",
        ),
        (
            "machines:\n- name: a\n  providerID: m://1\n- name: b\n  providerID: m://1",
            "7:15",
            "first in line 5",
        ),
        (
            "machines:\n- name: a\n- name: b\n  providerID: static://a",
            "6:15",
            "duplicate provider ID `static://a`",
        ),
        (
            "machines:\n- name: a\n  providerID: m://1\n  match: {providerID: m://2}",
            "6:23",
            "providerID is m://1",
        ),
        (
            "machines:\n- name: a\n  instanceType: a b",
            "5:17",
            "`a b` is not a valid label value",
        ),
        (
            "machines:\n- name: a\n  zone: a/b",
            "5:9",
            "`a/b` is not a valid label value",
        ),
        (
            "machines:\n- name: a\n  region: -a",
            "5:11",
            "`-a` is not a valid label value",
        ),
        ("machines:\n- name: a\n  state: off", "5:10", "off"),
        (
            "machines:\n- name: a\n  labels: {a b: c}",
            "5:17",
            "`a b` is not a valid label key",
        ),
        (
            "machines:\n- name: a\n  labels: {x.k8s.io/a: c}",
            "5:24",
            "is reserved by Kubernetes",
        ),
        (
            "machines:\n- name: a\n  labels: {a: b c}",
            "5:15",
            "`b c` is not a valid label value",
        ),
        (
            "machines:\n- name: a\n  addresses: [{type: IP, address: 10.0.0.1}]",
            "5:22",
            "unknown variant `IP`",
        ),
        (
            "machines:\n- name: a\n  addresses: [{type: InternalIP, address: x}]",
            "5:43",
            "`x` is not a valid IP address",
        ),
        (
            "machines:\n- name: a\n  addresses: [{type: ExternalIP, address: 127.0.0.1}]",
            "5:43",
            "it is loopback",
        ),
        (
            "machines:\n- name: a\n  match: {address: 'fe80::1'}",
            "5:20",
            "cannot be the address of a machine",
        ),
        (
            "machines:\n- name: a\n  addresses: [{type: Hostname, address: X}]",
            "5:41",
            "cannot be a host name",
        ),
        (
            "machines:\n- name: a\n  addresses: [{type: InternalIP, address: fd00::1:2}, {type: InternalIP, address: 'fd00:0::1:2'}]",
            "5:83",
            "has fd00::1:2 twice",
        ),
        (
            "machines:\n- name: a\n  match: {address: 10.0.0.1}\n- name: b\n  addresses: [{type: ExternalIP, address: 10.0.0.1}]",
            "7:43",
            "already used by machine `a` in line 5",
        ),
        (
            "providerIDPrefixes: [metal]",
            "3:22",
            "must be SCHEME:// or longer",
        ),
        (
            "addressPools:\n- name: a",
            "4:3",
            "missing field `addresses`",
        ),
        (
            "addressPools:\n- name: a\n  addresses: []",
            "4:9",
            "`a` has no addresses",
        ),
        (
            "addressPools:\n- name: a_b\n  addresses: [192.0.2.1]",
            "4:9",
            "cannot be the name of an address pool",
        ),
        (
            "addressPools:\n- name: a\n  addresses: [192.0.2.1/28]",
            "5:15",
            "use 192.0.2.0/28",
        ),
        (
            "addressPools:\n- name: a\n  addresses: [192.0.2.1]\n  autoAssign: maybe",
            "6:15",
            "",
        ),
        (
            "addressPools:\n- {name: a, addresses: [192.0.2.1]}\n- {name: a, addresses: [192.0.2.2]}",
            "5:10",
            "duplicate address pool `a`, first in line 4",
        ),
        (
            "addressPools:\n- {name: a, addresses: [192.0.2.0/28]}\n- {name: b, addresses: [192.0.2.15-192.0.2.16]}",
            "5:25",
            "192.0.2.15-192.0.2.16 overlaps with 192.0.2.0-192.0.2.15 in line 4",
        ),
        (
            "machines:\n- {name: a, addresses: [{type: InternalIP, address: 192.0.2.3}]}\naddressPools:\n- {name: p, addresses: [192.0.2.0/28]}",
            "4:53",
            "address 192.0.2.3 of machine `a` is in address pool `p`",
        ),
    ] {
        let listed = problems(text);
        assert_eq!(listed.len(), 1, "{text}\n{listed:#?}");
        assert!(
            listed[0].starts_with(&format!("i:{place}")) && listed[0].contains(reason),
            "{text}\n{listed:#?}"
        );
    }
}

#[test]
fn all_errors_are_reported_in_file_order() {
    let listed = problems(
        "machines:\n- name: A\n- name: b\n  zone: a b\naddressPools:\n- {name: a, addresses: [192.0.2.1/28, nonsense]}",
    );
    let places: Vec<_> = listed
        .iter()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(places, ["i:4:9:", "i:6:9:", "i:8:25:", "i:8:39:"]);
}

#[test]
fn overlap_with_a_wide_range_is_found_past_a_narrow_one() {
    let listed = problems(
        "addressPools:\n- {name: a, addresses: [10.0.0.0/8, 10.1.0.0/16]}\n- {name: b, addresses: [10.9.0.1]}",
    );
    assert_eq!(listed.len(), 2, "{listed:#?}");
    assert!(
        listed[1].contains("10.9.0.1 overlaps with 10.0.0.0-10.255.255.255 in line 4"),
        "{listed:#?}"
    );
}

#[test]
fn a_machine_may_name_its_own_address_more_than_once() {
    parse("machines:\n- name: a\n  match: {address: 10.0.0.1}\n  addresses: [{type: InternalIP, address: 10.0.0.1}, {type: ExternalIP, address: 10.0.0.1}]")
        .unwrap();
}

#[test]
fn a_machine_may_state_its_default_provider_id() {
    parse("machines:\n- name: a\n  providerID: static://a").unwrap();
    parse("machines:\n- name: a\n  match: {providerID: static://a}").unwrap();
}

#[test]
fn addresses_are_canonicalized() {
    let machines =
        parse("machines:\n- name: a\n  addresses: [{type: InternalIP, address: '2001:DB8:0::1'}]")
            .unwrap()
            .machines;
    assert_eq!(
        machines.unwrap().all()[0].addresses,
        [(AddressType::InternalIP, "2001:db8::1".to_owned())]
    );
}

#[test]
fn numbers_are_accepted_as_text() {
    let machines = parse("machines:\n- name: 7\n  zone: 1\n  labels: {rack: 0x1f, up: true}")
        .unwrap()
        .machines
        .unwrap();
    let machine = &machines.all()[0];
    assert_eq!(
        (machine.name.as_str(), machine.zone.as_deref()),
        ("7", Some("1"))
    );
    assert_eq!(
        machine.labels,
        [("rack".into(), "0x1f".into()), ("up".into(), "true".into())]
    );
}

#[test]
fn a_provider_id_prefix_limits_which_ids_are_owned() {
    let inventory =
        parse("providerIDPrefixes: ['aws:///eu-1a/']\nmachines:\n- {name: a, providerID: 'aws:///eu-1a/i-1'}").unwrap();
    assert_eq!(
        inventory.provider_id_prefixes,
        ["static://", "aws:///eu-1a/"]
    );
    assert!(inventory.owns("aws:///eu-1a/i-2") && !inventory.owns("aws:///eu-1b/i-1"));
    assert!(!inventory.owns("aws:///eu-1a/"), "that names nothing");
}

#[test]
fn rejects_more_than_64_provider_id_prefixes() {
    let machine = |number| format!("- {{name: m{number}, providerID: 's{number}://x'}}\n");
    let text = format!("machines:\n{}", (1..64).map(machine).collect::<String>());
    assert_eq!(
        parse(&text).unwrap().provider_id_prefixes.len(),
        64,
        "static:// is the first"
    );
    let listed = problems(&(text + &machine(64)));
    assert_eq!(
        listed,
        ["i: provider IDs have 65 prefixes, but at most 64 are allowed"]
    );
}

#[test]
fn rejects_more_than_64_addresses_or_labels_of_a_machine() {
    let entries =
        |of: fn(usize) -> String, count| (0..count).map(of).collect::<Vec<_>>().join(", ");
    let addresses = |count| {
        let list = entries(
            |number| format!("{{type: InternalIP, address: 10.0.0.{number}}}"),
            count,
        );
        format!("machines:\n- {{name: m, addresses: [{list}]}}")
    };
    let labels = |count| {
        let list = entries(|number| format!("l{number}: x"), count);
        format!("machines:\n- {{name: m, labels: {{{list}}}}}")
    };

    assert!(parse(&addresses(64)).is_ok() && parse(&labels(64)).is_ok());
    assert_eq!(
        problems(&addresses(65)),
        ["i:4:10: a machine can have at most 64 addresses, but this one has 65"]
    );
    assert_eq!(
        problems(&labels(65)),
        ["i:4:10: a machine can have at most 64 labels, but this one has 65"]
    );
}

#[test]
fn rejects_an_alias_bomb() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let last = level - 1;
        text.push_str(&format!(
            "a{level}: &a{level} [{}]\n",
            vec![format!("*a{last}"); 10].join(", ")
        ));
    }
    assert_eq!(problems(&text).len(), 1);
}

#[test]
fn five_thousand_machines_can_be_parsed() {
    let machine = |number: usize| {
        let (high, low) = (number / 250, number % 250);
        format!(
            "- name: worker-{number}\n  providerID: metal://{number}\n  instanceType: big\n  zone: z{}\n  region: r\n  addresses:\n  - {{type: InternalIP, address: 10.1.{high}.{low}}}\n  labels: {{rack: r{high}}}\n",
            number % 3
        )
    };
    let text = format!(
        "{HEAD}machines:\n{}",
        (0..5000).map(machine).collect::<String>()
    );
    let begin = std::time::Instant::now();

    assert_eq!(
        Inventory::parse(&text)
            .unwrap()
            .machines
            .unwrap()
            .all()
            .len(),
        5000
    );

    println!("{} KiB in {:?}", text.len() / 1024, begin.elapsed());
}
