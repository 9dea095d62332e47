use std::sync::Arc;

use http::Method;
use skydock_credentials::{
    CredentialMetrics, Credentials, Dependencies, SystemClock, config::ClientCertificateConfig,
};

use super::*;
use crate::{HostIssuer, rules::compiled::warnings};

fn rules(yaml: &str) -> Vec<EgressRule> {
    serde_saphyr::from_str(yaml).expect(yaml)
}

fn settings(yaml: &str) -> Settings {
    let certificate =
        "{name: client, for: {plugin: p, digest: any}, certFile: /cert, keyFile: /key}";
    let certificate: ClientCertificateConfig = serde_saphyr::from_str(certificate).unwrap();
    Settings {
        rules: rules(yaml),
        certificates: [("client".to_owned(), certificate.certificate())].into(),
        ..Settings::default()
    }
}

fn read(yaml: &str) -> Result<Vec<CompiledRule>, ConfigErrors> {
    compile(&settings(yaml))
}

#[test]
fn a_rule_needs_only_a_name_and_a_target() {
    let rules = read("[{name: api, to: 'https://*.example.com:443'}]").unwrap();
    let [rule] = rules.as_slice() else {
        panic!("{rules:?}")
    };
    assert_eq!(rule.methods, METHODS);
    assert_eq!(rule.limits, Limits::default());
    assert_eq!(rule.guest_auth, crate::GuestAuth::Denied);
    assert!(rule.paths.is_empty() && rule.actions.is_empty() && rule.credential.is_none());
    assert!(warnings(&rules).is_empty());
}

#[test]
fn only_headers_that_a_plugin_may_send_can_be_listed() {
    let list = |field: &str| {
        read(&format!(
            "[{{name: a, to: 'https://api.example.com:443', {field}}}]"
        ))
    };
    let rules = list("headers: [X-Feature, x-my-*, X-My-Token], queryParameters: [Key]").unwrap();
    let listed = &rules[0].listed;
    assert!(listed.allows("x-feature") && listed.allows("x-my-token"));
    assert!(listed.has_parameter("key") && !listed.has_parameter("token"));
    for (field, expected) in [
        ("headers: [X-Forwarded-For]", "is never sent"),
        ("headers: [X-Remote-User]", "is never sent"),
        ("headers: [Authorization]", "guestAuth"),
        ("headers: [cookie]", "guestAuth"),
        ("headers: [X-HTTP-Method-Override]", "always denied"),
        ("headers: [x-original-url]", "always denied"),
        ("headers: [Host]", "set by Skydock"),
        ("headers: [transfer-encoding]", "set by Skydock"),
        ("headers: ['a b']", "not a valid header"),
        ("queryParameters: ['a b']", "not a valid name"),
    ] {
        let error = list(field).unwrap_err().to_string();
        assert!(error.contains(expected), "{field}: {error}");
    }
}

#[test]
fn names_consist_of_lower_case_letters_digits_and_dashes() {
    let longest = "a".repeat(63);
    let too_long = "a".repeat(64);
    for (name, expected) in [
        ("a", true),
        ("ec2-v2", true),
        ("2", true),
        ("-", true),
        (&longest, true),
        (&too_long, false),
        ("", false),
        ("A", false),
        ("a_b", false),
        ("a b", false),
    ] {
        assert_eq!(is_name(name), expected, "{name}");
    }
}

