//! All settings, section by section.

use std::time::Duration;

use skydock_gcfg::Entry;

use super::{
    Class, Config, Interface, LoadBalancer, Networking, go,
    problem::{Problem, nearest},
};
use crate::load_balancers::desired_load_balancer::SubnetSpec;

/// The sections, as spelled by upstream.
const SECTIONS: &[&str] = &[
    "Global",
    "Networking",
    "Route",
    "LoadBalancer",
    "LoadBalancerClass",
    "Metadata",
    "BlockStorage",
    "KeyManager",
];

/// The name of a setting, and a function that sets what it sets, or returns why the value is
/// rejected.
type Setting<T> = (&'static str, fn(&mut T, &Value<'_>) -> Result<(), String>);

/// Credentials and verification of Keystone's certificate, which are the task of the host. Accepted
/// and ignored.
const FOR_THE_HOST: &[Setting<Config>] = &[
    ("user-id", ignored),
    ("username", ignored),
    ("password", ignored),
    ("tenant-id", ignored),
    ("tenant-name", ignored),
    ("trust-id", ignored),
    ("trustee-id", ignored),
    ("trustee-password", ignored),
    ("domain-id", ignored),
    ("domain-name", ignored),
    ("tenant-domain-id", ignored),
    ("tenant-domain-name", ignored),
    ("user-domain-id", ignored),
    ("user-domain-name", ignored),
    ("token", ignored),
    ("application-credential-id", ignored),
    ("application-credential-name", ignored),
    ("application-credential-secret", ignored),
    ("ca-file", ignored),
    ("cert-file", ignored),
    ("key-file", ignored),
    ("clouds-file", ignored),
    ("cloud", ignored),
];

const GLOBAL: &[Setting<Config>] = &[
    ("auth-url", auth_url),
    ("region", |config, value| {
        value.set_text(&mut config.global.region)
    }),
    ("os-endpoint-type", interface),
    // `false` is what this plugin does anyway, so files that spell it out remain valid.
    ("tls-insecure", |_, value| {
        let reason =
            "certificates are always verified: set the cloud's CA in `tls` of the egress rule";
        reject_if(value.boolean()?, reason)
    }),
    ("use-clouds", |_, value| {
        let reason = "plugins cannot read files: set `auth-url` and `region` here, and `cloudsFile` in Skydock's credential";
        reject_if(value.boolean()?, reason)
    }),
];

const NETWORKING: &[Setting<Networking>] = &[
    ("ipv6-support-disabled", |it, value| {
        value.set_boolean(&mut it.ipv6_support_disabled)
    }),
    ("public-network-name", |it, value| {
        value.add_to(&mut it.public_networks)
    }),
    ("internal-network-name", |it, value| {
        value.add_to(&mut it.internal_networks)
    }),
    ("address-sort-order", address_sort_order),
];

const ROUTE: &[Setting<Config>] = &[("router-id", |config, value| {
    value.set_text(&mut config.router_id)
})];

const BLOCK_STORAGE: &[Setting<Config>] = &[("ignore-volume-az", |config, value| {
    value.set_boolean(&mut config.ignore_volume_az)
})];

const METADATA: &[Setting<Config>] = &[
    ("search-order", search_order),
    ("request-timeout", request_timeout),
];

const CLASS: &[Setting<Class>] = &[
    ("floating-network-id", |it, value| {
        value.set_text(&mut it.floating_network_id)
    }),
    ("floating-subnet-id", |it, value| {
        value.set_text(&mut it.floating_subnet_id)
    }),
    ("floating-subnet", |it, value| {
        SubnetSpec::check_pattern(&value.text()?)?;
        value.set_text(&mut it.floating_subnet)
    }),
    ("floating-subnet-tags", |it, value| {
        value.set_text(&mut it.floating_subnet_tags)
    }),
    ("network-id", |it, value| value.set_text(&mut it.network_id)),
    ("subnet-id", |it, value| value.set_text(&mut it.subnet_id)),
    ("member-subnet-id", |it, value| {
        value.set_text(&mut it.member_subnet_id)
    }),
];

