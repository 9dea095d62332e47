use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::*;

fn name(text: &str) -> Option<(Option<usize>, String)> {
    in_configuration(text).map(|it| (it.line, it.what.to_string()))
}

#[test]
fn a_secret_is_found_in_every_format() {
    for (format, text, line) in [
        ("YAML", "global:\n  user: admin\n  password: S3cr3t\n", 2),
        ("YAML", "vcenters:\n- {user: a, password: b}\n", 1),
        ("YAML", "pass: |-\n  hunter\nuser: a\n", 1),
        ("YAML", "tokens:\n- hunter\n", 1),
        ("YAML", "- name: DB_PASSWORD\n  value: hunter\n", 1),
        (
            "JSON",
            "{\n \"aadClientId\": \"i\",\n \"aadClientSecret\": \"S\"}",
            2,
        ),
        ("JSON", "{\"password\": 12345}", 0),
        ("JSON", "{\"users\": [{\"user\": {\"token\": \"t\"}}]}", 0),
        ("TOML", "client_secret = \"S3cr3t\"", 0),
        ("TOML", "[a]\npassword = \"\"\"\nS3cr3t\"\"\"", 1),
        ("TOML", "a.b.password = 'S3cr3t'", 0),
        ("HCL", "provider \"x\" {\n  api_key = \"S\"\n}", 1),
        ("HCL", "password = <<-EOT\n  hunter\n  EOT\n", 1),
        ("INI", "[Global]\npwd=x\n", 1),
        ("INI", "[Global]\nauth-key = x\n", 1),
        ("INI", "[Global]\nsas=x\n", 1),
        ("INI", "[Global]\nconnection-string=AccountKey=x\n", 1),
        (
            "INI",
            "[VirtualCenter \"10.0.0.1\"]\nport 443\npassword=S\n",
            2,
        ),
        ("INI", "[Global]\nclient secret = x", 1),
        ("INI", "[a]\r\n  Password=x\r\n", 1),
        ("dotenv", "A=b\nexport OS_PASSWORD=x\n", 1),
        ("properties", "user=a\ndb.password:x\n", 1),
        ("properties", "user a\npassword hunter2\n", 1),
        ("XML", "<c>\n<add key=\"password\" value=\"x\"/></c>", 1),
        ("XML", "<password type=\"plain\">x</password>", 0),
        (
            "XML",
            "<a><![CDATA[]]></a><s:secret><![CDATA[x]]></s:secret>",
            0,
        ),
        ("XML", "<property name=\"password\">x</property>", 0),
        ("XML", "<name>password</name>\n<value>x</value>", 1),
        ("plist", "<key>token</key>\n<string>x</string>", 1),
        ("netrc", "machine h login u password hunter2", 0),
        ("script", "login --password hunter -u me", 0),
        (
            "form",
            "url?user=a&client%5Fsecret%3Dabc&x=client_secret%3Dabc",
            0,
        ),
        ("nested", "conf: '{\"a\": {\"token\": \"x\"}}'", 0),
        ("nested", "{\"conf\": \"{\\\"token\\\": \\\"x\\\"}\"}", 0),
        ("nested", "{\"conf\": \"[Global]\\npassword = x\"}", 0),
        ("broken", "{\"password\": \"x", 0),
        ("broken", "}}}:\n\t- [\npassword: x", 2),
    ] {
        let found = in_configuration(text).unwrap_or_else(|| panic!("{format}: {text}"));
        assert_eq!(found.line, Some(line + 1), "{format}: {text}");
    }
}

#[test]
fn a_secret_is_found_by_what_it_looks_like() {
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ1In0.c2lnbmF0dXJlLXNpZw";
    for text in [
        "ca: |\n  -----BEGIN RSA PRIVATE KEY-----\n  MIIE\n  -----END RSA PRIVATE KEY-----\n",
        "a = -----BEGIN OPENSSH PRIVATE KEY-----\\nb3Bl\\n-----END",
        &format!("x: {jwt}"),
        &format!("url: https://h/?x={jwt}"),
        "endpoint: https://user:hunter@h/",
        "aws: [AKIAIOSFODNN7EXAMPLE, wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY]",
        "x: glpat-abcdefghijklmnopqrst",
        "x: abcdef.0a1b2c3d4e5f6a7b",
        "key: 3b1f6a2e9c0d4f7a8b5c",
        "auths: {\"r.io\": {\"auth\": \"dXNlcjpodW50ZXIy\"}}",
        "a: Basic dXNlcjpodW50ZXIy",
    ] {
        assert!(in_configuration(text).is_some(), "{text}");
    }
}

