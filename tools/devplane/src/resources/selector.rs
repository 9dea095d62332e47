//! Label and field selectors.

use serde_json::Value;

use crate::resources::{
    object::text,
    resource::{Resource, Storage},
};

/// Selects the objects of a list or a watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<FieldTerm>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Missing,
    In(Vec<String>),
    /// A missing label is not in any list.
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldTerm {
    /// JSON pointer into the storage version.
    pointer: String,
    value: String,
    equal: bool,
}

/// A selector that cannot be parsed, or that uses a field that the resource does not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectorError {
    #[error("unable to parse label selector {selector:?}: {why}")]
    Labels { selector: String, why: &'static str },
    #[error(
        "unable to parse field selector {0:?}: write FIELD=VALUE or FIELD!=VALUE, separated by commas"
    )]
    Fields(String),
    #[error("field label not supported: {field}: {resource} can be selected by {supported}")]
    UnsupportedField {
        field: String,
        resource: &'static str,
        supported: String,
    },
}

impl Selector {
    /// Parses the query parameters `labelSelector` and `fieldSelector`; empty ones select
    /// everything.
    pub(crate) fn parse(
        labels: &str,
        fields: &str,
        resource: &'static Resource,
    ) -> Result<Self, SelectorError> {
        Ok(Self {
            labels: parse_labels(labels)?,
            fields: parse_fields(fields, resource)?,
        })
    }

    /// Selects only this name. Returns whether that is compatible with the existing field selector.
    pub(crate) fn narrow_to(&mut self, name: &str) -> bool {
        let term = FieldTerm {
            pointer: "/metadata/name".to_owned(),
            value: name.to_owned(),
            equal: true,
        };

        if self.fields.is_empty() {
            self.fields.push(term);
            return true;
        }
        self.fields.contains(&term)
    }

    /// Returns whether the selector matches an object in the storage version.
    pub(crate) fn matches(&self, value: &Value) -> bool {
        let labels = value.pointer("/metadata/labels");
        self.labels
            .iter()
            .all(|requirement| requirement.matches(labels))
            && self.fields.iter().all(|field| field.matches(value))
    }
}

impl Requirement {
    fn matches(&self, labels: Option<&Value>) -> bool {
        let label = labels
            .and_then(|labels| labels.get(&self.key))
            .and_then(Value::as_str);
        let number = || label.and_then(|label| label.parse::<i64>().ok());

        match &self.test {
            Test::Exists => label.is_some(),
            Test::Missing => label.is_none(),
            Test::In(values) => {
                label.is_some_and(|label| values.iter().any(|value| value == label))
            }
            Test::NotIn(values) => {
                label.is_none_or(|label| values.iter().all(|value| value != label))
            }
            Test::Greater(than) => number().is_some_and(|number| number > *than),
            Test::Less(than) => number().is_some_and(|number| number < *than),
        }
    }
}

