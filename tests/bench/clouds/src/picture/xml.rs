//! Converts XML answers of AWS to JSON. Pure.

use serde_json::{Map, Value};

/// Converts an element. Elements that contain only `item` or `member` become lists, other elements
/// with children become objects, and the rest becomes text.
pub(super) fn value(xml: &str) -> Value {
    let children = children(xml);
    if children.is_empty() {
        let text = xml
            .trim()
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&amp;", "&");
        return Value::String(text);
    }
    if children
        .iter()
        .all(|(name, _)| matches!(*name, "item" | "member"))
    {
        return Value::Array(children.iter().map(|(_, inside)| value(inside)).collect());
    }
    Value::Object(
        children
            .iter()
            .map(|(name, inside)| ((*name).to_owned(), value(inside)))
            .collect::<Map<_, _>>(),
    )
}

/// Returns the names and contents of the direct child elements in this text.
fn children(xml: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = xml;
    while let Some((_, after)) = rest.split_once('<') {
        let Some((tag, behind)) = after.split_once('>') else {
            break;
        };
        rest = behind;
        if tag.starts_with(['?', '!', '/']) {
            continue;
        }
        let name = tag
            .trim_end_matches('/')
            .split_whitespace()
            .next()
            .unwrap_or_default();
        if tag.ends_with('/') {
            found.push((name, ""));
            continue;
        }
        let end = end(behind, name);
        found.push((name, behind.get(..end).unwrap_or_default()));
        rest = behind
            .get(end..)
            .unwrap_or_default()
            .split_once('>')
            .map_or("", |(_, rest)| rest);
    }
    found
}

/// Returns the end of the content of the element with this name. `text` starts with the content.
fn end(text: &str, name: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('<')) {
        let start = at + found;
        let tag = text
            .get(start + 1..)
            .and_then(|rest| rest.split('>').next())
            .unwrap_or_default();
        let is_this = |tag: &str| tag.split_whitespace().next() == Some(name);
        if let Some(closed) = tag.strip_prefix('/') {
            if is_this(closed) {
                if depth == 0 {
                    return start;
                }
                depth -= 1;
            }
        } else if is_this(tag) && !tag.ends_with('/') {
            depth += 1;
        }
        at = start + 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn xml_is_converted_to_lists_objects_and_text() {
        let xml = "<?xml version=\"1.0\"?><R xmlns=\"x\"><L><member><a>1</a><in><item><a>2</a></item></in></member>\
                   <member><a>a &amp; b</a><e/></member></L><T>  </T></R>";
        let wanted =
            json!({"R": {"L": [{"a": "1", "in": [{"a": "2"}]}, {"a": "a & b", "e": ""}], "T": ""}});
        assert_eq!(value(xml), wanted);
    }
}
