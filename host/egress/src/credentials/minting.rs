//! Detection of requests whose answer is a secret. A plugin could keep this secret, or obtain one
//! that is valid for longer, so such requests are denied however their path is written.

pub(crate) mod keystone;
pub(crate) mod oauth2;
pub(crate) mod soap;

use bytes::Bytes;
use http::request::Parts;

use super::failure::Failure;
use crate::encode::unpercent;

/// What a credential could be used to obtain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mint {
    /// Tokens, application credentials, trusts and so on.
    Keystone,
    /// Sessions and tickets.
    VsphereSoap,
    /// Access tokens, keys of service accounts, keys of storage accounts and so on.
    OAuth2,
}

impl Mint {
    /// Returns true if the body determines what is requested.
    pub(crate) fn needs_body(self, head: &Parts) -> bool {
        match self {
            Self::Keystone => keystone::is_action(head),
            Self::VsphereSoap => true,
            Self::OAuth2 => false,
        }
    }

    /// Returns an error if the answer to the request would be a secret.
    pub(crate) fn check(self, head: &Parts, body: Option<&Bytes>) -> Result<(), Failure> {
        let body = match body {
            Some(body) => body.as_ref(),
            None if self.needs_body(head) => {
                return Err(Failure::malformed(
                    "the complete body is needed to determine the operation",
                ));
            }
            None => b"",
        };
        match self {
            Self::Keystone => keystone::check(head, body),
            Self::VsphereSoap => soap::check(head, body),
            Self::OAuth2 => oauth2::check(head),
        }
    }
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
                prop_assert!(Mint::Keystone.check(&request.into_parts().0, None).is_err(), "{}", path);
            }
        }

        #[test]
        fn a_disguised_signing_path_is_denied(path in disguised("/v1/x/serviceAccounts/a:signBlob")) {
            if let Ok(request) = http::Request::post(format!("https://a.example{path}")).body(()) {
                prop_assert!(Mint::OAuth2.check(&request.into_parts().0, None).is_err(), "{}", path);
            }
        }
    }

    #[test]
    fn operations_in_bodies_need_the_body() {
        for (path, expected) in [
            ("/v2.1/servers", [false, true, false]),
            ("/v2.1/servers/7/action", [true, true, false]),
        ] {
            let request = http::Request::post(format!("https://a.example{path}"));
            let (head, ()) = request.body(()).unwrap().into_parts();
            let needs = [Mint::Keystone, Mint::VsphereSoap, Mint::OAuth2]
                .map(|mint| mint.needs_body(&head));
            assert_eq!(needs, expected, "{path}");
            assert_eq!(
                Mint::Keystone.check(&head, None).is_err(),
                expected[0],
                "{path}"
            );
        }
    }
}
