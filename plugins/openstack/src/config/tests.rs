use super::*;

/// The example of the official documentation with additions.
const EXAMPLE: &str = r#"
[Global]
auth-url="https://someurl"
domain-name="mydomain"
tenant-name="mytenant"
username="myuser"
password="my;pass#word"
region=RegionOne

[LoadBalancer]
floating-network-id="a57af0a0-da92-49be-a98a-345ceca004b3"
floating-subnet-id="a02eb6c3-fc69-46ae-a3fe-fb43c1563cbc"
subnet-id="fa6a4e6c-6ae4-4dde-ae86-3e2f452c1f03"
create-monitor=true
monitor-delay=60s
monitor-timeout=30s
monitor-max-retries=1
monitor-max-retries-down=3
node-selector="env=production, region=default"

[LoadBalancerClass "internetFacing"]
floating-network-id="c57af0a0-da92-49be-a98a-345ceca004b3"
floating-subnet-id="f90d2440-d3c6-417a-a696-04e55eeb9279"

[LoadBalancerClass "dmz"]
floating-subnet-id="a374bed4-e920-4c40-b646-2d8927f7f67b"

[Networking]
public-network-name=public
public-network-name=other
address-sort-order="10.0.0.0/8, 2001:db8::/32"

[Route]
router-id=r-1

[Metadata]
search-order=metadataService
request-timeout=20s

[BlockStorage]
ignore-volume-az=true
"#;

fn parse(text: &str) -> Result<Config, Problems> {
    Config::parse(text, &[])
}

/// Returns the problems of a configuration with a Keystone URL.
fn problem(text: &str) -> String {
    let problems = parse(&format!("[Global]\nauth-url=http://k\n{text}"));
    problems
        .err()
        .map(|problems| problems.in_file("cloud.conf"))
        .unwrap_or_default()
}

#[test]
fn the_official_example_is_parsed_completely() {
    let config = parse(EXAMPLE).unwrap();
    assert_eq!(config.global.auth_url, "https://someurl/v3");
    assert_eq!(config.global.region, "RegionOne");

    let lb = &config.load_balancer;
    assert_eq!(
        (lb.create_monitor, lb.monitor_delay, lb.monitor_timeout),
        (true, 60, 30)
    );
    assert_eq!(lb.class.subnet_id, "fa6a4e6c-6ae4-4dde-ae86-3e2f452c1f03");
    assert_eq!(lb.node_selector, "env=production, region=default");
    assert_eq!(
        config.classes.keys().collect::<Vec<_>>(),
        ["dmz", "internetFacing"]
    );
    assert_eq!(
        config.classes["internetFacing"].floating_network_id,
        "c57af0a0-da92-49be-a98a-345ceca004b3"
    );
    assert_eq!(config.networking.public_networks, ["public", "other"]);
    assert_eq!(config.networking.address_sort_order.len(), 2);
    assert_eq!(
        (config.router_id.as_str(), config.request_timeout.as_secs()),
        ("r-1", 20)
    );
}

#[test]
fn config_defaults_match_upstream() {
    let config = parse("[Global]\nauth-url=http://k/identity/v3/").unwrap();
    assert_eq!(config.global.auth_url, "http://k/identity/v3");
    assert_eq!(config.global.interface, Interface::Public);
    assert_eq!(config.load_balancer, LoadBalancer::default());
    assert_eq!(config.request_timeout.as_secs(), 60);
    assert_eq!(LoadBalancer::default().max_shared_lb, 2);
}

#[test]
fn section_and_setting_names_are_case_insensitive() {
    let config =
        parse("[GLOBAL]\nAuth-URL=http://k\n[loadbalancer]\nLB-METHOD=SOURCE_IP\nenabled=no")
            .unwrap();
    assert_eq!(
        (
            config.load_balancer.lb_method.as_str(),
            config.load_balancer.enabled
        ),
        ("SOURCE_IP", false)
    );
}

#[test]
fn credential_settings_may_have_any_value_or_none() {
    assert_eq!(problem("password\ntoken=\"\"\nca-file=/etc/ca.pem"), "");
}

#[test]
fn rejects_unknown_settings_with_a_suggestion() {
    assert_eq!(
        problem("[LoadBalancer]\nsubnetid=x"),
        "cloud.conf:4: unknown setting `subnetid` in section `LoadBalancer`; did you mean `subnet-id`?"
    );
    assert_eq!(
        problem("[LoadBalancers]"),
        "cloud.conf:3: unknown section `LoadBalancers`; did you mean `LoadBalancer`?"
    );
    assert_eq!(
        problem("[Router]\nrouter-id=r\nother=x"),
        "cloud.conf:3: unknown section `Router`; did you mean `Route`?"
    );
    assert_eq!(
        problem("[Route \"x\"]"),
        "cloud.conf:3: section `Route` has no subsections"
    );
    assert!(problem("[LoadBalancerClass]\nsubnet-id=x").contains("a class must have a name"));
    assert!(
        problem("[LoadBalancerClass \"a\"]\nlb-method=x").contains("unknown setting `lb-method`")
    );
}

