//! `--plugin-limit KEY=VALUE`: overrides the default resource limits of the plugin.

use std::{fmt::Write as _, ops::RangeInclusive, time::Duration};

use skydock_cloud::units::{self, duration};
use skydock_sandbox::Limits;

use super::parse_duration;

/// A limit, by its name in `--plugin-limit`.
#[derive(Debug)]
pub struct Key {
    name: &'static str,
    /// Description for `--help`, in one line.
    what: &'static str,
    field: Field,
}

/// The field that a limit sets, and its valid values.
#[derive(Debug)]
enum Field {
    Time(fn(&mut Limits) -> &mut Duration, RangeInclusive<Duration>),
    Bytes(fn(&mut Limits) -> &mut usize, RangeInclusive<usize>),
    Count(fn(&mut Limits) -> &mut usize, RangeInclusive<usize>),
}

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const KI: usize = 1 << 10;
const MI: usize = 1 << 20;
const GI: usize = 1 << 30;

/// All limits.
static KEYS: &[Key] = &[
    Key {
        name: "guest-cpu",
        what: "CPU time of one call; waiting does not count",
        field: Field::Time(
            |it| &mut it.guest_cpu,
            Duration::from_millis(10)..=Duration::from_secs(600),
        ),
    },
    Key {
        name: "read-deadline",
        what: "wall-clock time of a call that changes nothing, once it has an instance",
        field: Field::Time(|it| &mut it.read_deadline, SECOND..=HOUR),
    },
    Key {
        name: "write-deadline",
        what: "wall-clock time of a call that may change the cloud, once it has an instance",
        field: Field::Time(|it| &mut it.write_deadline, SECOND..=HOUR),
    },
    Key {
        name: "queue-deadline",
        what: "time that a call waits for an instance while all are busy",
        field: Field::Time(|it| &mut it.queue_deadline, SECOND..=HOUR),
    },
    Key {
        name: "memory",
        what: "memory of one instance",
        field: Field::Bytes(|it| &mut it.memory, MI..=4 * GI),
    },
    Key {
        name: "memory-total",
        what: "memory of all instances together, and of what Skydock keeps for them",
        field: Field::Bytes(|it| &mut it.memory_total, MI..=64 * GI),
    },
    Key {
        name: "table-elements",
        what: "elements of each table of an instance, such as functions that are called by pointer",
        field: Field::Count(|it| &mut it.table_elements, 1000..=10_000_000),
    },
    Key {
        name: "instances",
        what: "instances, and therefore concurrent calls; a quarter of them, at most 8, is reserved for nodes and zones, and as many for \
               routes and for volumes. With too few, all capabilities share them. By default 16 more than --concurrent-service-syncs",
        field: Field::Count(|it| &mut it.instances, 1..=500),
    },
    Key {
        name: "handles",
        what: "what all instances together may keep open in Skydock: requests, bodies, streams, timers",
        field: Field::Count(|it| &mut it.handles, 16..=100_000),
    },
    Key {
        name: "uses",
        what: "calls that an instance serves before it is replaced",
        field: Field::Count(|it| &mut it.uses, 1..=1_000_000_000),
    },
    Key {
        name: "idle",
        what: "time after which an idle instance releases its memory; all but 8 release it after a quarter of that time",
        field: Field::Time(|it| &mut it.idle, SECOND..=Duration::from_secs(24 * 3600)),
    },
    Key {
        name: "call-size",
        what: "data that the plugin may pass in one call or answer",
        field: Field::Bytes(|it| &mut it.hostcall_buffer, 64 * KI..=GI),
    },
    Key {
        name: "log-rate",
        what: "log lines per second, on average",
        field: Field::Count(|it| &mut it.log_rate, 1..=100_000),
    },
    Key {
        name: "log-burst",
        what: "log lines in a burst",
        field: Field::Count(|it| &mut it.log_burst, 1..=1_000_000),
    },
    Key {
        name: "log-bytes",
        what: "log data per second, on average; 16 times as much in a burst",
        field: Field::Bytes(|it| &mut it.log_bytes, KI..=100 * MI),
    },
    Key {
        name: "routes",
        what: "routes in one answer",
        field: Field::Count(|it| &mut it.routes, 1..=1_000_000),
    },
    Key {
        name: "volumes",
        what: "volumes, or snapshots of volumes, in one answer",
        field: Field::Count(|it| &mut it.volumes, 1..=1_000_000),
    },
    Key {
        name: "compile-memory",
        what: "address space of the process that compiles the plugin",
        field: Field::Bytes(|it| &mut it.compile_memory, 256 * MI..=64 * GI),
    },
    Key {
        name: "compile-cpu",
        what: "CPU time of the process that compiles the plugin",
        field: Field::Time(|it| &mut it.compile_cpu, SECOND..=HOUR),
    },
    Key {
        name: "compile-deadline",
        what: "wall-clock time of the process that compiles the plugin, in case it hangs",
        field: Field::Time(|it| &mut it.compile_deadline, SECOND..=HOUR),
    },
];