#[test]
fn every_field_of_a_rule_is_read() {
    let yaml = "
- name: api
  to: https://api.example.com:443
  methods: [GET, POST]
  paths: [/v3/, /v2.0]
  actions: [Describe*]
  reads: [Describe*]
  addresses: [10.0.0.0/8, 127.0.0.1]
  guestAuth: allowed
  tls: { caFile: /ca, clientCertificate: client, serverName: other.example, pin: 'sha256:00:PIN' }
  proxy: http://proxy:3128
  limits: { connect: 1s, firstByte: 2s, betweenBytes: 3s, total: 4s, requestBody: 5KiB, responseBody: 6MiB, concurrency: 7, rate: 0.5, burst: 9, pause: 8s }
";
    let yaml = yaml.replace("PIN", &"1f".repeat(31));
    let rule = read(&yaml).unwrap().remove(0);
    assert_eq!(rule.methods, [Method::GET, Method::POST]);
    assert!(rule.allows_path("/v2.0/x") && !rule.allows_path("/v1"));
    assert_eq!(
        rule.addresses.opened,
        ["10.0.0.0/8", "127.0.0.1/32"].map(|it| it.parse().unwrap())
    );
    assert_eq!(rule.pin.unwrap()[..2], [0, 0x1f]);
    assert_eq!(rule.proxy.unwrap().to_string(), "http://proxy:3128");
    let seconds = Duration::from_secs;
    let expected = Limits {
        connect: seconds(1),
        first_byte: seconds(2),
        between_bytes: seconds(3),
        total: Some(seconds(4)),
        request_body: 5 << 10,
        response_body: 6 << 20,
        concurrency: 7,
        rate: 0.5,
        burst: 9,
        pause: Duration::from_secs(8),
    };
    assert_eq!(rule.limits, expected);
}

#[test]
fn an_error_names_the_rule_the_field_and_the_fix() {
    let table = [
        ("name: API", "name", "lower-case"),
        ("to: https://api.example.com", "to", "for example `:443`"),
        ("to: 'http://169.254.169.254:80'", "to", "use a credential"),
        (
            "to: 'https://[::ffff:169.254.169.254]:443'",
            "to",
            "use a credential",
        ),
        (
            "to: 'http://metadata.google.internal:80'",
            "to",
            "use a credential",
        ),
        ("methods: [CONNECT]", "methods", "one of GET"),
        ("methods: [get]", "methods", "one of GET"),
        ("paths: [v3]", "paths", "expected for example /v3/"),
        ("paths: [/v3/../x]", "paths", "dot segment"),
        ("actions: ['a b']", "actions", "not a valid action"),
        ("reads: ['?']", "reads", "not a valid action"),
        ("addresses: [10.0.0.0/33]", "addresses", "10.1.0.0/16"),
        (
            "addresses: ['::ffff:169.254.169.254']",
            "addresses",
            "is always denied",
        ),
        (
            "addresses: [169.254.169.254/32]",
            "addresses",
            "is always denied",
        ),
        ("credential: keystone", "credential", "under `credentials`"),
        (
            "tls: {certFile: /cert, keyFile: /key}",
            "tls",
            "type: client-certificate, for: {plugin: NAME, digest: any}, certFile: /cert, keyFile: /key}",
        ),
        (
            "tls: {keyFile: /key}",
            "tls",
            "clientCertificate: api-client",
        ),
        (
            "tls: {clientCertificate: other}",
            "tls",
            "unknown client certificate `other`",
        ),
        ("tls: {pin: 'sha256:00'}", "tls", "64 hexadecimal digits"),
        ("tls: {serverName: 'a b'}", "tls", "neither a DNS name"),
        ("proxy: 'https://proxy:3128'", "proxy", "http://host:port"),
        (
            "proxy: 'http://user:pass@proxy:3128'",
            "proxy",
            "user and password",
        ),
        (
            "limits: {connect: 61s}",
            "limits.connect",
            "from 1ms to 1m;",
        ),
        ("limits: {pause: 601s}", "limits.pause", "from 1ms to 10m;"),
        (
            "limits: {total: 0s}",
            "limits.total",
            "not a valid duration",
        ),
        (
            "limits: {requestBody: 65MiB}",
            "limits.requestBody",
            "up to 64MiB",
        ),
        (
            "limits: {concurrency: 0}",
            "limits.concurrency",
            "expected 1 to 64",
        ),
        ("limits: {rate: 0}", "limits.rate", "expected 0.01"),
    ];
    for (field, name, what) in table {
        let key = field.split(':').next().unwrap();
        let base = ["name: api", "to: 'https://api.example.com:443'"];
        let base: Vec<_> = base
            .iter()
            .filter(|it| it.split(':').next() != Some(key))
            .map(|it| format!("  {it}\n"))
            .collect();
        let yaml = format!("- {field}\n{}", base.concat());
        let errors = read(&yaml).expect_err(&yaml);
        let error = errors.iter().next().unwrap();
        assert_eq!(error.field(), name, "{yaml}");
        assert!(error.to_string().contains(what), "{error}");
        assert!(error.rule() == "api" || name == "name", "{error}");
    }
}

