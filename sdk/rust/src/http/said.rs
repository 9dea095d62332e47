//! Finds a cloud's error message in the body of a response.
use serde_json::Value;

/// Maximum number of bytes of the message that are kept.
const MOST: usize = 300;

/// Maximum number of bytes of a body that is read: a larger one is not an error message.
const BODY: usize = 64 << 10;

/// Returns the message in the body of a response, if it has a form that clouds use: JSON with a
/// `message` in one of several places, XML with a `Message` or `faultstring`, or plain text.
pub(super) fn sentence(content_type: &str, body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body.get(..BODY.min(body.len()))?)
        .ok()
        .filter(|_| body.len() <= BODY)?
        .trim_start();

    let found = match text.chars().next()? {
        '{' | '[' => in_json(&serde_json::from_str(text).ok()?)?.to_owned(),
        '<' => in_xml(text)?,
        _ if content_type.trim_start().starts_with("text/plain") => text.to_owned(),
        _ => return None,
    };
    Some(printable(&found)).filter(|sentence| !sentence.is_empty())
}

/// Reads `{"error":{"message"}}`, `{"error"}`, `{"message"}`, `{"faultstring"}`,
/// `{"errors":[{"detail"}]}`, and OpenStack's `{"badRequest":{"message"}}` with any name.
fn in_json(body: &Value) -> Option<&str> {
    message(body)
        .or_else(|| body.get("error").and_then(own))
        .or_else(|| body.get("errors")?.as_array()?.first().and_then(own))
        .or_else(|| {
            body.as_object()
                .filter(|members| members.len() == 1)?
                .values()
                .next()
                .and_then(own)
        })
}

/// Returns the message of an object, or the value itself if it is a string.
fn own(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| message(value))
}

fn message(value: &Value) -> Option<&str> {
    [
        "message",
        "Message",
        "faultstring",
        "detail",
        "error_description",
    ]
    .iter()
    .find_map(|name| value.get(name)?.as_str())
}

/// Returns the text of the first element with one of the names, with or without a namespace prefix.
fn in_xml(body: &str) -> Option<String> {
    ["Message", "message", "faultstring"]
        .iter()
        .find_map(|name| element(body, name))
}

fn element(body: &str, name: &str) -> Option<String> {
    let mut rest = body;
    loop {
        let (_, tag) = rest.split_once('<')?;
        rest = tag;

        // Searched only up to the next tag: a body of many `<` would otherwise take quadratic time.
        let (head, after) = tag.split_at(tag.find(['<', '>'])?);
        let Some(after) = after.strip_prefix('>') else {
            continue;
        };

        let local = head.split_ascii_whitespace().next().unwrap_or_default();
        if local.rsplit(':').next() == Some(name) && !local.starts_with('/') {
            let (text, _) = after.split_once("</")?;
            let text = text
                .strip_prefix("<![CDATA[")
                .map_or(text, |text| text.trim_end_matches("]]>"));

            // `&amp;` is last, so that `&amp;lt;` becomes `&lt;`.
            let named = [
                ("&lt;", "<"),
                ("&gt;", ">"),
                ("&quot;", "\""),
                ("&apos;", "'"),
                ("&amp;", "&"),
            ];

            return Some(
                named
                    .iter()
                    .fold(text.to_owned(), |text, (entity, letter)| {
                        text.replace(entity, letter)
                    }),
            );
        }
    }
}

/// Returns one line of visible characters, cut off at [`MOST`] bytes.
pub(super) fn printable(text: &str) -> String {
    let mut line = String::new();
    for word in text
        .split(|letter: char| letter.is_whitespace() || letter.is_control())
        .filter(|word| !word.chars().all(is_invisible))
    {
        if !line.is_empty() {
            line.push(' ');
        }

        line.extend(word.chars().filter(|letter| !is_invisible(*letter)));
        if line.len() > MOST {
            let end = line.floor_char_boundary(MOST - '…'.len_utf8());
            line.truncate(end);
            line.push('…');
            break;
        }
    }

    line
}