/// A limit that the operator has set.
#[derive(Clone, Copy, Debug)]
pub struct PluginLimit {
    key: &'static Key,
    value: Value,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Time(Duration),
    Number(usize),
}

/// Limits that are not valid together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginLimitsError {
    /// A limit is set twice.
    #[error("--plugin-limit sets {0} twice")]
    Twice(&'static str),
    /// The memory of one instance exceeds the memory of all instances.
    #[error(
        "--plugin-limit memory={} exceeds memory-total={}, which all instances share: increase memory-total or reduce memory",
        bytes(*.memory), bytes(*.total)
    )]
    MemoryTotal {
        /// Limit for one instance.
        memory: usize,
        /// Limit for all instances.
        total: usize,
    },
}

/// Parses `KEY=VALUE`.
///
/// # Errors
/// What is expected instead.
pub fn parse(text: &str) -> Result<PluginLimit, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("expected KEY=VALUE, for example memory=256Mi")?;

    let key = KEYS.iter().find(|key| key.name == name).ok_or_else(|| {
        let names: Vec<_> = KEYS.iter().map(|key| key.name).collect();
        format!(
            "unknown limit `{name}`; expected one of {}",
            names.join(", ")
        )
    })?;

    let value = key
        .field
        .read(value)
        .ok_or_else(|| format!("{name} must be {}", key.field.expected()))?;
    Ok(PluginLimit { key, value })
}

/// Merges limits: those of the flags, and those of the configuration that the flags do not set.
#[must_use]
pub fn merged(mut configured: Vec<PluginLimit>, flags: Vec<PluginLimit>) -> Vec<PluginLimit> {
    configured.retain(|limit| flags.iter().all(|flag| flag.key.name != limit.key.name));
    configured.extend(flags);
    configured
}

/// Returns the limits of the plugin: the defaults for this number of concurrent services, and what
/// the operator has set.
///
/// # Errors
/// If settings conflict.
pub fn limits(services: usize, settings: &[PluginLimit]) -> Result<Limits, PluginLimitsError> {
    let mut limits = Limits {
        instances: Limits::instances_for(services),
        ..Limits::default()
    };

    for (index, setting) in settings.iter().enumerate() {
        let name = setting.key.name;
        if settings
            .iter()
            .take(index)
            .any(|before| before.key.name == name)
        {
            return Err(PluginLimitsError::Twice(name));
        }

        match (&setting.key.field, setting.value) {
            (Field::Time(at, _), Value::Time(time)) => *at(&mut limits) = time,
            (Field::Bytes(at, _) | Field::Count(at, _), Value::Number(number)) => {
                *at(&mut limits) = number;
            }
            // The parser gives each field a value of its kind.
            _ => {}
        }
    }

    if limits.memory > limits.memory_total {
        return Err(PluginLimitsError::MemoryTotal {
            memory: limits.memory,
            total: limits.memory_total,
        });
    }
    Ok(limits)
}

/// Returns the text for `--help`.
#[must_use]
pub fn help() -> String {
    let mut help = "Resource limit of the plugin. May be repeated:".to_owned();
    for key in KEYS {
        // Writing to a string does not fail.
        let _ = write!(
            help,
            "\n- {}={}: {}",
            key.name,
            key.field.default(),
            key.what
        );
    }
    help
}

impl Field {
    fn read(&self, text: &str) -> Option<Value> {
        match self {
            Self::Time(_, range) => parse_duration(text)
                .ok()
                .filter(|time| range.contains(time))
                .map(Value::Time),
            Self::Bytes(_, range) => parse_bytes(text)
                .filter(|bytes| range.contains(bytes))
                .map(Value::Number),
            Self::Count(_, range) => text
                .parse()
                .ok()
                .filter(|count| range.contains(count))
                .map(Value::Number),
        }
    }

    fn expected(&self) -> String {
        match self {
            Self::Time(_, range) => {
                format!(
                    "a duration from {} to {}, for example 30s",
                    duration(*range.start()),
                    duration(*range.end())
                )
            }
            Self::Bytes(_, range) => {
                format!(
                    "a number of bytes from {} to {}, for example 256Mi",
                    bytes(*range.start()),
                    bytes(*range.end())
                )
            }
            Self::Count(_, range) => format!("a number from {} to {}", range.start(), range.end()),
        }
    }

    fn default(&self) -> String {
        let mut limits = Limits::default();
        match self {
            Self::Time(at, _) => duration(*at(&mut limits)),
            Self::Bytes(at, _) => bytes(*at(&mut limits)),
            Self::Count(at, _) => at(&mut limits).to_string(),
        }
    }
}

/// Parses a number of bytes in Kubernetes' notation: `512`, `64Ki`, `128Mi`, `1Gi`.
pub(crate) fn parse_bytes(text: &str) -> Option<usize> {
    let units = [("Gi", GI), ("Mi", MI), ("Ki", KI)];
    let (number, unit) = units
        .iter()
        .find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit)))
        .unwrap_or((text, 1));
    number.parse::<usize>().ok()?.checked_mul(unit)
}