impl FieldTerm {
    fn matches(&self, value: &Value) -> bool {
        let found = match value.pointer(&self.pointer) {
            Some(Value::String(text)) => text.clone(),
            // A boolean that is missing is false in Go.
            Some(Value::Null) | None if self.pointer == "/spec/unschedulable" => "false".to_owned(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };

        // The source of an event is a component, in whichever field it was reported.
        let found = if found.is_empty() && self.pointer == "/source/component" {
            text(value, "/reportingComponent").to_owned()
        } else {
            found
        };

        (found == self.value) == self.equal
    }
}

fn parse_labels(selector: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut requirements = Vec::new();
    for term in split_outside_parentheses(selector) {
        let term = term.trim();
        if !term.is_empty() {
            let requirement = parse_requirement(term);
            requirements.push(requirement.map_err(|why| SelectorError::Labels {
                selector: selector.to_owned(),
                why,
            })?);
        }
    }
    Ok(requirements)
}

fn split_outside_parentheses(selector: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    selector
        .split(move |letter| {
            match letter {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            letter == ',' && depth == 0
        })
        .collect()
}

fn parse_requirement(term: &str) -> Result<Requirement, &'static str> {
    let make = |key: &str, test| {
        let key = key.trim();
        if crate::resources::names::qualified_name(key).is_err() {
            return Err(
                "a label key must be a name with an optional DNS prefix, such as example.com/name",
            );
        }

        if let Test::In(values) | Test::NotIn(values) = &test
            && values
                .iter()
                .any(|value| crate::resources::names::label_value(value).is_err())
        {
            return Err("a label has no such value");
        }

        Ok(Requirement {
            key: key.to_owned(),
            test,
        })
    };
    let one = |value: &str| vec![value.trim().to_owned()];

    if let Some(key) = term.strip_prefix('!') {
        return make(key, Test::Missing);
    }
    if let Some((head, values)) = term.split_once('(') {
        let values = values
            .strip_suffix(')')
            .ok_or("a list of values must end with )")?;
        let values = values
            .split(',')
            .map(|value| value.trim().to_owned())
            .collect();

        return match head.split_whitespace().collect::<Vec<_>>().as_slice() {
            [key, "in"] => make(key, Test::In(values)),
            [key, "notin"] => make(key, Test::NotIn(values)),
            _ => Err("before a list of values there must be a key and in or notin"),
        };
    }

    // Before `=`, which this contains, too.
    if let Some((key, value)) = term.split_once("!=") {
        return make(key, Test::NotIn(one(value)));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return make(key, Test::In(one(value)));
    }

    let number = |value: &str| {
        value
            .trim()
            .parse()
            .map_err(|_| "labels are compared with whole numbers only")
    };
    if let Some((key, value)) = term.split_once('>') {
        return make(key, Test::Greater(number(value)?));
    }
    if let Some((key, value)) = term.split_once('<') {
        return make(key, Test::Less(number(value)?));
    }

    make(term, Test::Exists)
}

fn parse_fields(
    selector: &str,
    resource: &'static Resource,
) -> Result<Vec<FieldTerm>, SelectorError> {
    let terms = selector.split(',').filter(|term| !term.is_empty());
    terms
        .map(|term| {
            let (field, value, equal) = if let Some((field, value)) = term.split_once("!=") {
                (field, value, false)
            } else if let Some((field, value)) =
                term.split_once("==").or_else(|| term.split_once('='))
            {
                (field, value, true)
            } else {
                return Err(SelectorError::Fields(selector.to_owned()));
            };

            let supported = supported_fields(resource);
            let pointer = supported
                .iter()
                .find(|(name, _)| *name == field)
                .map(|(_, pointer)| *pointer);
            let pointer = pointer.ok_or_else(|| SelectorError::UnsupportedField {
                field: field.to_owned(),
                resource: resource.plural,
                supported: supported
                    .iter()
                    .map(|(name, _)| *name)
                    .collect::<Vec<_>>()
                    .join(", "),
            })?;

            Ok(FieldTerm {
                pointer: pointer.to_owned(),
                value: value.to_owned(),
                equal,
            })
        })
        .collect()
}

/// Returns the supported field names and their positions in the storage version.
fn supported_fields(resource: &Resource) -> Vec<(&'static str, &'static str)> {
    const NAME: (&str, &str) = ("metadata.name", "/metadata/name");
    const NAMESPACE: (&str, &str) = ("metadata.namespace", "/metadata/namespace");

    let rest: &[(&str, &str)] = match resource.storage {
        Storage::Nodes => &[("spec.unschedulable", "/spec/unschedulable")],
        Storage::Namespaces => &[("status.phase", "/status/phase")],
        Storage::Services => &[
            ("spec.clusterIP", "/spec/clusterIP"),
            ("spec.type", "/spec/type"),
        ],
        Storage::Pods => &[
            ("spec.nodeName", "/spec/nodeName"),
            ("spec.restartPolicy", "/spec/restartPolicy"),
            ("spec.schedulerName", "/spec/schedulerName"),
            ("spec.serviceAccountName", "/spec/serviceAccountName"),
            ("spec.hostNetwork", "/spec/hostNetwork"),
            ("status.phase", "/status/phase"),
            ("status.podIP", "/status/podIP"),
            ("status.nominatedNodeName", "/status/nominatedNodeName"),
        ],
        Storage::Events if resource.group.is_empty() => &[
            ("involvedObject.kind", "/involvedObject/kind"),
            ("involvedObject.namespace", "/involvedObject/namespace"),
            ("involvedObject.name", "/involvedObject/name"),
            ("involvedObject.uid", "/involvedObject/uid"),
            ("involvedObject.apiVersion", "/involvedObject/apiVersion"),
            (
                "involvedObject.resourceVersion",
                "/involvedObject/resourceVersion",
            ),
            ("involvedObject.fieldPath", "/involvedObject/fieldPath"),
            ("reason", "/reason"),
            ("reportingComponent", "/reportingComponent"),
            ("source", "/source/component"),
            ("type", "/type"),
        ],
        Storage::Events => &[
            ("regarding.kind", "/involvedObject/kind"),
            ("regarding.namespace", "/involvedObject/namespace"),
            ("regarding.name", "/involvedObject/name"),
            ("regarding.uid", "/involvedObject/uid"),
            ("regarding.apiVersion", "/involvedObject/apiVersion"),
            (
                "regarding.resourceVersion",
                "/involvedObject/resourceVersion",
            ),
            ("regarding.fieldPath", "/involvedObject/fieldPath"),
            ("reason", "/reason"),
            ("reportingController", "/reportingComponent"),
            ("type", "/type"),
        ],
        Storage::Leases | Storage::ConfigMaps | Storage::ServiceAccounts => &[],
    };

    let namespace = resource.namespaced.then_some(NAMESPACE);
    [NAME]
        .into_iter()
        .chain(namespace)
        .chain(rest.iter().copied())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resources::resource::{CORE_EVENTS, EVENTS, NODES, SERVICES};

    #[test]
    fn label_selectors_match_as_in_kubernetes() {
        let labeled =
            json!({"metadata": {"labels": {"app": "web", "tier": "3", "example.com/x": ""}}});
        for (selector, expected) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("!gone", true),
            ("app=web", true),
            ("app==web,tier=3", true),
            ("app = web , tier != 4", true),
            ("app!=web", false),
            ("gone!=x", true),
            ("app in (api, web),tier", true),
            ("app in (api)", false),
            ("app notin (api)", true),
            ("gone notin (api)", true),
            ("tier>2", true),
            ("tier<3", false),
            ("example.com/x=", true),
            ("example.com/x", true),
        ] {
            let selector = Selector::parse(selector, "", &NODES).unwrap();
            assert_eq!(selector.matches(&labeled), expected, "{selector:?}");
        }
        for bad in ["app in (web", "app (web)", "=x", "a b", "tier>x"] {
            assert!(Selector::parse(bad, "", &NODES).is_err(), "{bad}");
        }
    }

