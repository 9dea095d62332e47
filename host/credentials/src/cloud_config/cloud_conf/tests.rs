use super::*;
use crate::cloud_config::keystone_login::{KeystoneMethod, KeystoneScope, Named};

const CONF: &str = r#"; of the cloud
[Global]
auth-url = "https://keystone.example.com:5000/v3"
username=ccm
password = "hunter\"22 # no comment" ; a comment
tenant-name=k8s
domain-name = Default
region=RegionOne
ca-file = /etc/ca.pem

[LoadBalancer]
floating-network-id=1b2c
[LoadBalancerClass "internal"]
subnet-id=3d
"#;

fn user(name: &str, domain: &str) -> Named {
    Named::Name {
        name: name.to_owned(),
        domain_id: None,
        domain_name: Some(domain.to_owned()),
    }
}

#[test]
fn the_host_keeps_the_secret_and_the_guest_gets_the_rest() {
    let (login, rest) = split_cloud_conf(CONF).unwrap();
    assert_eq!(
        login.auth_url.as_str(),
        "https://keystone.example.com:5000/v3"
    );
    let password = Secret::from("hunter\"22 # no comment");
    assert_eq!(
        login.method,
        KeystoneMethod::Password {
            user: user("ccm", "Default"),
            password
        }
    );
    assert_eq!(login.scope, KeystoneScope::Project(user("k8s", "Default")));
    assert!(!rest.contains("hunter"));
    assert_eq!(
        rest.lines().count(),
        CONF.lines().count(),
        "line numbers stay"
    );
    let kept: Vec<&str> = CONF
        .lines()
        .skip(1)
        .filter(|line| !line.contains("hunter"))
        .collect();
    let shown: Vec<&str> = rest
        .lines()
        .skip(1)
        .filter(|line| *line != "# kept by Skydock")
        .collect();
    assert_eq!(shown, kept);
}

#[test]
fn comments_with_old_secrets_are_removed() {
    let text = "\u{feff}; password=old1\n[Global] # token=old2\n #password=old3\nregion=a\\\n#b\nauth-url=https://a\nuser-id=u ; old password: old4\r\npassword=new\ntenant-id=\"p # q\" # x\n; old5";
    let (_, rest) = split_cloud_conf(text).unwrap();
    assert_eq!(
        rest,
        "#\n[Global] \n#\nregion=a\\\n#\nauth-url=https://a\nuser-id=u \r\n# kept by Skydock\ntenant-id=\"p # q\" \n#"
    );
    assert!(!rest.contains("old"), "{rest}");
    let entries = |text: &str| {
        let mut entries = skydock_gcfg::parse(text).entries;
        entries.retain(|it| it.key.as_deref() != Some("password"));
        entries
    };
    assert_eq!(entries(text), entries(&rest), "settings are the same");
}

#[test]
fn a_secret_on_several_lines_is_removed_completely() {
    let text = "[Global]\nauth-url=https://a\nuser-id=u\npassword=hun\\\nter22\ntenant-id=p\n";
    let (login, rest) = split_cloud_conf(text).unwrap();
    assert_eq!(login.secret(), &Secret::from("hunter22"));
    assert_eq!(
        rest,
        "[Global]\nauth-url=https://a\nuser-id=u\n# kept by Skydock\n# kept by Skydock\ntenant-id=p\n"
    );
}

#[test]
fn a_secret_is_what_upstream_reads() {
    for (line, secret) in [
        ("password = \"hunter 22\" ; old", "hunter 22"),
        ("Password=hun\\\"ter22", "hun\"ter22"),
        ("password=\"hun\rter22\"", "hunter22"),
        ("password=\\\n  hunter22", "  hunter22"),
        ("password=hunter11\npassword=hunter22", "hunter22"),
    ] {
        let text = format!("[GLOBAL]\nauth-url=https://a\nuser-id=u\nuse-clouds=no\n{line}\n");
        let (login, rest) = split_cloud_conf(&text).unwrap();
        assert_eq!(login.secret(), &Secret::from(secret), "{line:?}");
        assert!(!rest.contains("ter"), "{line:?}: {rest}");
    }
}

#[test]
fn lines_that_upstream_rejects_are_rejected() {
    for text in [
        // Without the line, the next settings would be in no section.
        "[Global] password=hunter22\nauth-url=https://a\nuser-id=u",
        "[Global]\nauth-url=https://a\nuser-id=u\npassword=\"hunter\\\n22\"",
        "[Global]\nauth-url=https://a\nuser-id=u\npassword=hunter\\22",
        "[Global]\nauth-url=https://a\nuser-id=u\npassword",
        "[Global]\nauth-url=https://a\nuser-id=u\npassword=a\nhunter22",
        "[Global]\nauth-url=https://a\nuser-id=u\npassword=a\nhunter 22",
    ] {
        let error = split_cloud_conf(text).unwrap_err();
        assert!(
            matches!(error, CloudConfError::Syntax { .. }),
            "{text:?}: {error}"
        );
        assert!(!format!("{error} {error:?}").contains("hunter"), "{error}");
    }
}

