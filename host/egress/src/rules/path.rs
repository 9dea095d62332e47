//! Allowed paths of a rule: prefixes of whole segments.

use std::{borrow::Cow, fmt, iter};

use icu_normalizer::{
    DecomposingNormalizerBorrowed, properties::CanonicalCombiningClassMapBorrowed,
    uts46::Uts46MapperBorrowed,
};

/// A prefix, which allows the path itself and everything below it. `/v3` and `/v3/` are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    text: String,
    meaning: Meaning,
}

/// A path as the most lenient server reads it: decoded, without parameters, each letter as the ASCII
/// letter that it looks like. Different paths with the same meaning may be the same for a server, or
/// not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meaning(Vec<String>);

/// What web frameworks read as the format of an answer, or as their own suffix, and what servers run
/// as a script. Other texts behind a dot belong to a name, such as that of a DNS zone.
const FORMATS: &[&str] = &[
    "action", "ashx", "asp", "aspx", "atom", "cfm", "cgi", "csv", "dll", "do", "fcgi", "htm",
    "html", "ics", "js", "json", "jsp", "jspx", "md", "mjs", "pdf", "php", "phtml", "pl", "png",
    "py", "rb", "rss", "shtml", "svc", "text", "txt", "xhtml", "xml", "yaml", "yml",
];

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

        if let Some(ambiguity) = ambiguity(text) {
            return Err(ambiguity);
        }

        if text
            .split('/')
            .any(|segment| decoded(segment).contains(&b';'))
        {
            return Err("the path has parameters (`;`), which servers may ignore");
        }

        if has_needless_escape(text) {
            return Err(
                "the path has an encoded letter, digit, `-`, `.`, `_` or `~`: write it as it is",
            );
        }

        Ok(Self {
            text: text.trim_end_matches('/').to_owned(),
            meaning: Meaning::of(text),
        })
    }

    /// Returns true if the path equals the prefix or is below it. The path must not have an
    /// [`ambiguity`].
    pub(crate) fn allows(&self, path: &str) -> bool {
        path.strip_prefix(self.text.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns true if everything below the other prefix is below this one.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.allows(&other.text) || self.text.is_empty()
    }

    /// Returns true if some servers would read a path with this meaning as equal to the prefix or
    /// below it. Segments that are scripts can be missing: servers find the rest of the path with
    /// and without them (`/index.php/v1`).
    pub(crate) fn may_allow(&self, meaning: &Meaning) -> bool {
        let own = self.meaning.0.as_slice();

        // For each number of own segments, whether they may be the beginning of the path.
        let mut reached = vec![false; own.len() + 1];
        let skip_own = |reached: &mut [bool]| {
            for (at, name) in own.iter().enumerate() {
                if is_script(name) && reached.get(at) == Some(&true) {
                    set(reached, at + 1);
                }
            }
        };

        set(&mut reached, 0);
        skip_own(&mut reached);

        for segment in &meaning.0 {
            // What follows is below the prefix.
            if reached.last() == Some(&true) {
                return true;
            }

            let mut next = vec![false; reached.len()];
            for (at, _) in reached.iter().enumerate().filter(|(_, is)| **is) {
                if is_script(segment) {
                    set(&mut next, at);
                }
                if own.get(at).is_some_and(|name| may_mean(segment, name)) {
                    set(&mut next, at + 1);
                }
            }

            skip_own(&mut next);
            reached = next;
        }

        reached.last() == Some(&true)
    }
}

fn set(reached: &mut [bool], at: usize) {
    if let Some(is) = reached.get_mut(at) {
        *is = true;
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.text.is_empty() {
            "/"
        } else {
            &self.text
        })
    }
}

impl Meaning {
    /// Returns the meaning of a path without an [`ambiguity`].
    pub(crate) fn of(path: &str) -> Self {
        let segments = path.split('/').map(|segment| {
            let decoded = decoded(segment);
            let name = decoded.split(|byte| *byte == b';').next();
            let name = String::from_utf8_lossy(name.unwrap_or_default());
            let name = plain(&name);

            // Windows has streams of files (`x::$DATA`), and its servers ignore spaces and dots at the
            // end.
            let name = name.split("::$").next().unwrap_or_default();
            name.trim().trim_end_matches(['.', ' ']).to_owned()
        });
        Self(segments.filter(|name| !name.is_empty()).collect())
    }
}

