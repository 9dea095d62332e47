//! vSphere: operations that create sessions, tickets, accounts or permissions. In SOAP, they are
//! names of elements; in the same API as JSON (VI JSON), they are segments of the path. The REST
//! APIs have resources for the same.

use http::{Method, header::CONTENT_TYPE, request::Parts};

use super::{path_segments, plain_body};
use crate::{place::Place, request::actions::is_bodiless, sources::failure::Failure};

/// Name of the session cookie of the Web Services API.
pub(crate) const SESSION_COOKIE: &str = "vmware_soap_session";

/// Prefixes of operations of vSphere's Web Services API, in lower case.
const OPERATIONS: &[&str] = &[
    "login",
    "logout",
    "clonesession",
    "impersonateuser",
    "terminatesession",
    "acquire",
    "createuser",
    "updateuser",
    "updatepassword",
    "changepassword",
    // An account or extension with permissions that the plugin chooses.
    "creategroup",
    "assignuser",
    "setentitypermissions",
    "mergepermissions",
    "addauthorizationrole",
    "updateauthorizationrole",
    "registerextension",
    "updateextension",
    "setextensioncertificate",
    "setpublickey",
];

/// Resources of the REST APIs that return a session, a token or a ticket, or are accounts, unless
/// they are read.
const RESOURCES: &[&str] = &[
    "session",
    "sessions",
    "tickets",
    "token",
    "tokenservice",
    "token-exchange",
    "access-tokens",
    "local-accounts",
    "identity",
];

/// Resources directly behind `/api` that log in.
const LOGINS: &[&str] = &["session", "sessions", "token"];

/// Parts of the REST APIs.
const PARTS: &[&str] = &[
    "appliance",
    "cis",
    "com",
    "content",
    "esx",
    "hvc",
    "iam",
    "stats",
    "vapi",
    "vcenter",
];

/// Services beside the APIs that hand out tokens.
const ISSUERS: &[&str] = &[
    "sts",
    "sso-adminserver",
    "websso",
    "openidconnect",
    "oauth2",
];

/// Returns true if the body may be SOAP for vSphere: it says so, or is for the path of this API,
/// which ignores the type. With the cookie of a session, any body may be SOAP, also behind a proxy
/// that changes paths.
pub(crate) fn may_be_soap(head: &Parts, place: Option<&Place>) -> bool {
    let mut kinds = head.headers.get_all(CONTENT_TYPE).iter();

    is_session(place)
        || !is_bodiless(&head.method)
            && (kinds.any(|kind| {
                let kind = String::from_utf8_lossy(kind.as_bytes()).to_ascii_lowercase();
                kind.contains("xml") || kind.contains("soap")
            }) || is_sdk(head))
}

/// Returns true if the path is that of the Web Services API.
fn is_sdk(head: &Parts) -> bool {
    let paths = path_segments(head.uri.path());
    paths.iter().flatten().any(|it| it == "sdk")
}

/// Returns true if the credential is a session of vSphere.
fn is_session(place: Option<&Place>) -> bool {
    matches!(place, Some(Place::Cookie(name)) if name.as_str() == SESSION_COOKIE)
}

/// Returns an error if the answer to the request would be a secret, or if servers could parse the
/// XML differently.
pub(crate) fn check(
    head: &Parts,
    paths: &[Vec<String>],
    body: &[u8],
    place: Option<&Place>,
) -> Result<(), Failure> {
    if let Some(segment) = paths
        .iter()
        .find_map(|segments| in_path(segments, &head.method, is_session(place)))
    {
        return Err(denial(&format!("{segment:?} in the path")));
    }

    if !may_be_soap(head, place) {
        return Ok(());
    }

    plain_body(head)?;
    // UTF-16 text with Latin letters is valid UTF-8 with zero bytes, which are not allowed in XML.
    let text = std::str::from_utf8(body)
        .ok()
        .filter(|text| !text.contains('\0'));
    let text = text.ok_or_else(|| Failure::malformed("the SOAP body is not UTF-8"))?;

    let lower = text.to_ascii_lowercase();
    let declared = lower
        .trim_start_matches('\u{feff}')
        .trim_start()
        .strip_prefix("<?xml");
    let declaration = declared
        .and_then(|rest| rest.split_once("?>"))
        .map(|(declaration, _)| declaration);

    // In another encoding, a server would read other text than is searched here.
    if declaration.is_some_and(|it| it.contains("encoding") && !it.contains("utf-8")) {
        return Err(Failure::malformed(
            "the SOAP body declares an encoding other than UTF-8",
        ));
    }

    // An entity of a document type could contain an operation that is not seen here.
    if lower.contains("<!doctype") || lower.contains("<!entity") {
        return Err(Failure::malformed(
            "SOAP bodies must not have a document type",
        ));
    }

    // Other clouds have XML with such elements, but no envelope.
    let vsphere = is_session(place) || is_sdk(head);
    if !vsphere && !elements(&lower).any(|name| name == "envelope") {
        return Ok(());
    }

    match elements(&lower).find(|name| is_operation(name)) {
        Some(name) => Err(denial(&format!(
            "operation {}",
            name.chars().take(40).collect::<String>()
        ))),
        None => Ok(()),
    }
}

