use super::*;

fn policy(digest: &str) -> EgressPolicy {
    let credentials = format!(
        "[{{type: header, name: api, for: {{plugin: a, digest: {digest}}}, valueFile: /nowhere/token}}]"
    );
    let rules = "[{name: open, to: 'https://a.example:443'}, {name: known, to: 'https://b.example:443', credential: api}]";
    let (rules, credentials) = (
        serde_saphyr::from_str(rules),
        serde_saphyr::from_str(&credentials),
    );
    EgressPolicy {
        rules: rules.unwrap(),
        credentials: credentials.unwrap(),
        nat64: Vec::new(),
        audit: None,
    }
}

/// Returns the errors of the network access.
fn check(plugin: &str, policy: &EgressPolicy) -> Result<(), String> {
    let errors = review(plugin, policy).errors.into_iter();
    let sentences: Vec<_> = errors.map(|finding| finding.sentence).collect();
    if sentences.is_empty() {
        Ok(())
    } else {
        Err(sentences.join("; "))
    }
}

fn rules(plugin: &str, policy: &EgressPolicy, digest: &str) -> Vec<String> {
    let credentials = credentials(policy, &CredentialMetrics::default()).unwrap();
    let active = ActivePolicy {
        policy: policy.clone(),
        credentials,
    };
    let settings = settings(plugin, &active, digest).unwrap();
    let denies = |rule: &EgressRule| {
        let credential = rule
            .credential
            .as_ref()
            .map(|name| format!("{:?}", settings.credentials[name]));
        credential.is_some_and(|credential| credential.starts_with("Withheld"))
    };
    let name =
        |rule: &EgressRule| format!("{}{}", rule.name, if denies(rule) { " denies" } else { "" });
    settings.rules.iter().map(name).collect()
}

// Holds: SEC-19
#[test]
fn a_credential_is_bound_to_one_plugin_and_digest() {
    let one = "1".repeat(64);
    let other = "2".repeat(64);
    let pinned = policy(&format!("'sha256:{one}'"));
    assert_eq!(rules("a", &pinned, &one), ["open", "known"]);
    assert_eq!(
        rules("a", &pinned, &other),
        ["open", "known denies"],
        "another component"
    );
    assert_eq!(
        rules("b", &pinned, &one),
        ["open", "known denies"],
        "another plugin"
    );
    assert_eq!(rules("a", &policy("any"), &other), ["open", "known"]);
}

fn with_certificate(digest: &str) -> EgressPolicy {
    let credentials = format!(
        "[{{type: client-certificate, name: client, for: {{plugin: a, digest: {digest}}}, certFile: /nowhere/cert, keyFile: /nowhere/key}}]"
    );
    let rules = "[{name: open, to: 'https://a.example:443'}, {name: known, to: 'https://b.example:443', tls: {clientCertificate: client}}]";
    EgressPolicy {
        rules: serde_saphyr::from_str(rules).unwrap(),
        credentials: serde_saphyr::from_str(&credentials).unwrap(),
        ..EgressPolicy::default()
    }
}

// Holds: SEC-19
#[test]
fn a_client_certificate_is_bound_like_a_credential() {
    let one = "1".repeat(64);
    let other = "2".repeat(64);
    let pinned = with_certificate(&format!("'sha256:{one}'"));
    assert_eq!(rules("a", &pinned, &one), ["open", "known"]);
    assert_eq!(rules("a", &pinned, &other), ["open", "known denies"]);
    assert_eq!(rules("b", &pinned, &one), ["open", "known denies"]);

    check("a", &pinned).unwrap();
    let mut wrong = pinned.clone();
    wrong.rules[1].credential = Some("client".to_owned());
    let error = check("a", &wrong).unwrap_err().to_string();
    assert!(error.contains("`tls.clientCertificate`"), "{error}");

    let unknown = EgressPolicy {
        credentials: Vec::new(),
        ..pinned
    };
    let error = check("a", &unknown).unwrap_err().to_string();

    assert!(
        error.contains("unknown client certificate `client`"),
        "{error}"
    );
}