/// Returns the text as servers may read it that normalize it (UTS 46, which maps what looks like
/// another character and removes what is invisible) or convert it to ASCII: in lower case, and
/// without marks on letters.
fn plain(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        let is_upper = |byte: u8| byte.is_ascii_uppercase();
        return match text.bytes().any(is_upper) {
            true => text.to_ascii_lowercase().into(),
            false => text.into(),
        };
    }

    let mapper = Uts46MapperBorrowed::new();
    let mapped = mapper.map_normalize(text.chars());
    // What is not allowed in a name, such as marks of direction, and what joins letters is invisible.
    let visible = mapped.filter(|c| !matches!(c, '\u{fffd}' | '\u{200c}' | '\u{200d}'));
    let decomposer = DecomposingNormalizerBorrowed::new_nfkd();
    let marks = CanonicalCombiningClassMapBorrowed::new();

    let letters = decomposer
        .normalize_iter(visible)
        .filter(|c| marks.get_u8(*c) == 0);

    // Some letters have the upper case, but not the lower case, of an ASCII letter.
    let letters: String = letters.collect();
    letters.to_uppercase().to_lowercase().into()
}

/// Returns true if some servers would read the segment as this name: behind a dot, they read a
/// format (Rails, Spring and others), and Windows has short names (`SECRET~1`).
fn may_mean(segment: &str, name: &str) -> bool {
    let with_stems = |text| iter::once(text).chain(stems(text));
    if with_stems(segment).any(|one| with_stems(name).any(|other| one == other)) {
        return true;
    }

    let short = segment.split('.').next().unwrap_or_default();
    let parts = short.rsplit_once('~');
    parts.is_some_and(|(start, number)| {
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        // A short name has only the first two letters, if there are many like it.
        let same = start.chars().zip(name.chars()).take(2);
        short.len() <= 8
            && is_number
            && same.clone().next().is_some()
            && same.clone().all(|(a, b)| a == b)
    })
}

/// Returns true for names that can be a script in front of the path.
fn is_script(name: &str) -> bool {
    stems(name).next().is_some()
}

/// Returns the name without its last format, without the last two, and so on.
fn stems(name: &str) -> impl Iterator<Item = &str> {
    iter::successors(without_format(name), |name| without_format(name))
}

/// Returns the name without its last format.
fn without_format(name: &str) -> Option<&str> {
    let (stem, format) = name.rsplit_once('.')?;
    // PHP has a version behind its name.
    let format = format.trim_end_matches(|c: char| c.is_ascii_digit());
    let stem = stem.trim_end_matches(['.', ' ']);
    (FORMATS.contains(&format) && !stem.is_empty()).then_some(stem)
}

/// Returns true if characters are encoded that have the same meaning as they are (RFC 3986, section
/// 2.3).
fn has_needless_escape(path: &str) -> bool {
    path.split('%').skip(1).any(|rest| {
        let code = rest.get(..2).and_then(|it| u8::from_str_radix(it, 16).ok());
        code.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
    })
}

/// Returns the decoded segment, or the segment itself if it cannot be decoded.
fn decoded(segment: &str) -> Cow<'_, [u8]> {
    decode(segment).unwrap_or_else(|_| segment.as_bytes().into())
}

/// Returns why a server might interpret the path differently, or `None` if the path is unambiguous.
pub(crate) fn ambiguity(path: &str) -> Option<&'static str> {
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
            Err(ambiguity) => return Some(ambiguity),
        };

        // Old decoders accept overlong UTF-8 forms of a dot or a slash.
        let Ok(text) = std::str::from_utf8(&decoded) else {
            return Some("the path has encoded bytes that are not UTF-8");
        };
        if text.contains(is_lookalike) {
            return Some(
                "the path has encoded characters that servers may read as a slash or a dot",
            );
        }

        if matches!(text.as_bytes(), [b'(', kind, b'(', ..] if kind.is_ascii_alphabetic()) {
            return Some("the path has a session (`(S(x))`), which some servers remove");
        }

        // Some servers treat `..;x` as `..`, and those on Windows also `.. ` and `...`; what is
        // invisible may be removed.
        let name = text.split(';').next().unwrap_or_default();
        let is_dots = |c: char| c == '.' || c.is_whitespace();
        if !name.is_empty() && plain(name).chars().all(is_dots) {
            return Some("the path has a dot segment (`.` or `..`)");
        }
    }

    None
}

