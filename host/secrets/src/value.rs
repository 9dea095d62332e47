//! What a value looks like: trivial, random, or generated; and what replaces it if it is secret.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use crate::name::{Holder, Member, ends_with, is_key, is_secret, member};

/// What is written in place of a secret.
pub const BLOT: &str = "[redacted]";

/// Minimum bytes of a random text. Shorter ones are words with a number.
const RANDOM: usize = 16;

/// Minimum number of `x` that are a mask.
const MASK: usize = 8;

/// Minimum bytes of what is called a password without a sign between.
const WORD: usize = 6;

const CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_allow_trailing_bits(true)
    .with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, CONFIG);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, CONFIG);

/// Returns true for a value that is no secret, whatever its name: nothing, a boolean, a mask, a
/// placeholder, or a file.
pub(crate) fn is_trivial(value: &str) -> bool {
    let value = value.trim_matches(|c: char| c.is_whitespace() || "\"'`\\,;[]".contains(c));
    let is_mask = |mask: char, least: usize| {
        value.len() >= least && value.chars().all(|c| c == mask || c.is_whitespace())
    };

    // Azure's configuration has `msi` in place of a secret for a managed identity.
    const WORDS: [&str; 10] = [
        "true", "false", "yes", "no", "on", "off", "null", "nil", "none", "msi",
    ];

    WORDS.iter().any(|it| value.eq_ignore_ascii_case(it))
        || value == "~"
        || value.eq_ignore_ascii_case(BLOT.trim_matches(['[', ']']))
        || value.is_empty()
        || is_mask('*', 3)
        || is_mask('x', MASK)
        || is_placeholder(value)
        || is_reference(value)
        || is_file(value)
}

/// Returns true for `<your password>` and `REPLACE_ME`.
fn is_placeholder(value: &str) -> bool {
    if ["replace_me", "n/a"]
        .iter()
        .any(|it| value.eq_ignore_ascii_case(it))
    {
        return true;
    }
    let inner = value
        .strip_prefix('<')
        .and_then(|rest| rest.strip_suffix('>'));
    inner.is_some_and(|inner| !inner.contains(['<', '>', '/', '=']))
}

/// Returns true for what is replaced by a secret elsewhere: `${OS_PASSWORD}`, `{{ .Values.token }}`,
/// `env:TOKEN`. A closing brace may be missing. What has small letters and digits is a secret.
fn is_reference(value: &str) -> bool {
    let is_name = |name: &str| {
        let has = |kind: fn(&u8) -> bool| name.bytes().any(|b| kind(&b));
        has(u8::is_ascii_alphabetic)
            && !(has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit))
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b))
    };
    let is_variable =
        |name: &str| name.contains('_') && !name.contains(char::is_lowercase) && is_name(name);
    let is_template = |it: &str| it.starts_with([' ', '.', '-', '$']);

    value.strip_prefix("{{").is_some_and(is_template)
        || value.starts_with("arn:aws")
        || ["${", "$("].iter().any(|begin| {
            let name = value.strip_prefix(begin);
            name.is_some_and(|it| is_name(it.trim_end_matches(['}', ')'])))
        })
        || value.strip_prefix('$').is_some_and(is_variable)
        || value.strip_prefix("env:").is_some_and(is_variable)
        || value
            .strip_prefix("file:")
            .is_some_and(|path| is_file(path.trim_start_matches("//")))
}

/// Returns true for the path of a file in a usual place. A password may begin with a slash.
fn is_file(value: &str) -> bool {
    const ROOTS: [&str; 9] = [
        "etc", "home", "mnt", "opt", "root", "run", "secrets", "usr", "var",
    ];

    let mut parts = value.split('/');
    parts.next() == Some("")
        && parts.next().is_some_and(|root| ROOTS.contains(&root))
        && parts.next().is_some_and(|part| !part.is_empty())
        && value
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"/._-".contains(&b))
}