#[test]
fn a_client_certificate_is_presented_to_issuers_of_its_plugin() {
    let mut policy = with_certificate("any");
    policy.credentials.extend(self::policy("any").credentials);
    policy.rules[1].credential = Some("api".to_owned());
    let presented = |policy: &EgressPolicy| {
        let (_, certificate) = issuers_tls(policy, "api").unwrap();
        certificate.map(|it| it.name)
    };
    assert_eq!(presented(&policy).as_deref(), Some("client"));

    let other = policy.credentials[0].clone();
    if let CredentialConfig::ClientCertificate(mut other) = other {
        other.binding.plugin = "b".to_owned();
        policy.credentials[0] = CredentialConfig::ClientCertificate(other);
    }
    assert_eq!(presented(&policy), None);
}

#[test]
fn rules_with_a_credential_for_others_are_known() {
    let one = "1".repeat(64);
    let two = "2".repeat(64);
    let other = "3".repeat(64);
    let pinned = policy(&format!("['sha256:{one}', 'sha256:{two}']"));
    let egress = Egress::new("a", pinned, Vec::new(), &mut Registry::default()).unwrap();
    let withheld = |digest: &str| {
        let rules = egress.withheld(digest).into_iter();
        rules.map(|it| it.rule).collect::<Vec<_>>()
    };
    assert!(withheld(&one).is_empty() && withheld(&two).is_empty());
    assert_eq!(withheld(&other), ["known"]);
}

#[test]
fn each_component_digest_has_its_own_gateway() {
    let egress = Egress::new("a", policy("any"), Vec::new(), &mut Registry::default()).unwrap();
    let first = egress.gateway("1");
    assert!(
        Arc::ptr_eq(&first, &egress.gateway("1")) && !Arc::ptr_eq(&first, &egress.gateway("2"))
    );

    let unknown = EgressPolicy {
        credentials: Vec::new(),
        ..policy("any")
    };
    let rejected = egress.update(unknown).unwrap_err().to_string();
    assert_eq!(rejected, "egress rule `known`: unknown credential `api`");

    egress.update(EgressPolicy::default()).unwrap();
    assert!(
        Arc::ptr_eq(&first, &egress.gateway("1")),
        "its rules are others"
    );
}

#[test]
fn a_changed_rule_keeps_credentials_logged_in() {
    let egress = Egress::new("a", policy("any"), Vec::new(), &mut Registry::default()).unwrap();
    let credential = || {
        egress
            .state()
            .active
            .credentials
            .bind("api", "a", "sha256:1")
            .unwrap()
    };
    let first = credential();
    let mut next = policy("any");
    next.rules.remove(0);
    egress.update(next.clone()).unwrap();
    assert!(
        Arc::ptr_eq(&first, &credential()),
        "what it got from its issuer is kept"
    );

    next.rules[0].tls = serde_saphyr::from_str("{serverName: b.example}").unwrap();
    egress.update(next.clone()).unwrap();
    let trusted = credential();
    assert!(
        !Arc::ptr_eq(&first, &trusted),
        "its issuer is trusted in another way"
    );

    next.credentials = serde_saphyr::from_str(
        "[{type: header, name: api, for: {plugin: a, digest: any}, valueFile: /nowhere/other}]",
    )
    .unwrap();
    egress.update(next).unwrap();

    assert!(
        !Arc::ptr_eq(&trusted, &credential()),
        "it is another file's"
    );
}

// Holds: SEC-16
#[tokio::test]
async fn the_addresses_of_the_api_server_are_closed() {
    let egress = Egress::new("a", policy("any"), Vec::new(), &mut Registry::default()).unwrap();
    let closed = || (egress.dependencies.closed)().api_server;
    egress.closed.find_api_server("10.20.0.1", 6443).await;
    egress.closed.find_api_server("localhost", 443).await;
    assert!(
        closed().contains(&"10.20.0.1:6443".parse().unwrap()),
        "{:?}",
        closed()
    );
    assert!(
        closed()
            .iter()
            .any(|address| address.ip().is_loopback() && address.port() == 443),
        "{:?}",
        closed()
    );

    let known = closed();
    egress.closed.find_api_server("nowhere.invalid", 443).await;
    assert_eq!(closed(), known, "a name that leads nowhere opens nothing");
    let is_api_server = |address: &str| egress.is_api_server(address.parse().unwrap());
    assert!(is_api_server("10.20.0.1") && !is_api_server("10.20.0.2"));
}

