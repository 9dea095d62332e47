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
        ("YAML", "passwords:\n  admin: hunter2\n", 1),
        ("YAML", "db:\n  secrets:\n    root: hunter2\n", 2),
        ("YAML", "args:\n- --password\n- hunter2\n", 2),
        ("YAML", "args: [--password, hunter2]\n", 0),
        ("YAML", "env: [[OS_PASSWORD, hunter2]]\n", 0),
        (
            "YAML",
            "env:\n- name: OS_PASSWORD\n  description: a\n  value: x\n",
            3,
        ),
        ("JSON", "{\"tokens\": {\n\"prod\": \"hunter2\"}}", 1),
        ("JSON", "{\"args\": [\"--password\", \"hunter2\"]}", 0),
        (
            "JSON",
            "// env\n[{\"name\": \"OS_PASSWORD\", \"type\": \"string\", \"value\": \"x\"}]",
            1,
        ),
        ("TOML", "[secrets]\ndb = \"hunter2\"", 1),
        ("INI", "[passwords]\nadmin = hunter2\n", 1),
        ("INI", "[a]\npassword = #hunter2\n", 1),
        ("INI", "[default]\nclient_token = akab-3b1f6a2e9c0d\n", 1),
        (
            "HCL",
            "variable \"db_password\" {\n  type = string\n  default = \"x\"\n}",
            2,
        ),
        ("HCL", "password {\n  value = \"x\"\n}", 1),
        ("properties", "user a\nsecret hunter2\n", 1),
        (
            "properties",
            "aws_secret_access_key wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n",
            0,
        ),
        ("XML", "<passwords>\n<admin>hunter2</admin></passwords>", 1),
        ("XML", "<password><value>x</value></password>", 0),
        ("XML", "<password><!-- new -->x</password>", 0),
        (
            "XML",
            "<property name=\"password\">\n<value>x</value></property>",
            1,
        ),
        (
            "XML",
            "<setting name=\"ApiPassword\" serializeAs=\"String\"><value>x</value></setting>",
            0,
        ),
        (
            "XML",
            "<property name=\"password\" type=\"string\" value=\"x\"/>",
            0,
        ),
        ("XML", "<add value=\"x\" key=\"password\"/>", 0),
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

// Holds: SEC-50
#[test]
fn what_is_below_or_beside_a_name_is_a_secret() {
    let random = "3b1f6a2e9c0d4f7a8b5c";
    for owner in [
        "cluster",
        "server",
        "client",
        "user",
        "account",
        "project",
        "eu-region",
        "api-host",
        "role",
        "tenant",
        "zone",
        "admin",
    ] {
        for text in [
            format!("tokens:\n  {owner}: {random}\n"),
            format!("tokens:\n- {owner}: {random}\n"),
            format!("{{\"tokens\":{{\"{owner}\":\"{random}\"}}}}"),
            format!("[tokens]\n{owner} = {random}\n"),
            format!("tokens.{owner} = {random}\n"),
            format!("<tokens><{owner}>{random}</{owner}></tokens>"),
            format!("passwords:\n  {owner}: hunter22\n"),
            format!("passwords:\n  {owner}: correct-horse\n"),
        ] {
            assert!(name(&text).is_some(), "{text}");
        }
    }

    for text in [
        "passwords:\n  admin: 12345678\n",
        "passwords:\n  admin: $ecret1234\n",
        "passwords:\n  admin: .hunter22\n",
        "passwords:\n  admin: \"&hunter22\"\n",
        "passwords:\n  admin: &a hunter22\n",
        "passwords:\n  admin: a://hunter22\n",
        "passwords:\n  admin: /hunter22\n",
        "passwords:\n  - admin: hunter22\n  - root: hunter23\n",
        "passwords:\n- admin: hunter22\nregion: a\n",
        "{\"passwords\":[{\"admin\":\"hunter22\"}]}//",
        "{\"passwords\":[{\n\"admin\":\"hunter22\"}]}",
        "password:\n  admin: hunter22\n",
        "password:\n  current: hunter22\n",
        "password:\n  user: hunter22\n",
        "{\"password\":{\"admin\":\"hunter22\"}}",
        "password: {admin: hunter22}\n",
        "credential: {admin: hunter22}\n",
        "credential:\n  eu:\n    admin: hunter22\n",
        "secrets:\n  cluster: 3b1f6a2e9c0d4f7a8b5c\n",
        "token:\n  prod: hunter22x\n",
        "[ passwords ]\nadmin = hunter22\n",
        "[\"passwords\"]\nadmin = \"hunter22\"\n",
        "[passwords eu]\nadmin = hunter22\n",
        "[eu passwords]\nadmin = hunter22\n",
        "[passwords \"eu\"] ; x\nadmin = hunter22\n",
        "[Credentials \"a\"]\nvalue2 = hunter22\n",
        "[password]\nadmin = hunter22\n",
        "[[passwords]]\nadmin = \"hunter22\"\n",
        "password[0]=hunter22\n",
        "password[]=hunter22",
        "passwords[admin]=hunter22\n",
        "passwords[\"admin\"] = \"hunter22\"\n",
        "passwords%5Badmin%5D=hunter22",
        "passwords[\"eu\"][\"admin\"] = \"hunter22\"\n",
        "passwords.\"admin\" = \"hunter22\"\n",
        "passwords/admin = hunter22\n",
        "kv/tokens/cluster: 3b1f6a2e9c0d4f7a8b5c\n",
        "[passwords:eu]\nadmin = hunter22\n",
        "passwords \"eu\" {\n  admin = \"hunter22\"\n}\n",
        "<passwords admin=\"hunter22\"/>",
        "<tokens cluster=\"3b1f6a2e9c0d4f7a8b5c\">\n</tokens>",
        "passwords = { admin = \"hunter22\" }\n",
        ":passwords => {:admin => 'hunter22'}",
        "passwords: # ours\n# of the admin\n  admin: hunter22\n",
        "? passwords\n: admin: hunter22\n",
        "{\"passwords\":{\"a\":\"./}\",\"b\":\"hunter22\"}}//",
        "passwords = {\n # see {x}}\n a = \"hunter22\"\n}\n",
        "<passwords><!-- a > b </x> --><admin>hunter22</admin></passwords>",
        "<property><value>hunter22</value><name>db.password</name></property>",
        "<property><value>hunter22</value><!-- a --><final>true</final><name>db.password</name></property>",
        "<property>\n  <name>db.password</name>\n  <description>x</description>\n  <value>hunter22</value>\n</property>",
        "<key>password</key>\n<data>x</data>",
        "const password = `hunter22`",
        "pword = hunter22\n",
        "bindpw hunter22\n",
        "sk: Zq8vXk2LmN4pR7sT0wY3bC5dF6gH\n",
        "secretKey: hunter22\n",
        "clientSecret: abc/Def22\n",
        "tokens: 493817\n",
        "password: changeme\n",
    ] {
        assert!(name(text).is_some(), "{text}");
    }
}

