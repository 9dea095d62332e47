use super::*;

/// Returns the key and value of the only setting of a section.
fn setting(text: &str) -> Result<(String, Option<String>), Vec<Problem>> {
    let File {
        entries, problems, ..
    } = parse(&format!("[s]\n{text}"));
    if !problems.is_empty() {
        return Err(problems);
    }
    let [_, only] = entries.as_slice() else {
        panic!("{text:?}: {entries:?}");
    };
    Ok((only.key.clone().unwrap(), only.value.clone()))
}

#[test]
fn values_are_unquoted_and_trimmed() {
    for (text, value) in [
        ("k=v", "v"),
        ("  k =\t v w \t", "v w"),
        ("k=", ""),
        ("k=\"\"", ""),
        ("k=a=b", "a=b"),
        ("k=[a]", "[a]"),
        ("k=p@ss%word!", "p@ss%word!"),
        ("k=a, b = c", "a, b = c"),
        ("k=\"  v  \"  ", "  v  "),
        ("k=a\"b c\"d", "ab cd"),
        ("k=\"a\" \"b\"", "a b"),
        ("k=\u{a0}v\u{a0}", "\u{a0}v\u{a0}"),
    ] {
        assert_eq!(
            setting(text),
            Ok(("k".to_owned(), Some(value.to_owned()))),
            "{text:?}"
        );
    }
}

#[test]
fn comments_end_a_value_unless_quoted() {
    for (text, value) in [
        ("k=v ; w", "v"),
        ("k=v#w", "v"),
        ("k= ; w", ""),
        ("k=v ; \"w", "v"),
        ("k=v # w\\", "v"),
        ("k=\"v ; w\" # comment", "v ; w"),
        ("k=\"v # w\"", "v # w"),
    ] {
        assert_eq!(setting(text).unwrap().1.as_deref(), Some(value), "{text:?}");
    }
}

