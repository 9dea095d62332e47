//! Redacts values of the configuration from a plugin's messages: operators may keep secrets there,
//! and a rejection is logged and published as an event.
//!
//! This protects against plugins that quote carelessly. A plugin that discloses a secret on purpose
//! can encode it.

use std::{collections::HashSet, net::IpAddr};

use ipnet::IpNet;
use skydock_cloud::AddressKind;

/// Minimum bytes of a value that is redacted. Shorter values are ordinary words, and too short for
/// a secret.
const SHORTEST: usize = 8;

/// Replacement for a value.
const BLOT: &str = "[redacted]";

/// Returns the message without values of the configuration. The path of the configuration is kept,
/// because it shows where to look.
pub(crate) fn redact(message: &str, config: &str, path: &str) -> String {
    if path.is_empty() {
        return blotted(message, config);
    }
    message
        .split(path)
        .map(|piece| blotted(piece, config))
        .collect::<Vec<_>>()
        .join(path)
}

fn blotted(message: &str, config: &str) -> String {
    let told: HashSet<&[u8]> = message.as_bytes().windows(SHORTEST).collect();
    let values = values(config)
        .into_iter()
        .flat_map(|value| value.as_bytes().windows(SHORTEST));
    let quoted: HashSet<&[u8]> = values.filter(|window| told.contains(window)).collect();
    let mut blot = vec![false; message.len()];
    for (start, window) in message.as_bytes().windows(SHORTEST).enumerate() {
        if quoted.contains(window) {
            blot.iter_mut()
                .skip(start)
                .take(SHORTEST)
                .for_each(|byte| *byte = true);
        }
    }
    let mut text = String::with_capacity(message.len());
    let mut within = false;
    for (at, c) in message.char_indices() {
        let hidden = blot.iter().skip(at).take(c.len_utf8()).any(|byte| *byte);
        if !hidden {
            text.push(c);
        } else if !within {
            text.push_str(BLOT);
        }
        within = hidden;
    }
    text
}

/// Returns the words of a configuration that are values: neither keys (before `:` or `=`) nor
/// comments (after `#`). The format is not known, but YAML, JSON, TOML and INI have this in common.
fn values(config: &str) -> Vec<&str> {
    let mut values = Vec::new();
    for line in config.lines() {
        let mut rest = line;
        while let Some(start) = rest.find(|c| !is_between(c)) {
            let (before, from) = rest.split_at(start);
            if from.starts_with('#') && (before.is_empty() || before.ends_with(char::is_whitespace))
            {
                break;
            }
            let (word, after) = from.split_at(from.find(is_between).unwrap_or(from.len()));
            rest = after;
            let value = match word.split_once('=') {
                Some((_, value)) if !value.trim_matches('=').is_empty() => value,
                _ => word,
            };
            let is_key = after
                .trim_start_matches(['"', '\'', ' ', '\t'])
                .starts_with([':', '='])
                || (word.ends_with(':') && value == word);
            if !is_key && !is_no_secret(value) {
                values.push(value);
            }
        }
    }
    values
}

/// Returns true for addresses, address ranges and address kinds: inventories consist of them, and
/// errors in them cannot be described without them.
fn is_no_secret(value: &str) -> bool {
    let is_address = |text: &str| text.parse::<IpAddr>().is_ok();
    is_address(value)
        || value.parse::<IpNet>().is_ok()
        || value
            .split_once('-')
            .is_some_and(|(first, last)| is_address(first) && is_address(last))
        || AddressKind::parse(value).is_some()
}

/// Returns true for characters between words.
fn is_between(c: char) -> bool {
    c.is_whitespace() || "\"'`,[]{}()".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_not_redacted() {
        let config = "a: [{type: InternalIP, address: 10.244.13.1}, 2001:db8::/64, '192.0.2.10-192.0.2.20', 172.16.9.hunter2]";
        let mistake = "InternalIP 10.244.13.1, 2001:db8::/64 and 192.0.2.10-192.0.2.20";
        assert_eq!(redact(mistake, config, ""), mistake);
        assert_eq!(redact("172.16.9.hunter2", config, ""), "[redacted]");
    }

    // Holds: SEC-15
    #[test]
    fn configuration_values_are_redacted_but_not_keys() {
        let yaml = "# the password of prod\nusername: admin\npassword: hunter2hunter2 # changeme!\nlist: [one-long-value, 'x y']\n";
        let json = r#"{"password": "hunter2hunter2", "list": ["one-long-value"]}"#;
        let ini = "[global]\npassword=hunter2hunter2\nlist = one-long-value\n";
        for config in [yaml, json, ini] {
            let told = redact(
                "c:3: password `hunter2hunter2` of one-long-values is changeme!",
                config,
                "",
            );
            assert_eq!(
                told, "c:3: password `[redacted]` of [redacted]s is changeme!",
                "{config}"
            );
        }
    }

    #[test]
    fn parts_of_a_value_are_redacted_too() {
        let config =
            "url: https://user:s3cret-s3cret@host/path\ntoken: abcdefgh==\nshort: s3cr3t\n";
        let told = redact(
            "cannot parse s3cret-s3cret, abcdefgh==, or s3cr3t",
            config,
            "",
        );
        assert_eq!(told, "cannot parse [redacted], [redacted], or s3cr3t");
    }

    #[test]
    fn the_position_of_an_error_is_not_redacted() {
        let config = "ca: /etc/kubernetes/pki/ca.crt\n";
        let told = redact(
            "/etc/kubernetes/cloud.yaml:1:5: no /etc/kubernetes/pki/ca.crt",
            config,
            "/etc/kubernetes/cloud.yaml",
        );
        assert_eq!(told, "/etc/kubernetes/cloud.yaml:1:5: no [redacted]");
    }

    #[test]
    fn redacts_non_ascii_text_completely_or_not_at_all() {
        for (message, config) in [
            ("", ""),
            ("ä", "ä"),
            ("ääääää", "x: ääääää"),
            ("no config", ""),
        ] {
            let told = redact(message, config, "");
            assert!(told == message || told == BLOT, "{told}");
        }
    }
}
