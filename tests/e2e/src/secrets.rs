//! Searches for leaked secrets: in the output and the API objects of a host, and in the memory of
//! its guests.

mod memory;

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose};
use ring::hmac;
use skydock_support::Host;

use crate::{cluster::Cluster, hosts::Hosts, site::Plugin};

/// The services that requests are signed for.
const SERVICES: [&str; 2] = ["ec2", "elasticloadbalancing"];

/// Secrets of the host, in all encodings in which they may leak.
#[derive(Debug, Default)]
pub struct Secrets {
    /// The name and the bytes of each encoded secret.
    forms: Vec<(String, Vec<u8>)>,
}

/// A place that must not contain secrets.
#[derive(Debug)]
pub struct Place {
    /// The name of the place.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl Place {
    /// Creates a place with this name and content.
    pub fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.into(),
            bytes: bytes.into(),
        }
    }
}

impl Secrets {
    /// Adds a secret, unchanged and in several encodings.
    pub fn add(&mut self, what: &str, secret: &str) {
        let percent = |b: u8| {
            if b.is_ascii_alphanumeric() {
                char::from(b).to_string()
            } else {
                format!("%{b:02X}")
            }
        };
        let percent: String = secret.bytes().map(percent).collect();
        let wide: Vec<u8> = secret.bytes().flat_map(|byte| [byte, 0]).collect();
        let forms = [
            ("plain", secret.as_bytes().to_vec()),
            (
                "in base64",
                general_purpose::STANDARD_NO_PAD.encode(secret).into_bytes(),
            ),
            (
                "in base64 of URLs",
                general_purpose::URL_SAFE_NO_PAD.encode(secret).into_bytes(),
            ),
            ("in hexadecimal", hex::encode(secret).into_bytes()),
            ("percent-encoded", percent.into_bytes()),
            ("in UTF-16", wide),
        ];
        for (form, bytes) in forms {
            if !self.forms.iter().any(|(_, known)| *known == bytes) {
                self.forms.push((format!("{what}, {form}"), bytes));
            }
        }
    }

    /// Adds bytes without encodings.
    pub fn add_bytes(&mut self, what: &str, secret: &[u8]) {
        self.forms.push((what.to_owned(), secret.to_vec()));
    }

    /// Adds the secret of an AWS access key, and the signing keys derived from it for today and
    /// tomorrow.
    pub fn add_access_key(&mut self, secret: &str, region: &str) {
        self.add("secret access key", secret);
        for day in [
            jiff::Timestamp::now(),
            jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24),
        ] {
            let day = day.strftime("%Y%m%d").to_string();
            let step = |key: &[u8], word: &str| {
                hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), word.as_bytes())
                    .as_ref()
                    .to_vec()
            };
            let dated = step(format!("AWS4{secret}").as_bytes(), &day);
            let regional = step(&dated, region);
            let mut keys = vec![dated, regional.clone()];
            for service in SERVICES {
                let key = step(&regional, service);
                keys.extend([step(&key, "aws4_request"), key]);
            }
            for key in keys {
                let hexadecimal = hex::encode(&key).into_bytes();
                self.forms
                    .push(("signing key in hexadecimal".to_owned(), hexadecimal));
                self.forms.push(("signing key".to_owned(), key));
            }
        }
    }

    /// Returns the number of encoded secrets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.forms.len()
    }

    /// Returns true if there are no secrets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Returns the names of the secrets found in these bytes, but not the secrets themselves.
    #[must_use]
    pub fn found_in(&self, bytes: &[u8]) -> Vec<&str> {
        // An index by the first two bytes, because most positions cannot be the start of a secret.
        let mut begins = vec![Vec::new(); 1 << 16];
        for (what, form) in &self.forms {
            if let [first, second, ..] = form.as_slice()
                && let Some(begin) =
                    begins.get_mut(usize::from(u16::from_be_bytes([*first, *second])))
            {
                begin.push((what.as_str(), form.as_slice()));
            }
        }
        let mut found = Vec::new();
        for (at, pair) in bytes.windows(2).enumerate() {
            let [first, second] = pair else { continue };
            let candidates = begins.get(usize::from(u16::from_be_bytes([*first, *second])));
            for (what, form) in candidates.into_iter().flatten() {
                if bytes.get(at..).is_some_and(|rest| rest.starts_with(form))
                    && !found.contains(what)
                {
                    found.push(*what);
                }
            }
        }
        found
    }

    /// Searches all of these places.
    ///
    /// # Errors
    /// Returns the names of the secrets found and their places.
    pub fn are_not_in(&self, places: &[Place]) -> Result<()> {
        let mut found = Vec::new();
        for Place { name, bytes } in places {
            found.extend(
                self.found_in(bytes)
                    .into_iter()
                    .map(|what| format!("{name} has a {what}")),
            );
        }
        ensure!(found.is_empty(), "{}", found.join("\n"));
        Ok(())
    }
}

