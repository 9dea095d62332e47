//! Secrets that are known by what they look like, whatever their name.

use std::ops::Range;

use crate::{
    Found, What,
    value::{decoded, is_random},
};

/// Beginnings of tokens and keys, with the least number of bytes of the whole.
const PREFIXES: &[(&str, usize)] = &[
    ("AGE-SECRET-KEY-1", 50),
    ("AIza", 39),
    ("SG.", 50),
    ("dop_v1_", 40),
    ("gAAAAA", 60),
    ("ghp_", 30),
    ("gho_", 30),
    ("ghs_", 30),
    ("ghu_", 30),
    ("ghr_", 30),
    ("github_pat_", 40),
    ("glpat-", 20),
    ("hvb.", 24),
    ("hvs.", 24),
    ("npm_", 30),
    ("sk_live_", 24),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("ya29.", 30),
];

/// Length of the ID of an AWS access key, and of its secret.
const AWS: (usize, usize) = (20, 40);

/// Adds the private keys, passwords in URLs, and tokens of a text.
pub(crate) fn shaped(text: &str, found: &mut Vec<Found>) {
    let add = |what: What| move |range: Range<usize>| Found::new(range, what.clone());
    found.extend(private_keys(text).map(add(What::PrivateKey)));
    found.extend(passwords_of_urls(text).map(add(What::UrlPassword)));
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let mut is_aws = false;
    for token in runs(text, is_part) {
        let run = text.get(token.clone()).unwrap_or_default();
        is_aws |= is_aws_key(run);
        if is_token(run) {
            found.push(Found::new(token, What::Token));
        }
    }
    if is_aws {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "+/".contains(c);
        let secrets = runs(text, is_part)
            .filter(|range| range.len() == AWS.1 && text.get(range.clone()).is_some_and(is_mixed));
        found.extend(secrets.map(add(What::Token)));
    }
}

/// Returns the ranges of what consists of such characters.
pub(crate) fn runs(
    text: &str,
    is_part: impl Fn(char) -> bool + Copy,
) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text.get(at..)?.find(is_part)?;
        let rest = text.get(start..)?;
        at = start + rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        Some(start..at)
    })
}

fn is_token(run: &str) -> bool {
    let run = run.trim_start_matches(['.', '-', '_']);
    let is_known = PREFIXES
        .iter()
        .any(|(prefix, least)| run.len() >= *least && run.starts_with(prefix));
    is_known || is_jwt(run) || is_bootstrap_token(run)
}

/// Returns true for a JSON Web Token: its header and its claims are JSON.
fn is_jwt(run: &str) -> bool {
    let mut parts = run.split('.');
    let is_json = |part: Option<&str>| part.is_some_and(|part| part.starts_with("eyJ"));
    is_json(parts.next())
        && parts.next().is_some_and(|it| it.len() >= 8)
        && parts.next().is_some_and(|it| it.len() >= 8)
}

/// Returns true for a bootstrap token of Kubernetes: `abcdef.0123456789abcdef`.
fn is_bootstrap_token(run: &str) -> bool {
    let is_plain = |part: &str, length: usize| {
        part.len() == length
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    run.split_once('.')
        .is_some_and(|(id, secret)| is_plain(id, 6) && is_plain(secret, 16) && is_random(secret))
}

/// Returns true for the ID of an AWS access key.
fn is_aws_key(run: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit();
    run.len() == AWS.0
        && (run.starts_with("AKIA") || run.starts_with("ASIA"))
        && run.bytes().all(is_plain)
}

/// Returns true for a text with capitals, small letters and digits.
fn is_mixed(text: &str) -> bool {
    text.bytes().any(|b| b.is_ascii_uppercase())
        && text.bytes().any(|b| b.is_ascii_lowercase())
        && text.bytes().any(|b| b.is_ascii_digit())
}

/// Returns the ranges between the lines of PEM around private keys.
fn private_keys(text: &str) -> impl Iterator<Item = Range<usize>> {
    /// Maximum bytes from `BEGIN` to there.
    const KIND: usize = 24;
    let ends = ["PRIVATE KEY-----", "PRIVATE KEY BLOCK-----"];
    let all = ends.into_iter().flat_map(move |end| {
        text.match_indices(end)
            .map(move |(at, _)| (at, at + end.len()))
    });
    all.filter_map(|(at, from)| {
        let rest = text.get(from..)?;
        let end = rest.find("-----").unwrap_or(rest.len());
        // The one after END has no data behind it.
        let before = text.get(text.floor_char_boundary(at.saturating_sub(KIND))..at)?;
        before.contains("BEGIN").then_some(from..from + end)
    })
}

/// Returns the ranges of passwords in URLs: `https://USER:PASSWORD@HOST`.
fn passwords_of_urls(text: &str) -> impl Iterator<Item = Range<usize>> {
    /// Maximum bytes of user and password.
    const LONGEST: usize = 1024;
    text.match_indices("://").filter_map(|(at, marker)| {
        let from = at + marker.len();
        let most = text.floor_char_boundary((from + LONGEST).min(text.len()));
        let rest = text.get(from..most)?;
        let authority = rest.get(
            ..rest
                .find(|c: char| c.is_whitespace() || "/?#\"'<>\\".contains(c))
                .unwrap_or(rest.len()),
        )?;
        let (user, _) = authority.rsplit_once('@')?;
        let (name, password) = user.split_once(':')?;
        let begin = from + name.len() + 1;
        Some(begin..begin + password.len())
    })
}

/// Minimum bytes of a text in Base64 that is decoded.
const ENCODED: usize = 16;

/// Bytes of a line from which a text in Base64 may continue in the next one.
const WRAPPED: usize = 48;

/// Adds texts in Base64 or hexadecimal that contain secrets.
pub(crate) fn encoded(text: &str, found: &mut Vec<Found>, is_secret: impl Fn(&str) -> bool) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "+/-_".contains(c);
    let mut whole: Option<Range<usize>> = None;
    let mut check = |range: Range<usize>| {
        let run = text.get(range.clone()).unwrap_or_default();
        let plain: String = run.chars().filter(|c| is_part(*c)).collect();
        if is_secret(&decoded(&plain)) {
            found.push(Found::new(range, What::Encoded));
        }
    };
    for run in runs(text, is_part) {
        let continued = whole.take().and_then(|before| {
            let between = text.get(before.end..run.start)?;
            let is_break = between.contains('\n') && between.trim().is_empty();
            let line = text.get(before.clone())?.rsplit('\n').next()?.trim();
            if is_break && line.len() >= WRAPPED {
                return Some(before.start..run.end);
            }
            if before.len() >= ENCODED {
                check(before);
            }
            None
        });
        whole = Some(continued.unwrap_or(run));
    }
    whole
        .into_iter()
        .filter(|it| it.len() >= ENCODED)
        .for_each(check);
}