// Holds: SEC-50
#[test]
fn references_settings_and_ids_are_no_secrets() {
    let uuid = "123e4567-e89b-12d3-a456-426614174000";
    let texts = [
        "ssh_key",
        "kms_key",
        "encryptionKeyId",
        "masterKeyID",
        "keys",
    ]
    .map(|key| format!("{key}: {uuid}\n"));
    for text in texts.iter().map(String::as_str).chain([
        "{\"aadClientId\":\"msi\",\"aadClientSecret\":\"msi\"}",
        "[g]\ng2Credentials = /etc/vpc/ibmcloud_api_key\ncredentials = /etc/gcp/key.json\n",
        "keys:\n- 123e4567-e89b-12d3-a456-426614174000\n",
        "webhookUrl: https://alerts.example/webhook/123e4567-e89b-12d3-a456-426614174000\n",
        "encryptionKey: arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab\n",
        "secrets: [cloud-config, ca]\n",
        "{\"secrets\": [\"cloud-config\", \"ca\"]}",
        "secrets:\n- cloud-config\n- ca\n",
        "existingSecret: cloud-config\nexistingSecretKey: token\npasswordKey: password\n",
        "data:\n- secretKey: api-token\n  remoteRef: {key: ccm, property: token}\n",
        "tlsSecret: lb-cert\ndefaultTLSSecret: kube-system/lb-cert\nkubeconfigSecret: a\n",
        "secret: kube-system/ccm\ncredentialsSecret: hcloud-credentials\n",
        "rateLimiter:\n  tokens: 100\n  bucket: 5\n",
        "[global]\ntoken-body = \"{\\\"clusterId\\\":\\\"c\\\"}\"\n",
        "tags:\n- key: secret-owner\n  value: alice\n",
        "password: REPLACE_ME\ntoken: N/A\n",
        "[g]\n# password=\n# password = <your password>\nauth-url=https://k/v3\n",
        "# password = \"REDACTED\"\nauth-url=https://k/v3\n",
        "password = ${OS_PASSWORD}\n",
        "password: $(OS_PASSWORD)\ntoken: \"${env:TOKEN}\"\npasswd: $OS_PASSWORD\n",
        "password: {{ .Values.password }}\n",
        "password: file:///etc/secret/password\ntoken: env:OS_TOKEN\n",
        "tokens:\n  prod: ${PROD_TOKEN}\n  dev: /etc/tokens/dev\n  test: {secretName: test-token}\n",
        "passwords:\n  admin: {secretKeyRef: {name: cloud1x, key: password1}}\n",
        "passwordFrom:\n  secretKeyRef:\n    name: cloud-1\n    key: password1\n",
        "secret:\n  name: cloud-config1\n  optional: true\n  create: false\n",
        "volumes:\n- secret:\n    secretName: cloud-config1\n    items: [{key: conf-1a2b, path: b}]\n",
        "credentials:\n  source: Secret\n  secretRef:\n    name: gcp1\n    namespace: crossplane\n    key: creds1\n",
        "credentials:\n  type: instance-role\n  project: 0f6c3d5e1a2b4c3d8e9f0a1b2c3d4e5f\n",
        "tokens:\n  server: https://vault.example\n  region: eu-west-1\n  ttl: 30m\n  max: 100000\n",
        "token:\n  issuer: https://x\n  audience: vault1a\n  renewal: before\n  user: svc-admin1\n",
        "password:\n  policy: strict1\n  length: 12\n  expires: 90d\n",
        "cookie:\n  name: SRV1\n  sameSite: Strict\n",
        "secrets:\n- name: regcred\n  namespace: a\n- name: other1x\nregion: north1\n",
        "methods:\n  [\"password\", \"token\"]\nregion = north1ab\n",
        "[LoadBalancerClass \"token service\"]\nregion = north1ab\n",
        "url: https://a.example/secrets/region1x: y\n",
        "<token ttl=\"5m\" name=\"token1abc\"/>",
        "<property><name>token.ttl</name><value>abc123de</value></property>",
        "<property><value>abc123de</value></property><property><name>db.password</name></property>",
    ]) {
        assert_eq!(name(text), None, "{text}");
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
        "dsn: root:hunter2@tcp(10.0.0.1:3306)/db",
        "smarthost: admin:hunter2@mail.example:587",
        "x: admin:hunter2@10.0.0.1",
        "x: mysql://root:hun/ter2@h/db",
        "endpoint: https://3b1f6a2e9c0d4f7a8b5c@api.example/",
        "x: https://hooks.slack.com/services/T00000000/B00000000/abcDEF0123456789ghiJKL45",
        "x: https://discord.com/api/webhooks/1234567890/abcDEFghiJKL123456789mnop",
        "x: https://api.telegram.org/bot123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11/send",
        "{\"kty\": \"oct\", \"k\": \"GawgguFyGrWKav7AX4VKUg3b1f6a2e9c0d4f7a8b5c\"}",
        "<RSAKeyValue><D>X4cTteJYgn4FYPsXB8rdXix5vwsg1FLN5E3EaG6RJoVH</D></RSAKeyValue>",
        "PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 1\nAAABAQC3\n",
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nMIIE\n---- END SSH2 ENCRYPTED PRIVATE KEY ----\n",
        // PKCS #8, SEC 1.
        "x: MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
        "x: MHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtLYX5CB04fSeQ6tF1aY/PuoAoGCCqGSM49",
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
        "{\"aadClientId\": \"msi\", \"aadClientSecret\": \"msi\"}",
        "g2Credentials = /etc/vpc/ibmcloud_api_key\n",
        "# password = <your password>\n",
        "image: registry/app:v1@sha256:0f6c3d5e1a2b4c3d8e9f0a1b2c3d4e5f0f6c3d5e1a2b4c3d8e9f0a1b2c3d4e5f",
        "networks: [1b2c3d4e-1a2b-4c3d-8e9f-0a1b2c3d4e5f]\nfloating-network-id=1b2c3d4e-1a2b-4c3d-8e9f-0a1b2c3d4e5f",
        "ca: |\n  -----BEGIN CERTIFICATE-----\n  MIIBszCCAVmgAwIBAgIUQ0FBQUFBQUFBQUFBQUFBQUFBQUFBQUEwCgYIKoZIzj0E\n  -----END CERTIFICATE-----\n",
        "credentials:\n  username: admin\n  tenantId: 0f6c3d5e-1a2b-4c3d-8e9f-0a1b2c3d4e5f\n  region: eu-west-1\n  authUrl: https://k/v3\n",
        "[credentials]\nuser = me\nca-file = /etc/ca.crt\n[LoadBalancer]\nsubnet-name = hunter22\n",
        "secrets:\n  enabled: true\n  provider: vault\n  address: https://vault:8200\n",
        "secrets:\n- name: a\nregion: north1\n",
        "imagePullSecrets: [{name: regcred}]\n",
        "tokens: {ttl: 5m, max: 100, issuer: https://x}\n",
        "auth: {methods: [password, token], type: v3password}\n",
        "env:\n- name: OS_PASSWORD\n  valueFrom: {secretKeyRef: {name: os, key: password}}\n- name: OS_REGION\n  value: RegionOne1\n",
        "variable \"token_ttl\" {\n  default = \"15m0s\"\n}\nvariable \"db_password\" {\n  type = string\n}\nvariable \"x\" {\n  default = \"abc123de\"\n}\n",
        "args: [--cloud-config, /etc/x, --password-file, /etc/pw1]\n",
        "<passwords/><password></password><admin>hunter22</admin>",
        "image: registry:5000/app:v1@sha256:0f6c3d5e1a2b4c3d8e9f0a1b2c3d4e5f0f6c3d5e1a2b4c3d8e9f0a1b2c3d4e5f\nrepo: git@github.com:org/repo\nlist: http://a:80,http://b:81/x@y\n",
        "url: https://kubernetes.io/docs/reference/access-authn-authz/webhook\n",
        "kty: none\nd: 5\n",
        "public: MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAVS5JJcdsxfnygWyFmBxXYZMN\n",
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