// Holds: SEC-36
#[test]
fn a_wildcard_with_a_credential_is_confirmed_or_rejected() {
    let configs = "
- {type: header, name: token, for: {plugin: a, digest: any}, valueFile: /nowhere/token}
- {type: aws-sigv4, name: keys, for: {plugin: a, digest: any}, source: {imds: {}}, services: [ec2], regions: [eu-west-1]}
";
    let dependencies = Dependencies {
        issuers: Box::new(|_| Arc::new(HostIssuer::new(TlsConfig::default(), None))),
        clock: Arc::new(SystemClock),
        metrics: CredentialMetrics::default(),
    };
    let configs: Vec<_> = serde_saphyr::from_str(configs).unwrap();
    let credentials = Credentials::new(&configs, &dependencies).unwrap().all();
    let confirmed = "wildcardCredential: allowed";
    for (host, fields, expected) in [
        ("*.cloud.example", "", None),
        ("*.cloud.example", "guestAuth: allowed", None),
        ("api.cloud.example", "credential: token", None),
        (
            "*.cloud.example",
            "credential: token",
            Some("`wildcardCredential: allowed`"),
        ),
        ("*.cloud.example", "credential: keys", None),
        ("*.eu-west-1.amazonaws.com", "credential: keys", None),
        ("*.amazonaws.com", "credential: keys", None),
        (
            "*.amazonaws.com",
            "credential: token",
            Some("the cloud's customers"),
        ),
        (
            "*.azure.com",
            "credential: token",
            Some("the cloud's customers"),
        ),
        ("*.co.uk", "", None),
        ("*.co.uk", "credential: token", Some("anybody can register")),
        ("*.co.uk", "credential: keys", Some("anybody can register")),
        (
            "*.s3.amazonaws.com",
            "credential: keys",
            Some("anybody can register"),
        ),
    ] {
        for confirms in [false, true] {
            let fields = [fields, if confirms { confirmed } else { "" }];
            let fields = fields.map(|it| format!(", {it}")).concat();
            let yaml = format!(
                "[{{name: api, to: 'https://{host}:443'{}}}]",
                fields.trim_end_matches(", ")
            );
            let yaml = yaml.replace(", , ", ", ").replace(", }", "}");
            let with = Settings {
                credentials: credentials.clone(),
                ..settings(&yaml)
            };
            let told = compile(&with).err();
            let expected = expected.filter(|what| !confirms || !what.contains('`'));
            let told = told.map(|errors| errors.to_string());
            assert_eq!(told.is_some(), expected.is_some(), "{yaml}: {told:?}");
            assert!(
                told.zip(expected)
                    .is_none_or(|(told, what)| told.contains(what)),
                "{yaml}"
            );
        }
    }
}

#[test]
fn all_errors_are_reported_at_once() {
    let errors =
        read("[{name: a, to: x}, {name: a, to: 'http://a.b:80', tls: {caFile: /ca}}]").unwrap_err();
    let fields: Vec<_> = errors.iter().map(ConfigError::field).collect();
    assert_eq!(fields, ["to", "name", "tls"]);
    assert!(
        errors
            .to_string()
            .contains("; egress rule `a`, field `tls`"),
        "{errors}"
    );
}

#[test]
fn rejects_unknown_fields() {
    for yaml in [
        "[{name: a, to: b, path: /v3}]",
        "[{name: a, to: b, limits: {conect: 5s}}]",
        "[{name: a, to: b, tls: {insecure: true}}]",
    ] {
        assert!(
            serde_saphyr::from_str::<Vec<EgressRule>>(yaml).is_err(),
            "{yaml}"
        );
    }
}

