//! Redacts secrets and values of the configuration from what a plugin writes: operators may keep
//! secrets there, and a rejection is logged and published as an event.
//!
//! This protects against plugins that quote carelessly. A plugin that discloses a secret on purpose
//! can encode it.

use std::{collections::HashSet, net::IpAddr, ops::Range, sync::Arc};

use ipnet::IpNet;
use skydock_cloud::{AddressKind, Pairs};
use skydock_secrets::{BLOT, secrets};

/// Minimum bytes of a value that is redacted. Shorter values are ordinary words.
const SHORTEST: usize = 8;

/// Minimum bytes of a secret that is redacted wherever it is a word of its own.
const SHORTEST_SECRET: usize = 4;

/// What may follow a value in a sentence.
const PUNCTUATION: [char; 5] = ['.', ':', ';', '!', '?'];

/// Some bytes of a secret. Where they occur, the secret is quoted at least in part.
type Part = [u8; SHORTEST];

/// What a configuration has that must not be quoted. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Redactor(Arc<Unquotable>);

#[derive(Default)]
struct Unquotable {
    /// Path of the configuration, which is kept, because it shows where to look.
    path: String,
    /// Whole values.
    values: HashSet<Box<str>>,
    /// Secrets that are too short to have parts.
    short: HashSet<Box<str>>,
    /// All parts of secrets.
    parts: HashSet<Part>,
}

impl Redactor {
    /// Finds the values of the configuration with this path and text, and the secrets in it and in
    /// these options.
    pub(crate) fn new(path: String, text: &str, options: &Pairs) -> Self {
        let Words { keys, values } = Words::of(text);
        let values = values
            .into_iter()
            .filter(|it| it.len() >= SHORTEST && !keys.contains(it) && !is_no_secret(it));

        let mut all = Unquotable {
            path,
            values: values.map(Into::into).collect(),
            ..Unquotable::default()
        };

        all.add_secrets(text);
        // With its name, which may say that the value is a secret.
        for (name, value) in options {
            all.add_secrets(&format!("{name}: {value}"));
        }

        Self(Arc::new(all))
    }

    /// Returns the message without secrets, and without values of the configuration.
    pub(crate) fn redact(&self, message: &str) -> String {
        self.blotted(message, true)
    }

    /// Returns the message without secrets.
    pub(crate) fn redact_secrets(&self, message: &str) -> String {
        self.blotted(message, false)
    }

    fn blotted(&self, message: &str, with_values: bool) -> String {
        // An empty text would split the message into its characters.
        if self.0.path.is_empty() {
            return self.blotted_beside_path(message, with_values);
        }

        message
            .split(&self.0.path)
            .map(|piece| self.blotted_beside_path(piece, with_values))
            .collect::<Vec<_>>()
            .join(&self.0.path)
    }

    fn blotted_beside_path(&self, message: &str, with_values: bool) -> String {
        let mut hidden = vec![false; message.len()];
        let mut hide = |range: Range<usize>| {
            if let Some(part) = hidden.get_mut(range) {
                part.fill(true);
            }
        };

        // What looks like a secret, wherever the plugin has it from.
        skydock_secrets::certain(message).for_each(&mut hide);

        for (start, part) in message.as_bytes().windows(SHORTEST).enumerate() {
            let is_part = |part: &Part| self.0.parts.contains(part);
            if part.first_chunk().is_some_and(is_part) {
                hide(start..start + SHORTEST);
            }
        }

        for word in words(message) {
            let text = message.get(word.clone()).unwrap_or_default();

            // The value may follow `key=`, or end a sentence.
            let assigned = text.find('=').map_or(word.start, |at| word.start + at + 1);
            let least = word.start + text.trim_end_matches(PUNCTUATION).len();

            let quotes = [word.start, assigned]
                .into_iter()
                .flat_map(|start| [start..word.end, start..least]);
            let is_hidden = |text: &str| {
                self.0.short.contains(text) || with_values && self.0.values.contains(text)
            };

            quotes
                .filter(|it| message.get(it.clone()).is_some_and(is_hidden))
                .for_each(&mut hide);
        }

        shown(message, &hidden)
    }
}

