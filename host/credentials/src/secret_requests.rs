//! Detection of requests whose answer is a secret. A plugin could keep this secret, or obtain one
//! that is valid for longer, so such requests are denied however their path is written.

pub(crate) mod aws;
pub(crate) mod keystone;
pub(crate) mod oauth2;
pub(crate) mod soap;

use bytes::Bytes;
use http::request::Parts;

use crate::{
    credential::CredentialError, place::Place, request::encode::unpercent,
    sources::failure::Failure,
};

/// Returns true if the body determines what is requested. `place` is where the credential's secret
/// is added, if it is added to requests.
pub(crate) fn needs_body(head: &Parts, place: Option<&Place>) -> bool {
    keystone::is_action(head) || soap::may_be_soap(head, place)
}

/// Returns an error if the answer to the request would be a secret. The lists of all clouds apply
/// to each credential, since its type does not show which cloud it is for.
pub(crate) fn check(
    head: &Parts,
    body: Option<&[u8]>,
    place: Option<&Place>,
) -> Result<(), Failure> {
    let body = match body {
        Some(body) => body,
        None if needs_body(head, place) => {
            return Err(Failure::malformed(
                "the complete body is needed to determine the operation",
            ));
        }
        None => b"",
    };

    // A proxy may decode the path first, so each list applies to every reading of it.
    let paths = path_segments(head.uri.path());
    keystone::check(head, &paths, body, place)?;
    soap::check(head, &paths, body, place)?;
    oauth2::check(head, &paths)?;
    aws::deny_named(head, &paths)
}

/// Returns true if [`check_certificate`] needs the body.
#[must_use]
pub fn certificate_needs_body(head: &Parts) -> bool {
    needs_body(head, None)
}

/// Returns an error if the answer to the request would be a secret, for a client certificate that
/// authenticates it alone.
///
/// # Errors
/// [`CredentialError`] if it would be, or if that cannot be determined.
pub fn check_certificate(
    name: &str,
    head: &Parts,
    body: Option<&Bytes>,
) -> Result<(), CredentialError> {
    check(head, body.map(AsRef::as_ref), None).map_err(|failure| failure.named(name))
}

/// Rejects a compressed body, since it cannot be inspected.
pub(crate) fn plain_body(head: &Parts) -> Result<(), Failure> {
    let mut packed = head.headers.get_all(http::header::CONTENT_ENCODING).iter();
    if packed.any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(Failure::malformed(
            "bodies with Content-Encoding are not allowed with this credential",
        ));
    }

    Ok(())
}

/// Maximum number of nested encodings of a path: each proxy and server may decode it once.
const MAX_ENCODED: usize = 4;

/// Returns the segments of a path in every way that a proxy or a server may interpret it: as sent,
/// and percent-decoded once, twice and so on; in lower case, without empty segments, parameters
/// (`;x`) and spaces, with `.` and `..` resolved, and backslashes as slashes.
pub(crate) fn path_segments(path: &str) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    let mut text = path.to_owned();

    for _ in 0..=MAX_ENCODED {
        let segments = segments(&text);
        if !all.contains(&segments) {
            all.push(segments);
        }

        let decoded = String::from_utf8_lossy(&unpercent(&text)).into_owned();
        if decoded == text {
            break;
        }
        text = decoded;
    }

    all
}