#[test]
fn rejects_unsupported_settings_with_name_and_line() {
    for (text, message) in [
        (
            "tls-insecure=true",
            "cloud.conf:3: `tls-insecure`: certificates are always verified",
        ),
        (
            "use-clouds=true",
            "cloud.conf:3: `use-clouds`: plugins cannot read files",
        ),
        (
            "os-endpoint-type=publicURL",
            "cloud.conf:3: `os-endpoint-type`: expected `public`, `internal` or `admin`",
        ),
        (
            "secret-name=openstack-credentials",
            "cloud.conf:3: `secret-name` is not supported: plugins cannot read this Secret: move the login to",
        ),
        (
            "[LoadBalancer]\nNode-Security-Group=x",
            "cloud.conf:4: `node-security-group` is not supported: remove it: with `manage-security-groups`",
        ),
        (
            "[LoadBalancer]\nlb-version=v1",
            "cloud.conf:4: `lb-version`: only `v2`",
        ),
        (
            "[LoadBalancer]\nuse-octavia=false",
            "cloud.conf:4: `use-octavia`: only Octavia is supported",
        ),
        (
            "[LoadBalancer]\ncontainer-store=vault",
            "cloud.conf:4: `container-store`: expected",
        ),
        (
            "[LoadBalancer]\nmonitor-delay=5",
            "cloud.conf:4: `monitor-delay`: expected a duration",
        ),
        (
            "[Networking]\naddress-sort-order=10.0.0.1",
            "cloud.conf:4: `address-sort-order`: expected CIDRs",
        ),
        (
            "[LoadBalancer]\nlb-method=ROUND-ROBIN",
            "cloud.conf:4: `lb-method`: expected one of `ROUND_ROBIN`, `LEAST_CONNECTIONS`",
        ),
        (
            "auth-url=keystone:5000/v3",
            "cloud.conf:3: `auth-url`: expected a URL with a host",
        ),
        (
            "auth-url=https:///v3",
            "cloud.conf:3: `auth-url`: expected a URL with a host",
        ),
        (
            "[LoadBalancer]\ncreate-monitor=true\nmonitor-delay=10s\nmonitor-timeout=11s\nenabled=true",
            "cloud.conf:6: `monitor-timeout` is longer than `monitor-delay`",
        ),
        (
            "[LoadBalancer]\ncreate-monitor=true\nmonitor-max-retries=11",
            "cloud.conf:5: `monitor-max-retries`: expected a number from 1 to 10",
        ),
        (
            "[LoadBalancer]\ncreate-monitor=true\nmonitor-max-retries-down=0",
            "cloud.conf:5: `monitor-max-retries-down`: expected a number from 1 to 10",
        ),
        (
            "[LoadBalancerClass \"a\"]\nfloating-subnet=~pub(lic",
            "cloud.conf:4: `floating-subnet`: the pattern for the floating IP's subnet is not valid",
        ),
        (
            "[LoadBalancer]\ndefault-tls-container-ref=mine",
            "cloud.conf:4: `default-tls-container-ref`: expected the URL of a container or secret",
        ),
        (
            "[LoadBalancer]\nenable-ingress-hostname=true\ningress-hostname-suffix=",
            "cloud.conf:5: `ingress-hostname-suffix`: `enable-ingress-hostname` needs a domain",
        ),
        // The default of the delay is 5 s.
        (
            "[LoadBalancer]\nmonitor-timeout=6s\ncreate-monitor=true",
            "cloud.conf:4: `monitor-timeout` is longer than `monitor-delay`",
        ),
        (
            "[Metadata]\nsearch-order=disk",
            "cloud.conf:4: `search-order`: expected one or both",
        ),
    ] {
        assert!(
            problem(text).starts_with(message),
            "{text}: {}",
            problem(text)
        );
    }
    for text in [
        "tls-insecure=false\nuse-clouds=false\n[LoadBalancer]\nuse-octavia=true",
        "auth-url=HTTPS://[::1]:5000/v3",
        "[LoadBalancer]\nlb-method=SOURCE_IP_PORT",
        "[LoadBalancer]\nlb-method=",
        "[LoadBalancer]\ncreate-monitor=true\nmonitor-delay=10s\nmonitor-timeout=10s",
        // Without monitors, it does no harm, and files in use have it.
        "[LoadBalancer]\nmonitor-timeout=30s",
        "[Metadata]\nsearch-order=\"\"",
        "[LoadBalancer]\ndefault-tls-container-ref=mine\ncontainer-store=external",
        "[LoadBalancer]\ndefault-tls-container-ref=https://b/v1/secrets/1",
        // Not Barbican, as in upstream.
        "[LoadBalancer]\ndefault-tls-container-ref=mine\ncontainer-store=",
        "[LoadBalancer]\ningress-hostname-suffix=",
    ] {
        assert_eq!(problem(text), "", "{text}");
    }
}