/// Returns true for a text that reads like one from a generator: letters and digits that change
/// often.
pub(crate) fn is_random(value: &str) -> bool {
    let is_plain = value
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"+/=_-".contains(&b));
    if value.len() < RANDOM || !is_plain || value.starts_with('/') {
        return false;
    }

    let signs: Vec<u8> = value.bytes().filter(u8::is_ascii_alphanumeric).collect();
    let kind = |byte: u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase());

    let mut changes = 0;
    let mut numbers = 0;
    for (one, other) in signs.iter().zip(signs.iter().skip(1)) {
        changes += usize::from(kind(*one) != kind(*other));
        numbers += usize::from(one.is_ascii_digit() != other.is_ascii_digit());
    }

    numbers >= 3 && changes >= 4 && changes * 6 >= signs.len()
}

/// Returns true for a text with capitals, small letters and digits.
pub(crate) fn is_mixed(text: &str) -> bool {
    text.bytes().any(|b| b.is_ascii_uppercase())
        && text.bytes().any(|b| b.is_ascii_lowercase())
        && text.bytes().any(|b| b.is_ascii_digit())
}

/// Returns true for a text that is random, or as long as one and mixed: it is behind a name, or in a
/// place, that makes it suspicious.
pub(crate) fn is_generated(value: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"+/=_-".contains(&b);
    let is_long = value.len() >= RANDOM && value.bytes().all(is_plain);
    is_random(value) || is_long && is_mixed(value) && !value.starts_with('/')
}

/// Returns true for a word that may be a password, and is none of a language: with letters and
/// digits.
pub(crate) fn is_made_up(word: &str) -> bool {
    word.len() >= WORD
        && word.bytes().any(|b| b.is_ascii_alphabetic())
        && word.bytes().any(|b| b.is_ascii_digit())
        && !word.contains(['/', '(', '<', '{', '$'])
}

/// Returns true for a UUID.
pub(crate) fn is_uuid(value: &str) -> bool {
    let groups = value.split('-').map(|group| {
        let is_hex = group.bytes().all(|b| b.is_ascii_hexdigit());
        is_hex.then_some(group.len())
    });
    groups.eq([8, 4, 4, 4, 12].map(Some))
}

/// Returns true for a random value of a name that may be that of a secret. A key may have a UUID as
/// its ID.
pub(crate) fn is_worth(name: &str, value: &str) -> bool {
    is_random(value) && !(is_key(name) && is_uuid(value))
}

/// Returns true for a value behind the name of a secret that only tells about one: the name of a key
/// in a Secret (`passwordKey: password`), a Secret with its namespace (`secret: kube-system/ccm`), or
/// a number of tokens.
pub(crate) fn is_told_by(name: &str, value: &str) -> bool {
    let is_dns = |part: &str| {
        let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        part.bytes().all(is_plain) && part.starts_with(|c: char| c.is_ascii_lowercase())
    };
    let is_word = value
        .bytes()
        .all(|b| b.is_ascii_alphabetic() || b"-_".contains(&b));
    let is_namespaced = value
        .split_once('/')
        .is_some_and(|(namespace, name)| is_dns(namespace) && is_dns(name));

    is_key(name) && is_word && is_secret(value)
        || ends_with(name, "secret") && is_namespaced
        || ends_with(name, "tokens") && value.len() < 6 && value.bytes().all(|b| b.is_ascii_digit())
}