    #[test]
    fn field_selectors_support_the_fields_of_each_resource() {
        let node = json!({"metadata": {"name": "a"}, "spec": {"unschedulable": true}});
        for (selector, expected) in [
            ("metadata.name=a", true),
            ("metadata.name!=a", false),
            ("spec.unschedulable=true", true),
            ("spec.unschedulable=false,metadata.name=a", false),
        ] {
            assert_eq!(
                Selector::parse("", selector, &NODES)
                    .unwrap()
                    .matches(&node),
                expected,
                "{selector}"
            );
        }
        let plain = json!({"metadata": {"name": "a"}, "spec": {}});
        assert!(
            Selector::parse("", "spec.unschedulable=false", &NODES)
                .unwrap()
                .matches(&plain)
        );
        let error = Selector::parse("", "spec.externalName=x", &SERVICES)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("field label not supported: spec.externalName: services"),
            "{error}"
        );
        assert!(Selector::parse("", "metadata.name", &SERVICES).is_err());
    }

    #[test]
    fn events_are_selected_by_their_object_in_both_versions() {
        let event =
            json!({"involvedObject": {"kind": "Node", "uid": "1"}, "source": {"component": "c"}});
        assert!(
            Selector::parse("", "involvedObject.uid=1,source=c", &CORE_EVENTS)
                .unwrap()
                .matches(&event)
        );
        assert!(
            Selector::parse("", "regarding.uid=1,regarding.kind=Node", &EVENTS)
                .unwrap()
                .matches(&event)
        );
        assert!(Selector::parse("", "involvedObject.uid=1", &EVENTS).is_err());
    }
}
