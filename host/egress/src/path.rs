//! Allowed paths of a rule: prefixes of whole segments.

/// A prefix, which allows the path itself and everything below it. `/v3` and `/v3/` are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefix(String);

impl Prefix {
    /// Parses a prefix.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if !text.starts_with('/') {
            return Err("not a valid path; expected for example /v3/");
        }
        if text.contains(['*', '?', '#']) || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(
                "not a valid path; expected a prefix of ASCII characters without `*`, `?`, `#` and spaces",
            );
        }
        match trick(text) {
            Some(trick) => Err(trick),
            None => Ok(Self(text.trim_end_matches('/').to_owned())),
        }
    }

    /// Returns true if the path equals the prefix or is below it. The path must not have a
    /// [`trick`].
    pub(crate) fn permits(&self, path: &str) -> bool {
        path.strip_prefix(self.0.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns true if everything below the other prefix is below this one.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.permits(&other.0) || self.0.is_empty()
    }
}

/// Returns why a server might interpret the path differently, or `None` if the path is unambiguous.
pub(crate) fn trick(path: &str) -> Option<&'static str> {
    if path.contains('\\') {
        return Some("the path has a backslash");
    }
    if path.contains("//") {
        return Some("the path has an empty segment (`//`)");
    }
    if path
        .bytes()
        .any(|byte| byte.is_ascii_control() || byte == b' ' || !byte.is_ascii())
    {
        return Some("the path has control characters, spaces or non-ASCII characters");
    }
    for segment in path.split('/') {
        let decoded = match decode(segment) {
            Ok(decoded) => decoded,
            Err(trick) => return Some(trick),
        };
        // Old decoders accept overlong UTF-8 forms of a dot or a slash.
        if std::str::from_utf8(&decoded).is_err() {
            return Some("the path has encoded bytes that are not UTF-8");
        }
        // Some servers treat `..;x` as `..`.
        let name = decoded
            .split(|byte| *byte == b';')
            .next()
            .unwrap_or_default();
        if name == b"." || name == b".." {
            return Some("the path has a dot segment (`.` or `..`)");
        }
    }
    None
}

/// Returns the decoded segment.
fn decode(segment: &str) -> Result<Vec<u8>, &'static str> {
    let mut bytes = segment.bytes();
    let mut decoded = Vec::with_capacity(segment.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(bytes.next()), digit(bytes.next())) else {
            return Err("the path has a `%` that is not followed by two hexadecimal digits");
        };
        match u8::try_from(high * 16 + low).unwrap_or_default() {
            b'/' | b'\\' => return Err("the path has an encoded slash or backslash"),
            // `%252e` becomes `%2e`, and a server that decodes again reads a dot.
            b'%' => return Err("the path has an encoded `%`"),
            byte if byte.is_ascii_control() => {
                return Err("the path has an encoded control character");
            }
            byte => decoded.push(byte),
        }
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn permits(prefix: &str, path: &str) -> bool {
        trick(path).is_none() && Prefix::parse(prefix).expect(prefix).permits(path)
    }

    #[test]
    fn a_prefix_matches_whole_segments() {
        let table = [
            ("/v3", "/v3", true),
            ("/v3", "/v3/", true),
            ("/v3", "/v3/servers", true),
            ("/v3/", "/v3", true),
            ("/v3/", "/v3/servers", true),
            ("/v3", "/v30", false),
            ("/v3", "/v3;x=1", false),
            ("/v3", "/V3", false),
            ("/v3", "/%76%33", false),
            ("/", "/", true),
            ("/", "/anything/at/all", true),
            ("/a/b", "/a", false),
            ("/a/b", "/a/b/c", true),
            ("/v3", "", false),
        ];
        for (prefix, path, expected) in table {
            assert_eq!(permits(prefix, path), expected, "{prefix} {path}");
        }
    }

    #[test]
    fn ambiguous_paths_are_rejected() {
        for path in [
            "/v3/../admin",
            "/v3/./x",
            "/v3/..",
            "/v3/%2e%2e/admin",
            "/v3/%2E./admin",
            "/v3/.%2e/admin",
            "/v3/..;/admin",
            "/v3/%2e%2e;x/admin",
            "/v3//admin",
            "//v3",
            "/v3/%2fadmin",
            "/v3/..%2Fadmin",
            "/v3/..%5cadmin",
            "/v3/..\\admin",
            "/v3/%252e%252e/admin",
            "/v3/%c0%ae%c0%ae%c0%afadmin",
            "/v3/%ff",
            "/v3/%00",
            "/v3/%0a",
            "/v3/%zz",
            "/v3/%",
            "/v3/%2",
            "/v3/é",
            "/v3/a b",
            "/v3/\u{1}",
            "/v3/\u{7f}",
        ] {
            assert!(trick(path).is_some(), "{path}");
        }
        for path in [
            "/v3/...",
            "/v3/a..b",
            "/v3/%20x",
            "/v3/a;b=c",
            "/v3/%C3%A9",
            "/v3/.hidden",
        ] {
            assert_eq!(trick(path), None, "{path}");
        }
    }

    #[test]
    fn rejects_invalid_prefixes() {
        for text in [
            "", "v3", "/v3/*", "/v3?x", "/v3#x", "/v3/../x", "//", "/a b", "/é",
        ] {
            assert!(Prefix::parse(text).is_err(), "{text}");
        }
    }

    /// Normalizes a path like a lenient server: decoded twice, backslashes as slashes, dots
    /// resolved, parameters and empty segments removed.
    fn lenient(path: &str) -> String {
        let twice = (0..2).fold(path.as_bytes().to_vec(), |bytes, _| {
            let mut out = Vec::new();
            let mut at = 0;
            while at < bytes.len() {
                let hex = bytes
                    .get(at + 1..at + 3)
                    .and_then(|it| std::str::from_utf8(it).ok());
                match (
                    bytes[at],
                    hex.and_then(|it| u8::from_str_radix(it, 16).ok()),
                ) {
                    (b'%', Some(byte)) => {
                        out.push(byte);
                        at += 3;
                    }
                    (byte, _) => {
                        out.push(byte);
                        at += 1;
                    }
                }
            }
            out
        });
        let text = String::from_utf8_lossy(&twice).replace('\\', "/");
        let mut stack = Vec::new();
        for segment in text.split('/') {
            match segment.split(';').next().unwrap_or_default() {
                "" | "." => {}
                ".." => drop(stack.pop()),
                _ => stack.push(segment.to_owned()),
            }
        }
        format!("/{}", stack.join("/"))
    }

    proptest! {
        #[test]
        fn an_allowed_path_stays_below_the_prefix_on_any_server(
            path in "/v3/([a-c./\\\\;%]|%2[eEfF5]|%5[cC]|%25|\\.\\.){0,12}"
        ) {
            if permits("/v3", &path) {
                let read = lenient(&path);
                prop_assert!(read == "/v3" || read.starts_with("/v3/"), "{path} reads as {read}");
            }
        }
    }
}