// Holds: SEC-16
#[test]
fn configured_nat64_prefixes_count_for_addresses_that_are_written() {
    let policy = EgressPolicy {
        nat64: vec!["2001:db8:64::/96".parse().unwrap()],
        ..policy("any")
    };
    let egress = Egress::new("a", policy, Vec::new(), &mut Registry::default()).unwrap();

    for (address, leads_to) in [
        ("2001:db8:64::a60:1", "10.96.0.1"),
        ("2001:db8:65::a60:1", "2001:db8:65::a60:1"),
        ("10.96.0.1", "10.96.0.1"),
    ] {
        let address = address.parse().unwrap();
        assert_eq!(egress.translated(address).to_string(), leads_to);
    }
}

#[test]
fn operating_md_lists_every_egress_metric() {
    let page = include_str!("../../../../docs/operating.md");
    // Metrics without values are not exported, so the sources with their registration are searched.
    let of = |prefix: &str, source: &str| -> Vec<String> {
        let calls = source
            .split("registry.register")
            .skip(1)
            .filter(|call| call.starts_with(['(', '_']));
        calls
            .filter_map(|call| Some(format!("{prefix}_{}", call.split('"').nth(1)?)))
            .collect()
    };
    let egress = of(
        "skydock_egress",
        include_str!("../../../egress/src/observe/metrics.rs"),
    );
    let credentials = of(
        "skydock_credential",
        include_str!("../../../credentials/src/sources/metrics.rs"),
    );
    assert!(
        egress.len() >= 8 && credentials.len() == 1,
        "{egress:?} {credentials:?}"
    );

    let missing: Vec<_> = egress
        .iter()
        .chain(&credentials)
        .filter(|name| !page.contains(*name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn broken(digest: &str) -> EgressPolicy {
    let mut broken = policy(&format!("'sha256:{digest}'"));
    broken.rules[1].methods = vec!["NONE".to_owned()];
    broken
}

#[test]
fn rules_for_a_specific_digest_are_checked_too() {
    let review = review("a", &broken(&"1".repeat(64)));
    let subjects: Vec<_> = review.errors.iter().map(|it| it.subject.clone()).collect();
    assert_eq!(subjects, [Subject::Rule(1, "methods", Some(0))]);
}

#[test]
fn rules_invalid_for_one_component_change_no_gateway() {
    let ones = "1".repeat(64);
    let others: Vec<String> = (2..9)
        .map(|digit: u32| digit.to_string().repeat(64))
        .collect();
    let egress = Egress::new(
        "a",
        policy(&format!("'sha256:{ones}'")),
        Vec::new(),
        &mut Registry::default(),
    );
    let egress = egress.unwrap();
    let gateways: Vec<_> = others
        .iter()
        .chain([&ones])
        .map(|digest| egress.gateway(digest))
        .collect();
    let mut next = broken(&ones);
    let warnings = || gateways.iter().map(|gateway| gateway.warnings());
    let before: Vec<_> = warnings().collect();
    // A change that is visible in the warnings.
    next.rules[0].addresses = vec!["0.0.0.0/0".to_owned()];
    egress.update(next).unwrap_err();
    assert_eq!(warnings().collect::<Vec<_>>(), before);
}

// Holds: SEC-38
#[test]
fn an_audit_starts_and_ends_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let audited = |file: &std::path::Path| EgressPolicy {
        audit: serde_saphyr::from_str(&format!("{{file: {}}}", file.display())).unwrap(),
        ..policy("any")
    };
    let egress = Egress::new("a", policy("any"), Vec::new(), &mut Registry::default()).unwrap();
    let is_on = || egress.dependencies.audit.load().is_some();
    assert!(!is_on());
    egress.update(audited(&file)).unwrap();
    assert!(is_on() && file.exists());
    let nowhere = folder.path().join("nowhere/audit.jsonl");
    let rejected = egress.update(audited(&nowhere)).unwrap_err().to_string();
    assert!(rejected.starts_with("audit: cannot open"), "{rejected}");
    assert!(is_on(), "the previous one stays");
    egress.update(policy("any")).unwrap();
    assert!(!is_on());
    check("a", &audited(&nowhere)).unwrap();

    let new = |file| Egress::new("a", audited(file), Vec::new(), &mut Registry::default());
    let egress = new(&file).unwrap();
    assert!(egress.dependencies.audit.load().is_some(), "from the start");
    let rejected = new(&nowhere).err().unwrap().to_string();
    assert!(rejected.starts_with("audit: cannot open"), "{rejected}");
}
