//! Every mistake in a file is reported, where it is.

use std::path::Path;

use crate::file::{Problem, Reviewed};

/// A file without mistakes.
const GOOD: &str = r#"apiVersion: skydock.dev/v1alpha1
kind: SkydockConfiguration
plugins:
- name: aws
  file: aws.wasm
  cloudConfig: /etc/kubernetes/cloud.conf
  limits: {memory: 256Mi}
  egress:
  - {name: ec2, to: "https://ec2.eu-west-1.amazonaws.com:443", reads: ["Describe*"], credential: keys, paths: [/]}
credentials:
- name: keys
  type: aws-sigv4
  for: {plugin: aws, digest: any}
  source:
    sharedFile: {file: /etc/skydock/aws/credentials}
  services: [ec2, elasticloadbalancing]
  regions: [eu-west-1]
"#;

/// Returns the errors and the warnings of a file.
fn reviewed(text: &str) -> (Vec<String>, Vec<String>) {
    let reviewed = Reviewed::new(text, Path::new("/etc/skydock/config.yaml"));
    let texts = |problems: &[Problem]| problems.iter().map(ToString::to_string).collect();
    (texts(&reviewed.errors), texts(&reviewed.warnings))
}

/// Checks that these, and only these, are reported.
fn assert_reported(changed: &str, (errors, warnings): (&[&str], &[&str])) {
    let found = reviewed(changed);
    for (found, expected) in [(found.0, errors), (found.1, warnings)] {
        let each = found.iter().zip(expected);
        let same = each
            .into_iter()
            .all(|(found, expected)| found.starts_with(expected));
        assert!(
            same && found.len() == expected.len(),
            "{found:#?}\nexpected {expected:#?}\n{changed}"
        );
    }
}

/// Checks that this change is a mistake, and that only this is reported.
fn assert_one_mistake(from: &str, to: &str, expected: &str) {
    assert!(GOOD.contains(from), "{from}");
    assert_reported(&GOOD.replacen(from, to, 1), (&[expected], &[]));
}

#[test]
fn each_mistake_is_reported_where_it_is() {
    assert_reported(GOOD, (&[], &[]));
    for (from, to, expected) in [
        (
            "  egress:",
            "  egres:",
            "8:3: plugins[0]: unknown field `egres`; did you mean `egress`?",
        ),
        (
            "v1alpha1",
            "v1",
            "1:13: apiVersion: unknown word `skydock.dev/v1`; ",
        ),
        (
            "com:443",
            "com",
            "9:21: plugins[0].egress[0].to: `https://ec2",
        ),
        (
            "credential: keys",
            "credential: key",
            "9:98: plugins[0].egress[0].credential: unknown credential `key`",
        ),
        (
            "digest: any",
            "digest: sha256:abc",
            "13:30: credentials[0].for.digest: `sha256:abc` is not valid; expected `any`, `sha256:`",
        ),
        (
            "/etc/skydock/aws",
            "aws",
            "15:24: credentials[0].source.sharedFile.file: `aws/credentials` must be an absolute path",
        ),
        (
            "sharedFile",
            "sharedFil",
            "15:5: credentials[0].source: unknown word `sharedFil`; did you mean `sharedFile`?",
        ),
        (
            "type: aws-sigv4",
            "type: aws",
            "12:9: credentials[0].type: unknown word `aws`; did you mean `aws-sigv4`?",
        ),
        (
            "  type: aws-sigv4\n",
            "",
            "11:3: credentials[0]: missing field `type`",
        ),
        (
            "memory: 256Mi",
            "memory: 256M",
            "7:20: plugins[0].limits.memory: ",
        ),
        (
            "memory: 256Mi",
            "memmory: 256Mi",
            "7:21: plugins[0].limits.memmory: ",
        ),
        ("memory: 256Mi", "memory: 2Gi", "7:11: plugins[0].limits: "),
    ] {
        assert_one_mistake(from, to, expected);
    }
}

#[test]
fn mistakes_in_fields_and_lists_are_reported_too() {
    for (from, to, expected) in [
        (
            "  file: aws.wasm\n",
            "  file: aws.wasm\n  file: b.wasm\n",
            "6:3: plugins[0]: duplicate key `file`: it is already set at 5:3",
        ),
        (
            "  file: aws.wasm\n",
            "",
            "4:3: plugins[0]: missing field `file`",
        ),
        (
            "services: [ec2,",
            "services: [[ec2],",
            "16:14: credentials[0].services[0]: invalid type: sequence, expected a string",
        ),
        (
            "services: [ec2, elasticloadbalancing]",
            "services: []",
            "11:3: credentials[0]: `services` and `regions`",
        ),
        (
            "reads: [\"Describe*\"]",
            "methods: [GET, FETCH]",
            "9:79: plugins[0].egress[0].methods[1]: `FETCH` is not one of",
        ),
        (
            "reads: [\"Describe*\"]",
            "limits: {rate: fast}",
            "9:79: plugins[0].egress[0].limits.rate: invalid type: string \"fast\", expected f64",
        ),
        (
            "reads: [\"Describe*\"]",
            "limits: {connect: 61s}",
            "9:82: plugins[0].egress[0].limits.connect: `61s` is not a valid duration",
        ),
    ] {
        assert_one_mistake(from, to, expected);
    }

    // A wrong value of a list is an error in addition to what replaces it.
    let changed = GOOD.replacen("plugins:\n", "plugins: {}\nplugin:\n", 1);
    let errors = [
        "3:10: plugins: invalid type: map, expected a sequence",
        "4:1: unknown field `plugin`; did you mean `plugins`?",
    ];
    assert_reported(&changed, (&errors, &[]));
}

