//! Finds the test functions in a source file. It works on tokens, so it does not depend on
//! formatting and ignores comments and strings.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Prefix of a comment that lists what the following test verifies.
const HOLDS: &str = "// Holds:";

/// The test functions of a file.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) functions: Vec<Function>,
    /// Lines with this prefix that are not above a test.
    pub(crate) astray: BTreeSet<usize>,
}

/// A function with `#[test]`, `#[….test]` of a runtime, or `#[rstest]`, including those in
/// `proptest!` and modules.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Line of its name.
    pub(crate) line: usize,
    /// Lines above it that list what it verifies, without the prefix.
    pub(crate) holds: Vec<(usize, String)>,
    /// False if it is ignored or never compiled.
    pub(crate) runs: bool,
    /// Its complete text, starting with its first attribute.
    pub(crate) text: String,
}

/// Parses a file.
///
/// # Errors
/// If it is not valid Rust.
pub(crate) fn read(text: &str) -> Result<Source> {
    let tokens: TokenStream = text
        .parse()
        .map_err(|error| anyhow!("it is no Rust: {error}"))?;
    let lines: Vec<_> = text.lines().map(str::trim_start).collect();
    let astray = lines
        .iter()
        .zip(1..)
        .filter(|(line, _)| line.starts_with(HOLDS))
        .map(|(_, number)| number)
        .collect();
    let mut source = Source {
        functions: Vec::new(),
        astray,
    };
    walk(tokens, &lines, true, &mut source);
    Ok(source)
}

/// Attributes of the following item.
#[derive(Default)]
struct Attributes {
    /// Line of the first attribute.
    first: Option<usize>,
    test: bool,
    ignored: bool,
    /// It has a condition that is never true.
    never: bool,
}

impl Attributes {
    /// Adds an attribute; `text` is the part between the brackets.
    fn add(&mut self, text: &TokenStream, line: usize) {
        let text = text.to_string().replace(' ', "");
        let path = text.split(['(', '=']).next().unwrap_or_default();
        let name = path.rsplit("::").next().unwrap_or_default();
        self.first.get_or_insert(line);
        self.test |= ["test", "rstest"].contains(&name);
        // The condition for ignoring the test is true in some configuration.
        self.ignored |= name == "ignore" || (name == "cfg_attr" && text.contains("ignore"));
        self.never |= is_never(&text);
    }
}

/// Returns true for conditions that are never true.
fn is_never(attribute: &str) -> bool {
    ["cfg(any())", "cfg(false)"].contains(&attribute)
}

fn walk(tokens: TokenStream, lines: &[&str], mut runs: bool, source: &mut Source) {
    let mut attributes = Attributes::default();
    let mut in_function = false;
    // First line of the test whose body follows.
    let mut test = None;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(hash) if hash.as_char() == '#' => {
                let is_bang =
                    |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == '!');
                let inner = tokens.next_if(is_bang).is_some();
                let is_attribute = |token: &TokenTree| matches!(token, TokenTree::Group(g) if g.delimiter() == Delimiter::Bracket);
                let Some(TokenTree::Group(attribute)) = tokens.next_if(is_attribute) else {
                    continue;
                };
                if inner {
                    runs &= !is_never(&attribute.stream().to_string().replace(' ', ""));
                } else {
                    attributes.add(&attribute.stream(), hash.span().start().line);
                }
            }
            TokenTree::Ident(word) if word == "fn" => {
                in_function = true;
                if let Some(TokenTree::Ident(name)) = tokens.peek()
                    && attributes.test
                {
                    let line = name.span().start().line;
                    let first = attributes.first.unwrap_or(line);
                    let holds = above(first, line, lines);
                    holds
                        .iter()
                        .for_each(|(line, _)| _ = source.astray.remove(line));
                    let runs = runs && !attributes.ignored && !attributes.never;
                    source.functions.push(Function {
                        name: name.to_string(),
                        line,
                        holds,
                        runs,
                        text: String::new(),
                    });
                    test = Some(first);
                }
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                // Functions inside of functions are not tests.
                if !in_function {
                    walk(group.stream(), lines, runs && !attributes.never, source);
                } else if let (Some(first), Some(function)) =
                    (test.take(), source.functions.last_mut())
                {
                    let end = group.span_close().end().line;
                    function.text = lines
                        .get(first.saturating_sub(1)..end)
                        .unwrap_or_default()
                        .join("\n");
                }
                (attributes, in_function) = (Attributes::default(), false);
            }
            TokenTree::Punct(end) if end.as_char() == ';' => {
                (attributes, in_function) = (Attributes::default(), false);
            }
            _ => {}
        }
    }
}

