//! The interface `plugin`, which every plugin exports: `configure` and `info`.

use std::collections::BTreeSet;

use skydock_cloud::{
    Capability, CloudError, ProviderInfo,
    text::{SENTENCE, cut, is_plain, shown},
};

use super::{Guest, generated::plugin, volumes};
use crate::{
    answers::{
        AnswerError, Checked, count, overlap::Overlap, provider_id::MAX_PROVIDER_ID, text, value,
    },
    contract::{
        Running,
        v0_1::{bindings::skydock::provider::types as wit, from_guest::with_text, to_guest},
    },
    load::{info::Introduction, source::Settings},
    words::keys::MAX_LABEL,
};

/// Maximum bytes of a version.
const MAX_VERSION: usize = 64;

/// Maximum number of prefixes that a plugin may own, and of hosts that it may request: more than
/// any provider needs.
const MAX_WISHES: usize = 64;

const MAX_ANNOTATION_PREFIXES: usize = 16;

/// Maximum number of nodes, of routes, and of volumes in one call.
const MAX_BATCH: u32 = 1000;

/// Number of them in one call if the plugin sets none.
const DEFAULT_BATCH: u32 = 100;

impl<'a, 's> Guest<'a, 's> {
    /// Calls `plugin.configure`.
    pub(crate) fn configure(self, settings: &'s Settings) -> Running<'a, Result<(), CloudError>> {
        let Self {
            functions, store, ..
        } = self;
        let record = to_guest::settings(settings);

        Box::pin(async move {
            store.data().called(&"plugin.configure", &(&record,));
            let answer = functions
                .plugin
                .call_configure(&mut *store, &record)
                .await?;
            store.data().answered(&answer);

            Ok(Ok(answer.map_err(|error| config_error(error, settings))))
        })
    }

    /// Calls `plugin.info`, and `volumes.driver` if it serves volumes. `exported` are the
    /// capabilities of the component.
    pub(crate) fn info(
        self,
        exported: &'s BTreeSet<Capability>,
    ) -> Running<'a, Checked<Introduction>> {
        let Self {
            functions, store, ..
        } = self;
        Box::pin(async move {
            store.data().called(&"plugin.info", &());
            let answer = functions.plugin.call_info(&mut *store).await?;
            store.data().answered(&answer);

            let mut introduction = match info(answer, exported) {
                Ok(introduction) => introduction,
                Err(error) => return Ok(Ok(Err(error))),
            };

            let provider = &mut introduction.provider;
            if provider.can(Capability::Volumes) {
                store.data().called(&"volumes.driver", &());
                let volumes = super::exported(functions.volumes.as_ref())?;
                let answer = volumes.call_driver(&mut *store).await?;
                store.data().answered(&answer);

                match volumes::driver(answer) {
                    Ok(driver) => provider.driver = Some(driver),
                    Err(error) => return Ok(Ok(Err(error))),
                }
            }

            Ok(Ok(Ok(introduction)))
        })
    }
}

/// Converts a plugin's rejection of its configuration, and redacts what the text quotes from the
/// configuration.
fn config_error(error: wit::CloudError, settings: &Settings) -> CloudError {
    with_text(error, |text| {
        shown(&settings.redact(cut(&text, SENTENCE)), SENTENCE).into_owned()
    })
}

/// Returns the capabilities of a component without those that it does not serve with its
/// configuration.
fn served(all: &BTreeSet<Capability>, unused: &[String]) -> Checked<BTreeSet<Capability>> {
    for name in unused {
        let exported = all.iter().any(|capability| capability.name() == name);
        value(
            "unused interface",
            name,
            "one that the component exports",
            exported.then_some(()),
        )?;
    }

    let served: BTreeSet<_> = all
        .iter()
        .copied()
        .filter(|capability| !unused.iter().any(|name| capability.name() == name))
        .collect();

    let lacks = |needed: &Capability| !served.contains(needed);
    if served
        .iter()
        .filter_map(|it| it.needs())
        .any(|it| lacks(&it))
    {
        return Err(AnswerError::Missing(
            "`volumes` (required with the other interfaces about volumes)",
        ));
    }

    Ok(served)
}