fn bytes(bytes: usize) -> String {
    units::bytes(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(settings: &[&str]) -> Result<Limits, PluginLimitsError> {
        let settings: Vec<_> = settings
            .iter()
            .map(|text| parse(text).expect(text))
            .collect();
        limits(20, &settings)
    }

    #[test]
    fn every_key_sets_its_own_limit() {
        assert_eq!(set(&[]), Ok(Limits::default()));
        type Change = fn(&mut Limits);
        let table: [(&str, Change); 20] = [
            ("guest-cpu=500ms", |it| {
                it.guest_cpu = Duration::from_millis(500);
            }),
            ("read-deadline=10s", |it| it.read_deadline = 10 * SECOND),
            ("write-deadline=5m0s", |it| it.write_deadline = 300 * SECOND),
            ("queue-deadline=1m", |it| it.queue_deadline = 60 * SECOND),
            ("memory=256Mi", |it| it.memory = 256 * MI),
            ("memory-total=4Gi", |it| it.memory_total = 4 * GI),
            ("table-elements=100000", |it| it.table_elements = 100_000),
            ("instances=1", |it| it.instances = 1),
            ("handles=4096", |it| it.handles = 4096),
            ("uses=1", |it| it.uses = 1),
            ("idle=1h", |it| it.idle = HOUR),
            ("call-size=65536", |it| it.hostcall_buffer = 64 * KI),
            ("log-rate=5", |it| it.log_rate = 5),
            ("log-burst=7", |it| it.log_burst = 7),
            ("routes=40000", |it| it.routes = 40_000),
            ("volumes=70000", |it| it.volumes = 70_000),
            ("log-bytes=1Ki", |it| it.log_bytes = KI),
            ("compile-memory=4Gi", |it| it.compile_memory = 4 * GI),
            ("compile-cpu=10m", |it| {
                it.compile_cpu = Duration::from_secs(600);
            }),
            ("compile-deadline=1m", |it| {
                it.compile_deadline = Duration::from_secs(60);
            }),
        ];

        assert_eq!(table.len(), KEYS.len());
        for (setting, change) in table {
            let mut expected = Limits::default();
            change(&mut expected);
            assert_eq!(set(&[setting]), Ok(expected), "{setting}");
        }
    }

    #[test]
    fn instances_default_to_cover_concurrent_services() {
        assert_eq!(limits(100, &[]).unwrap().instances, 116);
        assert_eq!(
            limits(100, &[parse("instances=24").unwrap()])
                .unwrap()
                .instances,
            24
        );
    }

    #[test]
    fn an_error_names_the_key_and_the_allowed_values() {
        let table = [
            ("memory", "expected KEY=VALUE, for example memory=256Mi"),
            (
                "memory=1",
                "memory must be a number of bytes from 1Mi to 4Gi, for example 256Mi",
            ),
            (
                "memory=lots",
                "memory must be a number of bytes from 1Mi to 4Gi, for example 256Mi",
            ),
            (
                "memory=99999999999999Gi",
                "memory must be a number of bytes from 1Mi to 4Gi, for example 256Mi",
            ),
            (
                "guest-cpu=0",
                "guest-cpu must be a duration from 10ms to 10m, for example 30s",
            ),
            ("instances=0", "instances must be a number from 1 to 500"),
            ("handles=-1", "handles must be a number from 16 to 100000"),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text).unwrap_err(), expected, "{text}");
        }

        let unknown = parse("cpu=2s").unwrap_err();
        assert!(
            unknown.starts_with("unknown limit `cpu`; expected one of guest-cpu, read-deadline"),
            "{unknown}"
        );
    }

    #[test]
    fn rejects_duplicate_and_conflicting_settings() {
        assert_eq!(
            set(&["uses=1", "uses=2"]),
            Err(PluginLimitsError::Twice("uses"))
        );
        let error = set(&["memory=2Gi"]).unwrap_err().to_string();
        assert!(
            error.starts_with("--plugin-limit memory=2Gi exceeds memory-total=1Gi"),
            "{error}"
        );
        assert!(set(&["memory=2Gi", "memory-total=8Gi"]).is_ok());
    }

    #[test]
    fn operating_md_lists_every_limit_with_its_default() {
        let page = include_str!("../../../../docs/operating.md");
        let section = page
            .split("## Limits of a plugin")
            .nth(1)
            .and_then(|rest| rest.split("\n## ").next())
            .unwrap();
        let rows: Vec<_> = section
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        assert_eq!(rows.len(), KEYS.len());
        for (row, key) in rows.iter().zip(KEYS) {
            assert!(
                row.starts_with(&format!("| `{}` | {} |", key.name, key.field.default())),
                "{row}"
            );
        }
    }
}
