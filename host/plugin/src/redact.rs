//! Blots out of a plugin's words what stands in its configuration: operators keep secrets there, and a refusal goes to the log
//! and into an event.
//!
//! This is for plugins that quote without care. One that means to give a secret away can write it in another form.

use std::{collections::HashSet, net::IpAddr};

use ipnet::IpNet;
use skydock_cloud::AddressKind;

/// Bytes of the shortest value that is blotted out. Shorter ones are words of the language, and no secret worth the name.
const SHORTEST: usize = 8;

/// What stands in the place of a value.
const BLOT: &str = "[redacted]";

/// The message without the values of the configuration in it. The configuration's own path stays: it tells where to look.
pub(crate) fn redact(message: &str, config: &str, path: &str) -> String {
    if path.is_empty() {
        return blotted(message, config);
    }
    message.split(path).map(|piece| blotted(piece, config)).collect::<Vec<_>>().join(path)
}

fn blotted(message: &str, config: &str) -> String {
    let told: HashSet<&[u8]> = message.as_bytes().windows(SHORTEST).collect();
    let values = values(config).into_iter().flat_map(|value| value.as_bytes().windows(SHORTEST));
    let quoted: HashSet<&[u8]> = values.filter(|window| told.contains(window)).collect();
    let mut blot = vec![false; message.len()];
    for (start, window) in message.as_bytes().windows(SHORTEST).enumerate() {
        if quoted.contains(window) {
            blot.iter_mut().skip(start).take(SHORTEST).for_each(|byte| *byte = true);
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

/// The words of a configuration that are values: neither keys (before `:` or `=`) nor comments (from `#` on). Its form is not
/// known; YAML, JSON, TOML and INI have this much in common.
fn values(config: &str) -> Vec<&str> {
    let mut values = Vec::new();
    for line in config.lines() {
        let mut rest = line;
        while let Some(start) = rest.find(|c| !is_between(c)) {
            let (before, from) = rest.split_at(start);
            if from.starts_with('#') && (before.is_empty() || before.ends_with(char::is_whitespace)) {
                break;
            }
            let (word, after) = from.split_at(from.find(is_between).unwrap_or(from.len()));
            rest = after;
            let value = match word.split_once('=') {
                Some((_, value)) if !value.trim_matches('=').is_empty() => value,
                _ => word,
            };
            let is_key = after.trim_start_matches(['"', '\'', ' ', '\t']).starts_with([':', '='])
                || (word.ends_with(':') && value == word);
            if !is_key && !is_no_secret(value) {
                values.push(value);
            }
        }
    }
    values
}

/// Addresses, ranges of them and their kinds: what inventories are made of, and what their mistakes cannot be told without.
fn is_no_secret(value: &str) -> bool {
    let is_address = |text: &str| text.parse::<IpAddr>().is_ok();
    is_address(value)
        || value.parse::<IpNet>().is_ok()
        || value.split_once('-').is_some_and(|(first, last)| is_address(first) && is_address(last))
        || AddressKind::parse(value).is_some()
}

/// Stands between words.
fn is_between(c: char) -> bool {
    c.is_whitespace() || "\"'`,[]{}()".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_no_secrets() {
        let config =
            "a: [{type: InternalIP, address: 10.244.13.1}, 2001:db8::/64, '192.0.2.10-192.0.2.20', 172.16.9.hunter2]";
        let mistake = "InternalIP 10.244.13.1, 2001:db8::/64 and 192.0.2.10-192.0.2.20";
        assert_eq!(redact(mistake, config, ""), mistake);
        assert_eq!(redact("172.16.9.hunter2", config, ""), "[redacted]");
    }

    // Holds: SEC-15
    #[test]
    fn values_of_a_configuration_are_blotted_out_and_keys_stay() {
        let yaml = "# the password of prod\nusername: admin\npassword: hunter2hunter2 # changeme!\nlist: [one-long-value, 'x y']\n";
        let json = r#"{"password": "hunter2hunter2", "list": ["one-long-value"]}"#;
        let ini = "[global]\npassword=hunter2hunter2\nlist = one-long-value\n";
        for config in [yaml, json, ini] {
            let told = redact("c:3: password `hunter2hunter2` of one-long-values is changeme!", config, "");
            assert_eq!(told, "c:3: password `[redacted]` of [redacted]s is changeme!", "{config}");
        }
    }

    #[test]
    fn a_part_of_a_value_is_blotted_out_too() {
        let config = "url: https://user:s3cret-s3cret@host/path\ntoken: abcdefgh==\nshort: s3cr3t\n";
        let told = redact("cannot parse s3cret-s3cret, abcdefgh==, or s3cr3t", config, "");
        assert_eq!(told, "cannot parse [redacted], [redacted], or s3cr3t");
    }

    #[test]
    fn the_place_of_a_mistake_stays() {
        let config = "ca: /etc/kubernetes/pki/ca.crt\n";
        let told = redact(
            "/etc/kubernetes/cloud.yaml:1:5: no /etc/kubernetes/pki/ca.crt",
            config,
            "/etc/kubernetes/cloud.yaml",
        );
        assert_eq!(told, "/etc/kubernetes/cloud.yaml:1:5: no [redacted]");
    }

    #[test]
    fn text_of_any_kind_comes_out_whole() {
        for (message, config) in [("", ""), ("ä", "ä"), ("ääääää", "x: ääääää"), ("no config", "")] {
            let told = redact(message, config, "");
            assert!(told == message || told == BLOT, "{told}");
        }
    }
}