const LOAD_BALANCER: &[Setting<LoadBalancer>] = &[
    ("enabled", |lb, value| value.set_boolean(&mut lb.enabled)),
    ("lb-version", |_, value| {
        reject_if(
            !matches!(value.text()?.as_str(), "" | "v2"),
            "only `v2` is supported",
        )
    }),
    ("use-octavia", |_, value| {
        reject_if(
            !value.boolean()?,
            "only Octavia is supported: remove the setting",
        )
    }),
    ("lb-method", lb_method),
    ("lb-provider", |lb, value| {
        value.set_text(&mut lb.lb_provider)
    }),
    ("create-monitor", |lb, value| {
        value.set_boolean(&mut lb.create_monitor)
    }),
    ("monitor-delay", |lb, value| {
        value.set_seconds(&mut lb.monitor_delay)
    }),
    ("monitor-timeout", |lb, value| {
        value.set_seconds(&mut lb.monitor_timeout)
    }),
    ("monitor-max-retries", |lb, value| {
        value.set_number(&mut lb.monitor_max_retries)
    }),
    ("monitor-max-retries-down", |lb, value| {
        value.set_number(&mut lb.monitor_max_retries_down)
    }),
    ("manage-security-groups", |lb, value| {
        value.set_boolean(&mut lb.manage_security_groups)
    }),
    ("internal-lb", |lb, value| {
        value.set_boolean(&mut lb.internal_lb)
    }),
    ("node-selector", |lb, value| {
        value.set_text(&mut lb.node_selector)
    }),
    ("cascade-delete", |lb, value| {
        value.set_boolean(&mut lb.cascade_delete)
    }),
    ("flavor-id", |lb, value| value.set_text(&mut lb.flavor_id)),
    ("availability-zone", |lb, value| {
        value.set_text(&mut lb.availability_zone)
    }),
    ("enable-ingress-hostname", |lb, value| {
        value.set_boolean(&mut lb.enable_ingress_hostname)
    }),
    ("ingress-hostname-suffix", |lb, value| {
        value.set_text(&mut lb.ingress_hostname_suffix)
    }),
    ("max-shared-lb", |lb, value| {
        lb.max_shared_lb = usize::try_from(value.number()?).unwrap_or(usize::MAX);
        Ok(())
    }),
    ("default-tls-container-ref", |lb, value| {
        value.set_text(&mut lb.tls_container_ref)
    }),
    ("container-store", container_store),
    ("provider-requires-serial-api-calls", |lb, value| {
        value.set_boolean(&mut lb.serial_api_calls)
    }),
];

/// Settings of other versions and tools, and what to do instead.
const FORMER: &[(&str, &str, &str)] = &[
    ("global", "secret-name", SECRET),
    ("global", "secret-namespace", SECRET),
    (
        "global",
        "kubeconfig-path",
        "remove it: Skydock has its own kubeconfig, `--kubeconfig`",
    ),
    (
        "loadbalancer",
        "node-security-group",
        "remove it: with `manage-security-groups`, each Service has its own group",
    ),
];

const SECRET: &str = "plugins cannot read this Secret: move the login to Skydock's credential, and the other settings to this file";

/// The algorithms of Octavia. Which of them a provider supports, only Octavia knows.
const METHODS: &[&str] = &[
    "ROUND_ROBIN",
    "LEAST_CONNECTIONS",
    "SOURCE_IP",
    "SOURCE_IP_PORT",
];

/// The only algorithm of Octavia's provider `ovn`.
const OVN_METHOD: &str = "SOURCE_IP_PORT";

