//! What a plugin wants and is not permitted, and the lines that would permit it.

use std::fmt;

use super::{Permissions, keys::KeyRange};
use crate::text::Names;

/// What a plugin wants to own, although it is not permitted. Displays the lines that permit it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotPermitted {
    /// Prefixes of provider IDs.
    pub(super) provider_ids: Vec<String>,
    /// Prefixes of the keys of annotations.
    pub(super) annotations: Vec<String>,
    /// What is permitted.
    pub(super) permitted: Permissions,
}

impl std::error::Error for NotPermitted {}

impl NotPermitted {
    pub(super) fn is_empty(&self) -> bool {
        self.provider_ids.is_empty() && self.annotations.is_empty()
    }

    /// Returns the field of `permissions` for provider IDs. A list in the file replaces the default,
    /// so it has to repeat what is permitted.
    fn provider_ids(&self) -> Option<String> {
        let wanted = &self.provider_ids;
        let all = self.permitted.provider_ids.iter().chain(wanted);
        (!wanted.is_empty()).then(|| field("providerIDs", all.cloned()))
    }

    /// Returns the field of `permissions` for the keys of annotations.
    fn domains(&self) -> Option<String> {
        let written =
            |range: &KeyRange| (!matches!(range, KeyRange::Named(_))).then(|| range.to_string());
        let wanted = self.annotations.iter();
        let wanted = wanted.map(|it| it.strip_suffix('/').unwrap_or(it).to_owned());
        let all = self.permitted.keys.iter().filter_map(written).chain(wanted);
        (!self.annotations.is_empty()).then(|| field("domains", all))
    }
}

/// Returns a field with a list, in YAML.
fn field(name: &str, values: impl Iterator<Item = String>) -> String {
    let is_plain = |text: &str| {
        text.bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-._:/+".contains(&b))
    };
    let values = values.map(|value| {
        if is_plain(&value) {
            value
        } else {
            serde_json::Value::from(value).to_string()
        }
    });
    format!("{name}: [{}]", values.collect::<Vec<_>>().join(", "))
}

impl fmt::Display for NotPermitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |what: &str, list: &[String]| {
            (!list.is_empty()).then(|| format!("{what} {}", list.iter().collect::<Names>()))
        };
        let wanted = [
            names("provider IDs", &self.provider_ids),
            names("annotations", &self.annotations),
        ];
        let fields = [self.provider_ids(), self.domains()];
        let listed = |list: [Option<String>; 2], between: &str| {
            list.into_iter().flatten().collect::<Vec<_>>().join(between)
        };
        write!(
            f,
            "it wants {}, which it is not permitted; to permit it, add to the plugin in the configuration file (--config): permissions: {{{}}}",
            listed(wanted, " and "),
            listed(fields, ", ")
        )
    }
}
