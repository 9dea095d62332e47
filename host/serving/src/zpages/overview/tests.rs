use super::*;

/// The page of [`example`]. To write it again, set `SKYDOCK_WRITE_PAGE`.
const EXPECTED: &str = include_str!("expected.html");

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn process() -> Process<'static> {
    Process {
        version: "1.2.3",
        started: at(-90_000),
        now: at(0),
    }
}

fn waiting(name: &str) -> Waiting {
    Waiting {
        name: name.to_owned(),
        ..Waiting::default()
    }
}

fn example() -> Overview {
    let rejected =
        "rejected at stage compile, generation 2 stays in service: it is not a component";
    Overview {
        role: "leads",
        plugin: Some(PluginInService {
            name: "static: static 0.1.0".to_owned(),
            generation: 2,
            digest: "0123abcd".to_owned(),
            since: at(-7200),
        }),
        changes: vec![
            PluginChange {
                at: at(-5),
                text: rejected.to_owned(),
                is_rejected: true,
            },
            PluginChange {
                at: at(-7200),
                text: "generation 2: static 0.1.0".to_owned(),
                is_rejected: false,
            },
        ],
        objects: Some(Objects {
            nodes: 3,
            waiting_nodes: vec![Waiting {
                name: "n1".to_owned(),
                since: Some(at(-120)),
                warning: Some((at(-60), "NotFound: there is no instance <n1>".to_owned())),
            }],
            served: 4,
            waiting_services: vec![waiting("default/web")],
            deleting_services: Vec::new(),
            failing: 2,
        }),
        egress: vec![
            RuleMinutes {
                rule: String::new(),
                minutes: vec![[0; 3], [0, 0, 2]],
            },
            RuleMinutes {
                rule: "api".to_owned(),
                minutes: vec![[7, 1, 0], [0; 3]],
            },
        ],
    }
}

#[test]
fn the_page_shows_what_the_process_does() {
    let page = page(&example(), &process());
    if std::env::var_os("SKYDOCK_WRITE_PAGE").is_some() {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/zpages/overview/expected.html"
        );
        std::fs::write(file, &page).unwrap();
    }
    assert_eq!(page, EXPECTED);
}

#[test]
fn nothing_is_known_at_first() {
    let page = page(&Overview::default(), &process());
    for sentence in [
        "is being loaded",
        "It has not been loaded yet.",
        "No controller runs in this replica.",
        "There are no rules, and no requests were denied.",
    ] {
        assert!(page.contains(sentence), "{sentence}: {page}");
    }
}

#[test]
fn no_text_becomes_html() {
    let evil = "<script>alert('&')</script>\"";
    let mut overview = example();
    overview.plugin.as_mut().unwrap().name = evil.to_owned();
    overview.changes[0].text = evil.to_owned();
    let objects = overview.objects.as_mut().unwrap();
    objects.waiting_nodes[0].name = evil.to_owned();
    objects.waiting_nodes[0].warning = Some((at(0), evil.to_owned()));
    objects.waiting_services[0].name = evil.to_owned();
    objects.deleting_services = vec![waiting(evil)];
    overview.egress[0].rule = evil.to_owned();

    let page = page(&overview, &process());
    let escaped = "&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;&quot;";
    assert_eq!(page.matches(escaped).count(), 7, "{page}");
    assert!(!page.contains("<script"), "{page}");
}

#[test]
fn the_page_is_limited_however_much_there_is() {
    let long = "x".repeat(100_000);
    let many = 10_000;
    let mut overview = example();
    overview.changes = vec![
        PluginChange {
            text: long.clone(),
            ..PluginChange::default()
        };
        many
    ];
    let objects = overview.objects.as_mut().unwrap();
    objects.waiting_nodes = vec![waiting(&long); many];
    objects.waiting_services = vec![waiting(&long); many];
    objects.deleting_services = vec![waiting(&long); many];
    let rule = RuleMinutes {
        rule: long,
        minutes: vec![[u64::MAX; 3]; 10],
    };
    overview.egress = vec![rule; many];

    let page = page(&overview, &process());
    assert!(page.len() < 250_000, "{}", page.len());
    assert_eq!(page.matches("<p>and 9950 more</p>").count(), 5);
}

#[test]
fn times_are_told_with_their_age() {
    for (seconds, expected) in [
        (0, "(0 s ago)"),
        (59, "(59 s ago)"),
        (60, "(1 min ago)"),
        (3599, "(59 min ago)"),
        (3600, "(1 h ago)"),
        (86_400, "(1 d ago)"),
        // The clock was set back.
        (-5, "(0 s ago)"),
    ] {
        let told = since(at(-seconds), at(0));
        assert!(told.ends_with(expected), "{told}");
    }
    assert_eq!(since(at(0), at(0)), "2023-11-14 22:13:20 UTC (0 s ago)");
}

#[test]
fn a_text_does_not_turn_the_page_around() {
    let Html(html) = text("a\u{202e}b\u{2069}ä");
    assert_eq!(html, "a\\u{202e}b\\u{2069}ä");
}

#[test]
fn only_the_style_of_the_page_is_allowed() {
    let policy = policy();
    assert!(
        policy.starts_with("default-src 'none'; style-src 'sha256-"),
        "{policy}"
    );
    // Of the style with its line breaks: a browser hashes all between the tags.
    let page = page(&example(), &process());
    assert!(page.contains(&format!("<style>{STYLE}</style>")));
    for word in ["script", "style=", "href", "src=", "http"] {
        assert!(!page.contains(word), "{word}");
    }
}
