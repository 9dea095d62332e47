//! Names of the operations in a SOAP envelope, found without an XML parser: unusual XML is
//! rejected.

use crate::request::Unclear;

const MALFORMED: Unclear = "its XML is not well-formed";
const NOT_UTF_8: Unclear = "its XML is not UTF-8";

/// Returns the names of all children of the envelope's bodies, without namespace prefixes, and the
/// last part of the actions in its headers (WS-Addressing); empty if the document is not an
/// envelope.
///
/// # Errors
/// If the document is not valid UTF-8 XML, or has markup that could hide a name.
pub(super) fn operations(document: &[u8]) -> Result<Vec<&str>, Unclear> {
    let text = std::str::from_utf8(document).map_err(|_| NOT_UTF_8)?;

    // ASCII text in UTF-16 is also valid UTF-8, but contains zero bytes.
    if text.contains('\0') {
        return Err(NOT_UTF_8);
    }

    let mut found = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('<') {
        if let Some(instruction) = after.strip_prefix('?') {
            rest = after_instruction(instruction)?;
            continue;
        }

        if after.starts_with('!') {
            return Err("its XML has comments, CDATA or a DOCTYPE");
        }

        let end = tag_end(after).ok_or(MALFORMED)?;
        let (tag, after) = after.split_at(end);
        rest = after;

        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(local(name)) {
                return Err(MALFORMED);
            }
            continue;
        }

        let name = local(tag);
        match open.as_slice() {
            [] if name != "Envelope" => return Ok(Vec::new()),
            ["Envelope", "Body"] => found.push(name),
            ["Envelope", "Header"] if name == "Action" => {
                let action = rest.split('<').next().unwrap_or_default();
                if action.contains('&') {
                    return Err("its XML has an escape in the action");
                }
                found.push(last_part(action.trim()));
            }
            _ => {}
        }

        if !tag.ends_with('/') {
            open.push(name);
        }
    }

    if open.is_empty() {
        Ok(found)
    } else {
        Err(MALFORMED)
    }
}

/// Returns the text after an instruction to the parser.
fn after_instruction(instruction: &str) -> Result<&str, Unclear> {
    let (instruction, after) = instruction.split_once("?>").ok_or(MALFORMED)?;
    let instruction = instruction.to_ascii_lowercase();

    // In another character set, the same bytes may be another name.
    let is_ascii = ["utf-8", "us-ascii"]
        .iter()
        .any(|it| instruction.contains(it));
    if instruction.contains("encoding") && !is_ascii {
        return Err(NOT_UTF_8);
    }
    Ok(after)
}

/// Returns the last part of a URL or URN that has something in it.
pub(super) fn last_part(action: &str) -> &str {
    let mut parts = action.rsplit(['/', '#', ':']);
    parts.find(|part| !part.is_empty()).unwrap_or_default()
}

/// Returns the position of the `>` that ends the tag, ignoring those in attribute values.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'<') => return None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

fn local(tag: &str) -> &str {
    let name = tag
        .split(|it: char| it.is_ascii_whitespace() || it == '/')
        .next()
        .unwrap_or_default();
    name.rsplit(':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_children_of_the_soap_body_are_the_operations() {
        let table: [(&str, &[&str]); 6] = [
            (
                "<Envelope><Body><Login a='>'><x/></Login></Body></Envelope>",
                &["Login"],
            ),
            (
                "<s:Envelope><s:Header><s:Body><Fake/></s:Body></s:Header><s:Body>\n<v:Real>x</v:Real><Next/></s:Body></s:Envelope>",
                &["Real", "Next"],
            ),
            (
                "<Envelope><Body><A/></Body><Body><B/></Body></Envelope>",
                &["A", "B"],
            ),
            (
                "<s:Envelope><s:Header><a:Action x='1'> urn:x/Terminate/ </a:Action></s:Header><s:Body><A/></s:Body></s:Envelope>",
                &["Terminate", "A"],
            ),
            ("<Tagging><Tag/></Tagging>", &[]),
            ("no markup", &[]),
        ];
        for (document, expected) in table {
            assert_eq!(
                operations(document.as_bytes()).unwrap(),
                expected,
                "{document}"
            );
        }
    }

    #[test]
    fn markup_that_could_hide_an_operation_is_rejected() {
        for document in [
            "<Envelope><!-- x --><Body><A/></Body></Envelope>",
            "<Envelope><Body><![CDATA[<A/>]]></Body></Envelope>",
            "<?xml version='1.0' encoding='utf-7'?><Envelope/>",
            "<Envelope><Body><A/></Body>",
            "<Envelope><Body><A</Body></Envelope>",
            "<Envelope><Body></Envelope></Body>",
            "<Envelope><Header><Action>Ter&#109;inate</Action></Header></Envelope>",
        ] {
            assert!(operations(document.as_bytes()).is_err(), "{document}");
        }
    }
}