/// Returns the segment that names an operation, a resource or a service that hands out secrets.
/// Without a session of vSphere, they only count at their places in its APIs, because names of
/// servers and load balancers of other clouds are segments, too.
fn in_path<'a>(segments: &'a [String], method: &Method, session: bool) -> Option<&'a str> {
    let changes = *method != Method::GET;
    let issuer = segments
        .first()
        .filter(|it| (session || changes) && ISSUERS.contains(&it.as_str()));

    // `/sdk/vim25/VERSION/TYPE/OBJECT/OPERATION`.
    let sdk = session || segments.iter().any(|it| it == "sdk");
    let operation = segments.last().filter(|it| sdk && is_operation(it));
    let resource = resources(segments, session)
        .iter()
        .find(|it| changes && RESOURCES.contains(&it.as_str()));

    issuer.or(operation).or(resource).map(String::as_str)
}

/// Returns the segments that are resources of the REST APIs: what is behind the name of a part of
/// vSphere, and what logs in.
fn resources(segments: &[String], session: bool) -> &[String] {
    let root = segments.iter().position(|it| it == "api" || it == "rest");
    let behind = root
        .and_then(|root| segments.get(root + 1..))
        .unwrap_or_default();
    match behind {
        _ if session => segments,
        [part, rest @ ..] if PARTS.contains(&part.as_str()) => rest,
        [login, ..] if LOGINS.contains(&login.as_str()) => behind.get(..1).unwrap_or_default(),
        _ => &[],
    }
}

fn is_operation(name: &str) -> bool {
    OPERATIONS
        .iter()
        .any(|operation| name.starts_with(operation))
}

fn denial(what: &str) -> Failure {
    Failure::secret_request(format!(
        "{what} is not allowed for plugins: Skydock logs in, and adds its session (for SDKs that must log in, set `masked: true`)"
    ))
}

