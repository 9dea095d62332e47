use crate::secrets;

/// Returns the text with `*` for secrets.
fn shown(text: &str) -> String {
    let mut shown = text.to_owned();
    for it in secrets(text) {
        let mask = text[it.range.clone()].replace(|c: char| !c.is_whitespace(), "*");
        shown.replace_range(it.range.clone(), &mask);
    }
    shown
}

#[test]
fn a_value_is_found_to_its_end() {
    for (text, expected) in [
        (
            "password: correct horse, battery # ours\nuser: me",
            "password: ******* ****** ******* # ours\nuser: me",
        ),
        (
            "[g]\r\npassword = a;b&c,d\r\nuser=me\r\n",
            "[g]\r\npassword = *******\r\nuser=me\r\n",
        ),
        ("- password: a b\n  user: me", "- password: * *\n  user: me"),
        (
            "{\n  password: abc,\n  user: me\n}",
            "{\n  password: ***,\n  user: me\n}",
        ),
        ("{password: abc, user: me}", "{password: ***, user: me}"),
        ("password: |x9!\nuser: me", "password: ****\nuser: me"),
        (
            "password:\n  abc def\nuser: me",
            "password:\n  *** ***\nuser: me",
        ),
        (
            "credentials:\n  user: me\n  name: k\n",
            "credentials:\n  user: me\n  name: k\n",
        ),
        (
            "tokens:\n- abc\n- 'd'\nuser: me",
            "tokens:\n- ***\n- '*'\nuser: me",
        ),
        (
            "a: <s:password>hunter2</s:password>",
            "a: <s:password>*******</s:password>",
        ),
        (
            r#"{"conf":"[g]\npassword = my pass\nuser=me"}"#,
            r#"{"conf":"[g]\npassword = ** ****\nuser=me"}"#,
        ),
        (
            r#"{"tokens": ["abc","d"], "n": 1}"#,
            r#"{"tokens": ["*******"], "n": 1}"#,
        ),
        (
            r#"{"password": 123, "n": 1}"#,
            r#"{"password": ***, "n": 1}"#,
        ),
        (
            "sent Authorization: Bearer abc.def to it",
            "sent Authorization: ****** ******* to it",
        ),
        (
            "sent Bearer abcdefgh.ijklmnop to it",
            "sent Bearer ***************** to it",
        ),
        (
            "Bearer authentication failed",
            "Bearer authentication failed",
        ),
        (
            "https://me:p@ss:w@cloud/a@b and http://me@cloud",
            "https://me:******@cloud/a@b and http://me@cloud",
        ),
        (
            "password=hun\\\nter22\nuser=me",
            "password=****\n*****\nuser=me",
        ),
        (
            "password = <<EOT\nhunter\nEOT\nuser=me",
            "password = <<EOT\n******\nEOT\nuser=me",
        ),
        (
            r#"[{"name": "DB_PASSWORD", "value": "abc"}, {"name": "a", "value": "b"}]"#,
            r#"[{"name": "DB_PASSWORD", "value": "***"}, {"name": "a", "value": "b"}]"#,
        ),
        (
            "<password a='b'>abc</password>",
            "<password a='b'>***</password>",
        ),
    ] {
        assert_eq!(shown(text), expected);
    }
}