/// Checks the plugin's name and version.
fn check_name(info: &plugin::PluginInfo) -> Checked<()> {
    let named = (1..=MAX_LABEL).contains(&info.name.len())
        && info
            .name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    value(
        "name",
        &info.name,
        "1 to 63 lower-case letters, digits and dashes",
        named.then_some(()),
    )?;

    let versioned = info.version.len() <= MAX_VERSION && is_plain(&info.version);
    value(
        "version",
        &info.version,
        "plain text of at most 64 bytes",
        versioned.then_some(()),
    )?;

    Ok(())
}

/// Checks which provider IDs are the plugin's own.
fn check_provider_ids(prefixes: &[String], capabilities: &BTreeSet<Capability>) -> Checked<()> {
    count("provider ID prefixes", prefixes.len(), MAX_WISHES)?;
    for prefix in prefixes {
        let scheme = prefix.split_once("://").map(|(scheme, _)| scheme);
        let named = scheme.is_some_and(|it| {
            !it.is_empty()
                && it
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
        });
        let ok =
            named && prefix.len() < MAX_PROVIDER_ID && prefix.bytes().all(|b| b.is_ascii_graphic());
        value(
            "provider ID prefix",
            prefix,
            "`SCHEME://` or longer",
            ok.then_some(()),
        )?;
    }

    // Without a prefix, no node could be its own.
    if capabilities.contains(&Capability::Instances) && prefixes.is_empty() {
        return Err(AnswerError::Missing(
            "a provider ID prefix (required with `instances`)",
        ));
    }

    Ok(())
}

/// Checks which annotations are the plugin's own.
fn check_annotations(prefixes: &[String]) -> Checked<()> {
    count(
        "annotation prefixes",
        prefixes.len(),
        MAX_ANNOTATION_PREFIXES,
    )?;
    for prefix in prefixes {
        let expected = "`DOMAIN/`, optionally followed by the beginning of a name, with a domain that does not belong to Kubernetes or Skydock";
        value(
            "annotation prefix",
            prefix,
            expected,
            text::is_annotation_prefix(prefix).then_some(()),
        )?;
    }

    Ok(())
}

/// Returns the hosts that the plugin requests, in their canonical form.
fn wanted_hosts(wanted: &[String]) -> Checked<Vec<String>> {
    count("wanted hosts", wanted.len(), MAX_WISHES)?;
    // What is accepted is kept in the cluster, so it has one form, which is short.
    let hosts = wanted.iter().map(|host| {
        let rule = host.parse::<skydock_egress::TargetPattern>().ok();
        let rule = value("wanted host", host, "scheme://host:port", rule)?;
        Ok(rule.to_string())
    });
    hosts.collect()
}