#[test]
fn a_secret_does_not_hide_in_another_encoding() {
    let inner = "{\"global\": {\"password\": \"hunter\"}}";
    let wrapped: String = STANDARD
        .encode(inner.repeat(5))
        .as_bytes()
        .chunks(64)
        .map(|line| format!("  {}\n", std::str::from_utf8(line).unwrap()))
        .collect();
    let wide: String = "password: x".chars().flat_map(|c| [c, '\0']).collect();
    for text in [
        STANDARD.encode(inner),
        STANDARD.encode(STANDARD.encode(inner)),
        format!("data: {}", STANDARD.encode(inner).trim_end_matches('=')),
        format!("data: |\n{wrapped}"),
        format!("path/to/{}", STANDARD.encode(inner)),
        inner.bytes().map(|byte| format!("{byte:02x}")).collect(),
        "c: \"%7B%22password%22%3A%22x%22%7D\"".to_owned(),
        "<a b='{&quot;password&quot;: &quot;x&quot;}'/>".to_owned(),
        "x = {\\u0022password\\u0022: \\u0022x\\u0022".to_owned(),
        wide,
        "\u{feff}password: x".to_owned(),
        "{\"pass\\u0077ord\": \"x\"}".to_owned(),
        "\"pass\\x77ord\": x".to_owned(),
        "? password\n: x".to_owned(),
        "{\"a\": \"{\\u0022password\\u0022: \\u0022x\\u0022}\"}".to_owned(),
        "password: &a\n  !!str x".to_owned(),
        "password: {value: x}".to_owned(),
        "- {value: x, name: password}".to_owned(),
        "kind: Secret\nstringData: {a: b}".to_owned(),
    ] {
        assert!(in_configuration(&text).is_some(), "{text}");
    }
}

#[test]
fn comments_with_old_secrets_count() {
    for text in [
        "# password: hunter2\n",
        "username = ccm ; old password: hunter2\n",
        "region = north # token=abcdef-old-token\n",
        "; old password hunter2",
        "# password -> hunter2",
        "// secret = x\n{}",
        "<!-- <password>x</password> -->",
        "# was AKIAIOSFODNN7EXAMPLE wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    ] {
        assert!(in_configuration(text).is_some(), "{text}");
    }
    for text in [
        "# token: the one of the cluster\n",
        "region: north # The password: see the vault\n",
        "# The password is in the vault.\n",
    ] {
        assert_eq!(name(text), None, "{text}");
    }
    assert!(
        name("password: correct horse battery staple").is_some(),
        "a setting is no comment"
    );
}

#[test]
fn configurations_without_secrets_are_accepted() {
    for text in [
        "",
        "servers:\n- {name: a, address: 10.0.0.1}\n",
        "[Global]\nauth-url=https://k.example:5000/v3\nusername=u\napplication-credential-id=i\napplication-credential-secret=\"\"\n",
        "[Global]\nsecret-name = openstack-credentials\nsecret-namespace = kube-system\npassword=\n",
        "[Global]\nuse-clouds = true\nclouds-file = /etc/openstack/secret/clouds.yaml\nkey-file=/a\ntoken-file=/b\n",
        "[LoadBalancer] #for the ingress controller\nuse-octavia=True\n[LoadBalancerClass \"internal\"]\n",
        "{\"tenantId\": \"0f6c3d5e-1a2b-4c3d-8e9f-0a1b2c3d4e5f\", \"aadClientId\": \"0f6c3d5e-1a2b-4c3d-8e9f-0a1b2c3d4e5f\", \"useInstanceMetadata\": false}",
        "global:\n  secretName: login\n  secretNamespace: kube-system\n  insecureFlag: true\nvcenter:\n  a: {server: vc, datacenters: [d]}\n",
        "{\"endpoint\": \"https://127.0.0.1:8080\", \"token\": null}",
        "# The NAME of the tags kubernetes.io/cluster/NAME.\nKubernetesClusterID = my-cluster\n",
        "tokenSecretRef: {name: a, key: token}",
        "image: registry/app:v1@sha256:0f6c3d5e1a2b4c3d8e9f0a1b2c3d4e5f0f6c3d5e1a2b4c3d8e9f0a1b2c3d4e5f",
        "networks: [1b2c3d4e-1a2b-4c3d-8e9f-0a1b2c3d4e5f]\nfloating-network-id=1b2c3d4e-1a2b-4c3d-8e9f-0a1b2c3d4e5f",
        "ca: |\n  -----BEGIN CERTIFICATE-----\n  MIIBszCCAVmgAwIBAgIUQ0FBQUFBQUFBQUFBQUFBQUFBQUFBQUEwCgYIKoZIzj0E\n  -----END CERTIFICATE-----\n",
        "labels: {example.com/rack: \"1\"}\nproviderID: metal://rack-1/7\n",
    ] {
        assert_eq!(name(text), None, "{text}");
    }
}

#[test]
fn the_examples_of_this_repository_are_accepted() {
    for text in [
        include_str!("../../../../deploy/base/cloud.yaml"),
        include_str!("../../../../deploy/example/cloud.yaml"),
        include_str!("../../../../deploy/example-aws/cloud.conf"),
        include_str!("../../../../plugins/static/inventory.example.yaml"),
    ] {
        assert_eq!(name(text), None, "{text}");
    }
}

#[test]
fn a_finding_names_line_and_key_but_no_value() {
    let finding = in_configuration("a: b\nclient-secret: hunter2\n").unwrap();
    assert_eq!(finding.to_string(), "line 2: `client-secret` is a secret");
    let finding = in_configuration("{\"pass\\u0077ord\": \"hunter2\"}").unwrap();
    assert_eq!(finding.to_string(), "`password` is a secret");
}
