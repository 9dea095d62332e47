//! Finds secrets in texts, whose format need not be known: YAML, JSON, TOML, INI, HCL, properties,
//! XML, forms, and lines of a log. What a plugin receives as its configuration, what it writes to
//! the log, and what is recorded of it go through here.
//!
//! A secret is found by the name before it ([`is_secret`]) or by what it looks like: a private key,
//! a password in a URL, a token with a known beginning. A text in Base64 is searched, too. Nothing
//! depends on a text being valid: a mistake in it hides no secret. This protects against carelessness;
//! whoever wants to hide a secret from it can.
//!
//! The time is in proportion to the length of the text. This crate does no I/O.

#![forbid(unsafe_code)]

mod configuration;
mod document;
mod name;
mod named;
mod shape;
mod value;

use std::{borrow::Cow, fmt, ops::Range};

use self::value::is_trivial;
pub use self::{
    configuration::{Finding, in_configuration},
    name::{has_secret, is_secret},
    value::BLOT,
};

/// Maximum number of texts in Base64 within each other.
const DEPTH: usize = 2;

/// What a secret is found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The name before it.
    Named(String),
    /// The lines of PEM around it.
    PrivateKey,
    /// It is the password of a URL.
    UrlPassword,
    /// It looks like a token or a key.
    Token,
    /// It is a text in Base64 or hexadecimal, with a secret in it.
    Encoded,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => write!(f, "`{name}` is a secret"),
            Self::PrivateKey => f.write_str("this is a private key"),
            Self::UrlPassword => f.write_str("this URL has a password"),
            Self::Token => f.write_str("this looks like a token or a key"),
            Self::Encoded => f.write_str("this is an encoded text with a secret in it"),
        }
    }
}

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it is, in bytes.
    pub range: Range<usize>,
    /// What it is found by.
    pub what: What,
    /// The value reads like a sentence: `token: the one of the cluster`.
    pub is_prose: bool,
}

impl Found {
    fn new(range: Range<usize>, what: What) -> Self {
        Self {
            range,
            what,
            is_prose: false,
        }
    }
}

/// Returns all secrets in a text, in order. They do not overlap. Masks are found again, so that
/// masking twice is the same as masking once.
#[must_use]
pub fn secrets(text: &str) -> Vec<Found> {
    if !text.contains('\0') {
        return searched(text, DEPTH);
    }

    // What UTF-16 is of ASCII, if it is read as UTF-8.
    let mut narrow = String::new();
    let mut places = Vec::new();
    for (at, c) in text.char_indices().filter(|(_, c)| *c != '\0') {
        narrow.push(c);
        places.extend(at..at + c.len_utf8());
    }

    let place = |at: usize| places.get(at).copied().unwrap_or(text.len());
    let mut found = searched(&narrow, DEPTH);
    for it in &mut found {
        // The end is behind the last byte, without the zero that follows.
        it.range = place(it.range.start)..place(it.range.end - 1) + 1;
    }

    found
}

fn searched(text: &str, depth: usize) -> Vec<Found> {
    let mut found = Vec::new();
    named::named(text, &mut found);
    shape::shaped(text, &mut found);

    if depth > 0 {
        shape::encoded(text, &mut found, |inner| {
            has_certain(inner, &searched(inner, depth - 1))
        });
    }

    // `dedup_by` compares neighbors only.
    found.sort_unstable_by_key(|it| it.range.start);
    found.dedup_by(|later, earlier| {
        let overlaps = later.range.start < earlier.range.end;
        if overlaps {
            earlier.range.end = earlier.range.end.max(later.range.end);
            earlier.is_prose &= later.is_prose;
        }
        overlaps
    });

    found.retain(|it| !it.range.is_empty());
    found
}

/// Returns true if one of these is a secret beyond doubt.
fn has_certain(text: &str, found: &[Found]) -> bool {
    found.iter().any(|it| is_certain(text, it))
}

fn is_certain(text: &str, found: &Found) -> bool {
    !found.is_prose && !is_trivial(text.get(found.range.clone()).unwrap_or_default())
}

/// Returns where a line of a log or a message has secrets, in bytes. What reads like a sentence is
/// none: `invalid token: unexpected end`.
pub fn certain(text: &str) -> impl Iterator<Item = Range<usize>> {
    let found = secrets(text).into_iter();
    found.filter(|it| is_certain(text, it)).map(|it| it.range)
}

/// Returns a line of a log or a message without its secrets.
#[must_use]
pub fn redacted(text: &str) -> Cow<'_, str> {
    let mut shown = String::new();
    let mut at = 0;

    for range in certain(text) {
        shown.push_str(text.get(at..range.start).unwrap_or_default());
        shown.push_str(BLOT);
        at = range.end;
    }

    if at == 0 {
        return Cow::Borrowed(text);
    }

    shown.push_str(text.get(at..).unwrap_or_default());
    Cow::Owned(shown)
}