/// Returns whether a character is an invisible one that reverses, joins or hides its neighbors.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(body: &str) -> Option<String> {
        sentence("application/json", body.as_bytes())
    }

    #[test]
    fn finds_the_message_in_errors_of_common_clouds() {
        let bodies = [
            r#"{"error": {"code": 404, "message": "no such thing"}}"#,
            r#"{"error": "no such thing"}"#,
            r#"{"message": "no such thing", "documentation_url": "x"}"#,
            r#"{"__type": "NotFound", "Message": "no such thing"}"#,
            r#"{"badRequest": {"code": 400, "message": "no such thing"}}"#,
            r#"{"NeutronError": {"type": "X", "message": "no such thing", "detail": ""}}"#,
            r#"{"NeutronError": "no such thing"}"#,
            r#"{"faultcode": "Client", "faultstring": "no such thing", "debuginfo": null}"#,
            r#"{"errors": [{"status": 404, "detail": "no such thing"}]}"#,
            r#"{"error": {"code": 1}, "message": "no such thing"}"#,
            "<?xml version=\"1.0\"?><Response><Errors><Error><Code>X</Code><Message>no such thing</Message></Error></Errors>",
            "<e:Envelope xmlns:e='x'><e:Fault><a:faultstring lang='en'>no such thing</a:faultstring></e:Fault></e:Envelope>",
            "  <Message><![CDATA[no such thing]]></Message>",
        ];
        for body in bodies {
            assert_eq!(said(body).as_deref(), Some("no such thing"), "{body}");
        }
        assert_eq!(
            said("<Message>a &lt;b&gt; &amp;lt;</Message>").as_deref(),
            Some("a <b> &lt;")
        );
        assert_eq!(
            sentence("text/plain; charset=utf-8", b"no such thing\n").as_deref(),
            Some("no such thing")
        );
    }

    #[test]
    fn bodies_without_a_message_are_ignored() {
        let long = format!(r#"{{"message": "{}"}}"#, "x".repeat(BODY));
        for body in [
            "",
            "  ",
            "{}",
            "[]",
            "{",
            r#"{"message": 1}"#,
            r#"{"message": " "}"#,
            "<html>x</html>",
            "<",
            "<Message",
            "oops",
            &long,
        ] {
            assert_eq!(said(body), None, "{body:.80}");
        }
        assert_eq!(sentence("text/plain", b"\xff"), None);
    }

    #[test]
    fn a_hostile_body_is_searched_in_linear_time() {
        let begin = std::time::Instant::now();
        for unit in ["<", "<:", "<Message", "<a>", "</", "< "] {
            let body = unit.repeat(BODY / unit.len() - 1) + ">";
            assert_eq!(said(&body), None, "{unit}");
        }
        // In quadratic time, this takes minutes in a debug build.
        assert!(
            begin.elapsed() < std::time::Duration::from_secs(10),
            "{:?}",
            begin.elapsed()
        );
        assert_eq!(said("1 < 2 <Message>no such thing</Message>"), None);
        assert_eq!(
            said("<a b='1 < 2'/><Message>no such thing</Message>").as_deref(),
            Some("no such thing")
        );
    }

    #[test]
    fn a_message_is_one_line_without_control_characters() {
        let body = r#"{"message": "a\n\tb\u001b[31m \u202e \u202ec\u0000"}"#;
        assert_eq!(said(body).as_deref(), Some("a b [31m c"));
    }

    #[test]
    fn a_long_message_is_cut_at_a_character_boundary() {
        for text in ["x".repeat(MOST + 1), "ü".repeat(MOST), "ab ".repeat(MOST)] {
            let cut = said(&format!(r#"{{"message": "{text}"}}"#)).unwrap();
            assert!(
                cut.len() <= MOST && cut.len() > MOST - 4 && cut.ends_with('…'),
                "{} {cut}",
                cut.len()
            );
        }
        let whole = "x".repeat(MOST);
        assert_eq!(said(&format!(r#"{{"message": "{whole}"}}"#)), Some(whole));
    }
}
