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

/// Credentials and verification of Keystone's certificate, which are the task of the host. Accepted
/// and ignored.
const FOR_THE_HOST: &[&str] = &[
    "user-id",
    "username",
    "password",
    "tenant-id",
    "tenant-name",
    "trust-id",
    "trustee-id",
    "trustee-password",
    "domain-id",
    "domain-name",
    "tenant-domain-id",
    "tenant-domain-name",
    "user-domain-id",
    "user-domain-name",
    "token",
    "application-credential-id",
    "application-credential-name",
    "application-credential-secret",
    "ca-file",
    "cert-file",
    "key-file",
    "clouds-file",
    "cloud",
];
const GLOBAL: &[&str] = &[
    "auth-url",
    "region",
    "os-endpoint-type",
    "tls-insecure",
    "use-clouds",
];
const NETWORKING: [&str; 4] = [
    "ipv6-support-disabled",
    "public-network-name",
    "internal-network-name",
    "address-sort-order",
];
const CLASS: &[&str] = &[
    "floating-network-id",
    "floating-subnet-id",
    "floating-subnet",
    "floating-subnet-tags",
    "network-id",
    "subnet-id",
    "member-subnet-id",
];
const LOAD_BALANCER: &[&str] = &[
    "enabled",
    "lb-version",
    "lb-method",
    "lb-provider",
    "create-monitor",
    "monitor-delay",
    "monitor-timeout",
    "monitor-max-retries",
    "monitor-max-retries-down",
    "manage-security-groups",
    "internal-lb",
    "node-selector",
    "cascade-delete",
    "flavor-id",
    "availability-zone",
    "enable-ingress-hostname",
    "ingress-hostname-suffix",
    "max-shared-lb",
    "default-tls-container-ref",
    "container-store",
    "provider-requires-serial-api-calls",
    "use-octavia",
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

/// Applies one statement.
///
/// # Errors
/// Returns the problem with the statement.
pub(super) fn apply(config: &mut Config, entry: &Entry) -> Result<(), Problem> {
    let at = |reason: String| Problem {
        line: entry.lines.start,
        reason,
    };

    let section = entry.section.to_ascii_lowercase();
    check_subsection(&section, entry).map_err(at)?;

    let key = entry.key.as_deref().unwrap_or_default();
    let (known, taken) = set(config, &section, entry).map_err(at)?;
    match taken {
        Ok(true) => Ok(()),
        Ok(false) => Err(at(former(&section, key).unwrap_or_else(|| {
            format!(
                "unknown setting `{key}` in section `{}`{}",
                entry.section,
                hint(key, &known)
            )
        }))),
        Err(reason) => Err(at(format!("`{key}`: {reason}"))),
    }
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

/// Sets what an entry of this section sets. Also returns the settings of the section.
///
/// # Errors
/// Fails if the section is unknown.
fn set(
    config: &mut Config,
    section: &str,
    entry: &Entry,
) -> Result<(Vec<&'static str>, Taken), String> {
    let key = entry.key.as_deref().map(str::to_ascii_lowercase);
    let value = Value {
        written: entry.value.as_deref(),
    };

    let nothing = (Vec::new(), Ok(true));
    Ok(match (section, key.as_deref()) {
        // Settings for other programs that read the same file.
        ("blockstorage" | "keymanager", _) => nothing,
        ("loadbalancerclass", key) => {
            let class = config.classes.entry(entry.subsection.clone()).or_default();
            let Some(key) = key else { return Ok(nothing) };
            (CLASS.to_vec(), class_setting(class, key, &value))
        }
        // A header alone sets nothing.
        ("global" | "networking" | "route" | "loadbalancer" | "metadata", None) => nothing,
        ("global", Some(key)) => ([GLOBAL, FOR_THE_HOST].concat(), global(config, key, &value)),
        ("networking", Some(key)) => (
            NETWORKING.to_vec(),
            networking(&mut config.networking, key, &value),
        ),
        ("route", Some(key)) => (vec!["router-id"], route(config, key, &value)),
        ("loadbalancer", Some(key)) => (
            [LOAD_BALANCER, CLASS].concat(),
            load_balancer(&mut config.load_balancer, key, &value),
        ),
        ("metadata", Some(key)) => (
            vec!["search-order", "request-timeout"],
            metadata(config, key, &value),
        ),
        _ => {
            let near = hint(&entry.section, SECTIONS);
            return Err(format!("unknown section `{}`{near}", entry.section));
        }
    })
}

/// Returns why Octavia would reject the health monitor of every Service. Without monitors, the
/// settings have no effect.
pub(super) fn monitor(config: &Config, entries: &[Entry]) -> Vec<Problem> {
    let lb = &config.load_balancer;
    if !lb.create_monitor {
        return Vec::new();
    }

    let retries = 1..=10;
    let delay = "monitor-delay";
    let timeout = "monitor-timeout";
    let up = "monitor-max-retries";
    let down = "monitor-max-retries-down";

    let checks = [
        (
            lb.monitor_timeout > lb.monitor_delay,
            [timeout, delay],
            "`monitor-timeout` is longer than `monitor-delay`, which Octavia rejects",
        ),
        (
            !retries.contains(&lb.monitor_max_retries),
            [up, up],
            "`monitor-max-retries`: expected a number from 1 to 10",
        ),
        (
            !retries.contains(&lb.monitor_max_retries_down),
            [down, down],
            "`monitor-max-retries-down`: expected a number from 1 to 10",
        ),
    ];

    let wrong = checks.into_iter().filter(|(is_wrong, ..)| *is_wrong);
    wrong
        .map(|(_, keys, reason)| Problem {
            line: last(entries, &keys).map_or(0, |entry| entry.lines.start),
            reason: reason.to_owned(),
        })
        .collect()
}

/// Returns the last of these settings of section `LoadBalancer`.
fn last<'a>(entries: &'a [Entry], keys: &[&str]) -> Option<&'a Entry> {
    let is_about = |entry: &&Entry| {
        let key = entry.key.as_deref().unwrap_or_default();
        entry.section.eq_ignore_ascii_case("LoadBalancer")
            && keys.iter().any(|about| key.eq_ignore_ascii_case(about))
    };
    entries.iter().rfind(is_about)
}

