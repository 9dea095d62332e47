//! All options: which are supported, and why others of the official provider are rejected.

use std::collections::BTreeMap;

use regex_lite::Regex;
use skydock_gcfg::{Entry, boolean};

use super::{Family, SharedProbe, problem::Problem};
use crate::client::endpoint::{Endpoint, Override, Url};

/// The options of `[Global]` in lower case: gcfg ignores case.
const GLOBAL: &[&str] = &[
    "zone",
    "region",
    "vpc",
    "subnetid",
    "routetableid",
    "kubernetesclustertag",
    "kubernetesclusterid",
    "disablesecuritygroupingress",
    "elbsecuritygroup",
    "nodeipfamilies",
    "clusterserviceloadbalancerhealthprobemode",
    "clusterservicesharedloadbalancerhealthprobeport",
    "clusterservicesharedloadbalancerhealthprobepath",
    "supportedtopologyinstancetypepattern",
    "nlbsecuritygroupmode",
    // Accepted for old files and ignored: the official provider removed it in v1.28.
    "disablestrictzonecheck",
    "endpoint",
    "volumes",
];

/// The options of `[Global]` that may have no value, which means true.
const FLAGS: [&str; 3] = [
    "disablesecuritygroupingress",
    "disablestrictzonecheck",
    "volumes",
];

/// The options of `[ServiceOverride "…"]`.
const OVERRIDE: &[&str] = &[
    "service",
    "region",
    "url",
    "signingregion",
    "signingmethod",
    "signingname",
];

/// Those that a `ServiceOverride` must have.
const REQUIRED: [&str; 4] = ["service", "region", "url", "signingregion"];

/// The options of a `ServiceOverride` by lower-case name, each with its line.
type OverrideOptions = BTreeMap<String, (usize, String)>;

/// Options by lower-case name, each with its line, or `None` for an option of the plugin.
#[derive(Debug, Default)]
pub(super) struct Raw {
    global: BTreeMap<String, (Option<usize>, Vec<String>)>,
    overrides: BTreeMap<String, OverrideOptions>,
}

impl Raw {
    /// Sorts the entries and rejects unknown ones.
    pub(super) fn read(text: &str, given: &[(String, String)]) -> Result<Self, Problem> {
        let file = skydock_gcfg::parse(text);
        if let Some(problem) = file.problems.first() {
            return Err(Problem::at(Some(problem.line), problem.to_string()));
        }

        let mut raw = Self::default();
        for entry in file.entries {
            raw.add(entry)?;
        }

        for (key, value) in given {
            let name = key.to_ascii_lowercase();
            known_global(&name, key, None)?;
            // In the file, the option has one line for each family. An option of the plugin is a
            // list.
            let values = if name == "nodeipfamilies" {
                value
                    .split(',')
                    .map(|part| part.trim().to_owned())
                    .collect()
            } else {
                vec![value.clone()]
            };
            raw.global.insert(name, (None, values));
        }

        Ok(raw)
    }

    /// Adds an entry of the file.
    fn add(&mut self, entry: Entry) -> Result<(), Problem> {
        let line = entry.lines.start;
        // The header of a section sets nothing.
        let Some(key) = entry.key else {
            return Ok(());
        };

        let problem = |reason: String| Problem::at(Some(line), reason);
        let name = key.to_ascii_lowercase();
        let no_value = || problem(format!("{key} has no value"));

        match entry.section.to_ascii_lowercase().as_str() {
            "global" if entry.subsection.is_empty() => {
                known_global(&name, &key, Some(line))?;
                self.add_global(name, line, entry.value)
                    .ok_or_else(no_value)?;
            }
            "global" => return Err(problem("section [Global] has no subsections".to_owned())),
            "serviceoverride" if OVERRIDE.contains(&name.as_str()) => {
                let value = entry.value.ok_or_else(no_value)?;
                self.overrides
                    .entry(entry.subsection)
                    .or_default()
                    .insert(name, (line, value));
            }
            "serviceoverride" => {
                return Err(problem(format!(
                    "unknown option {key} of a ServiceOverride"
                )));
            }
            _ => return Err(problem(format!("unknown section [{}]", entry.section))),
        }
        Ok(())
    }