fn segments(path: &str) -> Vec<String> {
    let mut segments: Vec<String> = Vec::new();
    for segment in path.split(['/', '\\']) {
        let segment = segment
            .split([';', '?', '#', '\0'])
            .next()
            .unwrap_or_default()
            .trim()
            .to_lowercase();

        match segment.as_str() {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }

    segments
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::credential::CredentialErrorKind;

    #[test]
    fn path_segments_decode_every_way_to_write_a_path() {
        let plain = vec!["v3".to_owned(), "auth".to_owned(), "tokens".to_owned()];
        for path in [
            "/v3/auth/tokens",
            "/V3/Auth/TOKENS/",
            "//v3//auth///tokens",
            "/v3/./auth/x/../tokens",
            "/../v3/auth/tokens",
            "/v3/auth%2Ftokens",
            "/v3/auth%252ftokens",
            "/v3/%61uth/%2574okens",
            "/v3;a=b/auth/tokens;x",
            "/v3/auth\\tokens",
            "/v3/auth/tokens%20",
            "/v3/auth/tokens%00.json",
            "/v3/x/%2e%2e/auth/tokens",
        ] {
            assert!(
                path_segments(path).contains(&plain),
                "{path}: {:?}",
                path_segments(path)
            );
        }

        assert_eq!(path_segments("/v3/auth/tokens").len(), 1);
    }

    /// Generates variants of the path that servers treat as equal.
    fn disguised(path: &'static str) -> impl Strategy<Value = String> {
        let letter = |letter: char| {
            let code = u32::from(letter);
            prop_oneof![
                8 => Just(letter.to_string()),
                1 => Just(letter.to_uppercase().to_string()),
                1 => Just(format!("%{code:02x}")),
                1 => Just(format!("%{code:02X}")),
                1 => Just(format!("%25{code:02x}")),
                1 => Just(format!("%2525{code:02X}")),
            ]
        };
        let slash = prop::sample::select(vec![
            "/",
            "//",
            "/./",
            "/x/../",
            "%2f",
            "/%2F",
            "\\",
            "/%2e/",
            "/a/%2E%2e/",
            ";p=1/",
        ]);
        let segments: Vec<_> = path.split('/').skip(1).collect();
        let segments: Vec<_> = segments
            .into_iter()
            .map(|segment| segment.chars().map(letter).collect::<Vec<_>>())
            .collect();
        let slashes = prop::collection::vec(slash, segments.len());
        let end = prop::sample::select(vec!["", "/", "//", "/.", ";x", "%20", "%00", "/x/.."]);
        (segments, slashes, end).prop_map(|(segments, slashes, end)| {
            let parts = segments
                .iter()
                .zip(&slashes)
                .map(|(letters, slash)| format!("{slash}{}", letters.concat()));
            let path: String = parts.collect::<String>() + end;
            // The path of a request must start with a slash.
            if path.starts_with('/') {
                path
            } else {
                format!("/{path}")
            }
        })
    }

    proptest! {
        #[test]
        fn a_disguised_login_path_is_denied(path in disguised("/v3/auth/tokens")) {
            if let Ok(request) = http::Request::post(format!("https://a.example{path}")).body(()) {
                prop_assert!(check(&request.into_parts().0, None, None).is_err(), "{}", path);
            }
        }

        #[test]
        fn a_disguised_signing_path_is_denied(path in disguised("/v1/x/serviceAccounts/a:signBlob")) {
            if let Ok(request) = http::Request::post(format!("https://a.example{path}")).body(()) {
                prop_assert!(check(&request.into_parts().0, None, None).is_err(), "{}", path);
            }
        }
    }

    #[test]
    fn operations_in_bodies_need_the_body() {
        let token = Place::header("x-auth-token", "").unwrap();
        let cookie = Place::Cookie("vmware_soap_session".to_owned());
        for (path, kind, expected) in [
            ("/v2.1/servers", None, [false, false, true]),
            (
                "/v2.1/servers",
                Some("application/json"),
                [false, false, true],
            ),
            ("/v2.1/servers/7/action", None, [true, true, true]),
            ("/sdk", None, [true, true, true]),
            ("/x", Some("text/xml; charset=utf-8"), [true, true, true]),
            ("/x", Some("application/soap+xml"), [true, true, true]),
        ] {
            let mut request = http::Request::post(format!("https://a.example{path}"));
            if let Some(kind) = kind {
                request = request.header("content-type", kind);
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            let places = [None, Some(&token), Some(&cookie)];
            assert_eq!(
                places.map(|place| needs_body(&head, place)),
                expected,
                "{path} {kind:?}"
            );
            assert_eq!(
                places.map(|place| check(&head, None, place).is_err()),
                expected,
                "{path} {kind:?}"
            );
        }
    }

    // Holds: SEC-35
    #[test]
    fn secrets_of_every_cloud_are_denied_with_every_credential() {
        let places = [
            None,
            Some(Place::header("authorization", "Bearer ").unwrap()),
            Some(Place::header("x-auth-token", "").unwrap()),
            Some(Place::Cookie("vmware_soap_session".to_owned())),
        ];
        let soap = |inner: &str| format!("<Envelope><Body>{inner}</Body></Envelope>");
        let login = soap("<Login/>");
        let ticket = soap("<v:AcquireCloneTicket/>");
        for (method, path, headers, body) in [
            ("POST", "/v3/auth/tokens", &[][..], ""),
            ("POST", "/identity/v3/OS-TRUST/trusts", &[], ""),
            ("POST", "/v3/users/u/application_credentials", &[], ""),
            ("GET", "/v3/credentials", &[], ""),
            ("POST", "/v3/OS-OAUTH2/token", &[], ""),
            ("POST", "/v2.1/os-keypairs", &[], ""),
            ("GET", "/v1/secrets/7/payload", &[], ""),
            (
                "POST",
                "/v2.1/servers/7/action",
                &[],
                r#"{"os-getVNCConsole": {}}"#,
            ),
            ("POST", "/api/session", &[], ""),
            ("POST", "/rest/com/vmware/cis/session", &[], ""),
            ("POST", "/api/vcenter/authentication/token", &[], ""),
            ("POST", "/api/vcenter/vm/vm-1/console/tickets", &[], ""),
            (
                "POST",
                "/sdk/vim25/8.0.1.0/SessionManager/SessionManager/Login",
                &[],
                "{}",
            ),
            ("POST", "/sdk", &[], &login),
            (
                "POST",
                "/vc/SDK/vimService",
                &[("content-type", "text/plain")],
                &ticket,
            ),
            ("POST", "/vc", &[("content-type", "text/xml")], &ticket),
            ("POST", "/oauth/token", &[], ""),
            ("GET", "/v1/clusters/c/kubeconfig", &[], ""),
            ("POST", "/v1/projects/-/serviceAccounts/a:signJwt", &[], ""),
            (
                "POST",
                "/x/Microsoft.Storage/storageAccounts/a/listKeys",
                &[],
                "",
            ),
            (
                "POST",
                "/",
                &[("x-amz-target", "secretsmanager.GetSecretValue")],
                "{}",
            ),
            ("GET", "/?Action=CreateAccessKey", &[], ""),
            ("POST", "/api/v1/CreateAccessKey", &[], "{}"),
        ] {
            let mut request = http::Request::builder()
                .method(method)
                .uri(format!("https://a.example{path}"));
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let head = request.body(()).unwrap().into_parts().0;
            for place in &places {
                let failure = check(&head, Some(body.as_bytes()), place.as_ref()).err();
                assert_eq!(
                    failure.map(|it| it.kind),
                    Some(CredentialErrorKind::SecretRequest),
                    "{method} {path} {place:?}"
                );
            }
        }
    }

    #[test]
    fn requests_of_one_cloud_do_not_look_like_secrets_of_another() {
        let azure = "/subscriptions/s/resourceGroups/identity/providers";
        for (method, path, kind, body) in [
            // Certificates of load balancers at Hetzner and DigitalOcean; Magnum has the same path.
            ("POST", "/v1/certificates", "application/json", "{}"),
            ("POST", "/v2/certificates", "application/json", "{}"),
            (
                "GET",
                "/compute/v1/projects/p/zones/z/instances/login-1",
                "",
                "",
            ),
            (
                "PUT",
                &format!("{azure}/Microsoft.Network/loadBalancers/login"),
                "",
                "",
            ),
            (
                "DELETE",
                &format!("{azure}/Microsoft.Network/x/acquired"),
                "",
                "",
            ),
            ("POST", "/v1/objects", "text/plain", "\u{0}<!DOCTYPE x>"),
            (
                "POST",
                "/v3/projects/p/timeSeries",
                "application/json",
                "{}",
            ),
            ("POST", "/api/nutanix/v3/groups", "application/json", "{}"),
            ("PUT", "/api/v1/servers/session", "application/json", "{}"),
            ("POST", "/api/v1/projects/identity/servers", "", ""),
            ("GET", "/v1/loadbalancers/sign", "", ""),
            ("GET", "/v1/servers?name=my-userdata-node", "", ""),
            ("DELETE", "/v1/clusters/c/nodes/rotate-1", "", ""),
            (
                "POST",
                "/v1/servers?action=reboot",
                "application/json",
                "{}",
            ),
            (
                "POST",
                "/v1/servers/7/actions/reboot",
                "application/json",
                "{}",
            ),
            (
                "POST",
                "/api/nutanix/v3/projects/list",
                "application/json",
                "{}",
            ),
            ("POST", "/v3/groups", "application/json", "{}"),
            ("POST", "/v3/regions/eu/servers", "application/json", "{}"),
            ("PUT", "/v3/projects/p/lbs/1", "application/json", "{}"),
            ("GET", "/v2.0/users", "", ""),
            ("POST", "/v2.0/users", "application/json", "{}"),
            (
                "PUT",
                "/1.3/load-balancer/u/backends/rotate-be",
                "application/json",
                "{}",
            ),
            ("DELETE", "/v1/dns/zones/generate.example.com", "", ""),
            (
                "PATCH",
                "/v2/databases/clusters/listuser-db",
                "application/json",
                "{}",
            ),
            ("GET", "/v1/buckets/apikeys", "", ""),
            ("POST", "/v1/servers/apikeys", "application/json", "{}"),
            ("POST", "/v1/servers/sign", "application/json", "{}"),
            ("GET", "/v1/servers/kubeconfig", "", ""),
            ("POST", "/v1/stacks/s/attachments", "application/json", "{}"),
            ("DELETE", "/v1/instances/root/share", "", ""),
            ("POST", "/v1/queues/root/share", "application/json", "{}"),
            ("POST", "/v1/providers/token", "application/json", "{}"),
            ("POST", "/v1/providers/p/rotate", "application/json", "{}"),
            ("GET", "/v1/servers?expand=name&name=userdata", "", ""),
            ("POST", "/api/tickets", "application/json", "{}"),
            ("GET", "/sts/x", "", ""),
            (
                "POST",
                "/v1/vms/7/action",
                "application/json",
                r#"{"rebuild": {}}"#,
            ),
            (
                "POST",
                "/v1/servers/7/action",
                "application/x-www-form-urlencoded",
                "power=on",
            ),
            (
                "POST",
                "/v1/x",
                "application/xml",
                "<user><login>a</login></user>",
            ),
        ] {
            let request = http::Request::builder()
                .method(method)
                .header("content-type", kind)
                .uri(format!("https://a.example{path}"));
            let head = request.body(()).unwrap().into_parts().0;
            let bearer = Place::header("authorization", "Bearer ").unwrap();
            for place in [None, Some(&bearer)] {
                assert_eq!(
                    check(&head, Some(body.as_bytes()), place),
                    Ok(()),
                    "{method} {path}"
                );
            }
        }
    }
}