impl Unquotable {
    fn add_secrets(&mut self, text: &str) {
        for found in secrets(text) {
            let secret = text.get(found.range).unwrap_or_default().trim();
            if (SHORTEST_SECRET..SHORTEST).contains(&secret.len()) {
                self.short.insert(secret.into());
            }

            let parts = secret.as_bytes().windows(SHORTEST);
            self.parts.extend(parts.filter_map(<[u8]>::first_chunk));
        }
    }
}

/// Returns the message with one blot for each range that is hidden.
fn shown(message: &str, hidden: &[bool]) -> String {
    let mut text = String::with_capacity(message.len());
    let mut within = false;

    for (at, c) in message.char_indices() {
        let is_hidden = hidden.iter().skip(at).take(c.len_utf8()).any(|it| *it);
        if !is_hidden {
            text.push(c);
        } else if !within {
            text.push_str(BLOT);
        }
        within = is_hidden;
    }

    text
}

/// The words of a configuration. The format is not known, but YAML, JSON, TOML and INI have in
/// common what is a key (before `:` or `=`), a section (in brackets) and a comment (after `#`).
#[derive(Default)]
struct Words<'a> {
    /// Keys, and names of sections.
    keys: HashSet<&'a str>,
    values: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn of(config: &'a str) -> Self {
        let mut all = Self::default();

        for line in config.lines() {
            match section(line) {
                Some(name) => {
                    let names = words(name).filter_map(|it| name.get(it));
                    all.keys.extend(names);
                }
                None => all.add(line),
            }
        }

        all
    }

    fn add(&mut self, line: &'a str) {
        for range in words(line) {
            let (Some(word), Some(before), Some(after)) = (
                line.get(range.clone()),
                line.get(..range.start),
                line.get(range.end..),
            ) else {
                continue;
            };

            // Within a word, `#` begins no comment.
            if word.starts_with('#') && (before.is_empty() || before.ends_with(char::is_whitespace))
            {
                return;
            }

            let (key, value) = match word.split_once('=') {
                Some((key, value)) if !value.trim_matches('=').is_empty() => (key, value),
                _ => ("", word),
            };

            let is_key = after
                .trim_start_matches(['"', '\'', ' ', '\t'])
                .starts_with([':', '='])
                || (word.ends_with(':') && value == word);

            if is_key {
                self.keys.insert(word.trim_end_matches(':'));
            } else {
                self.keys.insert(key);
                self.values.push(value);
            }
        }
    }
}

/// Returns what is between the brackets of a line that begins a section of INI or TOML.
fn section(line: &str) -> Option<&str> {
    let name = line.trim_start().strip_prefix('[')?;
    let (name, rest) = name.split_once(']')?;
    let rest = rest.trim_start_matches(']').trim_start();
    let is_alone = rest.is_empty() || rest.starts_with(['#', ';']);
    (is_alone && !name.contains([',', ':'])).then_some(name)
}

fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text.get(at..)?.find(|c| !is_between(c))?;
        let rest = text.get(start..)?;
        at = start + rest.find(is_between).unwrap_or(rest.len());
        Some(start..at)
    })
}

