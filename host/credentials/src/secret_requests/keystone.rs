//! OpenStack: of Keystone, only reads are allowed, except those that return a secret; of other
//! services, what returns a password, a key or a way to the console of a server is denied.

use http::{Method, header::ACCEPT, request::Parts};

use super::{path_segments, plain_body};
use crate::{
    place::Place,
    request::{actions::is_bodiless, json},
    sources::failure::Failure,
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

/// Resources of other services that are secrets, or return them: passwords of servers, tokens of
/// consoles, keys of DNS and VPN, and how to connect to volumes and shares. Stacks return whatever
/// their templates ask for.
const SECRET_RESOURCES: &[&str] = &[
    "os-server-password",
    "os-console-auth-tokens",
    "tsigkeys",
    "ipsec-site-connections",
    "share-access-rules",
    "attachments",
    "stacks",
];

/// Resources that return a secret when they are created, and the resource that they belong to, if
/// their names are common: consoles, key pairs, root users of databases, shares of queues, and
/// certificates with which clusters are accessed.
const SECRET_CREATION: &[(&str, Option<&str>)] = &[
    ("remote-consoles", None),
    ("volume-transfers", None),
    ("os-volume-transfer", None),
    ("os-consoles", None),
    ("os-keypairs", None),
    ("certificates", None),
    ("root", Some("instances")),
    ("root", Some("clusters")),
    ("share", Some("queues")),
];

/// What is behind these is a name that users choose. Other names are IDs, except in Swift.
const NAMES: &[&str] = &["tags", "metadata"];

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
///
/// With a token of Keystone, the request is for OpenStack. With another credential, only names count
/// that no other cloud has.
pub(crate) fn check(
    head: &Parts,
    paths: &[Vec<String>],
    body: &[u8],
    place: Option<&Place>,
) -> Result<(), Failure> {
    let openstack = place.is_some_and(|place| place.is_header("x-auth-token"));
    let read = matches!(head.method, Method::GET | Method::HEAD | Method::OPTIONS);

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
        check_action(head, body, openstack)?;
    }

    let identity = openstack || is_identity(head);
    let is_secret = paths.iter().any(|segments| mints(segments, read, identity));
    if !is_secret {
        return Ok(());
    }
    let method = &head.method;
    Err(Failure::secret_request(format!(
        "{method} of this Identity path returns a secret or creates an identity, which is not allowed; Skydock authenticates the plugin's \
         requests, so it does not need to log in (for SDKs that must log in, set `masked: true`)"
    )))
}

/// Checks the keys of the body, which name the action.
fn check_action(head: &Parts, body: &[u8], openstack: bool) -> Result<(), Failure> {
    // Other clouds have actions in forms. OpenStack does not read them.
    let is_json = body
        .trim_ascii_start()
        .first()
        .is_some_and(|first| !first.is_ascii_alphanumeric());
    if !openstack && !is_json {
        return Ok(());
    }
    plain_body(head)?;
    let actions = json::keys(body)
        .map_err(|_| Failure::malformed("the action is not clear: its body is not JSON"))?;

    let is_secret = |action: &&String| {
        let action = action.to_lowercase();
        SECRET_ACTIONS.contains(&action.as_str()) && is_known(&action, openstack)
    };

    match actions.iter().find(is_secret) {
        Some(action) => Err(returns_secret(&format!("action {action}"))),
        None => Ok(()),
    }
}

/// Returns true if the name means what it means in OpenStack: with its token, or because no other
/// cloud has such names.
fn is_known(name: &str, openstack: bool) -> bool {
    openstack || name.starts_with("os-")
}

fn returns_secret(what: &str) -> Failure {
    Failure::secret_request(format!(
        "{what} returns or sets a secret, which is not allowed with Skydock's token"
    ))
}

/// Returns the resource in the path that is a secret, or returns one.
fn secret_resource<'a>(segments: &'a [String], head: &Parts, openstack: bool) -> Option<&'a str> {
    let creates = head.method == Method::POST;
    let under = |name: &str| segments.iter().any(|it| it == name);
    let is_created = |segment: &str| {
        SECRET_CREATION
            .iter()
            .any(|(name, of)| *name == segment && of.is_none_or(under))
    };
    let is = |segment: &&String| {
        is_known(segment, openstack)
            && (SECRET_RESOURCES.contains(&segment.as_str()) || creates && is_created(segment))
    };

    // An account in Swift has containers and objects below it, whose names users choose.
    let swift = segments
        .windows(2)
        .any(|pair| matches!(pair, [version, account] if version == "v1" && account.starts_with("auth_")));
    let own = openstack && !swift;
    let read = is_bodiless(&head.method);

    let mut resources = segments
        .iter()
        .take_while(|segment| !swift && !NAMES.contains(&segment.as_str()));
    if let Some(resource) = resources.find(is) {
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
        [.., secrets, _] if secrets == "secrets" && openstack && !described => Some(secrets),
        // Barbican shares the secret with other users.
        [.., kind, _, acl]
            if own && !read && ["secrets", "containers"].contains(&kind.as_str()) =>
        {
            (acl == "acl").then_some(acl)
        }
        // Ironic returns the URL of the console. Its servers are provisioned with a password or keys.
        [.., states, state] if own && states == "states" => {
            (state == "console" || state == "provision" && !read).then_some(state)
        }
        _ => None,
    }
}