/// Returns true for the ID of something in a cloud: a UUID, perhaps without its signs.
fn is_id(value: &str) -> bool {
    const PLAIN: usize = 32;
    is_uuid(value) || value.len() == PLAIN && value.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Returns true for a name of several words, perhaps with numbers: `eu-west-1`, `vc1.example.com`.
fn is_name(value: &str) -> bool {
    let is_word = |word: &str| {
        let digits = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        !word.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
    };
    let signs: &[char] = &['-', '.', '@', '_', ' '];
    value.contains(signs) && value.split(signs).all(is_word)
}

/// Returns true for a list of names of Secrets: `[cloud-config, ca]`.
pub(crate) fn are_names(list: &str) -> bool {
    let is_small = |name: &str| {
        name.bytes().all(|b| b.is_ascii_lowercase())
            || is_name(name)
                && name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
    };

    let trimmed = |it: &'static str| move |c: char| c.is_whitespace() || it.contains(c);
    list.split(',')
        .map(|name| name.trim_matches(trimmed("\"'[]\\")))
        .all(is_small)
}

/// Returns true for a setting, whatever its name: a URL, a path, a duration, or a number.
fn is_setting(value: &str) -> bool {
    /// Minimum digits of a secret.
    const DIGITS: usize = 6;

    let is_scheme = |it: &str| it.len() > 1 && it.bytes().all(|b| b.is_ascii_alphabetic());
    let is_path = |it: &str| it.trim_matches('/').contains('/') && !it.contains("//");
    let is_unit = |it: &str| ["", "ms", "s", "m", "h", "d"].contains(&it);
    let is_number = |it: &str| it.bytes().all(|b| b.is_ascii_digit() || b".:".contains(&b));
    let is_plain = value.bytes().all(|b| b.is_ascii_digit());

    value
        .split_once("://")
        .is_some_and(|(scheme, _)| is_scheme(scheme))
        || value.starts_with("//")
        || value.starts_with('/') && is_path(value)
        || ["./", "../", "~/"].iter().any(|it| value.starts_with(it))
        || value.starts_with(['{', '['])
        || is_number(value) && !(is_plain && value.len() >= DIGITS)
        || value.starts_with(|c: char| c.is_ascii_digit())
            && value.split(|c: char| c.is_ascii_digit()).all(is_unit)
            && !is_plain
}

/// Returns true for a secret that is below the name of one.
pub(crate) fn is_held(holder: Holder, name: &str, value: &str) -> bool {
    /// Minimum bytes of such a secret.
    const SHORTEST: usize = 4;

    let member = member(name);
    if value.len() < SHORTEST
        || is_trivial(value)
        || is_setting(value)
        || member == Member::Reference
    {
        return false;
    }

    // Below the name of a secret, what is not plainly something else is one.
    match (holder, member) {
        (Holder::Passwords, Member::Owner | Member::Other) | (Holder::Logins, Member::Other) => {
            true
        }
        (Holder::Tokens | Holder::Password, Member::Owner) => !is_name(value),
        (Holder::Tokens | Holder::Password, Member::Other) => true,
        (Holder::Passwords | Holder::Tokens | Holder::Password, _) => is_generated(value),
        (Holder::Single, Member::Other) if is_made_up(value) && !is_name(value) => true,
        (Holder::Logins | Holder::Single, _) => is_generated(value) && !is_id(value),
    }
}

/// Returns true for a private key without the lines of PEM around it: the Base64 or hexadecimal of
/// PKCS #1, PKCS #8, SEC 1 or PKCS #12.
pub(crate) fn is_private_key(encoded: &str) -> bool {
    /// Minimum characters of a key, and maximum characters that are looked at.
    const SIZES: (usize, usize) = (64, 64);

    let begins = |bytes: Vec<u8>| {
        let Some((&length, rest)) = bytes.strip_prefix(&[0x30]).and_then(<[u8]>::split_first)
        else {
            return false;
        };
        let more = if length < 0x80 { 0 } else { length & 0x7f };
        let content = rest.get(usize::from(more)..).unwrap_or_default();
        // The version, and a key behind it.
        [
            &[2, 1, 0, 2],
            &[2, 1, 0, 0x30],
            &[2, 1, 1, 4],
            &[2, 1, 3, 0x30],
        ]
        .iter()
        .any(|version: &&[u8; 4]| content.starts_with(*version))
    };

    // The beginning tells a key, so the rest is not decoded.
    let (least, most) = SIZES;
    let start = encoded.get(..most.min(encoded.len())).unwrap_or_default();
    encoded.len() >= least
        && [from_base64(start), from_hex(start)]
            .into_iter()
            .flatten()
            .any(begins)
}

/// Returns what is encoded in Base64, if that is valid. Its end may be cut off.
fn from_base64(encoded: &str) -> Option<Vec<u8>> {
    // A single character at the end encodes no byte.
    let whole = encoded.len() - usize::from(encoded.len() % 4 == 1);
    let engine = if encoded.contains(['-', '_']) {
        URL_SAFE
    } else {
        STANDARD
    };
    engine.decode(encoded.get(..whole)?).ok()
}

/// Returns what is encoded in pairs of hexadecimal digits.
fn from_hex(encoded: &str) -> Option<Vec<u8>> {
    let (pairs, _) = encoded.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| {
        let text = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(text, 16).ok()
    };
    pairs.iter().map(byte).collect()
}

/// Returns the texts in what is encoded in Base64 or hexadecimal, one a line; nothing if there are
/// none.
pub(crate) fn decoded(encoded: &str) -> String {
    /// Minimum bytes of a text; less is chance.
    const TEXT: usize = 8;

    let is_hex = encoded.bytes().all(|b| b.is_ascii_hexdigit());
    // What is before it may belong to something else.
    let shifted = (0..4).filter_map(|skip| encoded.get(skip..).and_then(from_base64));
    let hex = (0..2).filter_map(|skip| encoded.get(skip..).and_then(from_hex));
    let all: Vec<Vec<u8>> = if is_hex {
        hex.chain(shifted).collect()
    } else {
        shifted.collect()
    };

    // UTF-16 has zeros.
    let is_text = |c: char| !c.is_control() || "\n\r\t\0".contains(c);
    let mut texts = String::new();
    for bytes in &all {
        let chunks = bytes.utf8_chunks().map(|chunk| chunk.valid());
        let pieces = chunks.flat_map(|chunk| chunk.split(|c| !is_text(c)));
        for piece in pieces.filter(|piece| piece.len() >= TEXT) {
            texts.extend(piece.chars().filter(|c| *c != '\0'));
            texts.push('\n');
        }
    }

    texts
}

/// Returns true for `USER:PASSWORD` in Base64, as in the header `Authorization` and in Docker's
/// configuration.
pub(crate) fn is_login(value: &str) -> bool {
    let text = from_base64(value.trim_end_matches('=')).map(String::from_utf8);
    match text {
        Some(Ok(text)) if value.len() >= 8 && !text.contains(char::is_control) => text
            .split_once(':')
            .is_some_and(|(_, password)| !password.is_empty()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_texts_are_told_from_identifiers() {
        for value in [
            "3b1f6a2e9c0d4f7a8b5c",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY9a8b7",
            "123e4567-e89b-12d3-a456-426614174000",
            "hunter2hunter2hunter2",
        ] {
            assert!(is_random(value), "{value}");
        }

        for value in [
            "short1a2b3c",
            "my-node-pool-2024-abcdef-01",
            "topology.kubernetes.io/zone",
            "/etc/kubernetes/pki/a1b2c3d4e5.key",
            "LoadBalancerHealthProbeModeName",
            "123456789012345678",
        ] {
            assert!(!is_random(value), "{value}");
        }
    }

    #[test]
    fn booleans_and_masks_are_trivial() {
        for value in [
            "", "\"\"", "true", "No", "~", "****", "xxxxxxxx", " ", "null,",
        ] {
            assert!(is_trivial(value), "{value}");
        }
        for value in ["0", "truth", "x", "a", "12345"] {
            assert!(!is_trivial(value), "{value}");
        }
    }

    #[test]
    fn a_login_in_base64_is_found() {
        assert!(is_login("dXNlcjpodW50ZXIy") && !is_login("dXNlcg==") && !is_login("not base64!"));
    }
}
