//! Finds the texts that a user may see in one source file, token by token.

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, Group, Literal, TokenStream, TokenTree};

/// Macros whose texts are read by developers only.
const SILENT: [&str; 11] = [
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "panic",
    "unreachable",
    "include_str",
    "include_bytes",
    "env",
    "option_env",
    "concat",
];

/// Number of words from which a text is a message, whatever is done with it.
const WORDS: usize = 3;

/// A text that a user may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// `error` for the text of an error type, the level of a log line, and otherwise `text`.
    pub(super) kind: &'static str,
    pub(super) text: String,
}

/// Returns the messages of a source file in their order, without those of its tests.
///
/// # Errors
/// Fails if the file is not Rust.
pub(super) fn of(source: &str) -> Result<Vec<Message>> {
    let tokens: TokenStream = source
        .parse()
        .map_err(|error| anyhow!("it is not Rust: {error}"))?;
    let mut messages = Vec::new();
    walk(tokens, "text", &mut messages);
    Ok(messages)
}

fn walk(tokens: TokenStream, kind: &'static str, messages: &mut Vec<Message>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            TokenTree::Punct(hash) if hash.as_char() == '#' => match attribute(&tokens, at) {
                Some((attribute, after)) if is_test(attribute) => at = after_item(&tokens, after),
                Some((attribute, after)) => {
                    if let Some(arguments) = arguments_of(attribute, "error") {
                        walk(arguments.stream(), "error", messages);
                    }
                    at = after;
                }
                None => {}
            },
            TokenTree::Ident(name) if is_punct(tokens.get(at), '!') => {
                let Some(TokenTree::Group(arguments)) = tokens.get(at + 1) else {
                    continue;
                };
                let name = name.to_string();
                if !SILENT.contains(&name.as_str()) {
                    walk(arguments.stream(), level(&name).unwrap_or(kind), messages);
                }
                at += 2;
            }
            TokenTree::Group(group) => walk(group.stream(), kind, messages),
            TokenTree::Literal(literal) => {
                let Some(text) = text(literal) else { continue };
                if text.split_whitespace().count() >= if kind == "text" { WORDS } else { 1 } {
                    messages.push(Message { kind, text });
                }
            }
            _ => {}
        }
    }
}

/// Returns the attribute whose `#` is just before this position, and the position after it.
fn attribute(tokens: &[TokenTree], at: usize) -> Option<(&Group, usize)> {
    let at = if is_punct(tokens.get(at), '!') {
        at + 1
    } else {
        at
    };
    match tokens.get(at)? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => Some((group, at + 1)),
        _ => None,
    }
}

/// Returns the arguments of an attribute of this name.
fn arguments_of(attribute: &Group, name: &str) -> Option<Group> {
    let mut tokens = attribute.stream().into_iter();
    match (tokens.next()?, tokens.next()?) {
        (TokenTree::Ident(ident), TokenTree::Group(arguments)) if ident == name => Some(arguments),
        _ => None,
    }
}

/// True for `#[cfg(test)]` and its kin, and for `#[test]`.
fn is_test(attribute: &Group) -> bool {
    let text = attribute.stream().to_string().replace(' ', "");
    text.starts_with("cfg(test)")
        || text.starts_with("cfg(any(test,")
        || text == "test"
        || text.contains("::test")
}

/// Returns the position after the item that begins here.
fn after_item(tokens: &[TokenTree], at: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    };
    tokens
        .iter()
        .skip(at)
        .position(ends)
        .map_or(tokens.len(), |length| at + length + 1)
}

fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

/// Returns the level of a macro of `tracing`.
fn level(name: &str) -> Option<&'static str> {
    ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"]
        .into_iter()
        .find(|level| level.to_lowercase() == name)
}

/// Returns the text of a string literal, without the line breaks that only wrap the source.
fn text(literal: &Literal) -> Option<String> {
    let source = literal.to_string();
    if let Some(raw) = source.strip_prefix('r') {
        let text = raw.trim_start_matches('#').strip_prefix('"')?;
        return Some(text.trim_end_matches('#').strip_suffix('"')?.to_owned());
    }
    let source = source.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::with_capacity(source.len());
    let mut characters = source.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, characters.peek()) {
            ('\\', Some('\n')) => {
                while characters.next_if(|next| next.is_whitespace()).is_some() {}
            }
            ('\\', Some('"' | '\'')) => {}
            ('\n', _) => text.push_str("\\n"),
            _ => text.push(character),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<(&'static str, String)> {
        of(source)
            .unwrap()
            .into_iter()
            .map(|message| (message.kind, message.text))
            .collect()
    }

    #[test]
    fn errors_log_lines_and_other_texts_are_found() {
        let source = r##"
            /// Not this one.
            #[error("cannot read {0}")]
            #[doc = "nor this one at all"]
            struct A(String);
            fn a() {
                tracing::warn!(node = %name, "restarting");
                b("a name", "three words \
                    and more", r#"a "raw" text"#);
                tracing::error!("it has \"failed\"");
            }
        "##;
        let expected = [
            ("error", "cannot read {0}"),
            ("WARN", "restarting"),
            ("text", "three words and more"),
            ("text", "a \"raw\" text"),
            ("ERROR", "it has \"failed\""),
        ];
        assert_eq!(
            found(source),
            expected.map(|(kind, text)| (kind, text.to_owned()))
        );
    }

    #[test]
    fn tests_and_assertions_are_left_out() {
        for source in [
            "#[cfg(test)] mod tests { const A: &str = \"one two three\"; }",
            "#[cfg(any(test, feature = \"testing\"))] fn a() { b(\"one two three\") }",
            "#[test] fn a() { b(\"one two three\") }",
            "#[tokio::test(start_paused = true)] async fn a() { b(\"one two three\") }",
            "fn a() { assert!(b, \"one two three\") }",
            "#[cfg(test)] mod tests; ",
        ] {
            assert_eq!(found(source), [], "{source}");
        }
        assert_eq!(
            found("#[cfg(test)] use a::b; const A: &str = \"one two three\";").len(),
            1
        );
    }
}
