//! The `clouds.yaml` of OpenStack clients, which OpenShift and Cluster API create.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::masking::secret::Secret;
use crate::{
    cloud_config::keystone_login::{Key, KeystoneLogin, Words},
    config::IssuerUrl,
};

/// The part of the file that is used. Errors must not contain a value, so that unknown fields are
/// ignored.
#[derive(Deserialize)]
struct File {
    clouds: BTreeMap<String, Cloud>,
}

#[derive(Deserialize)]
struct Cloud {
    #[serde(default)]
    auth: Auth,
    auth_type: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Auth {
    auth_url: Option<String>,
    user_id: Option<String>,
    username: Option<String>,
    password: Option<String>,
    token: Option<String>,
    application_credential_id: Option<String>,
    application_credential_name: Option<String>,
    application_credential_secret: Option<String>,
    trust_id: Option<String>,
    project_id: Option<String>,
    project_name: Option<String>,
    user_domain_id: Option<String>,
    user_domain_name: Option<String>,
    project_domain_id: Option<String>,
    project_domain_name: Option<String>,
    domain_id: Option<String>,
    domain_name: Option<String>,
    default_domain: Option<String>,
}

/// Returns the login of this cloud. Without a name, the file must have only one.
///
/// # Errors
/// What is wrong, without a value of the file.
pub fn login(text: &str, cloud: Option<&str>) -> Result<KeystoneLogin, String> {
    // The error of the parser may quote a value, so only its line is shown.
    let file: File = serde_saphyr::from_str(text).map_err(|error| {
        let line = error.location().map(|at| format!("line {}: ", at.line()));
        format!(
            "{}it is not a file with `clouds` and `auth` in each",
            line.unwrap_or_default()
        )
    })?;

    let names = || file.clouds.keys().cloned().collect::<Vec<_>>().join(", ");
    let found = match cloud {
        Some(name) => file.clouds.get(name),
        None if file.clouds.len() > 1 => {
            let names = names();
            return Err(format!("it has several clouds ({names}): set `cloud`"));
        }
        None => file.clouds.values().next(),
    };

    let cloud = found.ok_or_else(|| format!("it has no such cloud; it has: {}", names()))?;
    of_cloud(cloud)
}

fn of_cloud(Cloud { auth, auth_type }: &Cloud) -> Result<KeystoneLogin, String> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let secret = |text: &Option<String>| given(text).map(Secret::new);

    let auth_url = given(&auth.auth_url).ok_or("`auth_url` is missing")?;
    let auth_url = IssuerUrl::try_from(auth_url).map_err(|error| format!("`auth_url`: {error}"))?;

    let words = Words {
        user_id: given(&auth.user_id),
        username: given(&auth.username),
        user_domain_id: given(&auth.user_domain_id),
        user_domain_name: given(&auth.user_domain_name),
        application_credential_id: given(&auth.application_credential_id),
        application_credential_name: given(&auth.application_credential_name),
        trust_id: given(&auth.trust_id),
        project_id: given(&auth.project_id),
        project_name: given(&auth.project_name),
        project_domain_id: given(&auth.project_domain_id),
        project_domain_name: given(&auth.project_domain_name),
        domain_id: given(&auth.domain_id).or_else(|| given(&auth.default_domain)),
        domain_name: given(&auth.domain_name),
    };

    // As in the clients, the type decides; without it, what is there.
    let kind = auth_type.as_deref().unwrap_or_default();
    let application = secret(&auth.application_credential_secret).map(Key::ApplicationCredential);
    let password = secret(&auth.password).map(Key::Password);
    let token = secret(&auth.token).map(Key::Token);
    let key = match kind {
        "" => application.or(password).or(token),
        "v3applicationcredential" => application,
        "password" | "v3password" => password,
        "token" | "v3token" => token,
        _ => {
            return Err(
                "`auth_type` is not supported: use `password`, `v3applicationcredential` or `token`"
                    .to_owned(),
            );
        }
    };

    let key =
        key.ok_or("one of `password`, `application_credential_secret` and `token` is needed")?;
    words.login(auth_url, key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud_config::keystone_login::{KeystoneMethod, KeystoneScope, Named};

    const FILE: &str = "
clouds:
  openstack:
    auth_type: v3applicationcredential
    auth:
      auth_url: https://keystone.example:5000/v3
      application_credential_id: 7f3a
      application_credential_secret: correct-horse-battery
    region_name: north
    interface: public
    identity_api_version: 3
    verify: false
  other:
    auth:
      auth_url: https://keystone.example:5000
      username: ccm
      password: correct-horse-battery
      project_name: k8s
      user_domain_name: Default
      project_domain_id: default
";

    #[test]
    fn a_cloud_has_a_login() {
        let credential = login(FILE, Some("openstack")).unwrap();
        assert_eq!(
            credential.auth_url.as_str(),
            "https://keystone.example:5000/v3"
        );
        let secret = Secret::from("correct-horse-battery");
        assert_eq!(
            credential.method,
            KeystoneMethod::ApplicationCredential {
                credential: "7f3a".to_owned(),
                user: None,
                secret: secret.clone(),
            }
        );
        let user = login(FILE, Some("other")).unwrap();
        let named = |name: &str, id: Option<&str>, domain: Option<&str>| Named::Name {
            name: name.to_owned(),
            domain_id: id.map(str::to_owned),
            domain_name: domain.map(str::to_owned),
        };
        assert_eq!(
            user.method,
            KeystoneMethod::Password {
                user: named("ccm", None, Some("Default")),
                password: secret,
            }
        );
        assert_eq!(
            user.scope,
            KeystoneScope::Project(named("k8s", Some("default"), None))
        );
    }

    // Holds: SEC-18
    #[test]
    fn mistakes_are_told_without_values() {
        let alone = |auth: &str| format!("clouds: {{a: {{auth: {{{auth}}}}}}}");
        let url = "auth_url: 'https://k.example:5000'";
        for (text, cloud, problem) in [
            (
                FILE.to_owned(),
                None,
                "it has several clouds (openstack, other): set `cloud`",
            ),
            (
                FILE.to_owned(),
                Some("x"),
                "it has no such cloud; it has: openstack, other",
            ),
            (
                alone("password: hunter2hunter2"),
                None,
                "`auth_url` is missing",
            ),
            (
                alone(&format!("{url}, password: hunter2hunter2")),
                None,
                "the user must be given by ID, or by name with its domain",
            ),
            (
                alone(url),
                Some("a"),
                "one of `password`, `application_credential_secret` and `token` is needed",
            ),
            (
                format!("clouds: {{a: {{auth_type: v3kerberos, auth: {{{url}, password: x}}}}}}"),
                None,
                "`auth_type` is not supported: use `password`, `v3applicationcredential` or `token`",
            ),
        ] {
            assert_eq!(login(&text, cloud).unwrap_err(), problem);
        }

        for text in [
            "hunter2hunter2",
            "a: b",
            "clouds: hunter2hunter2",
            "clouds: {a: [hunter2hunter2]}",
        ] {
            let problem = login(text, None).unwrap_err();
            assert!(
                problem.contains("`clouds`") && !problem.contains("hunter2"),
                "{problem}"
            );
        }
    }
}
