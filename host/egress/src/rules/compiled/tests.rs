use std::collections::BTreeMap;

use skydock_credentials::Withheld;

use super::*;
use crate::Settings;

/// Returns the rules of a list, which may use the credentials `one` and `two`.
fn compile_all(yaml: &str) -> Vec<CompiledRule> {
    let credentials: BTreeMap<String, Arc<dyn Credential>> = ["one", "two"]
        .map(|name| {
            (
                name.to_owned(),
                Arc::new(Withheld::new(name)) as Arc<dyn Credential>,
            )
        })
        .into();

    compile(&Settings {
        rules: serde_saphyr::from_str(yaml).expect(yaml),
        credentials,
        ..Settings::default()
    })
    .expect(yaml)
}

/// Returns a rule with these other fields.
fn compiled(fields: &str) -> CompiledRule {
    compile_all(&format!(
        "[{{name: a, to: 'https://api.example.com:443', {fields}}}]"
    ))
    .remove(0)
}

/// Returns two rules with these other fields, in this order.
fn pair(first: &str, second: &str) -> [CompiledRule; 2] {
    let to = "to: 'https://api.example.com:443'";
    let target = |fields: &str| {
        if fields.contains("to:") {
            String::new()
        } else {
            format!(", {to}")
        }
    };

    let rule = |name: &str, fields: &str| {
        let fields = if fields.is_empty() {
            String::new()
        } else {
            format!(", {fields}")
        };
        format!("{{name: {name}{}{fields}}}", target(&fields))
    };

    compile_all(&format!("[{}, {}]", rule("a", first), rule("b", second)))
        .try_into()
        .unwrap()
}

fn actions(named: &[&str], open: bool) -> Actions {
    Actions {
        named: named.iter().map(|&name| name.to_owned()).collect(),
        open,
    }
}

#[test]
fn all_named_actions_must_be_allowed() {
    let all = compiled("");
    let some = compiled("actions: ['Describe*', RunInstances]");
    for (named, open, expected, denied) in [
        (&["DescribeInstances"][..], false, ActionMatch::Yes, None),
        (
            &["DescribeInstances", "RunInstances"],
            false,
            ActionMatch::Yes,
            None,
        ),
        (
            &["DescribeInstances", "StopInstances"],
            false,
            ActionMatch::No,
            Some("StopInstances"),
        ),
        (
            &["StopInstances"],
            true,
            ActionMatch::No,
            Some("StopInstances"),
        ),
        (&["RunInstances"], true, ActionMatch::Open, None),
        (&[], true, ActionMatch::Open, None),
        (&[], false, ActionMatch::No, None),
    ] {
        let actions = actions(named, open);
        assert_eq!(some.allows_actions(&actions), expected, "{actions:?}");
        assert_eq!(some.denied_action(&actions), denied, "{actions:?}");
        assert_eq!(
            all.allows_actions(&actions),
            ActionMatch::Yes,
            "{actions:?}"
        );
    }
}

#[test]
fn a_read_is_a_method_that_reads_or_a_listed_action() {
    let none = compiled("");
    let some = compiled("reads: ['Describe*']");
    for (method, named, open, without, with) in [
        (
            Method::GET,
            &[][..],
            false,
            ActionMatch::Yes,
            ActionMatch::Yes,
        ),
        (Method::HEAD, &[], false, ActionMatch::Yes, ActionMatch::Yes),
        (
            Method::GET,
            &["DescribeInstances"],
            false,
            ActionMatch::No,
            ActionMatch::Yes,
        ),
        (
            Method::GET,
            &["RunInstances"],
            false,
            ActionMatch::No,
            ActionMatch::No,
        ),
        (Method::POST, &[], false, ActionMatch::No, ActionMatch::No),
        (Method::POST, &[], true, ActionMatch::No, ActionMatch::Open),
        (
            Method::POST,
            &["DescribeInstances"],
            true,
            ActionMatch::No,
            ActionMatch::Open,
        ),
        (
            Method::POST,
            &["DescribeInstances"],
            false,
            ActionMatch::No,
            ActionMatch::Yes,
        ),
        (
            Method::POST,
            &["DescribeInstances", "RunInstances"],
            false,
            ActionMatch::No,
            ActionMatch::No,
        ),
        (Method::DELETE, &[], false, ActionMatch::No, ActionMatch::No),
        (
            Method::PUT,
            &["DescribeInstances"],
            false,
            ActionMatch::No,
            ActionMatch::No,
        ),
    ] {
        let actions = actions(named, open);
        assert_eq!(
            none.reads(&method, &actions),
            without,
            "{method} {actions:?}"
        );
        assert_eq!(some.reads(&method, &actions), with, "{method} {actions:?}");
    }
}