/// Returns why every Service would be rejected, or have a status that the API server rejects.
pub(super) fn defaults(config: &Config, entries: &[Entry]) -> Vec<Problem> {
    let lb = &config.load_balancer;
    let tls = "default-tls-container-ref";
    let suffix = "ingress-hostname-suffix";
    let is_in_barbican = lb.tls_container_ref.is_empty()
        || lb
            .tls_container_ref
            .rsplit('/')
            .nth(1)
            .is_some_and(|kind| matches!(kind, "containers" | "secrets"));

    let checks = [
        (
            lb.barbican && !is_in_barbican,
            tls,
            "expected the URL of a container or secret of Barbican, or `container-store=external`",
        ),
        (
            lb.enable_ingress_hostname && lb.ingress_hostname_suffix.trim_matches('.').is_empty(),
            suffix,
            "`enable-ingress-hostname` needs a domain",
        ),
    ];

    let wrong = checks.into_iter().filter(|(is_wrong, ..)| *is_wrong);
    wrong
        .map(|(_, key, reason)| Problem {
            line: last(entries, &[key]).map_or(0, |entry| entry.lines.start),
            reason: format!("`{key}`: {reason}"),
        })
        .collect()
}

/// Sets the method that OVN supports, and returns whether the file sets another one, with which
/// Octavia would reject every Service.
pub(super) fn method(config: &mut Config, entries: &[Entry]) -> Option<Problem> {
    let lb = &mut config.load_balancer;
    if lb.lb_provider != "ovn" {
        return None;
    }

    let set = last(entries, &["lb-method"]);

    // An empty value means the default, like in upstream.
    match set.filter(|entry| {
        entry
            .value
            .as_deref()
            .is_some_and(|value| !value.is_empty())
    }) {
        None => OVN_METHOD.clone_into(&mut lb.lb_method),
        Some(entry) if lb.lb_method != OVN_METHOD => {
            return Some(Problem {
                line: entry.lines.start,
                reason: format!(
                    "`lb-method`: `lb-provider=ovn` supports only `{OVN_METHOD}`, its default: remove the setting"
                ),
            });
        }
        Some(_) => {}
    }

    None
}