/// Returns the lines with the prefix in the comments directly above the first attribute of a
/// function, and between its attributes.
fn above(first: usize, name: usize, lines: &[&str]) -> Vec<(usize, String)> {
    let before = first.saturating_sub(1);
    let comments = lines
        .iter()
        .take(before)
        .rev()
        .take_while(|line| line.starts_with("//"))
        .count();
    let said = lines.iter().zip(1..).take(name).skip(before - comments);
    said.filter_map(|(line, number)| Some((number, line.strip_prefix(HOLDS)?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of the tests that are run.
    fn names(text: &str) -> Vec<String> {
        read(text)
            .unwrap()
            .functions
            .into_iter()
            .filter(|test| test.runs)
            .map(|test| test.name)
            .collect()
    }

    #[test]
    fn finds_tests_of_all_kinds() {
        for source in [
            "#[test]\nfn a() {}",
            "    #[test]\n    fn a() -> Result<()> { Ok(()) }",
            "#[tokio::test(start_paused = true)]\nasync fn a() {}",
            "#[tokio::test(\n    flavor = \"multi_thread\",\n)]\n#[allow(unused)]\npub(crate) async fn a() {}",
            "proptest! {\n    #![proptest_config(config())]\n    /// As it is.\n    #[test]\n    fn a(steps in steps()) {}\n}",
            "#[rstest]\n#[case(1)]\n#[case(2)]\nfn a(#[case] n: u8) {}",
            "#[test]\n#[should_panic]\nfn a() {}",
            "#[cfg(test)]\nmod tests {\n    mod deep { #[test] fn a() {} }\n}",
            "#[cfg(any(unix, windows))]\n#[test]\nfn a() {}",
        ] {
            assert_eq!(names(source), ["a"], "{source}");
        }
    }

    #[test]
    fn tests_that_do_not_run_are_not_found() {
        for source in [
            "fn a() {}",
            "// #[test]\nfn a() {}",
            "/* #[test]\nfn a() {} */",
            "const A: &str = \"\n#[test]\nfn a() {}\n\";",
            "#[test]\n#[ignore = \"slow\"]\nfn a() {}",
            "#[test]\n#[cfg_attr(unix, ignore)]\nfn a() {}",
            "#[cfg(any())]\n#[test]\nfn a() {}",
            "#[cfg( any( ) )]\nmod tests { #[test] fn a() {} }",
            "#[cfg(false)]\nmod tests { #[test] fn a() {} }",
            "#![cfg(any())]\nmod tests { #[test] fn a() {} }",
            "#[test]\nfn b() {}\nfn a() {}",
            "#[cfg(test)]\nfn a() {}",
            "/// #[test]\n/// fn a() {}\nfn b() {}",
            "fn outer() { #[test] fn a() {} }",
        ] {
            assert!(!names(source).contains(&"a".to_owned()), "{source}");
        }
    }

    #[test]
    fn a_holds_line_belongs_to_the_test_directly_below() {
        for (source, line) in [
            ("// Holds: A\n#[test]\nfn a() {}", 1),
            ("// Holds: A\n/// What it is.\n#[test]\nfn a() {}", 1),
            ("/// What it is.\n// Holds: A\n#[test]\nfn a() {}", 2),
            (
                "    // Holds: A\n    // Because.\n    #[test]\n    fn a() {}",
                1,
            ),
            (
                "fn b() {}\n\n// Holds: A\n#[tokio::test]\nasync fn a() {}",
                3,
            ),
        ] {
            let source_read = read(source).unwrap();
            let [test] = source_read.functions.as_slice() else {
                panic!("{source}")
            };
            assert_eq!(test.holds, [(line, " A".to_owned())], "{source}");
            assert!(source_read.astray.is_empty(), "{source}");
        }
    }

    #[test]
    fn the_text_of_a_test_is_the_whole_function() {
        let source =
            read("fn a() {}\n#[test]\n#[should_panic]\nfn b() {\n    a();\n}\nfn c() {}\n")
                .unwrap();
        let [test] = source.functions.as_slice() else {
            panic!("{source:?}")
        };
        assert_eq!(test.text, "#[test]\n#[should_panic]\nfn b() {\na();\n}");
    }

    #[test]
    fn a_holds_line_not_directly_above_a_test_is_reported() {
        for source in [
            "// Holds: A\n\n#[test]\nfn a() {}",
            "// Holds: A\nfn b() {}\n#[test]\nfn a() {}",
            "// Holds: A\nfn b() {}",
        ] {
            let source_read = read(source).unwrap();
            assert_eq!(source_read.astray, BTreeSet::from([1]), "{source}");
            assert!(
                source_read
                    .functions
                    .iter()
                    .all(|test| test.holds.is_empty()),
                "{source}"
            );
        }
    }
}
