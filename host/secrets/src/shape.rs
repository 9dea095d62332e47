//! Secrets that are known by what they look like, whatever their name.

use std::{net::Ipv4Addr, ops::Range};

use crate::{
    Found, What,
    value::{decoded, is_generated, is_mixed, is_private_key, is_random, is_uuid},
};

/// Beginnings of tokens and keys, with the least number of bytes of the whole.
const PREFIXES: &[(&str, usize)] = &[
    ("AGE-SECRET-KEY-1", 50),
    ("AIza", 39),
    ("SG.", 50),
    ("doo_v1_", 40),
    ("dop_v1_", 40),
    ("dor_v1_", 40),
    ("gAAAAA", 60),
    ("ghp_", 30),
    ("gho_", 30),
    ("ghs_", 30),
    ("ghu_", 30),
    ("ghr_", 30),
    ("github_pat_", 40),
    ("glpat-", 20),
    ("glrt-", 20),
    ("hvb.", 24),
    ("hvs.", 24),
    ("npm_", 30),
    ("sk_live_", 24),
    ("xapp-", 20),
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
    found.extend(putty_keys(text).map(add(What::PrivateKey)));
    found.extend(passwords_of_urls(text).map(add(What::UrlPassword)));
    found.extend(passwords_of_addresses(text).map(add(What::UrlPassword)));
    found.extend(tokens_of_urls(text).map(add(What::Token)));

    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let mut is_aws = false;
    for token in runs(text, is_part) {
        let run = text.get(token.clone()).unwrap_or_default();
        is_aws |= is_aws_key(run);
        if is_token(run) {
            found.push(Found::new(token, What::Token));
        }
    }

    // A secret key of AWS has no mark of its own, so only texts with the ID of one are searched.
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
    // In Base64, `{"` is `eyJ`.
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

/// Returns the ranges between the lines of PEM around private keys.
fn private_keys(text: &str) -> impl Iterator<Item = Range<usize>> {
    /// Maximum bytes from `BEGIN` to there.
    const KIND: usize = 24;
    let ends = [
        "PRIVATE KEY-----",
        "PRIVATE KEY BLOCK-----",
        "PRIVATE KEY ----",
    ];

    let all = ends.into_iter().flat_map(move |end| {
        text.match_indices(end)
            .map(move |(at, _)| (at, at + end.len()))
    });

    all.filter_map(|(at, from)| {
        let rest = text.get(from..)?;
        let end = rest.find("----").unwrap_or(rest.len());
        // The one after END has no data behind it.
        let before = text.get(text.floor_char_boundary(at.saturating_sub(KIND))..at)?;
        before.contains("BEGIN").then_some(from..from + end)
    })
}

/// Returns the ranges of private keys in the format of PuTTY.
fn putty_keys(text: &str) -> impl Iterator<Item = Range<usize>> {
    const BEGIN: &str = "Private-Lines:";
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text.get(at..)?.find(BEGIN)? + BEGIN.len();
        let rest = text.get(start..)?;
        at = start + rest.find("Private-").unwrap_or(rest.len());
        Some(start..at)
    })
}

/// Maximum bytes of user and password.
const LOGIN: usize = 1024;

/// Characters that end a URL in a text.
fn ends_url(c: char) -> bool {
    c.is_whitespace() || "\"'<>\\`".contains(c)
}

/// Returns the text from here to the end of the URL, but not more than so many bytes.
fn url(text: &str, from: usize, most: usize) -> Option<&str> {
    let most = text.floor_char_boundary((from + most).min(text.len()));
    let rest = text.get(from..most)?;
    rest.get(..rest.find(ends_url).unwrap_or(rest.len()))
}

/// Returns the ranges of passwords in URLs: `https://USER:PASSWORD@HOST`; a random user without a
/// password is one, too.
fn passwords_of_urls(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices("://").filter_map(|(at, marker)| {
        let from = at + marker.len();
        let whole = url(text, from, LOGIN)?;
        let authority = whole.split(['/', '?', '#']).next()?;

        // What is behind the colon may be a password with a slash, but not if it is a port.
        let is_cut = !authority.contains('@')
            && !authority.starts_with('[')
            && authority
                .split_once(':')
                .is_some_and(|(_, port)| !port.bytes().all(|b| b.is_ascii_digit()))
            && !whole.contains("://");
        let authority = if is_cut { whole } else { authority };

        let (user, _) = authority.rsplit_once('@')?;
        let Some((name, password)) = user.split_once(':') else {
            return is_random(user).then(|| from..from + user.len());
        };
        let begin = from + name.len() + 1;
        Some(begin..begin + password.len())
    })
}

/// Returns the ranges of passwords in addresses without a scheme: `USER:PASSWORD@HOST:PORT`,
/// `USER:PASSWORD@tcp(HOST:PORT)/DATABASE`.
fn passwords_of_addresses(text: &str) -> impl Iterator<Item = Range<usize>> {
    /// Maximum bytes before and after `@`.
    const NEAR: usize = 256;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);

    text.match_indices('@').filter_map(move |(at, _)| {
        let most = text.floor_char_boundary((at + NEAR).min(text.len()));
        let host = text.get(at + 1..most)?;
        let (host, rest) = host.split_at(host.find(|c| !is_name(c)).unwrap_or(host.len()));
        let port = rest.strip_prefix(':').unwrap_or_default();
        let digits = port.len() - port.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let is_port = (1..=5).contains(&digits) && !port.get(digits..)?.starts_with(is_name);

        let is_address = host.parse::<Ipv4Addr>().is_ok();
        if host.is_empty() || !(is_port || is_address || rest.starts_with('(')) {
            return None;
        }

        let from = text.ceil_char_boundary(at.saturating_sub(NEAR));
        let login = text.get(from..at)?;
        let login = login
            .rsplit(|c| ends_url(c) || "=,;([{".contains(c))
            .next()?;
        let (user, password) = login.split_once(':')?;
        let is_login = !user.is_empty()
            && user.chars().all(is_name)
            && !password.is_empty()
            && !password.starts_with("//");
        is_login.then(|| at - password.len()..at)
    })
}

/// Returns the ranges of tokens in the paths of webhooks: Slack, Discord, Teams, and Telegram.
fn tokens_of_urls(text: &str) -> impl Iterator<Item = Range<usize>> {
    /// Maximum bytes of such a URL.
    const LONGEST: usize = 256;

    text.match_indices("://").filter_map(|(at, marker)| {
        let from = at + marker.len();
        let path = url(text, from, LONGEST)?.split(['?', '#']).next()?;
        let place = |part: &str| {
            let begin = from + path.find(part)?;
            Some(begin..begin + part.len())
        };

        let bot = path.split('/').find(|part| {
            let token = part.strip_prefix("bot").and_then(|it| it.split_once(':'));
            token.is_some_and(|(id, token)| {
                id.bytes().all(|b| b.is_ascii_digit()) && is_random(token)
            })
        });

        let is_hook = path.contains("hook");
        let is_token = |part: &&str| is_generated(part) && !is_uuid(part);
        let last = || path.split('/').skip(1).filter(is_token).last();
        bot.or_else(|| is_hook.then(last).flatten()).and_then(place)
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
        if is_private_key(&plain) {
            found.push(Found::new(range, What::PrivateKey));
        } else if is_secret(&decoded(&plain)) {
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
