//! OpenStack: of Keystone, only reads are allowed, except those that return a secret; of other
//! services, what returns a password, a key or a way to the console of a server is denied.

use http::{Method, header::ACCEPT, request::Parts};

use super::{path_segments, plain_body};
use crate::{
    credentials::{failure::Failure, place::Place},
    json,
};

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

/// Resources of other services that are secrets: passwords of servers and databases, tokens of
/// consoles, and keys of DNS and VPN.
const SECRET_RESOURCES: &[&str] = &[
    "os-server-password",
    "os-console-auth-tokens",
    "tsigkeys",
    "ipsec-site-connections",
    "share-access-rules",
];

/// Resources that return a secret when they are created, and the resource that they belong to, if
/// their names are common: consoles, key pairs, root users of databases, and shares of queues.
const SECRET_CREATION: &[(&str, Option<&str>)] = &[
    ("remote-consoles", None),
    ("volume-transfers", None),
    ("os-volume-transfer", None),
    ("os-consoles", None),
    ("os-keypairs", None),
    ("root", Some("instances")),
    ("root", Some("clusters")),
    ("share", Some("queues")),
];

/// The certificates of clusters, which give access to them when they are created. Other clouds have
/// those of load balancers at this path.
const CERTIFICATES: &str = "certificates";

/// Actions of servers and volumes that return a secret, or set a password that the plugin knows, in
/// lower case.
const SECRET_ACTIONS: &[&str] = &[
    "os-getvncconsole",
    "os-getspiceconsole",
    "os-getrdpconsole",
    "os-getserialconsole",
    "os-getmksconsole",
    "os-getconsoleoutput",
    "os-initialize_connection",
    "allow_access",
    "os-allow_access",
    "access_list",
    "os-access_list",
    "changepassword",
    "evacuate",
    "rebuild",
    "rescue",
];

/// Headers that set a key with which everybody can read objects of Swift.
const SECRET_HEADERS: &[&str] = &[
    "x-account-meta-temp-url-key",
    "x-account-meta-temp-url-key-2",
    "x-container-meta-temp-url-key",
    "x-container-meta-temp-url-key-2",
];

/// Returns true if the body names an action of a server or a volume.
pub(crate) fn is_action(head: &Parts) -> bool {
    head.method == Method::POST
        && path_segments(head.uri.path()).iter().any(|segments| {
            // Cinder, Manila and Heat read a suffix as the format of the answer.
            let last = segments.last().and_then(|last| last.split('.').next());
            last == Some("action")
        })
}

/// Returns an error if the answer to the request would be a secret.
pub(crate) fn check(head: &Parts, body: &[u8], place: Option<&Place>) -> Result<(), Failure> {
    let openstack = place.is_some_and(|place| place.is_header("x-auth-token"));
    let read = matches!(head.method, Method::GET | Method::HEAD | Method::OPTIONS);
    let paths = path_segments(head.uri.path());
    if let Some(what) = paths
        .iter()
        .find_map(|segments| secret_resource(segments, head, openstack))
    {
        return Err(returns_secret(&format!("{} of {what}", head.method)));
    }
    if let Some(name) = SECRET_HEADERS
        .iter()
        .find(|name| head.headers.contains_key(**name))
    {
        return Err(returns_secret(&format!("header {name}")));
    }
    if is_action(head) {
        plain_body(head)?;
        let actions = json::keys(body)
            .map_err(|_| Failure::malformed("the action is not clear: its body is not JSON"))?;
        let secret = actions
            .iter()
            .find(|action| SECRET_ACTIONS.contains(&action.to_lowercase().as_str()));
        if let Some(action) = secret {
            return Err(returns_secret(&format!("action {action}")));
        }
    }
    let minting = paths
        .iter()
        .any(|segments| mints(segments, read, openstack));
    if !minting {
        return Ok(());
    }
    let method = &head.method;
    Err(Failure::minting(format!(
        "{method} of this Identity path returns a secret or creates an identity, which is not allowed; Skydock authenticates the plugin's \
         requests, so it does not need to log in (for SDKs that must log in, set `masked: true`)"
    )))
}

fn returns_secret(what: &str) -> Failure {
    Failure::minting(format!(
        "{what} returns or sets a secret, which is not allowed with Skydock's token"
    ))
}