/// Checks the plugin's description of itself. `exported` are the capabilities of its component.
fn info(info: plugin::PluginInfo, exported: &BTreeSet<Capability>) -> Checked<Introduction> {
    let capabilities = served(exported, &info.unused)?;

    check_name(&info)?;
    check_provider_ids(&info.provider_id_prefixes, &capabilities)?;
    check_annotations(&info.annotation_prefixes)?;
    let wanted_hosts = wanted_hosts(&info.wanted_hosts)?;

    let batch = value(
        "max-batch",
        &info.max_batch.to_string(),
        "0 to 1000",
        (info.max_batch <= MAX_BATCH).then_some(if info.max_batch == 0 {
            DEFAULT_BATCH
        } else {
            info.max_batch
        }),
    )?;

    let provider = ProviderInfo {
        name: info.name,
        version: info.version,
        capabilities,
        provider_id_prefixes: info.provider_id_prefixes,
        annotation_prefixes: info.annotation_prefixes,
        max_batch: usize::try_from(batch).unwrap_or(1),
        driver: None,
    };

    let overlap = match info.overlap {
        plugin::Overlap::Any => Overlap::Any,
        plugin::Overlap::PerInterface => Overlap::PerInterface,
        plugin::Overlap::None => Overlap::None,
    };

    Ok(Introduction {
        provider,
        wanted_hosts,
        overlap,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{
        accepted::{Accepted, POWERS},
        source::CloudConfig,
    };

    // Holds: SEC-51
    #[test]
    fn a_configuration_error_is_redacted() {
        let config = CloudConfig::new(
            "/etc/cloud.yaml".into(),
            "password: correct-horse-battery".into(),
        );
        let options = skydock_cloud::Pairs::new();
        let settings = Settings::new("c".into(), Vec::new(), Some(config), options);
        let text = "/etc/cloud.yaml: password correct-horse-battery is \u{1b}[31mwrong";
        let shown = config_error(wit::CloudError::Invalid(text.into()), &settings).to_string();

        assert_eq!(
            shown,
            "invalid: /etc/cloud.yaml: password [redacted] is \\u{1b}[31mwrong"
        );
    }

    #[test]
    fn an_interface_that_the_plugin_does_not_use_is_left_out() {
        let exported =
            BTreeSet::from([Capability::Instances, Capability::Routes, Capability::Zones]);
        let unused = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        assert_eq!(served(&exported, &[]), Ok(exported.clone()));
        let rest = served(&exported, &unused(&["routes", "zones"]));
        assert_eq!(rest, Ok(BTreeSet::from([Capability::Instances])));
        assert!(
            served(&exported, &unused(&["load-balancers"])).is_err()
                && served(&exported, &unused(&["x"])).is_err()
        );
    }

    #[test]
    fn interfaces_about_volumes_need_that_of_volumes() {
        use Capability::{Attachments, Instances, Snapshots, Volumes};
        for (exported, unused, expected) in [
            (&[Volumes][..], &[][..], true),
            (&[Volumes, Attachments, Snapshots], &[], true),
            (&[Volumes, Attachments], &["attachments"], true),
            (&[Volumes, Attachments], &["volumes", "attachments"], true),
            (&[Volumes, Attachments], &["volumes"], false),
            (&[Instances, Snapshots], &[], false),
        ] {
            let exported = exported.iter().copied().collect();
            let unused: Vec<_> = unused.iter().map(|it: &&str| (*it).to_owned()).collect();
            assert_eq!(served(&exported, &unused).is_ok(), expected, "{exported:?}");
        }
    }

    // Holds: SEC-28
    #[test]
    fn what_is_accepted_fits_into_an_annotation() {
        let label = "x".repeat(63);
        let name = format!("{label}.{label}.{label}.{}", "x".repeat(61));
        let longest = plugin::PluginInfo {
            name: "metal".into(),
            version: "1.0.0".into(),
            provider_id_prefixes: vec![format!("{:\"<511}", "metal://"); MAX_WISHES],
            wanted_hosts: vec![format!("HTTPS://{name}:{:0>50000}", 443); MAX_WISHES],
            max_batch: 0,
            unused: Vec::new(),
            overlap: plugin::Overlap::Any,
            annotation_prefixes: vec![
                format!("{name}/{}", "x".repeat(62));
                MAX_ANNOTATION_PREFIXES
            ],
        };
        let found = info(longest, &BTreeSet::from(Capability::ALL)).unwrap();
        assert_eq!(found.wanted_hosts[0], format!("https://{name}:443"));

        let accepted = Accepted {
            digest: "0".repeat(64),
            imports: POWERS.map(Into::into).into(),
            exports: Some(Capability::ALL.map(|it| it.to_string()).into()),
            hosts: found.wanted_hosts,
            provider_ids: found.provider.provider_id_prefixes,
            annotations: found.provider.annotation_prefixes,
        };
        // All annotations of an object together have at most 256 KiB.
        assert!(serde_json::to_string(&accepted).unwrap().len() < 128 << 10);
    }

    #[test]
    fn plugin_info_is_validated() {
        let good = || plugin::PluginInfo {
            name: "metal".into(),
            version: "1.0.0".into(),
            provider_id_prefixes: vec!["metal://".into()],
            wanted_hosts: vec!["https://*.metal.example:443".into()],
            max_batch: 0,
            unused: Vec::new(),
            overlap: plugin::Overlap::Any,
            annotation_prefixes: Vec::new(),
        };
        // A provider ID with a prefix of 512 bytes would have nothing after the prefix.
        let prefix = |bytes: usize| format!("{:x<bytes$}", "metal://");
        let machines = BTreeSet::from([Capability::Instances]);
        let found = info(good(), &machines).unwrap();
        assert_eq!(
            (found.provider.max_batch, found.wanted_hosts.len()),
            (100, 1)
        );

        for (in_contract, in_host) in [
            (plugin::Overlap::Any, Overlap::Any),
            (plugin::Overlap::PerInterface, Overlap::PerInterface),
            (plugin::Overlap::None, Overlap::None),
        ] {
            let found = info(
                plugin::PluginInfo {
                    overlap: in_contract,
                    ..good()
                },
                &machines,
            )
            .unwrap();
            assert_eq!(found.overlap, in_host);
        }
        for prefix in ["a+b-c.2://", "metal://zone/", "m://"] {
            assert!(
                info(
                    plugin::PluginInfo {
                        provider_id_prefixes: vec![prefix.into()],
                        ..good()
                    },
                    &machines
                )
                .is_ok()
            );
        }
        let largest = plugin::PluginInfo {
            name: format!("metal-2{}", "x".repeat(56)),
            version: "v".repeat(64),
            provider_id_prefixes: vec![prefix(511); 64],
            wanted_hosts: vec!["https://metal.example:443".into(); 64],
            annotation_prefixes: vec!["metal.example/".into(); 16],
            max_batch: 1000,
            ..good()
        };
        assert_eq!(info(largest, &machines).unwrap().provider.max_batch, 1000);

        let bad = [
            plugin::PluginInfo {
                name: String::new(),
                ..good()
            },
            plugin::PluginInfo {
                name: "Metal".into(),
                ..good()
            },
            plugin::PluginInfo {
                name: "m".repeat(64),
                ..good()
            },
            plugin::PluginInfo {
                version: "v".repeat(65),
                ..good()
            },
            plugin::PluginInfo {
                version: "1\n2".into(),
                ..good()
            },
            plugin::PluginInfo {
                provider_id_prefixes: vec!["metal".into()],
                ..good()
            },
            plugin::PluginInfo {
                provider_id_prefixes: vec!["://".into()],
                ..good()
            },
            plugin::PluginInfo {
                provider_id_prefixes: vec![String::new()],
                ..good()
            },
            plugin::PluginInfo {
                provider_id_prefixes: vec!["me_tal://".into()],
                ..good()
            },
            plugin::PluginInfo {
                provider_id_prefixes: vec!["metal://a b".into()],
                ..good()
            },
            plugin::PluginInfo {
                provider_id_prefixes: vec!["metal://".into(); 65],
                ..good()
            },
            plugin::PluginInfo {
                wanted_hosts: vec!["https://metal.example:443".into(); 65],
                ..good()
            },
            plugin::PluginInfo {
                name: "metal_2".into(),
                ..good()
            },
            plugin::PluginInfo {
                provider_id_prefixes: Vec::new(),
                ..good()
            },
            plugin::PluginInfo {
                provider_id_prefixes: vec![prefix(512)],
                ..good()
            },
            plugin::PluginInfo {
                wanted_hosts: vec!["metal.example".into()],
                ..good()
            },
            plugin::PluginInfo {
                max_batch: 1001,
                ..good()
            },
            plugin::PluginInfo {
                unused: vec!["routes".into()],
                ..good()
            },
            plugin::PluginInfo {
                annotation_prefixes: vec!["kubernetes.io/".into()],
                ..good()
            },
            plugin::PluginInfo {
                annotation_prefixes: vec!["metal.example/".into(); 17],
                ..good()
            },
        ];
        for it in bad {
            assert!(info(it, &machines).is_err());
        }
        let routes = plugin::PluginInfo {
            provider_id_prefixes: Vec::new(),
            ..good()
        };
        assert!(info(routes, &BTreeSet::from([Capability::Routes])).is_ok());
    }
}
