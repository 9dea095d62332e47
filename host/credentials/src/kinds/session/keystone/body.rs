//! The body of a login to Keystone, `POST /v3/auth/tokens`.

use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use crate::{
    cloud_config::keystone_login::{KeystoneLogin, KeystoneMethod, KeystoneScope, Named},
    masking::secret::Secret,
};

/// Returns the JSON of a login.
pub(crate) fn of(login: &KeystoneLogin) -> Result<Zeroizing<String>, String> {
    let identity = match &login.method {
        KeystoneMethod::Password { user, password } => {
            let mut user = named(user);
            user.insert("password".to_owned(), text(password)?);
            json!({ "methods": ["password"], "password": { "user": user } })
        }
        KeystoneMethod::ApplicationCredential {
            credential,
            user,
            secret,
        } => {
            let mut inner = Map::new();
            match user {
                Some(user) => {
                    inner.insert("name".to_owned(), credential.as_str().into());
                    inner.insert("user".to_owned(), named(user).into());
                }
                None => {
                    inner.insert("id".to_owned(), credential.as_str().into());
                }
            }
            inner.insert("secret".to_owned(), text(secret)?);
            json!({ "methods": ["application_credential"], "application_credential": inner })
        }
        KeystoneMethod::Token(token) => {
            json!({ "methods": ["token"], "token": { "id": text(token)? } })
        }
    };

    let mut auth = json!({ "identity": identity });
    let scope = match &login.scope {
        KeystoneScope::None => None,
        KeystoneScope::Project(project) => Some(json!({ "project": named(project) })),
        KeystoneScope::DomainId(id) => Some(json!({ "domain": { "id": id } })),
        KeystoneScope::DomainName(name) => Some(json!({ "domain": { "name": name } })),
        KeystoneScope::Trust(id) => Some(json!({ "OS-TRUST:trust": { "id": id } })),
    };

    if let (Some(scope), Some(auth)) = (scope, auth.as_object_mut()) {
        auth.insert("scope".to_owned(), scope);
    }

    Ok(Zeroizing::new(json!({ "auth": auth }).to_string()))
}

fn named(named: &Named) -> Map<String, Value> {
    let value = match named {
        Named::Id(id) => json!({ "id": id }),
        Named::Name {
            name,
            domain_id: Some(id),
            ..
        } => json!({ "name": name, "domain": { "id": id } }),
        Named::Name {
            name,
            domain_name: Some(domain),
            ..
        } => json!({ "name": name, "domain": { "name": domain } }),
        Named::Name { name, .. } => json!({ "name": name }),
    };
    value.as_object().cloned().unwrap_or_default()
}

fn text(secret: &Secret) -> Result<Value, String> {
    secret
        .expose_str()
        .map(Value::from)
        .ok_or_else(|| "its secret is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(method: KeystoneMethod, scope: KeystoneScope) -> String {
        let auth_url = "https://a".to_owned().try_into().unwrap();
        of(&KeystoneLogin {
            auth_url,
            method,
            scope,
        })
        .unwrap()
        .to_string()
    }

    fn by_name(name: &str, id: Option<&str>, domain: Option<&str>) -> Named {
        Named::Name {
            name: name.to_owned(),
            domain_id: id.map(str::to_owned),
            domain_name: domain.map(str::to_owned),
        }
    }

    #[test]
    fn a_login_body_has_the_format_of_keystone() {
        let secret = Secret::from("s\"1");
        let table = [
            (
                KeystoneMethod::Password {
                    user: by_name("u", None, Some("Default")),
                    password: secret.clone(),
                },
                KeystoneScope::Project(by_name("p", Some("default"), None)),
                r#"{"auth":{"identity":{"methods":["password"],"password":{"user":{"domain":{"name":"Default"},"name":"u","password":"s\"1"}}},"scope":{"project":{"domain":{"id":"default"},"name":"p"}}}}"#,
            ),
            (
                KeystoneMethod::ApplicationCredential {
                    credential: "7".into(),
                    user: None,
                    secret: secret.clone(),
                },
                KeystoneScope::None,
                r#"{"auth":{"identity":{"application_credential":{"id":"7","secret":"s\"1"},"methods":["application_credential"]}}}"#,
            ),
            (
                KeystoneMethod::ApplicationCredential {
                    credential: "a".into(),
                    user: Some(Named::Id("u".into())),
                    secret: secret.clone(),
                },
                KeystoneScope::None,
                r#"{"auth":{"identity":{"application_credential":{"name":"a","secret":"s\"1","user":{"id":"u"}},"methods":["application_credential"]}}}"#,
            ),
            (
                KeystoneMethod::Token(secret),
                KeystoneScope::Trust("t".into()),
                r#"{"auth":{"identity":{"methods":["token"],"token":{"id":"s\"1"}},"scope":{"OS-TRUST:trust":{"id":"t"}}}}"#,
            ),
        ];
        for (method, scope, expected) in table {
            assert_eq!(body(method, scope), expected);
        }
    }
}