/// Stops the host and searches for secrets in all that it has shown. Returns its memory.
///
/// # Errors
/// Fails if something cannot be read, if a place is almost empty, or if it has a secret in it.
pub(crate) async fn shown_nowhere(
    host: Host,
    hosts: &Hosts,
    cluster: &Cluster,
    secrets: &[String],
) -> Result<String> {
    let scrape = host.scrape().await?;
    let peak = scrape.sum("skydock_plugin_memory_peak_bytes", &[]) / f64::from(1 << 20);
    let (metrics, resident) = (scrape.text().to_owned(), host.resident()? >> 20);
    Hosts::stop(host).await?;
    for (place, text) in [
        ("log", hosts.logs()?),
        ("metrics", metrics),
        ("API", cluster.everything().await?),
    ] {
        ensure!(text.len() > 1000, "{place} is all but empty");
        ensure!(
            !secrets.iter().any(|secret| text.contains(secret)),
            "{place} has a secret in it"
        );
    }
    Ok(format!(
        "neither log nor metrics nor API; instance {peak:.1} MiB, host {resident} MiB"
    ))
}

/// Stops the host and returns all places where its secrets could be visible, including the memory
/// of its guests. `guests_know` are words of which at least one must be in the memory of a guest,
/// to check that it was identified correctly.
///
/// # Errors
/// Fails if something cannot be read, if a place is almost empty, or if the host's own memory has
/// none of the secrets, because then the search itself may not work.
pub async fn places(
    host: Host,
    hosts: &Hosts,
    cluster: &Cluster,
    secrets: &Secrets,
    guests_know: &[&str],
) -> Result<Vec<Place>> {
    let metrics = host.scrape().await?.text().to_owned();
    let memory = memory::read(host.id())?;
    Hosts::stop(host).await?;
    let mut known = Secrets::default();
    for word in guests_know {
        known.add("word", word);
    }
    ensure!(
        !known.found_in(&memory.guests).is_empty(),
        "no guest has {guests_know:?} in its memory: {memory:?}"
    );
    ensure!(
        !secrets.found_in(&memory.host).is_empty(),
        "the host itself has no secret in its memory: {memory:?}"
    );
    let places = vec![
        Place::new("log", hosts.logs()?),
        Place::new("metrics", metrics),
        Place::new("API", cluster.everything().await?),
        Place::new("plugin cache", files(&Plugin::compiled()?)?),
        Place::new("memory of the guests", memory.guests),
    ];
    for place in &places {
        ensure!(place.bytes.len() > 1000, "{} is all but empty", place.name);
    }
    Ok(places)
}

/// Returns the paths and contents of all files in a directory.
fn files(dir: &Path) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        all.extend(path.display().to_string().into_bytes());
        if path.is_dir() {
            all.extend(files(&path)?);
        } else {
            // Another host may delete it in the meantime.
            all.extend(fs::read(&path).unwrap_or_default());
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_in_every_encoding() {
        let mut secrets = Secrets::default();
        secrets.add("password", "s3cret/word+1");
        for text in [
            "a s3cret/word+1",
            "x=s3cret%2Fword%2B1&",
            "czNjcmV0L3dvcmQrMQ==",
            "7333637265742f776f72642b31",
        ] {
            let error = secrets
                .are_not_in(&[Place::new("log", text)])
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with("log has a password") && !error.contains("s3cret"),
                "{text}: {error}"
            );
        }
        secrets
            .are_not_in(&[
                Place::new("log", "s3cret/word+2"),
                Place::new("nothing", ""),
            ])
            .unwrap();
    }

    #[test]
    fn derived_signing_keys_are_found_too() {
        let mut secrets = Secrets::default();
        secrets.add_access_key("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1");
        // For today and tomorrow: one key for the date, one for the region, and two for each
        // service, each in two encodings.
        assert_eq!(
            secrets
                .forms
                .iter()
                .filter(|(what, _)| what.starts_with("signing key"))
                .count(),
            2 * 6 * 2
        );
        let last = secrets.forms.last().unwrap().1.clone();
        assert_eq!(
            secrets.found_in(&[b"....".to_vec(), last].concat()),
            ["signing key"]
        );
    }
}