/// Applies an option of the host.
///
/// # Errors
/// Returns the problem with the option.
pub(super) fn option(config: &mut Config, key: &str, value: &str) -> Result<(), Problem> {
    let at = |reason: String| Problem { line: 0, reason };
    match key {
        "regional-provider-ids" => {
            config.regional_ids =
                boolean(Some(value)).map_err(|reason| at(format!("option `{key}`: {reason}")))?;
            Ok(())
        }
        _ => Err(at(format!(
            "unknown option `{key}`{}",
            hint(key, &["regional-provider-ids"])
        ))),
    }
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

/// True if the section has the setting.
type Taken = Result<bool, String>;

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
}

fn global(config: &mut Config, key: &str, value: &Value<'_>) -> Taken {
    let global = &mut config.global;

    match key {
        "auth-url" => {
            let url = value.text()?;
            if !url.is_empty() && !is_url(&url) {
                return Err(
                    "expected a URL with a host that begins with `https://` or `http://`"
                        .to_owned(),
                );
            }
            global.auth_url = versioned(&url);
        }
        "region" => global.region = value.text()?,
        "os-endpoint-type" => {
            global.interface = match value.text()?.as_str() {
                "" | "public" => Interface::Public,
                "internal" => Interface::Internal,
                "admin" => Interface::Admin,
                _ => {
                    return Err(
                        "expected `public`, `internal` or `admin`, without `URL`".to_owned()
                    );
                }
            };
        }

        // `false` is what this plugin does anyway, so files that spell it out remain valid.
        "tls-insecure" if value.boolean()? => {
            return Err(
                "certificates are always verified: set the cloud's CA in `tls` of the egress rule"
                    .to_owned(),
            );
        }
        "use-clouds" if value.boolean()? => {
            return Err(
                "plugins cannot read files: set `auth-url` and `region` here, and `cloudsFile` in Skydock's credential"
                    .to_owned(),
            );
        }
        "tls-insecure" | "use-clouds" => {}
        _ => return Ok(FOR_THE_HOST.contains(&key)),
    }

    Ok(true)
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

fn networking(networking: &mut Networking, key: &str, value: &Value<'_>) -> Taken {
    match key {
        "ipv6-support-disabled" => networking.ipv6_support_disabled = value.boolean()?,
        "public-network-name" => add(&mut networking.public_networks, value.written),
        "internal-network-name" => add(&mut networking.internal_networks, value.written),
        "address-sort-order" => {
            let text = value.text()?;
            let nets: Result<_, _> = go::words(&text).map(str::parse).collect();
            networking.address_sort_order =
                nets.map_err(|_| "expected CIDRs separated by commas".to_owned())?;
        }
        _ => return Ok(false),
    }

    Ok(true)
}

/// Adds a value of a setting that can occur several times. Without a value, it clears the list.
fn add(list: &mut Vec<String>, value: Option<&str>) {
    match value {
        Some(value) => list.push(value.to_owned()),
        None => list.clear(),
    }
}

fn route(config: &mut Config, key: &str, value: &Value<'_>) -> Taken {
    if key != "router-id" {
        return Ok(false);
    }
    config.router_id = value.text()?;
    Ok(true)
}

fn metadata(config: &mut Config, key: &str, value: &Value<'_>) -> Taken {
    match key {
        // The metadata service is not used, neither here nor in upstream's CCM.
        "search-order" => {
            let text = value.text()?;
            let known = |place: &str| matches!(place.trim(), "configDrive" | "metadataService");
            // Without a value, it is the default.
            let wrong = text.split(',').count() > 2 || !text.split(',').all(known);

            if !text.is_empty() && wrong {
                return Err(
                    "expected one or both of `configDrive` and `metadataService`".to_owned(),
                );
            }
        }
        "request-timeout" => {
            let timeout = value.duration()?;
            config.request_timeout = if timeout.is_zero() {
                Config::default().request_timeout
            } else {
                timeout
            };
        }
        _ => return Ok(false),
    }

    Ok(true)
}

fn class_setting(class: &mut Class, key: &str, value: &Value<'_>) -> Taken {
    if key == "floating-subnet" {
        // A pattern that is not valid fits no name, whatever the name is.
        SubnetSpec::of("", &value.text()?, "").fits("")?;
    }

    let field = match key {
        "floating-network-id" => &mut class.floating_network_id,
        "floating-subnet-id" => &mut class.floating_subnet_id,
        "floating-subnet" => &mut class.floating_subnet,
        "floating-subnet-tags" => &mut class.floating_subnet_tags,
        "network-id" => &mut class.network_id,
        "subnet-id" => &mut class.subnet_id,
        "member-subnet-id" => &mut class.member_subnet_id,
        _ => return Ok(false),
    };
    *field = value.text()?;
    Ok(true)
}

fn load_balancer(lb: &mut LoadBalancer, key: &str, value: &Value<'_>) -> Taken {
    match key {
        "enabled" => lb.enabled = value.boolean()?,
        "lb-version" if !matches!(value.text()?.as_str(), "" | "v2") => {
            return Err("only `v2` is supported".to_owned());
        }
        "use-octavia" if !value.boolean()? => {
            return Err("only Octavia is supported: remove the setting".to_owned());
        }
        "lb-version" | "use-octavia" => {}
        "lb-method" => {
            lb.lb_method = match value.text()?.as_str() {
                "" => LoadBalancer::default().lb_method,
                method if METHODS.contains(&method) => method.to_owned(),
                _ => return Err(format!("expected one of `{}`", METHODS.join("`, `"))),
            };
        }
        "lb-provider" => lb.lb_provider = value.text()?,
        "create-monitor" => lb.create_monitor = value.boolean()?,
        "monitor-delay" => lb.monitor_delay = value.duration()?.as_secs(),
        "monitor-timeout" => lb.monitor_timeout = value.duration()?.as_secs(),
        "monitor-max-retries" => lb.monitor_max_retries = value.number()?,
        "monitor-max-retries-down" => lb.monitor_max_retries_down = value.number()?,
        "manage-security-groups" => lb.manage_security_groups = value.boolean()?,
        "internal-lb" => lb.internal_lb = value.boolean()?,
        "node-selector" => lb.node_selector = value.text()?,
        "cascade-delete" => lb.cascade_delete = value.boolean()?,
        "flavor-id" => lb.flavor_id = value.text()?,
        "availability-zone" => lb.availability_zone = value.text()?,
        "enable-ingress-hostname" => lb.enable_ingress_hostname = value.boolean()?,
        "ingress-hostname-suffix" => lb.ingress_hostname_suffix = value.text()?,
        "max-shared-lb" => {
            lb.max_shared_lb = usize::try_from(value.number()?).unwrap_or(usize::MAX);
        }
        "default-tls-container-ref" => lb.tls_container_ref = value.text()?,
        "container-store" => {
            lb.barbican = match value.text()?.as_str() {
                "barbican" => true,
                "external" => false,
                _ => return Err("expected `barbican` or `external`".to_owned()),
            };
        }
        "provider-requires-serial-api-calls" => lb.serial_api_calls = value.boolean()?,
        _ => return class_setting(&mut lb.class, key, value),
    }

    Ok(true)
}
