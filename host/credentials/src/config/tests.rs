use super::*;

fn read(yaml: &str) -> Result<Vec<CredentialConfig>, String> {
    serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
}

#[test]
fn reads_every_kind_of_credential() {
    let yaml = include_str!("../../tests/data/credentials.yaml");
    let all = read(yaml).unwrap();
    let names: Vec<&str> = all.iter().map(CredentialConfig::name).collect();
    assert_eq!(
        names,
        [
            "hcloud",
            "hcloud-client",
            "robot",
            "ibm",
            "entra",
            "entra-certificate",
            "entra-workload",
            "google-key",
            "google-federated",
            "gce",
            "msi",
            "aws-static",
            "aws-shared",
            "aws-node",
            "aws-irsa",
            "aws-pod",
            "aws-ecs",
            "keystone",
            "keystone-app",
            "vcenter",
            "nsx"
        ]
    );
    assert_eq!(
        all[0].binding(),
        &Binding {
            plugin: "hcloud".to_owned(),
            digest: DigestPin::Any
        }
    );
}

#[test]
fn a_credential_is_the_same_without_its_type() {
    let yaml = include_str!("../../tests/data/credentials.yaml");
    let fields: Vec<serde_json::Map<String, serde_json::Value>> =
        serde_saphyr::from_str(yaml).unwrap();
    let of_type = fields.into_iter().map(|mut fields| {
        let kind = fields.remove("type").unwrap();
        let kind = kind.as_str().unwrap().to_owned();
        assert!(CredentialConfig::TYPES.contains(&kind.as_str()), "{kind}");
        CredentialConfig::of_type(&kind, serde_json::Value::from(fields)).unwrap()
    });
    assert_eq!(of_type.collect::<Vec<_>>(), read(yaml).unwrap());
    let unknown = CredentialConfig::of_type("magic", serde_json::json!({})).unwrap_err();
    assert!(unknown.to_string().contains("magic"), "{unknown}");
}

#[test]
fn rejects_unknown_and_missing_fields() {
    let good =
        "- {type: basic, name: a, for: {plugin: p, digest: any}, userFile: /u, passwordFile: /p}";
    assert!(read(good).is_ok());
    for (from, to, said) in [
        ("userFile", "user", "user"),
        ("type: basic", "type: magic", "magic"),
        ("digest: any", "digest: sha256:12", "64 hexadecimal digits"),
        (", digest: any", "", "digest"),
        ("plugin: p", "plugin: p, version: 1", "version"),
        ("userFile: /u, ", "", "userFile"),
    ] {
        let error = read(&good.replace(from, to)).unwrap_err();
        assert!(error.contains(said), "{to}: {error}");
    }
}

#[test]
fn a_host_can_be_outside_the_services_and_regions() {
    let config = "- {type: aws-sigv4, name: a, for: {plugin: p, digest: any}, source: {imds: {}}, services: [ec2], regions: [eu-west-1]}";
    let CredentialConfig::AwsSigv4(aws) = read(config).unwrap().remove(0) else {
        panic!("not of AWS")
    };
    for (host, excluded) in [
        ("ec2.eu-west-1.amazonaws.com", None),
        ("ec2.amazonaws.com", None),
        ("proxy.example.com", None),
        ("ec2.eu-west-2.amazonaws.com", Some("region `eu-west-2`")),
        (
            "elasticloadbalancing.eu-west-1.amazonaws.com",
            Some("service `elasticloadbalancing`"),
        ),
    ] {
        let why = aws.excludes(host);
        assert_eq!(why.is_some(), excluded.is_some(), "{host}: {why:?}");
        assert!(
            why.zip(excluded)
                .is_none_or(|(why, words)| why.starts_with(words)),
            "{host}"
        );
    }
}

#[test]
fn a_digest_admits_the_listed_plugin_files() {
    let [first, second] = ["ab", "cd"].map(|pair| pair.repeat(32));
    let binding = |digest: &str| -> Binding {
        serde_saphyr::from_str(&format!("{{plugin: p, digest: {digest}}}")).unwrap()
    };
    let one = binding(&format!("sha256:{first}"));
    let two = binding(&format!("[sha256:{first}, 'sha256:{second}']"));
    for (binding, plugin, digest, admitted) in [
        (&one, "p", format!("sha256:{first}"), true),
        (&one, "p", first.to_uppercase(), true),
        (&one, "q", first.clone(), false),
        (&one, "p", second.clone(), false),
        (&one, "p", String::new(), false),
        (&two, "p", first.clone(), true),
        (&two, "p", second, true),
        (&two, "p", "ac".repeat(32), false),
        (&binding("any"), "p", String::new(), true),
        (&binding("any"), "q", first, false),
    ] {
        assert_eq!(
            binding.admits(plugin, &digest),
            admitted,
            "{binding:?} {digest}"
        );
    }

    for wrong in ["[]", "[any]", "7", "sha256:12", "[sha256:12]"] {
        assert!(
            serde_saphyr::from_str::<DigestPin>(wrong).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn an_issuer_url_must_not_contain_a_secret() {
    for url in [
        "https://keystone.example.com:5000/v3",
        "http://169.254.169.254",
    ] {
        assert!(IssuerUrl::try_from(url.to_owned()).is_ok(), "{url}");
    }

    for url in [
        "keystone",
        "ftp://a/",
        "https://u:hunter22@a/",
        "https://a/?token=hunter22",
        "https://a/#x",
        "https:///a",
    ] {
        let error = IssuerUrl::try_from(url.to_owned()).unwrap_err();
        assert!(!error.contains("hunter22"));
    }

    let url = IssuerUrl::try_from("https://a/v3/".to_owned()).unwrap();
    assert_eq!(url.join("/auth"), "https://a/v3/auth");
}

#[test]
fn the_schema_lists_every_kind_of_credential() {
    let schema = serde_json::to_string(&schemars::schema_for!(CredentialConfig)).unwrap();
    for kind in ["header", "basic", "oauth2", "aws-sigv4", "session"] {
        assert!(
            schema.contains(&format!("\"const\":\"{kind}\"")),
            "{kind}: {schema}"
        );
    }
}