/// What became of a statement.
enum Outcome {
    /// It was applied.
    Applied,
    /// Its setting is not one of these, which the section has.
    Unknown { known: Vec<&'static str> },
}

impl Outcome {
    /// Tries other settings of the same section if the setting is unknown.
    fn or(self, other: impl FnOnce() -> Result<Self, String>) -> Result<Self, String> {
        let Self::Unknown { known } = self else {
            return Ok(self);
        };
        Ok(match other()? {
            Self::Applied => Self::Applied,
            Self::Unknown { known: more } => Self::Unknown {
                known: [known, more].concat(),
            },
        })
    }
}

/// Applies one statement.
///
/// # Errors
/// Returns the problem with the statement.
pub(super) fn apply(config: &mut Config, entry: &Entry) -> Result<(), Problem> {
    let section = entry.section.to_ascii_lowercase();
    let outcome = check_subsection(&section, entry).and_then(|()| set(config, &section, entry));

    let reason = match outcome {
        Ok(Outcome::Applied) => return Ok(()),
        Ok(Outcome::Unknown { known }) => {
            let key = entry.key.as_deref().unwrap_or_default();
            former(&section, key).unwrap_or_else(|| {
                let near = hint(key, &known);
                format!(
                    "unknown setting `{key}` in section `{}`{near}",
                    entry.section
                )
            })
        }
        Err(reason) => reason,
    };
    Err(Problem {
        line: Some(entry.lines.start),
        reason,
    })
}

/// Checks that a class has a name, and that no other section has one.
fn check_subsection(section: &str, entry: &Entry) -> Result<(), String> {
    match (section, entry.subsection.as_str()) {
        ("loadbalancerclass", "") => {
            Err("a class must have a name: `[LoadBalancerClass \"name\"]`".to_owned())
        }
        ("loadbalancerclass", _) | (_, "") => Ok(()),
        _ => Err(format!("section `{}` has no subsections", entry.section)),
    }
}

/// Sets what a statement of this section sets.
fn set(config: &mut Config, section: &str, entry: &Entry) -> Result<Outcome, String> {
    match section {
        "global" => set_one(config, GLOBAL, entry)?.or(|| set_one(config, FOR_THE_HOST, entry)),
        "networking" => set_one(&mut config.networking, NETWORKING, entry),
        "route" => set_one(config, ROUTE, entry),
        "loadbalancer" => {
            let lb = &mut config.load_balancer;
            set_one(lb, LOAD_BALANCER, entry)?.or(|| set_one(&mut lb.class, CLASS, entry))
        }
        "loadbalancerclass" => {
            let class = config.classes.entry(entry.subsection.clone()).or_default();
            set_one(class, CLASS, entry)
        }
        "metadata" => set_one(config, METADATA, entry),
        // The other settings are for the node part of the driver.
        "blockstorage" => set_one(config, BLOCK_STORAGE, entry)?.or(|| Ok(Outcome::Applied)),
        // Settings for another program that reads the same file.
        "keymanager" => Ok(Outcome::Applied),
        _ => Err(format!(
            "unknown section `{}`{}",
            entry.section,
            hint(&entry.section, SECTIONS)
        )),
    }
}

/// Sets what a statement sets, if its setting is one of these.
fn set_one<T>(target: &mut T, settings: &[Setting<T>], entry: &Entry) -> Result<Outcome, String> {
    // A header alone sets nothing.
    let Some(key) = entry.key.as_deref() else {
        return Ok(Outcome::Applied);
    };

    let Some((_, set)) = settings
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(key))
    else {
        let known = settings.iter().map(|(name, _)| *name).collect();
        return Ok(Outcome::Unknown { known });
    };

    let value = Value {
        written: entry.value.as_deref(),
    };
    set(target, &value)
        .map(|()| Outcome::Applied)
        .map_err(|reason| format!("`{key}`: {reason}"))
}

/// A rule about settings of section `LoadBalancer` that only the complete section shows.
struct Rule<'a> {
    is_broken: bool,
    /// The settings that it is about. The problem has the line of the first one that is set.
    keys: &'a [&'a str],
    reason: &'a str,
}

/// Returns the problems with the rules that are broken.
fn problems(rules: &[Rule<'_>], entries: &[Entry]) -> Vec<Problem> {
    let problem = |rule: &Rule<'_>| Problem {
        line: rule
            .keys
            .iter()
            .find_map(|key| Some(last(entries, key)?.lines.start)),
        reason: rule.reason.to_owned(),
    };
    rules
        .iter()
        .filter(|rule| rule.is_broken)
        .map(problem)
        .collect()
}

/// Returns the last statement with this setting of section `LoadBalancer`.
fn last<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Entry> {
    entries.iter().rfind(|entry| {
        entry.section.eq_ignore_ascii_case("LoadBalancer")
            && entry
                .key
                .as_deref()
                .is_some_and(|found| found.eq_ignore_ascii_case(key))
    })
}

/// Returns why Octavia would reject the health monitor of every Service. Without monitors, the
/// settings have no effect.
pub(super) fn monitor_problems(config: &Config, entries: &[Entry]) -> Vec<Problem> {
    let lb = &config.load_balancer;
    if !lb.create_monitor {
        return Vec::new();
    }

    let retries = 1..=10;
    let rules = [
        Rule {
            is_broken: lb.monitor_timeout > lb.monitor_delay,
            keys: &["monitor-timeout", "monitor-delay"],
            reason: "`monitor-timeout` is longer than `monitor-delay`, which Octavia rejects",
        },
        Rule {
            is_broken: !retries.contains(&lb.monitor_max_retries),
            keys: &["monitor-max-retries"],
            reason: "`monitor-max-retries`: expected a number from 1 to 10",
        },
        Rule {
            is_broken: !retries.contains(&lb.monitor_max_retries_down),
            keys: &["monitor-max-retries-down"],
            reason: "`monitor-max-retries-down`: expected a number from 1 to 10",
        },
    ];
    problems(&rules, entries)
}