/// Returns the resource in the path that is a secret, or returns one.
fn secret_resource<'a>(segments: &'a [String], head: &Parts, openstack: bool) -> Option<&'a str> {
    let creates = head.method == Method::POST;
    let under = |name: &str| segments.iter().any(|it| it == name);
    let is_created = |segment: &str| {
        openstack && segment == CERTIFICATES
            || SECRET_CREATION
                .iter()
                .any(|(name, of)| *name == segment && of.is_none_or(under))
    };
    let is = |segment: &&String| {
        SECRET_RESOURCES.contains(&segment.as_str()) || creates && is_created(segment)
    };
    if let Some(resource) = segments.iter().find(is) {
        return Some(resource);
    }
    // Barbican returns what a secret contains at its path, too, if that is not requested as JSON.
    let described = head.headers.get_all(ACCEPT).iter().all(|accept| {
        let accept = String::from_utf8_lossy(accept.as_bytes()).to_ascii_lowercase();
        let is_json = |it: &str| it.contains("json") || it.trim().starts_with("*/*");
        accept.split(',').all(is_json)
    });
    match segments {
        [.., secrets, _, payload] if secrets == "secrets" && payload == "payload" => Some(payload),
        [.., secrets, _] if secrets == "secrets" && !described => Some(secrets),
        _ => None,
    }
}

/// Without a token of Keystone, its paths are only known at the root and behind its name: other
/// clouds have a `v3`, too.
fn mints(segments: &[String], read: bool, openstack: bool) -> bool {
    let is_place = |at: usize| {
        let before = at.checked_sub(1).and_then(|at| segments.get(at));
        openstack || before.is_none_or(|it| ["identity", "keystone"].contains(&it.as_str()))
    };
    let mut places = (0..segments.len()).filter(|at| is_place(*at));
    places.any(|at| match segments.get(at..).unwrap_or_default() {
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
    // Of a project, only its roles matter; Google's monitoring has such paths, too.
    let beside = first == "projects" && rest.len() > 2 && rest.iter().all(|it| it != "roles");
    let identity = IDENTITY.contains(&first) && !beside;
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

    /// Checks a request that is sent with a token of Keystone.
    fn check(head: &Parts, body: &[u8]) -> Result<(), Failure> {
        let place = Place::header("x-auth-token", "").unwrap();
        super::check(head, body, Some(&place))
    }

    fn refused(method: &str, path: &str) -> bool {
        let request = Request::builder()
            .method(method)
            .uri(format!("https://keystone.example.com{path}"));
        check(&request.body(()).unwrap().into_parts().0, b"{}").is_err()
    }

    // Holds: SEC-35
    #[test]
    fn openstack_requests_for_other_secrets_are_denied() {
        for (method, path) in [
            ("GET", "/v2.1/servers/7/os-server-password"),
            ("POST", "/v2.1/servers/7/remote-consoles"),
            ("GET", "/v2.1/os-console-auth-tokens/x"),
            ("POST", "/v2.1/os-keypairs"),
            ("GET", "/key-manager/v1/secrets/7/payload"),
            ("GET", "/v1/secrets/7/%70ayload"),
            ("GET", "/v2/tsigkeys"),
            ("GET", "/v2.0/vpn/ipsec-site-connections/7"),
            ("POST", "/v1.0/instances/7/root"),
            ("POST", "/v1/certificates"),
            ("POST", "/v3/p/volume-transfers"),
            ("GET", "/v2/share-access-rules?share_id=1"),
        ] {
            assert!(refused(method, path), "{method} {path}");
        }
        let kind = |path: &str, headers: &[(&str, &str)], body: &str| {
            let mut request = Request::post(format!("https://nova.example.com{path}"));
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let head = request.body(()).unwrap().into_parts().0;
            check(&head, body.as_bytes())
                .err()
                .map(|failure| failure.kind)
        };
        let minting = Some(crate::credential::CredentialErrorKind::Minting);
        let malformed = Some(crate::credential::CredentialErrorKind::Malformed);
        for path in ["/v3/p/volumes/v/action.json", "/v2/p/shares/s/action.xml"] {
            for action in ["os-initialize_connection", "allow_access", "os-access_list"] {
                let body = format!(r#"{{"{action}": {{}}}}"#);
                assert_eq!(kind(path, &[], &body), minting, "{path} {action}");
            }
        }
        let action = "/v2.1/servers/7/action";
        for (headers, body, expected) in [
            (
                &[][..],
                r#"{"os-getVNCConsole": {"type": "novnc"}}"#,
                minting,
            ),
            (
                &[],
                r#"{"reboot": 1, "os\u002dgetConsoleOutput": {}}"#,
                minting,
            ),
            (&[], r#"{"changePassword": {"adminPass": "x"}}"#, minting),
            (&[], r#"{"reboot": {"type": "SOFT"}}"#, None),
            (&[], "os-getVNCConsole", malformed),
            (&[("content-encoding", "gzip")], "{}", malformed),
            (&[("x-account-meta-temp-url-key", "x")], "{}", minting),
        ] {
            assert_eq!(kind(action, headers, body), expected, "{body}");
        }
        for (accept, expected) in [
            ("text/plain", true),
            ("application/json, application/octet-stream", true),
            ("application/json", false),
            ("*/*", false),
        ] {
            let request = Request::get("https://barbican.example.com/v1/secrets/7");
            let request = request.header("accept", accept).body(()).unwrap();
            let denied = check(&request.into_parts().0, b"").is_err();
            assert_eq!(denied, expected, "{accept}");
        }
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