    /// Adds an option of `[Global]`. Returns `None` if it must have a value and has none.
    fn add_global(&mut self, name: String, line: usize, value: Option<String>) -> Option<()> {
        let is_flag = FLAGS.contains(&name.as_str());
        let is_list = name == "nodeipfamilies";
        let (_, values) = self.global.entry(name).or_insert((Some(line), Vec::new()));
        match value {
            Some(value) => values.push(value),
            None if is_flag => values.push("true".to_owned()),
            // As in gcfg, this removes the values before it.
            None if is_list => values.clear(),
            None => return None,
        }
        Some(())
    }

    /// Returns the last value of an option, or `None` if it is missing or empty.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let (_, values) = self.global.get(name)?;
        values
            .last()
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
    }

    fn problem(&self, name: &str, reason: impl Into<String>) -> Problem {
        Problem::at(self.global.get(name).and_then(|(line, _)| *line), reason)
    }

    /// Returns a boolean, with the values that gcfg accepts.
    pub(super) fn flag(&self, name: &str) -> Result<bool, Problem> {
        let Some(text) = self.text(name) else {
            return Ok(false);
        };
        boolean(Some(&text))
            .ok_or_else(|| self.problem(name, format!("{name} must be true or false")))
    }

    /// Returns `Region`, or the region of `Zone`.
    pub(super) fn region(&self) -> Result<String, Problem> {
        let region = match self.text("zone") {
            Some(zone) => {
                region_of(&zone).ok_or_else(|| self.problem("zone", "Zone is not a valid availability zone"))?
            }
            None => self.text("region").ok_or_else(|| {
                Problem::at(
                    None,
                    "the region is missing: set Region in section [Global], or the plugin option region; \
                     Skydock reads it from the metadata service of an instance only if the plugin is named aws and has a \
                     credential with the source imds",
                )
            })?,
        };

        // The region becomes part of host names.
        let plain = region
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-');
        if plain {
            Ok(region)
        } else {
            Err(self.problem(
                "region",
                "Region is not a valid region; expected for example eu-west-1",
            ))
        }
    }

    /// Returns `KubernetesClusterTag`, or otherwise `KubernetesClusterID`.
    pub(super) fn cluster_id(&self) -> Result<Option<String>, Problem> {
        match (
            self.text("kubernetesclustertag"),
            self.text("kubernetesclusterid"),
        ) {
            (Some(tag), Some(id)) if tag != id => Err(self.problem(
                "kubernetesclustertag",
                "KubernetesClusterTag and KubernetesClusterID are different: set only one",
            )),
            (tag, id) => Ok(tag.or(id)),
        }
    }

    /// Returns `NodeIPFamilies`.
    pub(super) fn families(&self) -> Result<Vec<Family>, Problem> {
        let values = self
            .global
            .get("nodeipfamilies")
            .map_or(&[][..], |(_, values)| values);

        let mut families = Vec::new();
        for value in values {
            families.push(match value.trim() {
                "ipv4" => Family::V4,
                "ipv6" => Family::V6,
                _ => {
                    return Err(self.problem(
                        "nodeipfamilies",
                        "NodeIPFamilies must be ipv4 or ipv6, one line for each",
                    ));
                }
            });
        }

        if families.is_empty() {
            families.push(Family::V4);
        }
        Ok(families)
    }

    /// Returns `ClusterServiceLoadBalancerHealthProbeMode` and the options that belong to it.
    pub(super) fn shared_probe(&self) -> Result<Option<SharedProbe>, Problem> {
        let mode = "clusterserviceloadbalancerhealthprobemode";
        match self.text(mode).as_deref() {
            None | Some("ServiceNodePort") => return Ok(None),
            Some("Shared") => {}
            Some(_) => {
                let reason =
                    "ClusterServiceLoadBalancerHealthProbeMode must be Shared or ServiceNodePort";
                return Err(self.problem(mode, reason));
            }
        }

        let name = "clusterservicesharedloadbalancerhealthprobeport";
        let port = match self.text(name).as_deref() {
            // The default of kube-proxy.
            None | Some("0") => 10256,
            Some(text) => text.parse().map_err(|_| {
                self.problem(
                    name,
                    "ClusterServiceSharedLoadBalancerHealthProbePort is not a valid port",
                )
            })?,
        };

        let path = self
            .text("clusterservicesharedloadbalancerhealthprobepath")
            .unwrap_or_else(|| "/healthz".into());
        Ok(Some(SharedProbe { port, path }))
    }

    /// Returns `SupportedTopologyInstanceTypePattern`.
    pub(super) fn pattern(&self, default: &str) -> Result<String, Problem> {
        let name = "supportedtopologyinstancetypepattern";
        let pattern = self.text(name).unwrap_or_else(|| default.to_owned());
        match Regex::new(&pattern) {
            Ok(_) => Ok(pattern),
            Err(_) => Err(self.problem(
                name,
                "SupportedTopologyInstanceTypePattern is not a valid regular expression",
            )),
        }
    }

    /// Returns whether `NLBSecurityGroupMode` is `Managed`.
    pub(super) fn nlb_groups_managed(&self) -> Result<bool, Problem> {
        match self.text("nlbsecuritygroupmode").as_deref() {
            None => Ok(false),
            Some("Managed") => Ok(true),
            Some(_) => Err(self.problem(
                "nlbsecuritygroupmode",
                "NLBSecurityGroupMode must be Managed or unset",
            )),
        }
    }

    /// Returns the configured endpoints, in the order in which they apply.
    pub(super) fn overrides(&self) -> Result<Vec<Override>, Problem> {
        let mut all: Vec<Override> = Vec::new();
        for (number, options) in &self.overrides {
            let (line, new) = service_override(number, options)?;
            let is_same =
                |other: &Override| other.service == new.service && other.region == new.region;
            if all.iter().any(is_same) {
                return Err(Problem::at(
                    line,
                    format!("ServiceOverride {number} has the same service as another one"),
                ));
            }
            all.push(new);
        }

        // The options of the plugin take precedence over the file, so this one applies last.
        if let Some(url) = self.text("endpoint") {
            all.extend(self.endpoint(&url)?);
        }
        Ok(all)
    }

    /// Returns the overrides for the plugin's option `endpoint`.
    fn endpoint(&self, url: &str) -> Result<[Override; 2], Problem> {
        let region = self.region()?;
        let endpoint = Endpoint {
            url: checked(url, None)?,
            signing_region: region.clone(),
            signing_name: String::new(),
        };
        Ok(["ec2", "elasticloadbalancing"].map(|service| Override {
            service: service.into(),
            region: region.clone(),
            endpoint: endpoint.clone(),
        }))
    }
}

