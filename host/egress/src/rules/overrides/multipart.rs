//! Names and values in multipart bodies.

use memchr::memmem;
use skydock_credentials::request::actions::decode;

use super::{is_common, is_denied, method, shown, truncated, without_blanks};

enum PartName {
    /// The name, in all of the ways in which servers read it.
    Whole(Vec<Vec<u8>>),
    /// A name that is continued (RFC 2231) is known only if all of its pieces are put together.
    Continued,
}

/// Returns a name of a part that means another method.
pub(super) fn denied_name(body: &[u8]) -> Option<String> {
    let lower = body.to_ascii_lowercase();
    part_names(&lower).find_map(|(name, _)| match name {
        PartName::Whole(names) => names
            .iter()
            .find(|name| is_denied(name))
            .map(|it| shown(it)),
        PartName::Continued => Some("`name*0`".to_owned()),
    })
}

/// Returns the methods that parts with common names have as values.
pub(super) fn methods(body: &[u8]) -> Vec<String> {
    let value = |(name, after): (PartName, &[u8])| match name {
        PartName::Whole(names) => names
            .iter()
            .any(|name| is_common(name))
            .then(|| method(first_line(after))),
        // Requests with such names are denied.
        PartName::Continued => None,
    };

    let lower = body.to_ascii_lowercase();
    part_names(&lower).filter_map(value).collect()
}

/// Returns the names of the parts of a body in lower case, wherever they are written, each with
/// what follows it until the next one.
fn part_names(lower: &[u8]) -> impl Iterator<Item = (PartName, &[u8])> {
    let mut places = memmem::find_iter(lower, b"name").peekable();
    let places = std::iter::from_fn(move || Some((places.next()?, places.peek().copied())));

    places.filter_map(|(at, next)| {
        // A body can consist of nothing but such names. What has another in it is no method.
        let after = lower.get(at + b"name".len()..next.unwrap_or(lower.len()));
        let after = after.unwrap_or_default();
        if is_continued(after) {
            return Some((PartName::Continued, after));
        }

        let value = after.strip_prefix(b"*").unwrap_or(after).trim_ascii_start();
        let value = value.strip_prefix(b"=")?.trim_ascii_start();
        let (value, ends) = match value.strip_prefix(b"\"") {
            Some(quoted) => (quoted, &b"\"\r\n"[..]),
            None => (value, &b";\r\n"[..]),
        };

        let value = truncated(without_blanks(value));
        let name = decode(value.split(|byte| ends.contains(byte)).next()?);

        // In the extended form, the charset and the language come before the name; and PHP takes
        // single quotes, too.
        let names = name.split(|byte| *byte == b'\'').map(<[u8]>::to_vec);
        Some((PartName::Whole(names.collect()), after))
    })
}

/// Returns true if a piece of a name follows, as in `name*0="…"` and `name*0*=…`.
fn is_continued(after: &[u8]) -> bool {
    let Some(number) = after.strip_prefix(b"*") else {
        return false;
    };
    let digits = number.iter().take_while(|byte| byte.is_ascii_digit());
    let rest = number.get(digits.count()..).unwrap_or_default();
    let rest = rest.strip_prefix(b"*").unwrap_or(rest).trim_ascii_start();

    number.first().is_some_and(u8::is_ascii_digit) && rest.starts_with(b"=")
}

/// Returns the first line of a part's value, given what follows its name, or nothing, which is no
/// method, if the value is not found.
fn first_line(after_name: &[u8]) -> &[u8] {
    let ends: [&[u8]; 2] = [b"\r\n\r\n", b"\n\n"];
    let starts = ends.iter().filter_map(|end| {
        let at = memmem::find(after_name, end)?;
        Some(at + end.len())
    });

    let value = starts.min().and_then(|at| after_name.get(at..));
    let line = value.and_then(|value| value.split(|byte| b"\r\n".contains(byte)).next());
    line.unwrap_or_default()
}