/// Returns why every Service would be rejected, or have a status that the API server rejects.
pub(super) fn default_problems(config: &Config, entries: &[Entry]) -> Vec<Problem> {
    let lb = &config.load_balancer;
    let is_in_barbican = lb.tls_container_ref.is_empty()
        || lb
            .tls_container_ref
            .rsplit('/')
            .nth(1)
            .is_some_and(|kind| matches!(kind, "containers" | "secrets"));
    let has_domain = !lb.ingress_hostname_suffix.trim_matches('.').is_empty();

    let rules = [
        Rule {
            is_broken: lb.barbican && !is_in_barbican,
            keys: &["default-tls-container-ref"],
            reason: "`default-tls-container-ref`: expected the URL of a container or secret of Barbican, or `container-store=external`",
        },
        Rule {
            is_broken: lb.enable_ingress_hostname && !has_domain,
            keys: &["ingress-hostname-suffix"],
            reason: "`ingress-hostname-suffix`: `enable-ingress-hostname` needs a domain",
        },
    ];
    problems(&rules, entries)
}

/// Sets the only method of OVN, unless the file sets one. An empty value means the default, like in
/// upstream.
pub(super) fn set_ovn_default(config: &mut Config, entries: &[Entry]) {
    let lb = &mut config.load_balancer;
    let is_set = last(entries, "lb-method")
        .is_some_and(|entry| entry.value.as_ref().is_some_and(|value| !value.is_empty()));
    if lb.lb_provider == "ovn" && !is_set {
        OVN_METHOD.clone_into(&mut lb.lb_method);
    }
}

/// Returns whether the file sets a method that OVN does not support, with which Octavia would reject
/// every Service.
pub(super) fn ovn_method_problem(config: &Config, entries: &[Entry]) -> Vec<Problem> {
    let lb = &config.load_balancer;
    let rule = Rule {
        is_broken: lb.lb_provider == "ovn" && lb.lb_method != OVN_METHOD,
        keys: &["lb-method"],
        reason: &format!(
            "`lb-method`: `lb-provider=ovn` supports only `{OVN_METHOD}`, its default: remove the setting"
        ),
    };
    problems(&[rule], entries)
}

/// Applies an option of the host.
///
/// # Errors
/// Returns the problem with the option.
pub(super) fn option(config: &mut Config, key: &str, value: &str) -> Result<(), Problem> {
    let at = |reason: String| Problem { line: None, reason };
    let field = match key {
        "regional-provider-ids" => &mut config.regional_ids,
        "volumes" => &mut config.volumes,
        _ => {
            let hint = hint(key, &["regional-provider-ids", "volumes"]);
            return Err(at(format!("unknown option `{key}`{hint}")));
        }
    };
    *field = boolean(Some(value)).map_err(|reason| at(format!("option `{key}`: {reason}")))?;
    Ok(())
}

/// Parses a boolean. A setting without a value means true.
fn boolean(value: Option<&str>) -> Result<bool, String> {
    skydock_gcfg::boolean(value).ok_or_else(|| "expected `true` or `false`".to_owned())
}

/// Returns the message about a setting that upstream had, or that another tool reads.
fn former(section: &str, key: &str) -> Option<String> {
    let is =
        |former: &&(&str, &str, &str)| former.0 == section && key.eq_ignore_ascii_case(former.1);
    let (_, name, instead) = FORMER.iter().find(is)?;
    Some(format!("`{name}` is not supported: {instead}"))
}

fn hint(name: &str, known: &[&str]) -> String {
    nearest(name, known.iter().copied())
        .map(|near| format!("; did you mean `{near}`?"))
        .unwrap_or_default()
}

/// Returns this reason if the value is not supported.
fn reject_if(is_unsupported: bool, reason: &str) -> Result<(), String> {
    if is_unsupported {
        Err(reason.to_owned())
    } else {
        Ok(())
    }
}

struct Value<'a> {
    written: Option<&'a str>,
}

