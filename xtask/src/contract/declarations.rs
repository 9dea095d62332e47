//! What a directory declares, independent of comments and white space.

use sha2::{Digest as _, Sha256};

/// Returns the SHA-256 of the declarations in these files, in hexadecimal. The files are named
/// relative to their directory, and sorted.
///
/// It is computed from the text, so that no new version of a library changes it.
pub(super) fn digest(files: &[(&str, String)]) -> String {
    let mut hash = Sha256::new();
    for (name, text) in files {
        // Neither a name nor a word has a line break.
        hash.update(format!("{name}\n"));
        for word in words(&without_comments(text)) {
            hash.update(format!("{word}\n"));
        }
        hash.update("\n");
    }
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Replaces comments with spaces. WIT has those of Rust: to the end of the line, and nested ones.
/// It has no texts in quotes.
fn without_comments(text: &str) -> String {
    let (mut left, mut rest, mut depth) = (String::new(), text, 0_usize);
    while let Some(next) = rest.chars().next() {
        let length = match rest.get(..2) {
            Some("//") if depth == 0 => rest.find('\n').unwrap_or(rest.len()),
            Some("/*") => {
                depth += 1;
                2
            }
            Some("*/") if depth > 0 => {
                depth -= 1;
                2
            }
            _ => {
                left.push(if depth == 0 { next } else { ' ' });
                next.len_utf8()
            }
        };
        if length > 1 {
            left.push(' ');
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    left
}

/// Splits declarations into names and other characters.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for part in text.split_whitespace() {
        let mut rest = part;
        while let Some(first) = rest.chars().next() {
            let is_name = |c: char| c.is_alphanumeric() || c == '-';
            let end = if is_name(first) {
                rest.find(|c| !is_name(c)).unwrap_or(rest.len())
            } else {
                first.len_utf8()
            };
            let (word, after) = rest.split_at(end);
            words.push(word);
            rest = after;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest_of(text: &str) -> String {
        digest(&[("a.wit", text.to_owned())])
    }

    #[test]
    fn only_declarations_count() {
        let plain = digest_of("interface a { f: func() -> list<u8>; }");
        for same in [
            "interface a {\n    f: func() -> list<u8>;\n}\n",
            "/// Docs: of `a`.\ninterface a { // one\n\n  /* two /* three */ */ f: func()->list< u8 >; }",
            "interface a { f: func() -> list<u8>; } // end",
        ] {
            assert_eq!(digest_of(same), plain, "{same}");
        }
        for other in [
            "interface a { f: func() -> list<u16>; }",
            "interface a { g: func() -> list<u8>; }",
            "interface a { f: func() -> list<u8>; g: func(); }",
            "interface a { f: func(); /* -> list<u8>; */ }",
            "interface b { f: func() -> list<u8>; }",
        ] {
            assert_ne!(digest_of(other), plain, "{other}");
        }
    }

    #[test]
    fn the_division_into_files_counts() {
        let text = |text: &str| text.to_owned();
        let two = digest(&[
            ("a.wit", text("interface a {}")),
            ("b.wit", text("interface b {}")),
        ]);
        assert_ne!(
            two,
            digest(&[
                ("a.wit", text("interface a {} interface b {}")),
                ("b.wit", text(""))
            ])
        );
        assert_ne!(
            two,
            digest(&[
                ("a.wit", text("interface a {}")),
                ("c.wit", text("interface b {}"))
            ])
        );
    }

    #[test]
    fn the_digest_never_changes() {
        // The table of versions has such digests.
        let expected = "35b34854d465292807150c0d9ca28397d5473ac03024fbfeda36f71467e7b78c";
        assert_eq!(digest_of("interface a { f: func() -> u8; }"), expected);
    }
}