/// Returns the local names of everything that looks like the start of an element, including
/// comments and character data.
fn elements(text: &str) -> impl Iterator<Item = &str> {
    text.split('<').skip(1).map(|rest| {
        let end = rest
            .find(|letter: char| letter.is_whitespace() || "/>".contains(letter))
            .unwrap_or(rest.len());
        let name = rest.get(..end).unwrap_or_default();
        name.rsplit(':').next().unwrap_or(name)
    })
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::credential::CredentialErrorKind;

    /// Checks a request that is sent with a session of vSphere.
    fn check(head: &Parts, body: &[u8]) -> Result<(), Failure> {
        super::check(
            head,
            &path_segments(head.uri.path()),
            body,
            Some(&Place::Cookie(SESSION_COOKIE.to_owned())),
        )
    }

    fn kind(path: &str, body: &[u8]) -> Option<CredentialErrorKind> {
        let request = Request::post(format!("https://vcenter.example.com{path}"));
        check(&request.body(()).unwrap().into_parts().0, body)
            .err()
            .map(|failure| failure.kind)
    }

    fn soap(inner: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Envelope><Body>{inner}</Body></Envelope>"
        )
    }

    #[test]
    fn vsphere_requests_for_sessions_are_denied() {
        for inner in [
            "<Login xmlns=\"urn:vim25\"><_this>SessionManager</_this></Login>",
            "<vim:Login>",
            "<x:LoginByToken/>",
            "<AcquireCloneTicket\n/>",
            "<ns1:AcquireGenericServiceTicket>",
            "<CloneSession>",
            "<Logout/>",
            "<!-- --><login>",
        ] {
            assert_eq!(
                kind("/sdk", soap(inner).as_bytes()),
                Some(CredentialErrorKind::SecretRequest),
                "{inner}"
            );
        }

        assert_eq!(
            kind("/rest/com/vmware/cis/session", b""),
            Some(CredentialErrorKind::SecretRequest)
        );
        assert_eq!(
            kind("/api/%73ession", b""),
            Some(CredentialErrorKind::SecretRequest)
        );
    }

    // Holds: SEC-35
    #[test]
    fn vsphere_sessions_are_denied_in_every_api() {
        let manager = "/sdk/vim25/8.0.1.0/SessionManager/SessionManager";
        for path in [
            format!("{manager}/Login"),
            format!("{manager}/LoginByToken"),
            format!("{manager}/AcquireLocalTicket"),
            format!("{manager}/AcquireCloneTicket"),
            format!("{manager}/acquiregenericserviceticket"),
            format!("{manager}/%41cquireCloneTicket"),
            "/sdk/vim25/8.0.1.0/AuthorizationManager/a/SetEntityPermissions".to_owned(),
            "/sdk/vim25/8.0.1.0/ExtensionManager/e/RegisterExtension".to_owned(),
            "/api/vcenter/vm/vm-1/console/tickets".to_owned(),
            "/api/vcenter/authentication/token".to_owned(),
            "/api/vcenter/tokenservice/token-exchange".to_owned(),
            "/api/appliance/local-accounts/x".to_owned(),
            "/sts/STSService".to_owned(),
            "/sso-adminserver/sdk/vsphere.local".to_owned(),
        ] {
            assert_eq!(
                kind(&path, b"{}"),
                Some(CredentialErrorKind::SecretRequest),
                "{path}"
            );
        }

        for path in [
            "/sdk/vim25/8.0.1.0/PropertyCollector/propertyCollector/RetrievePropertiesEx",
            "/sdk/vim25/8.0.1.0/SearchIndex/SearchIndex/FindByUuid",
            "/rest/com/vmware/cis/tagging/tag-association/id:urn:vmomi:x:GLOBAL",
        ] {
            assert_eq!(kind(path, b"{}"), None, "{path}");
        }
    }

    #[test]
    fn ambiguous_xml_is_rejected() {
        let utf16: Vec<u8> = soap("<Login>")
            .encode_utf16()
            .flat_map(u16::to_be_bytes)
            .collect();
        let utf7 = soap("").replace("UTF-8", "utf-7");
        let entity = format!("<!DOCTYPE a [<!ENTITY l \"Login\">]>{}", soap(""));
        let with_mark: Vec<u8> = [&b"\xff\xfe"[..], &utf16].concat();
        let (kinds, alone) = (
            format!("<!DOCTYPE a>{}", soap("")),
            format!("<!ENTITY l \"x\">{}", soap("")),
        );
        for body in [
            with_mark.as_slice(),
            utf7.as_bytes(),
            entity.as_bytes(),
            kinds.as_bytes(),
            alone.as_bytes(),
        ] {
            assert_eq!(kind("/sdk", body), Some(CredentialErrorKind::Malformed));
        }

        // Without a byte order mark, these bytes are valid UTF-8. They must not be treated as text
        // without elements.
        assert_eq!(kind("/sdk", &utf16), Some(CredentialErrorKind::Malformed));
    }

    #[test]
    fn a_compressed_or_unavailable_body_is_rejected() {
        let request =
            Request::post("https://vcenter.example.com/sdk").header("content-encoding", "gzip");
        let (head, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(
            check(&head, b"x").unwrap_err().kind,
            CredentialErrorKind::Malformed
        );
        let (head, ()) = Request::post("https://vcenter.example.com/sdk")
            .body(())
            .unwrap()
            .into_parts();
        let session = Place::Cookie(SESSION_COOKIE.to_owned());
        let unseen = super::super::check(&head, None, Some(&session)).unwrap_err();
        assert_eq!(unseen.kind, CredentialErrorKind::Malformed);
    }

    #[test]
    fn vsphere_requests_of_a_controller_are_allowed() {
        for inner in [
            "<RetrieveServiceContent>",
            "<FindByUuid>",
            "<RetrievePropertiesEx>",
            "<CreateContainerView/>",
        ] {
            assert_eq!(kind("/sdk", soap(inner).as_bytes()), None, "{inner}");
        }
        assert_eq!(kind("/rest/com/vmware/cis/tagging/tag", b"{}"), None);
    }
}