#[test]
fn escapes_depend_on_quotes() {
    for (text, value) in [
        (r#"k="a\"b\\c\n\t""#, Some("a\"b\\c\n\t")),
        (r#"k=a\"b"#, Some("a\"b")),
        (r"k=a\\b", None),
        (r"k=a\nb", None),
        (r"k=a\tb", None),
        (r"k=C:\temp", None),
        (r#"k="a\b""#, None),
        (r#"k="a\x""#, None),
        ("k=\"a\\\rn\"", None),
    ] {
        let found = setting(text).ok().map(|(_, found)| found.unwrap());
        assert_eq!(found.as_deref(), value, "{text:?}");
    }
}

#[test]
fn a_backslash_continues_on_the_next_line() {
    for (text, value) in [
        ("k=a\\\nb", Some("ab")),
        ("k=a \\\n  b", Some("a   b")),
        ("k=\\\n  b", Some("  b")),
        ("k=a\\\n\\\nb", Some("ab")),
        ("k=a  \\\n", Some("a  ")),
        ("k=a\\\r\nb\r\n", Some("ab")),
        ("k=a\\\n# b", Some("a")),
        ("k=a\\\n[b]", Some("a[b]")),
        ("k=a\\", None),
        ("k=a\\ \nb", None),
        ("k=\"a\\\nb\"", None),
        ("k=\"a\nb\"", None),
    ] {
        let found = setting(text).ok().map(|(_, found)| found.unwrap());
        assert_eq!(found.as_deref(), value, "{text:?}");
    }
}

#[test]
fn carriage_returns_are_whitespace_and_never_in_values() {
    for (text, value) in [
        ("\rk\r=\rv\r", "v"),
        ("k=v\r\n", "v"),
        ("k=v\rw", "vw"),
        ("k=\"v\rw\r\"", "vw"),
        ("k=v\r ; w", "v"),
        ("k=a\\\r\"b", "a\"b"),
    ] {
        assert_eq!(setting(text).unwrap().1.as_deref(), Some(value), "{text:?}");
    }
}

#[test]
fn a_key_may_have_no_value_and_occur_several_times() {
    let text = "[s]\nflag\nflag # comment\n flag \r\na-1_B = 1\nflag=\nflag=2";
    let file = parse(text);
    assert_eq!(file.problems, []);

    let found: Vec<_> = file
        .entries
        .iter()
        .skip(1)
        .map(|entry| (entry.key.as_deref().unwrap(), entry.value.as_deref()))
        .collect();
    assert_eq!(
        found,
        [
            ("flag", None),
            ("flag", None),
            ("flag", None),
            ("a-1_B", Some("1")),
            ("flag", Some("")),
            ("flag", Some("2")),
        ]
    );
}

#[test]
fn headers_name_a_section_and_a_subsection() {
    for (text, section, subsection) in [
        ("[Global]", "Global", ""),
        (" [\tload-balancer ] ; comment", "load-balancer", ""),
        ("[c \"a b\"]#", "c", "a b"),
        ("[c\"a\" ]", "c", "a"),
        ("[c \"a \\\"b\\\\\\\" ]#;\"]", "c", "a \"b\\\" ]#;"),
        ("\u{feff}[s]\r\n", "s", ""),
    ] {
        let file = parse(text);
        assert_eq!(file.problems, [], "{text:?}");
        assert_eq!(
            file.entries,
            [Entry {
                section: section.to_owned(),
                subsection: subsection.to_owned(),
                key: None,
                value: None,
                lines: 1..2,
            }],
            "{text:?}"
        );
    }
}

#[test]
fn settings_belong_to_the_last_header() {
    let file = parse("[a]\nk=1\n[b \"c\"]\nk=2\\\n\n[a]\nk=3");
    let found: Vec<_> = file
        .entries
        .iter()
        .map(|entry| {
            let key = entry.key.as_deref().unwrap_or_default();
            let names = format!("{}|{}|{key}", entry.section, entry.subsection);
            (names, entry.lines.clone())
        })
        .collect();
    let expected = [
        ("a||", 1..2),
        ("a||k", 2..3),
        ("b|c|", 3..4),
        ("b|c|k", 4..6),
        ("a||", 6..7),
        ("a||k", 7..8),
    ];
    assert_eq!(
        found,
        expected.map(|(names, lines)| (names.to_owned(), lines))
    );
}

#[test]
fn every_invalid_line_is_reported_with_its_number() {
    for (text, lines) in [
        ("k=v", &[1][..]),
        ("\n\nflag", &[3]),
        ("[s", &[1]),
        ("[s\n]", &[1, 2]),
        ("[]", &[1]),
        ("[1]", &[1]),
        ("[a.b]", &[1]),
        ("[a b]", &[1]),
        ("[\"a\"]", &[1]),
        ("[a \"\"]", &[1]),
        ("[a \"b]", &[1]),
        ("[a \"b\n\"]", &[1, 2]),
        ("[a \"b\\n\"]", &[1]),
        ("[a \"b\\\n\"]", &[1, 2]),
        ("[a \"b\" \"c\"]", &[1]),
        ("[a]]", &[1]),
        // The host would hide the secret with the header.
        ("[Global] password=x", &[1]),
        ("[a] [b]", &[1]),
        ("[s]\n=v", &[2]),
        ("[s]\nk v", &[2]),
        ("[s]\nk v=w", &[2]),
        ("[s]\nk:v", &[2]),
        ("[s]\n1k=v", &[2]),
        ("[s]\n-k=v", &[2]),
        ("[s]\nä=v", &[2]),
        ("[s]\n\"k\"=v", &[2]),
        ("[s]\n// comment", &[2]),
        ("[s]\nk=\"v\nl=w\nm=\\x\nn=a\\\nb\\", &[2, 4, 5]),
        ("\u{feff}\u{feff}[s]", &[1]),
    ] {
        let problems = parse(text).problems;
        let found: Vec<_> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(found, lines, "{text:?}");
    }
}

#[test]
fn lines_after_an_invalid_one_are_parsed() {
    let file = parse("[s]\na=\"\nb=1\nc=\\x\nd=2");
    let keys: Vec<_> = file
        .entries
        .iter()
        .filter_map(|entry| entry.key.as_deref())
        .collect();
    assert_eq!(keys, ["b", "d"]);
}

#[test]
fn a_problem_names_the_key_but_never_the_value() {
    for (text, expected) in [
        (
            "[s]\npassword=\"hunter22",
            "`password`: a closing `\"` is missing",
        ),
        ("[s]\nkey hunter22", "`key`: expected `=`"),
        (
            "key=hunter22",
            "`key`: this setting is before the first section",
        ),
        ("[s]\n!hunter22", "expected `key = value` or `[section]`"),
    ] {
        let problem = parse(text).problems.remove(0);
        assert_eq!(problem.to_string(), expected, "{text:?}");
    }
}

#[test]
fn comments_are_told_from_values() {
    let text = "\u{feff}; one\n[a] # two\r\nk = v ; three \r\nq = \"a # b\"\nc = x\\\n  y # four\n  # five\nflag;six";
    let comments: Vec<_> = parse(text)
        .comments
        .into_iter()
        .map(|range| &text[range])
        .collect();
    assert_eq!(
        comments,
        ["; one", "# two", "; three ", "# four", "# five", ";six"]
    );
}

#[test]
fn booleans_are_words_in_any_case() {
    for (value, expected) in [
        (None, Some(true)),
        (Some("TRUE"), Some(true)),
        (Some("yes"), Some(true)),
        (Some("on"), Some(true)),
        (Some("1"), Some(true)),
        (Some("False"), Some(false)),
        (Some("no"), Some(false)),
        (Some("off"), Some(false)),
        (Some("0"), Some(false)),
        (Some(""), None),
        (Some("t"), None),
        (Some("maybe"), None),
    ] {
        assert_eq!(boolean(value), expected, "{value:?}");
    }
}
