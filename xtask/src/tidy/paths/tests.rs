use super::*;

const FILES: [&str; 8] = [
    "ARCHITECTURE.md",
    "Cargo.toml",
    "docs/a.md",
    "host/plugin/src/host/http.rs",
    "host/plugin/src/list.rs",
    "plugins/aws/Cargo.toml",
    "tests/README.md",
    "wit/v0.1.0/zones.wit",
];

fn files() -> BTreeSet<String> {
    FILES.map(str::to_owned).into()
}

fn map(text: &str) -> Vec<String> {
    let files = files();
    of_map(&Page::new(text), Tree(&files))
        .iter()
        .map(|(line, problem)| format!("{line}: {problem}"))
        .collect()
}

#[test]
fn a_code_span_that_looks_like_a_path_is_one() {
    for path in [
        "host/plugin",
        "list.rs",
        "a/",
        "plugins/*",
        "wit/vX.Y.Z/NAME.wit",
        ".github/workflows/ci.yml",
        "a-b.md",
    ] {
        assert!(is_path(path), "{path}");
    }
    for other in [
        "node",
        "/healthz",
        "~/.cache",
        "Shared::normal",
        "a b.rs",
        "v0.1.0",
        "https://a.b",
        "--flag",
        "nothing.conf",
        "",
    ] {
        assert!(!is_path(other), "{other}");
    }
}

#[test]
fn a_complete_path_must_exist() {
    for path in [
        "host/plugin",
        "host/plugin/",
        "docs/a.md",
        "Cargo.toml",
        "wit/v0.1.0/zones.wit",
    ] {
        assert_eq!(map(&format!("`{path}`")), Vec::<String>::new(), "{path}");
    }
    assert_eq!(map("\n`docs/b.md`"), ["2: `docs/b.md` does not exist"]);
    assert_eq!(map("`host/plug/`"), ["1: `host/plug/` does not exist"]);
    assert_eq!(
        map("`host/plugin/src/list`"),
        ["1: `host/plugin/src/list` does not exist"]
    );
}

#[test]
fn other_paths_are_in_the_last_folder_of_the_block() {
    assert_eq!(
        map("`wit/` `host/plugin/src/` `docs/a.md`\n`list.rs`"),
        Vec::<String>::new()
    );
    assert_eq!(
        map("`host/plugin/src/` `wit/` `list.rs`"),
        ["1: `list.rs` does not exist in `wit/`"]
    );
    // The name of a folder in the repository always begins a complete path.
    assert_eq!(
        map("`host/plugin/src/` `host/http.rs`"),
        ["1: `host/http.rs` does not exist"]
    );
    // A file of the root is not meant once a folder is named.
    assert_eq!(
        map("`host/plugin/src/` `Cargo.toml`"),
        ["1: `Cargo.toml` does not exist in `host/plugin/src/`"]
    );
}

#[test]
fn a_folder_is_forgotten_at_the_end_of_a_block() {
    let problem = "is not complete, and no folder with a slash at its end is named before it";
    for separator in ["\n\n", "\n- ", "\n1. ", "\n| "] {
        let line = if separator == "\n\n" { 3 } else { 2 };
        let found = map(&format!("`host/plugin/src/` `list.rs`{separator}`list.rs`"));
        assert_eq!(
            found,
            [format!("{line}: `list.rs` {problem}")],
            "{separator:?}"
        );
    }
    assert_eq!(
        map("`host/plugin` `src/list.rs`"),
        [format!("1: `src/list.rs` {problem}")]
    );
}

#[test]
fn a_folder_with_a_slash_must_be_complete() {
    let problem = "1: `v0.1.0/` is not complete; a folder with a slash at its end must be";
    assert_eq!(
        map("`wit/` `v0.1.0/` `v0.1.0/zones.wit` `v0.1.0`"),
        [problem]
    );
}

#[test]
fn a_placeholder_must_match_something() {
    for path in [
        "wit/vX.Y.Z/NAME.wit",
        "plugins/*",
        "host/*/src/list.rs",
        "plugins/NAME/Cargo.toml",
        "host/plugin/src/host/NAME.rs",
    ] {
        assert_eq!(map(&format!("`{path}`")), Vec::<String>::new(), "{path}");
    }
    assert_eq!(map("`plugins/NAME/` `Cargo.toml`"), Vec::<String>::new());
    assert_eq!(
        map("`wit/vX.Y.Z/NAME.rs`"),
        ["1: `wit/vX.Y.Z/NAME.rs` does not exist"]
    );
    assert_eq!(
        map("`host/*/list.rs`"),
        ["1: `host/*/list.rs` does not exist"]
    );
    assert_eq!(
        map("`wit/v0.1.0/zones.witNAME`"),
        ["1: `wit/v0.1.0/zones.witNAME` does not exist"]
    );
}

#[test]
fn other_pages_name_files_of_their_readers() {
    let files = files();
    let page = Page::new("`config.yaml` `mine/a.rs` `docs/a.md`\n`docs/b.md`");
    assert_eq!(
        of_other(&page, Tree(&files)),
        [(2, "`docs/b.md` does not exist".to_owned())]
    );
}

#[test]
fn links_and_their_sections_must_exist() {
    let files = files();
    let read = |file: &str| {
        Ok(if file == "docs/a.md" {
            "# One\n"
        } else {
            "# Here\n"
        }
        .to_owned())
    };
    let link = |page: &str, link: &str| of_link(page, link, Tree(&files), &read).unwrap();
    for (page, target) in [
        ("ARCHITECTURE.md", "docs/a.md"),
        ("ARCHITECTURE.md", "docs/a.md#one"),
        ("ARCHITECTURE.md", "host/plugin/"),
        ("ARCHITECTURE.md", "#here"),
        ("ARCHITECTURE.md", "https://example.com/docs/b.md#two"),
        ("tests/README.md", "../docs/a.md#one"),
        ("tests/README.md", "README.md"),
        ("tests/README.md", "mailto:one@example.com"),
    ] {
        assert_eq!(link(page, target), None, "{target}");
    }
    assert_eq!(
        link("tests/README.md", "docs/a.md").unwrap(),
        "the link to docs/a.md names nothing that exists"
    );
    assert_eq!(
        link("ARCHITECTURE.md", "docs/a.md#two").unwrap(),
        "docs/a.md has no section #two"
    );
    assert_eq!(
        link("ARCHITECTURE.md", "docs#one").unwrap(),
        "docs has no section #one"
    );
    assert_eq!(
        link("ARCHITECTURE.md", "#one").unwrap(),
        "ARCHITECTURE.md has no section #one"
    );
}

#[test]
fn a_problem_names_its_page_and_line() {
    let files = files();
    let read = |file: &str| {
        Ok(if file == "tests/README.md" {
            "\n[a](b.md) `docs/b.md`"
        } else {
            "`docs/a.md`"
        }
        .to_owned())
    };
    let expected = [
        "tests/README.md:2: `docs/b.md` does not exist",
        "tests/README.md:2: the link to b.md names nothing that exists",
    ];
    assert_eq!(problems(&files, &read).unwrap(), expected);
}