#[test]
fn what_is_probably_wrong_causes_warnings() {
    for (from, to, expected) in [
        (
            "regions: [eu-west-1]",
            "regions: [us-east-1]",
            "9:98: plugins[0].egress[0].credential: egress rule `ec2`: it denies all requests",
        ),
        (
            "for: {plugin: aws",
            "for: {plugin: openstack",
            "9:98: plugins[0].egress[0].credential: egress rule `ec2`: it denies all requests",
        ),
        (
            ", credential: keys",
            "",
            "11:9: credentials[0].name: credential `keys` is not used",
        ),
        (
            "https://ec2",
            "http://ec2",
            "9:21: plugins[0].egress[0].to: egress rule `ec2`: its credential is sent unencrypted",
        ),
        (
            "Describe*",
            "Decsribe*",
            "9:72: plugins[0].egress[0].reads[0]: egress rule `ec2`: `Decsribe*`",
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        assert_reported(&GOOD.replacen(from, to, 1), (&[], &[expected]));
    }
}

#[test]
fn all_mistakes_of_a_file_are_reported_at_once() {
    let text = r#"apiVersion: skydock.dev/v1alpha1
kind: Skydock
plugins:
- name: aws
  fil: aws.wasm
  egress:
  - {name: ec2, read: ["Describe*"], to: "https://ec2.eu-west-1.amazonaws.com", credential: keys}
  - {to: "https://x.example:443"}
  - {name: b, to: "http://b.example:80", credential: token, limits: {total: 1h}}
credentials:
- name: keys
  type: aws
- {name: token, type: header, value: SECRET, for: {plugin: aws, digest: any}}
"#;
    assert_reported(
        text,
        (
            &[
                "2:7: kind: unknown word `Skydock`; did you mean `SkydockConfiguration`?",
                "5:3: plugins[0]: unknown field `fil`; did you mean `file`?",
                "7:17: plugins[0].egress[0]: unknown field `read`; did you mean `reads`?",
                "7:42: plugins[0].egress[0].to: ",
                "8:5: plugins[0].egress[1]: missing field `name`",
                // Counted as in the file.
                "9:77: plugins[0].egress[2].limits.total: `1h`",
                "12:9: credentials[0].type: unknown word `aws`; did you mean `aws-sigv4`?",
                "13:31: credentials[1]: unknown field `value`; did you mean `valueFile`?",
            ],
            &[],
        ),
    );
}

#[test]
fn a_file_that_is_not_yaml_has_one_error_at_its_place() {
    for (text, expected) in [
        ("plugins:\n\t- name: aws\n", "2:1: a tab in the indentation"),
        ("plugins: [\n", "1:10: not valid YAML: "),
        ("a: 1\n---\nb: 2\n", "2:1: there is another document"),
        ("", " the file is empty; the minimum is"),
        ("# nothing\n", " the file is empty; the minimum is"),
        (
            "- a\n",
            "1:1: invalid type: sequence, expected struct SkydockConfiguration",
        ),
        (
            "a: &a [*a]\n",
            "1:8: a[0]: an alias of a value that contains it",
        ),
    ] {
        assert_reported(text, (&[expected], &[]));
    }

    let deep = "[".repeat(10_000);
    assert_eq!(reviewed(&deep).0.len(), 1);
    let laughs = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned()
        + &(0..8)
            .map(|n| {
                let this = char::from(b'b' + n);
                let last = char::from(b'a' + n);
                format!(
                    "{this}: &{this} [{}]\n",
                    vec![format!("*{last}"); 9].join(", ")
                )
            })
            .collect::<String>();
    let (errors, _) = reviewed(&laughs);

    assert!(
        errors.concat().contains("the file is too large"),
        "{errors:?}"
    );
}

#[test]
fn the_values_behind_an_alias_count_where_it_is_used() {
    let nested = |inner: &str| format!("{}{inner}{}", "[".repeat(40), "]".repeat(40));
    let deep = format!("a: &a {}\nb: {}\n", nested("x"), nested("*a"));
    let items = vec!["x"; 60_000].join(", ");
    let large = format!("a: &a [{items}]\nb: *a\n");

    for text in [deep, large] {
        let (errors, _) = reviewed(&text);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(
            errors.concat().contains("the file is too large"),
            "{errors:?}"
        );
    }
}

#[test]
fn texts_numbers_and_merged_maps_are_read_as_yaml() {
    let text = GOOD
        .replace(
            "{memory: 256Mi}",
            "&limits {uses: 7, log-rate: '8'}\n  options: {<<: *limits, port: 0080, on: yes, quoted: 'null'}",
        )
        .replace("reads: [\"Describe*\"]", "limits: {rate: 1, burst: 0x10}");
    let (errors, _) = reviewed(&text);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors.concat().contains("limits.burst: invalid type"),
        "{errors:?}"
    );

    let text = text.replace("0x10", "16");
    let read = Reviewed::new(&text, Path::new("c.yaml"));
    let plugin = read.configuration.unwrap().plugins.remove(0);
    let options: Vec<_> = plugin
        .options
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        options,
        [
            ("log-rate", "8"),
            ("on", "yes"),
            ("port", "0080"),
            ("quoted", "null"),
            ("uses", "7")
        ]
    );
    let limits = &plugin.egress[0].limits;
    assert_eq!((limits.rate, limits.burst), (Some(1.0), Some(16)));
}
