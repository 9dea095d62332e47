//! What a component says about itself before any of its code runs: JSON in a custom section.
//!
//! It is a plugin's wish, not a fact. What counts is what the plugin answers when it is loaded, and
//! a component that then answers something else is rejected.

use serde::{Deserialize, Serialize};
use skydock_cloud::ProviderInfo;

use crate::load::{accepted::canonical, error::LoadProblem, info::Introduction};

/// Name of the custom section, of the component or of a module in it.
pub const SECTION: &str = "skydock:plugin";

/// Maximum bytes of the section.
const MOST: usize = 64 << 10;

/// What a component says about itself. `*` in a list stands for any text: what the configuration
/// decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// The plugin's own name.
    pub name: String,
    /// The plugin's own version.
    pub version: String,
    /// Prefixes of the provider IDs that it owns.
    pub provider_id_prefixes: Vec<String>,
    /// Prefixes of the annotation keys that it may write.
    pub annotation_prefixes: Vec<String>,
    /// Hosts that it requests.
    pub wanted_hosts: Vec<String>,
}

impl Metadata {
    /// Reads the content of the section. Fields of later versions are ignored.
    ///
    /// # Errors
    /// A sentence, if it is not valid.
    pub fn parse(section: &[u8]) -> Result<Self, String> {
        if section.len() > MOST {
            return Err(format!(
                "it has {} bytes, but at most {MOST} are allowed",
                section.len()
            ));
        }

        let metadata: Self = serde_json::from_slice(section).map_err(|error| error.to_string())?;
        if metadata.name.is_empty() {
            return Err("its name is missing".to_owned());
        }

        // Tools show them, and write them into files.
        for (field, list) in [
            ("providerIdPrefixes", &metadata.provider_id_prefixes),
            ("annotationPrefixes", &metadata.annotation_prefixes),
            ("wantedHosts", &metadata.wanted_hosts),
        ] {
            let is_plain = |it: &String| !it.is_empty() && it.bytes().all(|b| b.is_ascii_graphic());
            if !list.iter().all(is_plain) {
                return Err(format!(
                    "{field} has an item that is empty or has other characters than visible ASCII"
                ));
            }
        }

        Ok(metadata)
    }

    /// Checks that the loaded plugin says nothing else.
    ///
    /// # Errors
    /// [`LoadProblem::Undeclared`].
    pub(crate) fn agrees(&self, introduction: &Introduction) -> Result<(), LoadProblem> {
        let differences = self.differences(&introduction.provider, &introduction.wanted_hosts);
        if differences.is_empty() {
            Ok(())
        } else {
            Err(LoadProblem::Undeclared(differences.iter().collect()))
        }
    }

    /// Returns what the loaded plugin says that this does not.
    fn differences(&self, info: &ProviderInfo, hosts: &[String]) -> Vec<String> {
        let texts = [
            ("name", &self.name, &info.name),
            ("version", &self.version, &info.version),
        ];
        let texts = texts
            .into_iter()
            .filter(|(_, declared, actual)| declared != actual)
            .map(|(what, declared, actual)| format!("{what} {actual} instead of {declared}"));

        let wanted_hosts: Vec<_> = self.wanted_hosts.iter().map(|it| canonical(it)).collect();
        let lists = [
            (
                "provider IDs",
                &self.provider_id_prefixes,
                info.provider_id_prefixes.as_slice(),
            ),
            (
                "annotations",
                &self.annotation_prefixes,
                &info.annotation_prefixes,
            ),
            ("host", &wanted_hosts, hosts),
        ];

        let lists = lists.into_iter().flat_map(|(what, declared, actual)| {
            let surplus = actual
                .iter()
                .filter(|one| declared.iter().all(|pattern| !fits(pattern, one)));
            surplus.map(move |one| format!("{what} {one}"))
        });

        texts.chain(lists).collect()
    }
}

/// Returns true if a text fits a pattern, in which `*` stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };

    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let inner = text
        .strip_prefix(start)
        .and_then(|text| text.strip_suffix(end));
    let Some(mut inner) = inner else {
        return false;
    };

    // The first place of each part leaves the most text for the others.
    for part in middle.split('*') {
        let Some((_, after)) = inner.split_once(part) else {
            return false;
        };
        inner = after;
    }

    true
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_section_is_json_with_a_name() {
        let json = br#"{"name": "a", "version": "1", "providerIdPrefixes": ["a://"], "later": 1}"#;
        let read = Metadata::parse(json).unwrap();
        assert_eq!(
            (read.name.as_str(), read.provider_id_prefixes.as_slice()),
            ("a", &["a://".to_owned()][..])
        );
        for wrong in [&b"{}"[..], b"[", b"{\"name\": 1}", &vec![b' '; MOST + 1]] {
            assert!(Metadata::parse(wrong).is_err());
        }
        for field in ["providerIdPrefixes", "annotationPrefixes", "wantedHosts"] {
            for item in ["", "a b", "a\\nb", "a\\u0085b", "\u{e4}://"] {
                let json = format!(r#"{{"name": "a", "{field}": ["a://", "{item}"]}}"#);
                let error = Metadata::parse(json.as_bytes()).unwrap_err();
                assert!(error.starts_with(field), "{json}: {error}");
            }
        }
    }

    #[test]
    fn what_a_plugin_does_not_declare_is_a_difference() {
        let list = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let declared = Metadata {
            name: "a".into(),
            version: "1".into(),
            provider_id_prefixes: list(&["a://"]),
            annotation_prefixes: list(&["a.example/"]),
            wanted_hosts: list(&["https://*.a.example:443", "HTTPS://C.example:0443"]),
        };
        let info = |name: &str, prefix: &str| ProviderInfo {
            name: name.into(),
            version: "1".into(),
            provider_id_prefixes: list(&[prefix]),
            annotation_prefixes: Vec::new(),
            capabilities: BTreeSet::new(),
            max_batch: 1,
            driver: None,
        };
        for (info, hosts, differences) in [
            (info("a", "a://"), &["https://x.a.example:443"][..], &[][..]),
            (info("a", "a://"), &["https://c.example:443"], &[]),
            (info("b", "a://"), &[], &["name b instead of a"]),
            (info("a", "b://"), &[], &["provider IDs b://"]),
            (
                info("a", "a://"),
                &["https://x.a.example:443", "https://b.example:443"],
                &["host https://b.example:443"],
            ),
        ] {
            assert_eq!(declared.differences(&info, &list(hosts)), differences);
        }
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "x", true),
            ("a*c", "abbc", true),
            ("a*c", "ac", true),
            ("a*c", "abcd", false),
            ("a*b*c", "axbxc", true),
            ("a", "ab", false),
            ("ä*", "äö", true),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }
}
