//! The file `~/.aws/credentials` of AWS tools.

use crate::{
    kinds::aws::sigv4::Keys,
    sources::{failure::Failure, issuer_client::IssuerClient},
};

pub(crate) fn read(issuer: &IssuerClient, text: &str, profile: &str) -> Result<Keys, Failure> {
    let mut within = false;
    let mut found = false;
    let mut id = None;
    let mut secret = None;
    let mut session = None;

    for line in text.lines() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            let name = header.split(']').next().unwrap_or_default().trim();
            // As in `~/.aws/config`.
            let name = name
                .strip_prefix("profile ")
                .unwrap_or(name)
                .trim()
                .trim_matches('"');

            within = name == profile;
            found |= within;
        } else if within && !line.starts_with(['#', ';']) {
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };

            let value = value.trim();
            match key.trim().to_ascii_lowercase().as_str() {
                "aws_access_key_id" => id = Some(value.to_owned()),
                "aws_secret_access_key" => secret = Some(issuer.keep(value)),
                "aws_session_token" => {
                    session = Some(issuer.keep(value)).filter(|_| !value.is_empty());
                }
                // These would run a command or send a request that the operator may not be aware
                // of.
                "credential_process" | "role_arn" | "sso_session" | "sso_start_url" => {
                    return Err(Failure::malformed(format!(
                        "profile `{profile}` in its file has `{}`, but only keys are supported",
                        key.trim()
                    )));
                }
                _ => {}
            }
        }
    }

    match (id, secret) {
        (Some(id), Some(secret)) if !id.is_empty() && !secret.expose().is_empty() => Ok(Keys {
            id,
            secret,
            session,
        }),
        _ if !found => Err(Failure::malformed(format!(
            "its file has no profile `{profile}`"
        ))),
        _ => Err(Failure::malformed(format!(
            "profile `{profile}` of its file needs aws_access_key_id and aws_secret_access_key"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use bytes::Bytes;

    use super::*;
    use crate::{
        credential::{Issuer, IssuerError},
        sources::clock::SystemClock,
    };

    struct Nobody;

    #[async_trait]
    impl Issuer for Nobody {
        async fn send(
            &self,
            _: http::Request<Bytes>,
        ) -> Result<http::Response<Bytes>, IssuerError> {
            Err(IssuerError::new("nobody"))
        }
    }

    const FILE: &str = "
# comment
[default]
aws_access_key_id = AKIDEFAULT
aws_secret_access_key=default/secret+=
region = eu-west-1

[profile ccm]
aws_access_key_id=AKICCM
AWS_SECRET_ACCESS_KEY = ccm-secret
; aws_session_token = old
aws_session_token = ccm-token
[half]
aws_access_key_id=AKIHALF
[run]
credential_process = /bin/evil hunter22
";

    #[test]
    fn reads_the_keys_of_a_profile() {
        let issuer = IssuerClient::new("a", Arc::new(Nobody), Arc::new(SystemClock));
        let keys = read(&issuer, FILE, "default").unwrap();
        assert_eq!(
            (keys.id.as_str(), keys.secret.expose(), keys.session),
            ("AKIDEFAULT", &b"default/secret+="[..], None)
        );
        let keys = read(&issuer, FILE, "ccm").unwrap();
        assert_eq!(
            (keys.id.as_str(), keys.secret.expose()),
            ("AKICCM", &b"ccm-secret"[..])
        );
        assert_eq!(keys.session.unwrap().expose(), b"ccm-token");
        for (profile, said) in [
            ("none", "no profile `none`"),
            ("half", "needs aws_access"),
            ("run", "credential_process"),
        ] {
            let failure = read(&issuer, FILE, profile).unwrap_err();
            assert!(
                failure.sentence.contains(said) && !failure.sentence.contains("hunter22"),
                "{failure}"
            );
        }
    }
}
