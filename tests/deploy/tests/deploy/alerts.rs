//! The alerts in `deploy/` use existing metrics, labels and values, and the documentation for
//! operators describes what to do about each alert.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use skydock_support::checkout;

fn read(file: &str) -> String {
    crate::read(checkout().join(file))
}

/// Returns names and expressions of all alerts.
fn alerts() -> BTreeMap<String, String> {
    let rules: Value =
        serde_saphyr::from_str(&read("deploy/components/alerts/rules.yaml")).unwrap();
    let groups = rules["spec"]["groups"].as_array().unwrap();
    let rules = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap());
    let text = |rule: &Value, field: &str| rule[field].as_str().unwrap().to_owned();
    rules
        .map(|rule| (text(rule, "alert"), text(rule, "expr")))
        .collect()
}

/// Adds the sources in this folder that register metrics.
fn find_sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_sources(&path, found);
        } else if crate::read(&path).contains("registry.register") {
            found.push(path);
        }
    }
}

/// Returns all metrics by their names in Prometheus, each with the source that registers it.
/// Metrics without values are not exported, so the sources are searched.
pub(crate) fn metrics() -> BTreeMap<String, PathBuf> {
    let (mut metrics, mut files) = (BTreeMap::new(), Vec::new());
    find_sources(&checkout().join("host"), &mut files);

    for file in files {
        let source = crate::read(&file);
        let prefix = source
            .split_once("sub_registry_with_prefix(")
            .and_then(|(_, rest)| first_text(rest));
        let prefix = prefix
            .map(|prefix| format!("{prefix}_"))
            .unwrap_or_default();
        for call in source.split("registry.register").skip(1) {
            // Otherwise it is a collector of metrics with other prefixes.
            let Some((arguments, _)) = call.split_once(".clone()") else {
                continue;
            };
            let Some(name) = arguments
                .trim_start_matches("_with_unit")
                .trim_start_matches("_collector")
                .strip_prefix('(')
                .and_then(first_text)
            else {
                continue;
            };
            let unit = arguments
                .split_once("Unit::")
                .map(|(_, unit)| unit.split(',').next().unwrap().to_lowercase());
            let unit = unit.map(|unit| format!("_{unit}")).unwrap_or_default();
            let field = arguments.rsplit('.').next().unwrap().trim();
            let counts = source.lines().any(|line| {
                let line = line.trim().trim_start_matches("pub ");
                line.strip_prefix(field)
                    .is_some_and(|rest| rest.starts_with(": ") && rest.contains("Counter"))
            });
            metrics.insert(
                format!("{prefix}{name}{unit}{}", if counts { "_total" } else { "" }),
                file.clone(),
            );
        }
    }
    metrics
}

/// Returns the text between the first quotation marks.
fn first_text(code: &str) -> Option<&str> {
    code.split('"').nth(1)
}

/// Returns all metrics in an expression, each with the labels and values of its matchers.
pub(crate) fn selectors(expression: &str) -> Vec<(String, Vec<(String, String)>)> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(is_word) {
        let word: String = rest[start..]
            .chars()
            .take_while(|letter| is_word(*letter))
            .collect();
        rest = &rest[start + word.len()..];
        let matchers = rest
            .strip_prefix('{')
            .and_then(|rest| rest.split_once('}'))
            .map(|(matchers, _)| matchers);
        if let Some(matchers) = matchers {
            rest = &rest[matchers.len() + 2..];
        }
        let pairs = matchers
            .into_iter()
            .flat_map(|matchers| matchers.split(','));
        let pairs = pairs.map(|pair| {
            let (label, value) = pair.split_once('"').unwrap();
            (
                label.trim_end_matches(['=', '!', '~']).to_owned(),
                value.trim_end_matches('"').to_owned(),
            )
        });
        // All of our metrics have one of these prefixes, and no function, keyword or label has.
        if word.starts_with("skydock_") || word.starts_with("leader_election_") {
            found.push((word, pairs.collect()));
        }
    }
    found
}

/// Collects the sources of a crate, without tests.
pub(crate) fn sources(dir: &Path, text: &mut String) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if !path.ends_with("tests.rs") {
            let source = fs::read_to_string(&path).unwrap();
            text.push_str(source.split("#[cfg(test)]\nmod tests").next().unwrap());
        }
    }
}

#[test]
fn every_alert_uses_an_existing_metric() {
    let metrics = metrics();
    assert!(metrics.len() > 40, "{metrics:?}");
    for (alert, expression) in alerts() {
        let selectors = selectors(&expression);
        assert!(!selectors.is_empty(), "{alert}");
        for (metric, _) in selectors {
            assert!(
                metrics.contains_key(&metric),
                "{alert}: there is no {metric}"
            );
        }
    }
}