/// Returns true for characters that become ASCII when a server converts them to another character
/// set, or normalizes them: full-width ones, and what is or contains a sign that divides paths.
fn is_lookalike(c: char) -> bool {
    let is_sign = |c: char| "/\\.;%?#".contains(c);

    match c {
        _ if c.is_ascii() => false,
        '\u{ff01}'..='\u{ff5e}' => true,
        // They look like a slash, but Unicode does not map them to one.
        '\u{2044}' | '\u{2215}' | '\u{2216}' | '\u{29f5}' | '\u{29f8}' | '\u{29f9}' => true,
        _ => Uts46MapperBorrowed::new()
            .map_normalize(iter::once(c))
            .any(is_sign),
    }
}

fn decode(segment: &str) -> Result<Cow<'_, [u8]>, &'static str> {
    if !segment.contains('%') {
        return Ok(segment.as_bytes().into());
    }

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
            b'?' | b'#' => {
                return Err("the path has an encoded `?` or `#`, where some servers end the path");
            }
            byte if byte.is_ascii_control() => {
                return Err("the path has an encoded control character");
            }
            byte => decoded.push(byte),
        }
    }

    Ok(decoded.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn allows(prefix: &str, path: &str) -> bool {
        ambiguity(path).is_none() && Prefix::parse(prefix).expect(prefix).allows(path)
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
            assert_eq!(allows(prefix, path), expected, "{prefix} {path}");
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
            "/v3/...",
            "/v3/..%20/admin",
            "/v3/%20../admin",
            "/v3/..%20;/admin",
            "/v3/...%20/admin",
            "/v3/%C2%A0..%E3%80%80/admin",
            "/v3/%20/admin",
            "/v3%EF%BC%8Fadmin",
            "/v3%E2%88%95admin",
            "/v3/%E2%80%A4%E2%80%A4/admin",
            "/v3%E3%80%82admin",
            "/v3/%E3%80%82%E3%80%82/admin",
            "/v3%EF%BD%A1admin",
            "/v3/.%E2%80%8B./admin",
            "/v3/..%C2%AD/admin",
            "/v3/%E2%80%8D../admin",
            "/v3/%E2%80%8B/admin",
            "/v3/%E2%84%80/admin",
            "/v3/%EF%BC%A1dmin",
            "/v3/%00",
            "/v3/%0a",
            "/v3/%zz",
            "/v3/%",
            "/v3/%2",
            "/v3/é",
            "/v3/a b",
            "/v3/\u{1}",
            "/v3/\u{7f}",
            "/v3/secret%3Fx",
            "/v3/secret%23x",
            "/v3/secret%3f",
            "/(S(abc))/v3/secret",
            "/v3/(s(abc))/secret",
            "/v3/%28A(b)S%28c))/secret",
            "/v3/(F(x))secret",
        ] {
            assert!(ambiguity(path).is_some(), "{path}");
        }

        for path in [
            "/v3/a..b",
            "/v3/%E4%B8%AD",
            "/v3/%20x",
            "/v3/a;b=c",
            "/v3/%C3%A9",
            "/v3/.hidden",
            "/v3/users('x')",
            "/v3/(1)",
            "/v3/a(b(c))",
        ] {
            assert_eq!(ambiguity(path), None, "{path}");
        }
    }

    #[test]
    fn rejects_invalid_prefixes() {
        for text in [
            "", "v3", "/v3/*", "/v3?x", "/v3#x", "/v3/../x", "//", "/a b", "/é", "/v3;x",
            "/v3/%3bx", "/%763", "/a%2Db", "/a%7e",
        ] {
            assert!(Prefix::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_may_be_read_as_one_below_the_prefix() {
        let prefix = Prefix::parse("/v3/Allowed%20x").unwrap();
        let table = [
            ("/v3/Allowed%20x", true),
            ("/v3/Allowed%20x/y", true),
            ("/v3/%41llowed%20x/y", true),
            ("/V3/aLLOWED%20x", true),
            ("/v3/Allowed%20x;a=b/y", true),
            ("/v3;a/Allowed%20x%3bb", true),
            ("/v3/Allowed%20x%20", true),
            ("/v3/Allowed%20x./y", true),
            ("/v3/Allowed%20x.json", true),
            ("/v3/;a/Allowed%20x", true),
            ("/v3/Allowed%20x.html", true),
            ("/v3/Allowed%20x%20.Action", true),
            ("/v3/Allowed%20x.xml.js", true),
            ("/v3/Allowed%20x::$DATA", true),
            ("/index.php/v3/Allowed%20x/y", true),
            ("/index.php5/v3/Allowed%20x", true),
            ("/index.html/v3/Allowed%20x", true),
            ("/app.php/v3/Allowed%20x", true),
            ("/v3/api.cgi/Allowed%20x", true),
            ("/v3.php/v3/Allowed%20x", true),
            ("/v3/Allowed%20x.html/y", true),
            ("/v3.json/Allowed%20x", true),
            ("/v3/Allowed%C2%AD%20x", true),
            ("/v3/%E2%80%8BAllowed%20x", true),
            ("/v3/Allowed%20x%E2%80%8B", true),
            ("/v3/Allowed%20x%E2%80%8E", true),
            ("/v3/%E2%92%B6llowed%20x", true),
            ("/v3/A%E1%B5%84%E2%81%B1llowed%20x", false),
            ("/v3/Allowed%20%CB%A3", true),
            ("/v3/A%CC%80llowed%20x", true),
            ("/v3/%C3%80llowed%20x", true),
            ("/v3/ALLOWE~1", true),
            ("/v3/AL3F2A~1.TXT/y", true),
            ("/v3/other~1", false),
            ("/v3/allowed~x", false),
            ("/v3/%E4%B8%AD", false),
            ("/v3/Allowed%20x.1", false),
            ("/v3/Allowed%20x.company", false),
            ("/v3/.html", false),
            ("/v3/x.html/Allowed", false),
            ("/v3/%C5%BFllowed", false),
            ("/v3", false),
            ("/v3/Allowed%20", false),
            ("/v3/Allowed%20xy", false),
            ("/v3/x/Allowed%20x", false),
        ];
        for (path, expected) in table {
            assert_eq!(prefix.may_allow(&Meaning::of(path)), expected, "{path}");
        }

        for (prefix, path) in [
            ("/v2.1", "/v2.0"),
            ("/v2.1", "/v2"),
            (
                "/providers/Microsoft.Compute",
                "/providers/Microsoft.Network",
            ),
            ("/providers/Microsoft", "/providers/Microsoft.Network/x"),
        ] {
            let prefix = Prefix::parse(prefix).unwrap();
            assert!(!prefix.may_allow(&Meaning::of(path)), "{prefix} {path}");
        }

        let formatted = Prefix::parse("/v3/servers.json").unwrap();
        for path in ["/v3/servers", "/v3/servers.xml", "/v3/servers.json/x"] {
            assert!(formatted.may_allow(&Meaning::of(path)), "{path}");
        }

        let long_s = Prefix::parse("/servers").unwrap();
        assert!(long_s.may_allow(&Meaning::of("/%C5%BFervers")));
        assert!(Prefix::parse("/").unwrap().may_allow(&Meaning::of("/x")));
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
            if allows("/v3", &path) {
                let read = lenient(&path);
                prop_assert!(read == "/v3" || read.starts_with("/v3/"), "{path} reads as {read}");
            }
        }

        #[test]
        fn a_path_that_any_server_reads_as_below_is_found(
            path in "/([vV]3|%763|v%33|x|v3;|%2e)(/|//|%2f|;a/|\\\\|%3bx/)([aA]|%61|%2561|b)([./;]|%20|/%2e%2e){0,3}"
        ) {
            let prefix = Prefix::parse("/v3/a").unwrap();
            let read = lenient(&path).to_lowercase();
            let below = read == "/v3/a" || read.starts_with("/v3/a/");
            prop_assert!(
                !below || ambiguity(&path).is_some() || prefix.may_allow(&Meaning::of(&path)),
                "{path} reads as {read}"
            );
        }
    }
}