#[test]
fn the_default_method_depends_on_the_provider() {
    for (settings, method) in [
        ("", "ROUND_ROBIN"),
        ("lb-provider=octavia", "ROUND_ROBIN"),
        ("lb-provider=ovn", "SOURCE_IP_PORT"),
        ("lb-provider=ovn\nlb-method=", "SOURCE_IP_PORT"),
        (
            "lb-method=SOURCE_IP_PORT\nlb-provider=ovn",
            "SOURCE_IP_PORT",
        ),
    ] {
        let text = format!("[Global]\nauth-url=http://k\n[LoadBalancer]\n{settings}");
        assert_eq!(
            parse(&text).unwrap().load_balancer.lb_method,
            method,
            "{settings}"
        );
    }
    assert_eq!(
        problem("[loadbalancer]\nLB-method=ROUND_ROBIN\nlb-provider=ovn"),
        "cloud.conf:4: `lb-method`: `lb-provider=ovn` supports only `SOURCE_IP_PORT`, its default: remove the setting"
    );
}

/// The setting that a rule misses may be the one that was rejected.
#[test]
fn a_rejected_setting_causes_no_second_problem() {
    for text in [
        "[LoadBalancer]\ncreate-monitor=true\nmonitor-timeout=10s\nmonitor-delay=20",
        "[LoadBalancer]\ncreate-monitor=true\nmonitor-timeout=10s\nmonitor-dellay=20s",
        "[LoadBalancer]\ncreate-monitor=true\nmonitor-timeout=10s\nmonitor-delay=\"20s",
        "[LoadBalancer]\ndefault-tls-container-ref=mine\ncontainer-store=vault",
        "[LoadBalancer]\nlb-provider=ovn\nlb-method=ROUND-ROBIN",
        "[LoadBalancer]\nenable-ingress-hostname=true\ningress-hostname-suffix=\ningress-hostname-sufix=example.com",
        "region",
    ] {
        let options = [("regional-provider-ids".to_owned(), "true".to_owned())];
        let text = format!("[Global]\nauth-url=http://k\n{text}");
        let options = if text.ends_with("region") {
            &options[..]
        } else {
            &[]
        };
        let problems = Config::parse(&text, options).unwrap_err();
        assert_eq!(problems.0.len(), 1, "{text}: {problems:?}");
    }

    // Problems of other sections are independent.
    let problems = problem("[Routes]\n[LoadBalancer]\ncreate-monitor=true\nmonitor-timeout=10s");
    assert!(
        problems.contains("`Routes`") && problems.contains("`monitor-timeout`"),
        "{problems}"
    );
}

#[test]
fn error_messages_never_quote_values() {
    assert!(!problem("os-endpoint-type=S3cret").contains("S3cret"));
    assert!(!problem("[LoadBalancer]\nmonitor-delay=S3cret").contains("S3cret"));
}

#[test]
fn auth_url_is_required() {
    let wrong = parse("[Global]\nauth-url=keystone:5000").unwrap_err();
    assert_eq!(wrong.0.len(), 1, "it is not missing");
    let message = parse("[Global]\nregion=x")
        .unwrap_err()
        .in_file("cloud.conf");
    assert_eq!(
        message,
        "cloud.conf: `auth-url` is missing in section `Global`: set it to the URL of Keystone"
    );
}

#[test]
fn regional_provider_ids_are_a_plugin_option() {
    let options = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
    let text = "[Global]\nauth-url=http://k\nregion=r";
    assert!(
        Config::parse(text, &options("regional-provider-ids", "true"))
            .unwrap()
            .regional_ids
    );
    assert!(
        Config::parse(
            "[Global]\nauth-url=http://k",
            &options("regional-provider-ids", "true")
        )
        .is_err()
    );

    let missing = Config::parse("", &options("regional-provider-ids", "true")).unwrap_err();
    assert_eq!(
        missing.in_file("f"),
        "f: `auth-url` is missing in section `Global`: set it to the URL of Keystone; \
         f: option `regional-provider-ids` needs `region` in section `Global`"
    );

    let message = Config::parse(text, &options("regional-provider-id", "true"))
        .unwrap_err()
        .in_file("f");
    assert_eq!(
        message,
        "f: unknown option `regional-provider-id`; did you mean `regional-provider-ids`?"
    );
}