#[test]
fn warns_about_rules_that_may_be_unintended() {
    let table = [
        (
            "[{name: a, to: 'https://a.b:443', addresses: [127.0.0.1/32]}]",
            "this machine",
        ),
        (
            "[{name: a, to: 'https://a.b:443', addresses: [0.0.0.0/0]}]",
            "every private network",
        ),
        (
            "[{name: a, to: 'https://a.b:443', addresses: ['::ffff:10.0.0.0/104']}]",
            "no effect",
        ),
        (
            "[{name: a, to: 'https://a.b:443', addresses: [224.0.0.0/4]}]",
            "no effect",
        ),
        (
            "[{name: a, to: 'https://a.b:443', addresses: ['64:ff9b::/96']}]",
            "no effect",
        ),
        (
            "[{name: a, to: 'https://10.0.0.1:443'}]",
            "otherwise all requests are denied",
        ),
        (
            "[{name: a, to: 'http://a.b:80', guestAuth: allowed}]",
            "unencrypted",
        ),
        (
            "[{name: a, to: 'https://*.a.b:443'}, {name: b, to: 'https://c.a.b:443', paths: [/x]}]",
            "`b` has no effect",
        ),
        (
            "[{name: a, to: 'https://c.a.b:443', methods: [GET]}, {name: b, to: 'https://*.a.b:443', guestAuth: allowed}]",
            "those of `a` apply",
        ),
    ];
    for (yaml, what) in table {
        let all = warnings(&read(yaml).unwrap());
        assert!(
            all.iter().any(|warning| warning.to_string().contains(what)),
            "{yaml}: {all:?}"
        );
    }

    let open = "[{name: a, to: 'https://a.b:443', addresses: [10.0.0.0/8, 100.64.0.0/10, 192.0.0.0/8, 'fd00::/8', '2001:db8::/31']}]";
    assert!(warnings(&read(open).unwrap()).is_empty());
    let apart = "[{name: a, to: 'https://a.b:443', paths: [/x]}, {name: b, to: 'https://a.b:443', paths: [/y], guestAuth: allowed}]";
    assert!(warnings(&read(apart).unwrap()).is_empty());
    let alike =
        "[{name: a, to: 'https://a.b:443', methods: [GET]}, {name: b, to: 'https://a.b:443'}]";
    assert!(warnings(&read(alike).unwrap()).is_empty());
}

#[test]
fn a_nat64_prefix_has_a_length_of_rfc_6052() {
    for (prefix, expected) in [("2001:db8::/33", false), ("2001:db8::/32", true)] {
        let settings = Settings {
            nat64: vec![prefix.parse().unwrap()],
            ..Settings::default()
        };
        assert_eq!(compile(&settings).is_ok(), expected, "{prefix}");
    }
}

proptest::proptest! {
    #[test]
    fn compile_does_not_panic_on_any_text(to in ".{0,40}", path in ".{0,20}", action in ".{0,10}", size in ".{0,8}") {
        let rule = EgressRule { name: "a".into(), to, methods: vec![], paths: vec![path], actions: vec![action.clone()], reads: vec![action], addresses: vec![size.clone()], credential: None, mode: Mode::Enforce, wildcard_credential: WildcardCredential::Denied, headers: vec![], query_parameters: vec![], guest_auth: crate::GuestAuth::Denied, tls: None, proxy: Some(size.clone()), limits: RuleLimits { connect: Some(size.clone()), request_body: Some(size), ..RuleLimits::default() } };
        let _ = compile(&Settings { rules: vec![rule], ..Settings::default() });
    }

    #[test]
    fn any_rule_round_trips_through_text(label in "[a-z][a-z0-9]{0,8}", port in 1_u16.., wild: bool) {
        let text = format!("https://{}{label}.example.com:{port}", if wild { "*." } else { "" });
        let rule: TargetPattern = text.parse().unwrap();
        proptest::prop_assert_eq!(rule.to_string(), text);
    }
}

#[test]
fn rejects_empty_lists_of_methods_paths_and_actions() {
    for list in ["methods", "paths", "actions"] {
        for empty in ["[]", "", "null"] {
            let text = format!("[{{name: a, to: 'https://a.b:443', {list}: {empty}}}]");
            let read: Result<Vec<EgressRule>, _> = serde_saphyr::from_str(&text);
            assert!(read.is_err(), "{text}");
        }
    }
}
