//! What a plugin wants and is not permitted, and the lines that would permit it.

use std::fmt;

use skydock_cloud::text::{SENTENCE, beginning};

use super::{Permissions, keys::KeyRange};
use crate::words::text::Names;

/// What a plugin wants to own, although it is not permitted. Displays the lines that permit it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotPermitted {
    wanted: String,
    /// The fields of `permissions`, in YAML.
    fields: String,
}

impl NotPermitted {
    /// Creates an error about these prefixes of provider IDs and of the keys of annotations.
    pub(super) fn new(
        permitted: &Permissions,
        provider_ids: &[String],
        annotations: &[String],
    ) -> Self {
        let names = |what: &str, list: &[String]| {
            (!list.is_empty()).then(|| format!("{what} {}", list.iter().collect::<Names>()))
        };

        let wanted = [
            names("provider IDs", provider_ids),
            names("annotations", annotations),
        ];

        // A list in the file replaces the default, so it has to repeat what is permitted.
        let ids = permitted.provider_ids.iter().chain(provider_ids).cloned();
        let ranges = permitted
            .keys
            .iter()
            // An operator cannot write such a range.
            .filter(|range| !matches!(range, KeyRange::Named(_)));
        let prefixes = annotations
            .iter()
            .map(|prefix| prefix.strip_suffix('/').unwrap_or(prefix).to_owned());
        let domains = ranges.map(ToString::to_string).chain(prefixes);

        let fields = [
            (!provider_ids.is_empty()).then(|| field("providerIDs", ids)),
            (!annotations.is_empty()).then(|| field("domains", domains)),
        ];

        let listed = |list: [Option<String>; 2], between: &str| {
            list.into_iter().flatten().collect::<Vec<_>>().join(between)
        };

        Self {
            wanted: listed(wanted, " and "),
            fields: beginning(&listed(fields, ", "), SENTENCE).into_owned(),
        }
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

impl std::error::Error for NotPermitted {}

impl fmt::Display for NotPermitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, fields } = self;
        write!(
            f,
            "it wants {wanted}, which it is not permitted; to permit it, add to the plugin in the configuration file (--config): permissions: {{{fields}}}"
        )
    }
}