/// Returns a `ServiceOverride` and its line.
fn service_override(
    number: &str,
    options: &OverrideOptions,
) -> Result<(Option<usize>, Override), Problem> {
    let line = options.values().map(|(line, _)| *line).min();
    let get = |name: &str| {
        let option = options.get(name);
        option
            .map(|(_, value)| value.trim().to_owned())
            .unwrap_or_default()
    };
    let lacks = |name: &&str| get(name).is_empty();
    if let Some(name) = REQUIRED.into_iter().find(lacks) {
        let reason = format!("ServiceOverride {number} has no {name}");
        return Err(Problem::at(line, reason));
    }

    let new = Override {
        service: get("service"),
        region: get("region"),
        endpoint: Endpoint {
            url: checked(&get("url"), line)?,
            signing_region: get("signingregion"),
            signing_name: get("signingname"),
        },
    };
    Ok((line, new))
}

/// Parses the URL of an endpoint.
fn checked(url: &str, line: Option<usize>) -> Result<Url, Problem> {
    let reason = "an endpoint must be https://HOST or http://HOST, optionally with port and path";
    Url::parse(url).ok_or_else(|| Problem::at(line, reason))
}

/// Returns an error with the reason if the option is not supported.
fn known_global(name: &str, written: &str, line: Option<usize>) -> Result<(), Problem> {
    if GLOBAL.contains(&name) {
        return Ok(());
    }
    let reason = match name {
        "rolearn" | "sourcearn" => format!(
            "{written} must be set in Skydock's credential (type aws-sigv4): plugins have no credentials, and cannot \
             assume a role"
        ),
        _ => format!("unknown option {written}"),
    };
    Err(Problem::at(line, reason))
}

/// Returns `eu-west-1` for `eu-west-1a`: letters and dashes, then digits.
pub(super) fn region_of(zone: &str) -> Option<String> {
    let pattern = Regex::new("^([a-zA-Z]+-)+[0-9]+").ok()?;
    pattern.find(zone).map(|found| found.as_str().to_owned())
}