#[test]
fn alerts_use_existing_labels_and_values() {
    let (metrics, mut all) = (metrics(), String::new());
    sources(&checkout().join("host"), &mut all);

    let mut checked = 0;
    for (alert, expression) in alerts() {
        for (metric, matchers) in selectors(&expression) {
            let source = crate::read(&metrics[&metric]);
            for (label, values) in matchers {
                let there = [format!(" {label}: "), format!("\"{label}\"")]
                    .iter()
                    .any(|it| source.contains(it));
                assert!(there, "{alert}: {metric} has no label {label}");
                for value in values.split('|') {
                    assert!(
                        all.contains(&format!("\"{value}\"")),
                        "{alert}: no {label} is {value}"
                    );
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 10, "only {checked}");
}

#[test]
fn alerts_cover_the_reasons_of_denied_requests() {
    let errors = read("host/egress/src/request_error.rs");
    let (_, told) = errors.split_once("fn as_str").unwrap();
    let (told, _) = told.split_once("\n    }\n").unwrap();
    let told: BTreeSet<&str> = told.split('"').skip(1).step_by(2).collect();
    // These reasons are excluded from the alert about rules: they have another alert, are harmless,
    // or are intended.
    let left_out = [
        "breaker",
        "credential",
        "dry_run",
        "limit",
        "rule_changed",
        "throttled",
    ];
    assert!(
        left_out.iter().all(|reason| told.contains(reason)),
        "{told:?}"
    );
    // The credential is there: the alert about a missing one would be wrong.
    for reason in ["no_rule", "secret_request"] {
        assert!(told.contains(reason), "{reason}");
    }
    let denied = format!("reason!~\"{}\"", left_out.join("|"));
    assert!(alerts()["SkydockEgressDenied"].contains(&denied));
    assert!(alerts()["SkydockCredentialMissing"].contains("reason=\"credential\""));
    assert!(
        alerts()["SkydockCloudUnreachable"].contains("skydock_egress_circuit_breakers_open"),
        "what opens a breaker"
    );
}

#[test]
fn operating_md_describes_exactly_the_alerts() {
    let page = read("docs/operating.md");
    // The row of an alert, which is also where its `runbook_url` leads.
    let rows = page.lines().filter_map(|line| {
        let (anchor, rest) = line.strip_prefix("| <a id=\"Skydock")?.split_once('"')?;
        let name = rest.strip_prefix("></a>`Skydock")?.split_once('`')?.0;
        assert_eq!(anchor, name);
        Some(format!("Skydock{name}"))
    });
    assert_eq!(
        rows.collect::<BTreeSet<_>>(),
        alerts().into_keys().collect()
    );
}

#[test]
fn each_alert_links_to_its_row_in_operating_md() {
    let rules: Value =
        serde_saphyr::from_str(&read("deploy/components/alerts/rules.yaml")).unwrap();
    let repository = env!("CARGO_PKG_REPOSITORY");
    let release = format!("v{}", env!("CARGO_PKG_VERSION"));
    let groups = rules["spec"]["groups"].as_array().unwrap();
    for rule in groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap())
    {
        let name = rule["alert"].as_str().unwrap();
        let url = rule["annotations"]["runbook_url"].as_str().unwrap();
        let pages = ["main", release.as_str()]
            .map(|version| format!("{repository}/blob/{version}/docs/operating.md#{name}"));
        assert!(pages.iter().any(|page| page == url), "{url}");
    }
}

#[test]
fn alerts_keep_the_cluster() {
    for (alert, expression) in alerts() {
        for aggregation in ["count", "group", "max", "min", "sum"] {
            let kept = format!("{aggregation} by (cluster, namespace, job");
            assert_eq!(
                expression.matches(&format!("{aggregation} ")).count(),
                expression.matches(&kept).count(),
                "{alert}"
            );
            assert!(!expression.contains(&format!("{aggregation}(")), "{alert}");
        }
        // It has no labels of the series that are missing, and is also true where Skydock is not
        // scraped, or not installed.
        assert!(!expression.contains("absent"), "{alert}");
    }
}

#[test]
fn finds_selectors_anywhere_in_an_expression() {
    let found = selectors(
        "sum by (plugin) (increase(skydock_a_total{x=\"y|z\",q!~\"r\"}[15m])) > 5 or skydock_b unless b",
    );
    let pair = |label: &str, value: &str| (label.to_owned(), value.to_owned());
    let expected = vec![
        (
            "skydock_a_total".to_owned(),
            vec![pair("x", "y|z"), pair("q", "r")],
        ),
        ("skydock_b".to_owned(), vec![]),
    ];
    assert_eq!(found, expected);
}