#[test]
fn a_rule_covers_or_overlaps_a_later_one() {
    for (first, second, covers, overlaps) in [
        ("", "", true, true),
        ("to: 'https://*.example.com:443'", "", true, true),
        ("", "to: 'https://*.example.com:443'", false, true),
        ("", "to: 'https://api.example.org:443'", false, false),
        ("methods: [GET, POST]", "methods: [GET]", true, true),
        ("methods: [GET]", "methods: [GET, POST]", false, true),
        ("methods: [GET]", "methods: [POST]", false, false),
        ("paths: [/v3]", "paths: [/v3/servers]", true, true),
        ("paths: [/v3/servers]", "paths: [/v3]", false, true),
        ("paths: [/v2]", "paths: [/v3]", false, false),
        ("paths: [/v2, /v3]", "paths: [/v3]", true, true),
        ("paths: [/v3]", "paths: [/v2, /v3]", false, true),
        ("paths: [/v3]", "", false, true),
        ("", "paths: [/v3]", true, true),
        (
            "actions: ['Describe*']",
            "actions: [DescribeInstances]",
            true,
            true,
        ),
        (
            "actions: [DescribeInstances]",
            "actions: ['Describe*']",
            false,
            true,
        ),
        (
            "actions: [RunInstances]",
            "actions: [StopInstances]",
            false,
            false,
        ),
        ("actions: [RunInstances]", "", false, true),
        ("", "actions: [RunInstances]", true, true),
        (
            "paths: [/v3], actions: [RunInstances]",
            "paths: [/v3], actions: [StopInstances]",
            false,
            false,
        ),
        (
            "paths: [/v2], actions: [RunInstances]",
            "paths: [/v3], actions: [RunInstances]",
            false,
            false,
        ),
    ] {
        let [first_rule, second_rule] = pair(first, second);
        assert_eq!(
            first_rule.covers(&second_rule),
            covers,
            "covers: {first} | {second}"
        );
        assert_eq!(
            first_rule.overlaps(&second_rule),
            overlaps,
            "overlaps: {first} | {second}"
        );
        assert_eq!(
            second_rule.overlaps(&first_rule),
            overlaps,
            "overlaps: {second} | {first}"
        );
    }
}

#[test]
fn rules_act_alike_if_they_authenticate_and_connect_alike() {
    for (first, second, connects, acts) in [
        ("", "", true, true),
        ("limits: {rate: 1}", "", true, true),
        ("credential: one", "credential: one", true, true),
        ("credential: one", "credential: two", true, false),
        ("credential: one", "", true, false),
        ("guestAuth: allowed", "", true, false),
        ("tls: {caFile: /ca}", "", false, false),
        ("proxy: 'http://proxy:3128'", "", false, false),
        ("addresses: [10.0.0.0/8]", "", false, false),
        (
            "addresses: [10.0.0.0/8]",
            "addresses: [10.0.0.0/8]",
            true,
            true,
        ),
    ] {
        let [first_rule, second_rule] = pair(first, second);
        for (one, two) in [(&first_rule, &second_rule), (&second_rule, &first_rule)] {
            assert_eq!(
                one.connects_like(two),
                connects,
                "connects: {first} | {second}"
            );
            assert_eq!(one.acts_like(two), acts, "acts: {first} | {second}");
        }
    }
}

#[test]
fn a_rule_that_opens_or_sends_too_much_has_a_warning() {
    let http = "to: 'http://api.example.com:80'";
    for (fields, expected) in [
        ("addresses: [10.0.0.0/8]", None),
        ("addresses: [10.0.0.0/7]", Some("every private network")),
        ("guestAuth: allowed", None),
        ("credential: one, paths: [/v1]", None),
        ("credential: one, actions: [Describe*]", None),
        ("credential: one", Some("neither `actions` nor `paths`")),
        (
            "credential: one, paths: [/v1], guestAuth: allowed",
            Some("remove one of the two"),
        ),
        (http, None),
        (
            &format!("{http}, credential: one, paths: [/v1]"),
            Some("its credential is sent unencrypted"),
        ),
        (
            &format!("{http}, guestAuth: allowed"),
            Some("the plugin's own credentials are sent unencrypted"),
        ),
    ] {
        let [rule, _] = pair(fields, "to: 'https://other.example.com:443'");
        let found = warnings(&[rule]);
        assert_eq!(
            found.len(),
            usize::from(expected.is_some()),
            "{fields}: {found:?}"
        );
        assert!(
            found
                .iter()
                .all(|warning| warning.to_string().contains(expected.unwrap())),
            "{fields}: {found:?}"
        );
    }
}
