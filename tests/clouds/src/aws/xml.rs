//! A minimal XML parser for answers of AWS: their elements have no attributes, and text is escaped.

/// Returns the text of all elements with this name, outermost first, in document order.
#[must_use]
pub fn all<'a>(xml: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut found = Vec::new();
    let mut rest = xml;
    while let Some((_, after)) = rest.split_once(&open) {
        let end = end(after, &open, &close);
        let (inside, behind) = after.split_at_checked(end).unwrap_or((after, ""));
        found.push(inside);
        rest = behind;
    }
    found
}

/// Returns the text of the first element with this name.
#[must_use]
pub fn first<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    all(xml, name).into_iter().next()
}

/// Returns the direct children `<item>` or `<member>` of the first element with this name.
#[must_use]
pub fn items<'a>(xml: &'a str, name: &str) -> Vec<&'a str> {
    let Some(list) = first(xml, name) else {
        return Vec::new();
    };
    let item = if list.trim_start().starts_with("<member>") {
        "member"
    } else {
        "item"
    };
    all(list, item)
}

/// Returns the end of the content of an element. `text` starts with the content.
fn end(text: &str, open: &str, close: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(rest) = text.get(at..) {
        let Some(next_close) = rest.find(close) else {
            break;
        };
        match rest.find(open) {
            Some(next_open) if next_open < next_close => {
                depth += 1;
                at += next_open + open.len();
            }
            _ if depth == 0 => return at + next_close,
            _ => {
                depth -= 1;
                at += next_close + close.len();
            }
        }
    }
    text.len()
}

/// Escapes text for an element.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = "<a><set><item><id>1</id><in><item><id>x</id></item></in></item><item><id>2</id></item></set><set/></a>";

    #[test]
    fn nested_items_do_not_end_the_outer_item() {
        assert_eq!(
            items(XML, "set"),
            ["<id>1</id><in><item><id>x</id></item></in>", "<id>2</id>"]
        );
        assert_eq!(all(XML, "id"), ["1", "x", "2"]);
        assert_eq!(first(XML, "none"), None);
        assert_eq!(items("<set/>", "set"), [] as [&str; 0]);
        assert_eq!(
            items("<s>\n <member>1</member><member>2</member></s>", "s"),
            ["1", "2"]
        );
    }
}