/// Returns true if the server is Keystone, by its name or its usual port.
fn is_identity(head: &Parts) -> bool {
    let host = head.uri.host().unwrap_or_default().to_ascii_lowercase();
    let name = host.split('.').next().unwrap_or_default();
    ["identity", "keystone"].contains(&name)
        || head
            .uri
            .port_u16()
            .is_some_and(|port| [5000, 35357].contains(&port))
}

/// Returns true if the path belongs to Identity. If it is not known to be for Keystone, all of its
/// resources are known only behind its name: other clouds have a `v3` with users and projects, too.
fn mints(segments: &[String], read: bool, identity: bool) -> bool {
    (0..segments.len()).any(|at| {
        let before = at.checked_sub(1).and_then(|at| segments.get(at));
        let named = before.is_some_and(|it| ["identity", "keystone"].contains(&it.as_str()));
        let whole = identity || named;
        if !whole && before.is_some() {
            return false;
        }

        match segments.get(at..).unwrap_or_default() {
            [version, rest @ ..] if version == "v3" => {
                mints_own(rest, read) || whole && mints_v3(rest, read)
            }
            // Identity v2.0. Neutron has the same version, but other resources.
            [version, first, ..] if version == "v2.0" => {
                ["tokens", "ec2tokens"].contains(&first.as_str())
                    || whole && !read && first == "users"
            }
            _ => false,
        }
    })
}

/// Returns true for resources of Identity whose names no other cloud has below `v3`.
fn mints_own(rest: &[String], read: bool) -> bool {
    match rest {
        [first, ..] if SECRET.contains(&first.as_str()) => true,
        [first, ..] if first == "auth" || first.starts_with("os-") => mints_v3(rest, read),
        [users, _, own, ..] if users == "users" => own == "application_credentials" && !read,
        _ => false,
    }
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

    /// Checks a request that is sent with a token of Keystone.
    fn check(head: &Parts, body: &[u8]) -> Result<(), Failure> {
        let place = Place::header("x-auth-token", "").unwrap();
        super::check(head, &path_segments(head.uri.path()), body, Some(&place))
    }

    fn is_denied(method: &str, path: &str) -> bool {
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
            ("POST", "/v3/attachments"),
            ("GET", "/v1/nodes/n1/states/console"),
            ("GET", "/v3/3f0d1b5c/attachments/7"),
            ("PUT", "/volume/v3/3f0d1b5c/attachments/7"),
            ("POST", "/v1/3f0d1b5c/stacks"),
            ("GET", "/heat-api/v1/3f0d1b5c/stacks/s/7/outputs/key"),
            ("PUT", "/v1/nodes/n1/states/provision"),
            ("PUT", "/v1/secrets/7/acl"),
            ("PATCH", "/key-manager/v1/containers/7/acl"),
        ] {
            assert!(is_denied(method, path), "{method} {path}");
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
        let secret_request = Some(crate::credential::CredentialErrorKind::SecretRequest);
        let malformed = Some(crate::credential::CredentialErrorKind::Malformed);
        for path in ["/v3/p/volumes/v/action.json", "/v2/p/shares/s/action.xml"] {
            for action in ["os-initialize_connection", "allow_access", "os-access_list"] {
                let body = format!(r#"{{"{action}": {{}}}}"#);
                assert_eq!(kind(path, &[], &body), secret_request, "{path} {action}");
            }
        }

        let action = "/v2.1/servers/7/action";
        for (headers, body, expected) in [
            (
                &[][..],
                r#"{"os-getVNCConsole": {"type": "novnc"}}"#,
                secret_request,
            ),
            (
                &[],
                r#"{"reboot": 1, "os\u002dgetConsoleOutput": {}}"#,
                secret_request,
            ),
            (
                &[],
                r#"{"changePassword": {"adminPass": "x"}}"#,
                secret_request,
            ),
            (&[], r#"{"reboot": {"type": "SOFT"}}"#, None),
            (&[], "os-getVNCConsole", malformed),
            (&[("content-encoding", "gzip")], "{}", malformed),
            (
                &[("x-account-meta-temp-url-key", "x")],
                "{}",
                secret_request,
            ),
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
            assert!(is_denied(method, path), "{method} {path}");
        }
    }

    #[test]
    fn keystone_is_known_without_its_token() {
        for (uri, expected) in [
            ("https://keystone.example.com/v3/users", true),
            ("https://identity.cloud.example/v3/users", true),
            ("https://cloud.example:5000/v3/users", true),
            ("https://cloud.example/identity/v3/users", true),
            ("https://cloud.example/v3/users", false),
        ] {
            let (head, ()) = Request::post(uri).body(()).unwrap().into_parts();
            let bearer = Place::header("authorization", "Bearer ").unwrap();
            let denied =
                super::check(&head, &path_segments(head.uri.path()), b"{}", Some(&bearer)).is_err();
            assert_eq!(denied, expected, "{uri}");
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
            ("PUT", "/v2.0/subnets/1/tags/tsigkeys"),
            ("GET", "/v2.1/servers/7/metadata/stacks"),
            ("POST", "/v1/AUTH_p/stacks/root"),
            ("GET", "/v2.0/users"),
            ("GET", "/v1/nodes/n1/states"),
            ("PUT", "/v1/nodes/n1/states/power"),
            ("GET", "/v1/secrets/7/acl"),
            ("PUT", "/v1/AUTH_p/states/provision"),
        ] {
            assert!(!is_denied(method, path), "{method} {path}");
        }
    }
}
