//! Selection of the nodes behind the load balancer of a Service: a label selector as in `kubectl
//! -l`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1 as k8s;
use kube::core::{Expression, Selector};

use super::ConvertError;
use crate::objects::constants::ANNOTATION_NODE_SELECTOR;

/// Maximum length of a label's name or value.
const LONGEST: usize = 63;
/// Maximum length of a selector in bytes: all its requirements are evaluated for each node whenever
/// nodes change.
const LONGEST_SELECTOR: usize = 4096;
/// Maximum length of the prefix of a qualified name, a DNS subdomain.
const LONGEST_PREFIX: usize = 253;

/// Returns the selector in the annotation of a Service. Without the annotation, it selects all
/// nodes.
///
/// # Errors
///
/// Returns an error if the annotation is not a label selector.
pub(crate) fn node_selector(object: &k8s::Service) -> Result<Selector, ConvertError> {
    let annotation = object
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(ANNOTATION_NODE_SELECTOR));
    let text = annotation.map_or("", |text| text.trim());

    if text.is_empty() {
        return Ok(Selector::default());
    }
    if text.len() > LONGEST_SELECTOR {
        return Err(ConvertError::LongNodeSelector {
            length: text.len(),
            most: LONGEST_SELECTOR,
        });
    }

    let wrong = |part: &str| ConvertError::NodeSelector {
        part: part.to_owned(),
    };
    requirements(text)
        .into_iter()
        .map(|part| requirement(part).ok_or_else(|| wrong(part)))
        .collect()
}

/// Splits the text at commas that are not inside parentheses.
fn requirements(text: &str) -> Vec<&str> {
    let mut inside = false;
    let parts = text.split(|c| {
        inside = (inside || c == '(') && c != ')';
        c == ',' && !inside
    });
    parts.map(str::trim).collect()
}

fn requirement(text: &str) -> Option<Expression> {
    let key = |key: &str| Some(key.trim().to_owned()).filter(|key| is_qualified_name(key));
    let value = |value: &str| Some(value.trim().to_owned()).filter(|value| is_label_value(value));

    if let Some(head) = text.strip_suffix(')') {
        let (head, list) = head.split_once('(')?;
        let (name, operator) = head.trim().rsplit_once(char::is_whitespace)?;
        let values = list
            .split(',')
            .map(value)
            .collect::<Option<BTreeSet<_>>>()?;
        return match operator {
            "in" => Some(Expression::In(key(name)?, values)),
            "notin" => Some(Expression::NotIn(key(name)?, values)),
            _ => None,
        };
    }

    // Longer operators are first, because they contain the shorter ones.
    if let Some((name, wanted)) = text.split_once("!=") {
        return Some(Expression::NotEqual(key(name)?, value(wanted)?));
    }
    if let Some((name, wanted)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Some(Expression::Equal(key(name)?, value(wanted)?));
    }

    match text.strip_prefix('!') {
        Some(name) => Some(Expression::DoesNotExist(key(name)?)),
        None => Some(Expression::Exists(key(text)?)),
    }
}

/// Returns true for a name, or a DNS name, a slash and a name, as in label keys and load balancer
/// classes.
pub fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_name(prefix) && !name.is_empty() && is_label_value(name),
        None => !text.is_empty() && is_label_value(text),
    }
}

fn is_dns_name(text: &str) -> bool {
    let word = |word: &str| {
        is_label_value(word)
            && !word.is_empty()
            && word
                .chars()
                .all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-'))
    };
    text.len() <= LONGEST_PREFIX && text.split('.').all(word)
}

/// Returns true for at most 63 letters, digits, `-`, `_` and `.` that start and end with a letter
/// or digit, and for an empty text.
fn is_label_value(text: &str) -> bool {
    let ends = |c: char| c.is_ascii_alphanumeric();
    text.len() <= LONGEST
        && text
            .chars()
            .all(|c| ends(c) || matches!(c, '-' | '_' | '.'))
        && (text.is_empty() || (text.starts_with(ends) && text.ends_with(ends)))
}

#[cfg(test)]
mod tests {
    use kube::core::SelectorExt;
    use serde_json::json;

    use super::*;

    fn parse(text: &str) -> Result<Selector, ConvertError> {
        let object = json!({"metadata": {"annotations": {ANNOTATION_NODE_SELECTOR: text}}});
        node_selector(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_selector_matches_the_same_labels_as_in_kubectl() {
        let labels = [("pool", "web"), ("zone", "z1"), ("example.com/edge", "")];
        let labels = labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        for (text, selected) in [
            ("", true),
            ("  ", true),
            ("pool", true),
            ("!pool", false),
            ("gpu", false),
            ("!gpu", true),
            ("pool=web", true),
            ("pool == web", true),
            ("pool=db", false),
            ("pool!=web", false),
            ("pool != db", true),
            ("gpu!=a100", true),
            ("gpu=", false),
            ("pool in (web, db)", true),
            ("pool in(db)", false),
            ("pool notin (web,db)", false),
            ("gpu notin (a100)", true),
            ("example.com/edge", true),
            ("example.com/edge=", true),
            ("pool in (web,db),zone=z1,!gpu", true),
            ("pool in (web,db),zone=z2,!gpu", false),
        ] {
            assert_eq!(parse(text).unwrap().matches(&labels), selected, "{text:?}");
        }
        assert!(
            node_selector(&k8s::Service::default())
                .unwrap()
                .selects_all()
        );
    }

    #[test]
    fn an_invalid_selector_is_an_error_that_names_the_part() {
        for text in [
            "pool=web,",
            "=web",
            "pool in web",
            "pool in (web",
            "pool web",
            "pool within (a)",
            "a/b/c",
            "Ä=1",
            "pool>3",
            "!",
            "pool=we b",
            "/name",
            "prefix/",
            "Upper.example/name",
            "pool in (a),(b)",
            "-a",
            &"x".repeat(64),
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
        let long = vec!["!a"; LONGEST_SELECTOR / 3].join(",");
        assert!(parse(&long).is_ok() && parse(&format!("{long},!a,!a")).is_err());

        let error = parse("zone=z1,pool in web").unwrap_err().to_string();
        assert!(
            error
                .starts_with("annotation service.skydock.dev/node-selector: \"pool in web\" is no"),
            "{error}"
        );
    }
}