/// Returns a message without texts that look generated, whatever is before them. UUIDs, digests and
/// absolute paths stay.
#[must_use]
pub fn without_generated(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "+/=_-".contains(c);
    let mut shown = String::new();
    let mut at = 0;

    for run in shape::runs(text, is_part) {
        let value = text.get(run.clone()).unwrap_or_default();
        let before = text.get(at..run.start).unwrap_or_default();
        let is_digest = text
            .get(..run.start)
            .is_some_and(|it| it.ends_with("sha256:"));
        let is_secret = value::is_generated(value) && !value::is_uuid(value) && !is_digest;

        shown.push_str(before);
        shown.push_str(if is_secret { BLOT } else { value });
        at = run.end;
    }

    shown.push_str(text.get(at..).unwrap_or_default());
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_texts_are_removed_from_messages() {
        let uuid = "123e4567-e89b-12d3-a456-426614174000";
        for (text, shown) in [
            (
                "unknown field `Sup3rS3cretTokenABC987`, expected `name`",
                "unknown field `[redacted]`, expected `name`",
            ),
            (
                "string \"3b1f6a2e9c0d4f7a8b5c\" is not valid",
                "string \"[redacted]\" is not valid",
            ),
        ] {
            assert_eq!(without_generated(text), shown);
        }

        for text in [
            "cannot read /run/secrets/Token9a8b7c6d5e: no such file",
            "digest sha256:0f6c3d5e1a2b4c3d8e9f0a1b2c3d4e5f0f6c3d5e1a2b4c3d8e9f0a1b2c3d4e5f is not known",
            "field `applicationCredentialSecretFile` of https://s3.eu-west-1.amazonaws.com:443 is missing",
            uuid,
        ] {
            assert_eq!(without_generated(text), text);
        }
    }

    #[test]
    fn lines_of_a_log_lose_their_secrets_only() {
        for (line, shown) in [
            (
                "login failed: password=hunter2 user=me",
                "login failed: password=[redacted] user=me",
            ),
            (
                r#"got {"aadClientSecret":"S3cr3t","aadClientId":"id"}"#,
                r#"got {"aadClientSecret":"[redacted]","aadClientId":"id"}"#,
            ),
            (
                "sent Authorization: Bearer abc.def to it",
                "sent Authorization: [redacted] to it",
            ),
            (
                "GET https://me:p@ss@cloud/v1 failed",
                "GET https://me:[redacted]@cloud/v1 failed",
            ),
            (
                "the password hunter2 is wrong",
                "the password [redacted] is wrong",
            ),
            (
                "cannot parse /etc/password.conf: hunter2, 6",
                "cannot parse /etc/password.conf: [redacted], 6",
            ),
            (
                "config: \"[Global]\\npassword = my pass\\nuser = me\"",
                "config: \"[Global]\\npassword = [redacted]\\nuser = me\"",
            ),
        ] {
            assert_eq!(redacted(line), shown);
            assert_eq!(redacted(shown), shown, "again");
        }

        for line in [
            "invalid token: unexpected end of input",
            "token expired, logging in again",
            "unknown setting `password` in section `[LoadBalancer]`",
            "secret kube-system/cloud-config not found",
            "node worker-1 has provider ID aws:///eu-west-1a/i-0123456789abcdef0",
            "key=default/web-1 took 3ms",
            "login with password=**** for user=me",
            "useToken: true",
            "/etc/03-secret-name.conf:6: `secret-name` is not supported",
            "/etc/password.conf:6:12: unknown key",
            "/etc/my-password.conf: line 4: `password` is a secret, and plugins must not receive secrets",
        ] {
            assert_eq!(redacted(line), line);
        }
    }

    #[test]
    fn a_hostile_text_takes_no_longer_than_another_one() {
        let used = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            time.tv_sec
        };
        let begun = used();
        for part in [
            "PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----",
            "password:",
            "password: |\n",
            "password=<<\n",
            "password=\\\n",
            "password:\n- ",
            "password:\n -\n",
            "x password: |",
            "\\npassword:\\",
            "\"password\":\"",
            "\"password\":[",
            "'password':[",
            "password='''",
            "<password>",
            "<password ",
            "<key>key</key><string>",
            "key=\"",
            "key=",
            "x://a:",
            "Bearer ",
            "eyJ.",
            "AKIAAAAAAAAAAAAAAAAA ",
            "cGFzc3dvcmQ9aHVudGVyMg ",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
            "a",
            "[",
            "- ",
            "{a: ",
            "&a [*a]\n",
            "passwords:{",
            "<passwords><a>",
            "<password><!--",
            "[passwords]\n",
            "[ passwords x\n",
            "password[",
            "password:\n- a: b\n",
            "password: {\"",
            "<name>password</name>",
            "<name>password</name><a>b</a>",
            "<value>x</value><name>password</name><!--",
            "<passwords><!--",
            "\"--password\",",
            "{\"name\":\"password\",",
            "a:b@c:1",
        ] {
            let text = part.repeat((64 << 10) / part.len());
            let _ = secrets(&text);
            let _ = in_configuration(&text);
        }

        // One that is quadratic takes minutes.
        assert!(used() - begun < 40, "{} s", used() - begun);
    }
}