/// Returns true for what errors cannot be described without: plain words, which are names and
/// choices; and addresses, their ranges and kinds, of which inventories consist.
fn is_no_secret(value: &str) -> bool {
    let is_address = |text: &str| text.parse::<IpAddr>().is_ok();

    value.bytes().all(|b| b.is_ascii_alphabetic())
        || is_address(value)
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

    fn redact(message: &str, config: &str, path: &str) -> String {
        Redactor::new(path.to_owned(), config, &Pairs::new()).redact(message)
    }

    // Holds: SEC-51
    #[test]
    fn secrets_of_options_are_redacted_and_other_values_only_if_asked() {
        let options = [
            ("db_password", "Opt10nPassw0rdQQ"),
            ("pin_password", "4711x"),
            ("zone", "north-4"),
        ];
        let options = options.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let redactor = Redactor::new(String::new(), "network: net-00010002", &options.into());
        let message = "no net-00010002 in north-4 for n0tOpt10nPassw0rdQQ, 4711x";

        assert_eq!(
            redactor.redact(message),
            "no [redacted] in north-4 for n0t[redacted], [redacted]"
        );
        assert_eq!(
            redactor.redact_secrets(message),
            "no net-00010002 in north-4 for n0t[redacted], [redacted]"
        );
    }

    #[test]
    fn addresses_are_not_redacted() {
        let config = "a: [{type: InternalIP, address: 10.244.13.1}, 2001:db8::/64, '192.0.2.10-192.0.2.20', 172.16.9.hunter2]";
        let mistake = "InternalIP 10.244.13.1, 2001:db8::/64 and 192.0.2.10-192.0.2.20";
        assert_eq!(redact(mistake, config, ""), mistake);
        assert_eq!(redact("172.16.9.hunter2", config, ""), "[redacted]");
    }

    // Holds: SEC-51
    #[test]
    fn configuration_values_are_redacted_but_not_keys() {
        let yaml = "# the password of prod\nusername: admin\npassword: hunter2hunter2 # changeme!\nlist: [one-long-value, 'x y']\n";
        let json = r#"{"password": "hunter2hunter2", "list": ["one-long-value"]}"#;
        let ini = "[global]\npassword=hunter2hunter2\nlist = one-long-value\n";
        for config in [yaml, json, ini] {
            let told = redact(
                "c:3: password `hunter2hunter2` of one-long-value: list=one-long-value is changeme!",
                config,
                "",
            );
            assert_eq!(
                told, "c:3: password `[redacted]` of [redacted]: list=[redacted] is changeme!",
                "{config}"
            );
        }
    }

    #[test]
    fn sections_keys_and_words_of_the_error_are_kept() {
        let config = "[Global]\nos-endpoint-type=internalURL\n[LoadBalancer] # ours\nnode-security-group=nsg-1234567\n\
                      [LoadBalancerClass \"internal\"]\nfloating-network-id=node-security-group\n[Metadata]\nsearch-order=\"configDrive,metadataService\"\n";
        for message in [
            "cloud.conf: line 4: unknown setting `node-security-group` in section `[LoadBalancer]`",
            "`os-endpoint-type`: expected `public`, `internal` or `admin`",
            "`search-order`: expected one or both of configDrive and metadataService",
            "section [LoadBalancerClass \"internal\"] has no `floating-network-id`",
        ] {
            assert_eq!(redact(message, config, ""), message);
        }
        assert_eq!(
            redact("`nsg-1234567` is not a valid ID", config, ""),
            "`[redacted]` is not a valid ID"
        );
    }

    // Holds: SEC-51
    #[test]
    fn parts_of_a_secret_are_redacted_too() {
        let config = "url: https://user:s3cret-s3cret@host/path\ntoken: abcdefgh==\nshort: s3cr3t\npin-password: hunter\n";
        let told = redact(
            "cannot parse s3cret-s3cr, (abcdefgh==), s3cr3t, hunter or hunters",
            config,
            "",
        );
        assert_eq!(
            told,
            "cannot parse [redacted], ([redacted]), s3cr3t, [redacted] or hunters"
        );
    }

    // Holds: SEC-51
    #[test]
    fn secrets_that_are_not_in_the_configuration_are_redacted() {
        assert_eq!(
            redact("sent Authorization: Bearer abc.def", "region: north", ""),
            "sent Authorization: [redacted]"
        );
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