#[test]
fn reads_every_login_method() {
    let read = |lines: &str| {
        split_cloud_conf(&format!("[Global]\nauth-url=https://a\n{lines}")).map(|(login, _)| login)
    };
    let secret = || Secret::from("s3cret");
    let by_id =
        read("application-credential-id=7\napplication-credential-secret=s3cret\ntenant-id=p")
            .unwrap();
    let credential = |name: &str, user| KeystoneMethod::ApplicationCredential {
        credential: name.to_owned(),
        user,
        secret: secret(),
    };
    assert_eq!(
        (by_id.method, by_id.scope),
        (credential("7", None), KeystoneScope::None)
    );
    let by_name =
        read("application-credential-name=n\napplication-credential-secret=s3cret\nuser-id=u\npassword=x").unwrap();
    assert_eq!(
        by_name.method,
        credential("n", Some(Named::Id("u".to_owned())))
    );
    let token = read("token=s3cret\ntenant-id=p").unwrap();
    assert_eq!(token.method, KeystoneMethod::Token(secret()));
    let trust =
        read("trust-id=t\ntrustee-id=e\ntrustee-password=s3cret\nuser-id=u\npassword=x").unwrap();
    assert_eq!(
        trust.method,
        KeystoneMethod::Password {
            user: Named::Id("e".to_owned()),
            password: secret()
        }
    );
    assert_eq!(trust.scope, KeystoneScope::Trust("t".to_owned()));
    let trust = read("trust-id=t\nuser-id=u\npassword=s3cret\ntenant-id=p").unwrap();
    assert_eq!(trust.scope, KeystoneScope::Trust("t".to_owned()));
    let domains = read(
        "username=u\nuser-domain-name=ud\npassword=s3cret\ntenant-name=p\ntenant-domain-id=pd\ndomain-id=x",
    );
    let domains = domains.unwrap();
    assert_eq!(
        domains.method,
        KeystoneMethod::Password {
            user: user("u", "ud"),
            password: secret()
        }
    );
    let project = Named::Name {
        name: "p".to_owned(),
        domain_id: Some("pd".to_owned()),
        domain_name: None,
    };
    assert_eq!(domains.scope, KeystoneScope::Project(project));
}

#[test]
fn an_incomplete_login_names_what_is_missing() {
    for (lines, said) in [
        ("username=a\npassword=hunter22", "`auth-url` is missing"),
        (
            "auth-url=https://a:hunter22@b\npassword=hunter22",
            "`auth-url`: a URL must",
        ),
        ("auth-url=https://a\nusername=a\ndomain-id=d", "is needed"),
        (
            "auth-url=https://a\nusername=a\npassword=hunter22",
            "by name with its domain",
        ),
        (
            "auth-url=https://a\nuser-id=a\npassword=hunter22\ntenant-name=p",
            "needs its domain",
        ),
        (
            "auth-url=https://a\nuse-clouds=true\nclouds-file=/x",
            "`use-clouds`",
        ),
        (
            "auth-url=https://a\nuser-id=a\npassword=\"hunter22",
            "line 4",
        ),
    ] {
        let error = split_cloud_conf(&format!("[Global]\n{lines}\n")).unwrap_err();
        assert!(error.to_string().contains(said), "{lines}: {error}");
        assert!(!format!("{error:?}").contains("hunter22"), "{error:?}");
    }
}

#[test]
fn a_misplaced_secret_is_rejected_by_line() {
    for line in [
        "[LoadBalancer]\npassword=hunter22",
        "[Global \"x\"]\npassword=hunter22",
        "[BlockStorage]\nAPI_Key=hunter22",
        "[Global]\nos-token=hunter22",
        "[Global]\nclient_secret=hunter22",
        "[Global]\npwd=hunter22",
        "[Global]\nsas=hunter22",
        "[Global]\nconnection-string=AccountKey=hunter22",
        "[Global]\npasswords=a\\\nhunter22",
    ] {
        let error = split_cloud_conf(&format!("{CONF}{line}\n")).unwrap_err();
        let said = error.to_string();
        let last = CONF.lines().count() + 2;
        assert!(
            said.starts_with(&format!("line {last}: `")) && !said.contains("hunter22"),
            "{said}"
        );
    }

    for line in [
        "region=https://me:hunter22@h",
        "region=eyJhbGciOiJI.eyJzdWIiOiJ1.c2lnbmF0dXJl",
    ] {
        let error = split_cloud_conf(&format!("{CONF}[Global]\n{line}\n")).unwrap_err();
        assert!(
            matches!(error, CloudConfError::Secret(_)),
            "{line}: {error}"
        );
    }

    assert!(split_cloud_conf(&format!("{CONF}[Global]\nkey-file=/a\ntoken-file=/b\n")).is_ok());
}
