//! Keystone: only reads are allowed, except those that return a secret.

use http::{Method, request::Parts};

use super::path_segments;
use crate::credentials::failure::Failure;

/// Resources of Identity under `/v3/`, as opposed to other services with that version. A cloud
/// controller does not need to change any of them, and each change could give a plugin its own
/// identity: a user, a password, a role, a trust, a key.
const IDENTITY: &[&str] = &[
    "auth",
    "users",
    "groups",
    "domains",
    "projects",
    "roles",
    "role_inferences",
    "role_assignments",
    "system",
    "services",
    "endpoints",
    "regions",
    "policies",
    "os-trust",
    "os-inherit",
    "os-federation",
    "os-ec2",
    "os-revoke",
    "access_rules",
];

/// Resources that return a secret even when they are read.
const SECRET: &[&str] = &[
    "credentials",
    "os-oauth1",
    "os-oauth2",
    "ec2tokens",
    "s3tokens",
    "os-ec2",
    "receipts",
    "os-pki",
];

/// Returns an error if the answer to the request would be a secret.
pub(crate) fn check(head: &Parts) -> Result<(), Failure> {
    let read = matches!(head.method, Method::GET | Method::HEAD | Method::OPTIONS);
    let minting = path_segments(head.uri.path())
        .iter()
        .any(|segments| mints(segments, read));
    if !minting {
        return Ok(());
    }
    let method = &head.method;
    Err(Failure::minting(format!(
        "{method} of this Identity path returns a secret or creates an identity, which is not allowed; Skydock authenticates the plugin's \
         requests, so it does not need to log in (for SDKs that must log in, set `masked: true`)"
    )))
}

fn mints(segments: &[String], read: bool) -> bool {
    (0..segments.len()).any(|at| match segments.get(at..).unwrap_or_default() {
        [version, rest @ ..] if version == "v3" => mints_v3(rest, read),
        // Identity v2.0. Neutron has the same version, but other resources.
        [version, first, ..] if version == "v2.0" => {
            ["tokens", "ec2tokens", "users"].contains(&first.as_str())
        }
        _ => false,
    })
}

fn mints_v3(rest: &[String], read: bool) -> bool {
    let Some(first) = rest.first().map(String::as_str) else {
        return false;
    };
    let identity = IDENTITY.contains(&first);
    let secret = |segment: &String| SECRET.contains(&segment.as_str());
    // Federated login uses GET.
    let federated = rest.iter().any(|it| it == "os-federation")
        && rest.iter().any(|it| it == "auth" || it == "saml2");
    SECRET.contains(&first) || (identity && (!read || federated || rest.iter().any(secret)))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn refused(method: &str, path: &str) -> bool {
        let request = Request::builder()
            .method(method)
            .uri(format!("https://keystone.example.com{path}"));
        check(&request.body(()).unwrap().into_parts().0).is_err()
    }

    #[test]
    fn keystone_requests_for_credentials_are_denied() {
        for (method, path) in [
            ("POST", "/v3/auth/tokens"),
            ("POST", "/identity/v3/auth/tokens"),
            ("POST", "//identity//v3/auth/tokens/"),
            ("POST", "/v3/auth/%74okens"),
            ("POST", "/v3/auth%2ftokens"),
            ("POST", "/v3/x/../auth/tokens"),
            ("POST", "/v2.0/tokens"),
            ("DELETE", "/v3/auth/tokens"),
            ("POST", "/v3/users/7/application_credentials"),
            ("POST", "/v3/users/7/credentials/OS-EC2"),
            ("GET", "/v3/users/7/credentials/OS-EC2/abc"),
            ("GET", "/v3/credentials"),
            ("GET", "/v3/credentials/abc"),
            ("POST", "/v3/credentials"),
            ("POST", "/v3/OS-TRUST/trusts"),
            ("POST", "/v3/OS-OAUTH1/access_token"),
            ("POST", "/v3/OS-OAUTH2/token"),
            ("POST", "/v3/ec2tokens"),
            ("POST", "/v3/s3tokens"),
            (
                "GET",
                "/v3/OS-FEDERATION/identity_providers/a/protocols/b/auth",
            ),
            ("GET", "/v3/auth/OS-FEDERATION/websso/saml2"),
            ("GET", "/v3/OS-FEDERATION/projects/saml2"),
            ("POST", "/v3/auth/OS-FEDERATION/saml2"),
            ("POST", "/v3/users"),
            ("POST", "/v3/users/7/password"),
            ("PATCH", "/v3/users/7"),
            ("PUT", "/v3/projects/1/users/7/roles/3"),
        ] {
            assert!(refused(method, path), "{method} {path}");
        }
    }

    #[test]
    fn openstack_requests_of_a_controller_are_allowed() {
        for (method, path) in [
            ("GET", "/"),
            ("GET", "/v3"),
            ("GET", "/v3/auth/catalog"),
            ("GET", "/identity/v3/auth/projects"),
            ("GET", "/v3/auth/tokens"),
            ("GET", "/v3/projects/1"),
            ("GET", "/v3/OS-FEDERATION/projects"),
            ("POST", "/v2.1/servers"),
            ("POST", "/v2.0/lbaas/loadbalancers"),
            ("PUT", "/v2.0/routers/1"),
            ("DELETE", "/v2.0/floatingips/1"),
            ("POST", "/v3/3f0d1b5c/volumes"),
            ("GET", "/v1/secrets/1"),
        ] {
            assert!(!refused(method, path), "{method} {path}");
        }
    }
}