impl Value<'_> {
    fn text(&self) -> Result<String, String> {
        self.written
            .map(str::to_owned)
            .ok_or_else(|| "a value is missing".to_owned())
    }

    fn boolean(&self) -> Result<bool, String> {
        boolean(self.written)
    }

    fn number(&self) -> Result<u64, String> {
        go::number(&self.text()?)
    }

    fn duration(&self) -> Result<Duration, String> {
        go::duration(&self.text()?)
    }

    fn set_text(&self, field: &mut String) -> Result<(), String> {
        *field = self.text()?;
        Ok(())
    }

    fn set_boolean(&self, field: &mut bool) -> Result<(), String> {
        *field = self.boolean()?;
        Ok(())
    }

    fn set_number(&self, field: &mut u64) -> Result<(), String> {
        *field = self.number()?;
        Ok(())
    }

    fn set_seconds(&self, field: &mut u64) -> Result<(), String> {
        *field = self.duration()?.as_secs();
        Ok(())
    }

    /// Adds the value to the list of a setting that can occur several times. Without a value, it
    /// clears the list.
    #[expect(
        clippy::unnecessary_wraps,
        reason = "it is used like the other functions that set a field"
    )]
    fn add_to(&self, list: &mut Vec<String>) -> Result<(), String> {
        match self.written {
            Some(value) => list.push(value.to_owned()),
            None => list.clear(),
        }
        Ok(())
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "it is in a table of functions that reject values"
)]
fn ignored(_: &mut Config, _: &Value<'_>) -> Result<(), String> {
    Ok(())
}

fn auth_url(config: &mut Config, value: &Value<'_>) -> Result<(), String> {
    let url = value.text()?;
    if !url.is_empty() && !is_url(&url) {
        return Err(
            "expected a URL with a host that begins with `https://` or `http://`".to_owned(),
        );
    }

    config.global.auth_url = versioned(&url);
    Ok(())
}

fn is_url(text: &str) -> bool {
    let rest = ["https://", "http://"].iter().find_map(|scheme| {
        let (start, rest) = text.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    rest.is_some_and(|rest| !rest.starts_with(['/', ':', '?', '#']) && !rest.is_empty())
}

/// Returns Keystone's URL with a version at the end, derived like gophercloud does.
fn versioned(url: &str) -> String {
    let url = url.trim_end_matches('/');
    let base = url
        .strip_suffix("/v3")
        .or_else(|| url.strip_suffix("/v2.0"))
        .unwrap_or(url);
    if base.is_empty() {
        String::new()
    } else {
        format!("{base}/v3")
    }
}

fn interface(config: &mut Config, value: &Value<'_>) -> Result<(), String> {
    config.global.interface = match value.text()?.as_str() {
        "" | "public" => Interface::Public,
        "internal" => Interface::Internal,
        "admin" => Interface::Admin,
        _ => return Err("expected `public`, `internal` or `admin`, without `URL`".to_owned()),
    };
    Ok(())
}

fn address_sort_order(networking: &mut Networking, value: &Value<'_>) -> Result<(), String> {
    let text = value.text()?;
    let nets: Result<_, _> = go::words(&text).map(str::parse).collect();
    networking.address_sort_order =
        nets.map_err(|_| "expected CIDRs separated by commas".to_owned())?;
    Ok(())
}

/// Checks `search-order`. The metadata service is not used, neither here nor in upstream's CCM.
fn search_order(_: &mut Config, value: &Value<'_>) -> Result<(), String> {
    let text = value.text()?;
    let known = |place: &str| matches!(place.trim(), "configDrive" | "metadataService");
    let is_wrong = text.split(',').count() > 2 || !text.split(',').all(known);

    // Without a value, it is the default.
    reject_if(
        !text.is_empty() && is_wrong,
        "expected one or both of `configDrive` and `metadataService`",
    )
}

fn request_timeout(config: &mut Config, value: &Value<'_>) -> Result<(), String> {
    let timeout = value.duration()?;
    config.request_timeout = if timeout.is_zero() {
        Config::default().request_timeout
    } else {
        timeout
    };
    Ok(())
}

fn lb_method(lb: &mut LoadBalancer, value: &Value<'_>) -> Result<(), String> {
    lb.lb_method = match value.text()?.as_str() {
        "" => LoadBalancer::default().lb_method,
        method if METHODS.contains(&method) => method.to_owned(),
        _ => return Err(format!("expected one of `{}`", METHODS.join("`, `"))),
    };
    Ok(())
}

fn container_store(lb: &mut LoadBalancer, value: &Value<'_>) -> Result<(), String> {
    lb.barbican = match value.text()?.as_str() {
        "barbican" => true,
        // Upstream checks containers only with `barbican`.
        "" | "external" => false,
        _ => return Err("expected `barbican` or `external`".to_owned()),
    };
    Ok(())
}
