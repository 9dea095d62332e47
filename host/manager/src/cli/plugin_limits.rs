//! `--plugin-limit KEY=VALUE`: what a plugin may use, where the defaults do not fit.

use std::{fmt::Write as _, ops::RangeInclusive, time::Duration};

use skydock_plugin::Limits;

use super::parse_duration;

/// A limit by the name an operator gives it.
#[derive(Debug)]
pub struct Key {
    name: &'static str,
    /// For `--help`, in one line.
    what: &'static str,
    field: Field,
}

/// Where a limit is kept, and what it may be.
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

/// All there are.
static KEYS: [Key; 19] = [
    Key {
        name: "guest-cpu",
        what: "CPU time of one call; waiting costs nothing",
        field: Field::Time(|it| &mut it.guest_cpu, Duration::from_millis(10)..=Duration::from_secs(600)),
    },
    Key {
        name: "read-deadline",
        what: "time on the clock of a call that changes nothing, once it has an instance",
        field: Field::Time(|it| &mut it.read_deadline, SECOND..=HOUR),
    },
    Key {
        name: "write-deadline",
        what: "time on the clock of a call that may change the cloud, once it has an instance",
        field: Field::Time(|it| &mut it.write_deadline, SECOND..=HOUR),
    },
    Key {
        name: "queue-deadline",
        what: "time that a call waits for an instance while all are busy",
        field: Field::Time(|it| &mut it.queue_deadline, SECOND..=HOUR),
    },
    Key { name: "memory", what: "memory of one instance", field: Field::Bytes(|it| &mut it.memory, MI..=4 * GI) },
    Key {
        name: "memory-total",
        what: "memory of all instances together, and of what the host keeps for them",
        field: Field::Bytes(|it| &mut it.memory_total, MI..=64 * GI),
    },
    Key {
        name: "table-elements",
        what: "elements of a table of an instance, such as its functions that are called by pointer",
        field: Field::Count(|it| &mut it.table_elements, 1000..=10_000_000),
    },
    Key {
        name: "instances",
        what: "instances, and so calls at a time; a quarter of them, at most 8, is kept for nodes and zones, and as many for routes. \
               Below 3 all wait for the same. By default 16 more than --concurrent-service-syncs",
        field: Field::Count(|it| &mut it.instances, 1..=500),
    },
    Key {
        name: "handles",
        what: "what all instances together may have open in the host: requests, bodies, streams, timers",
        field: Field::Count(|it| &mut it.handles, 16..=100_000),
    },
    Key {
        name: "uses",
        what: "calls that an instance serves before another takes its place",
        field: Field::Count(|it| &mut it.uses, 1..=1_000_000_000),
    },
    Key {
        name: "idle",
        what: "time after which an instance without work gives its memory back; of more than 8, the others after a quarter of it",
        field: Field::Time(|it| &mut it.idle, SECOND..=Duration::from_secs(24 * 3600)),
    },
    Key {
        name: "call-size",
        what: "what it may hand over in one call or answer",
        field: Field::Bytes(|it| &mut it.hostcall_buffer, 64 * KI..=GI),
    },
    Key {
        name: "log-rate",
        what: "log lines a second, over time",
        field: Field::Count(|it| &mut it.log_rate, 1..=100_000),
    },
    Key { name: "log-burst", what: "log lines at once", field: Field::Count(|it| &mut it.log_burst, 1..=1_000_000) },
    Key {
        name: "log-bytes",
        what: "log a second, over time; 16 times as much at once",
        field: Field::Bytes(|it| &mut it.log_bytes, KI..=100 * MI),
    },
    Key { name: "routes", what: "routes in one answer", field: Field::Count(|it| &mut it.routes, 1..=1_000_000) },
    Key {
        name: "compile-memory",
        what: "address space of the process that compiles it",
        field: Field::Bytes(|it| &mut it.compile_memory, 256 * MI..=64 * GI),
    },
    Key {
        name: "compile-cpu",
        what: "CPU time of the process that compiles it",
        field: Field::Time(|it| &mut it.compile_cpu, SECOND..=HOUR),
    },
    Key {
        name: "compile-deadline",
        what: "time on the clock of the process that compiles it",
        field: Field::Time(|it| &mut it.compile_deadline, SECOND..=HOUR),
    },
];

/// One limit that the operator has set.
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

/// Limits that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginLimitsError {
    /// One limit has two values.
    #[error("--plugin-limit names {0} twice")]
    Twice(&'static str),
    /// No instance could ever have its memory.
    #[error(
        "--plugin-limit memory={} is more than memory-total={}, which all instances share: raise memory-total or lower memory",
        bytes(*.memory), bytes(*.total)
    )]
    MemoryTotal {
        /// Of one instance.
        memory: usize,
        /// Of all.
        total: usize,
    },
}

/// Reads `KEY=VALUE`.
pub(crate) fn parse(text: &str) -> Result<PluginLimit, String> {
    let (name, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as memory=256Mi")?;
    let key = KEYS.iter().find(|key| key.name == name).ok_or_else(|| {
        let names: Vec<_> = KEYS.iter().map(|key| key.name).collect();
        format!("there is no limit `{name}`; there are {}", names.join(", "))
    })?;
    let value = key.field.read(value).ok_or_else(|| format!("{name} is {}", key.field.expected()))?;
    Ok(PluginLimit { key, value })
}

/// The limits of the flags, and those of a configuration that the flags do not set.
pub(crate) fn merged(mut configured: Vec<PluginLimit>, flags: Vec<PluginLimit>) -> Vec<PluginLimit> {
    configured.retain(|limit| flags.iter().all(|flag| flag.key.name != limit.key.name));
    configured.extend(flags);
    configured
}

/// What the plugin may use: the defaults for so many services at a time, and what the operator has set.
///
/// # Errors
/// If settings do not fit together.
pub fn limits(services: usize, settings: &[PluginLimit]) -> Result<Limits, PluginLimitsError> {
    let mut limits = Limits { instances: Limits::instances_for(services), ..Limits::default() };
    for (index, setting) in settings.iter().enumerate() {
        let name = setting.key.name;
        if settings.iter().take(index).any(|before| before.key.name == name) {
            return Err(PluginLimitsError::Twice(name));
        }
        match (&setting.key.field, setting.value) {
            (Field::Time(at, _), Value::Time(time)) => *at(&mut limits) = time,
            (Field::Bytes(at, _) | Field::Count(at, _), Value::Number(number)) => *at(&mut limits) = number,
            _ => {}
        }
    }
    if limits.memory > limits.memory_total {
        return Err(PluginLimitsError::MemoryTotal { memory: limits.memory, total: limits.memory_total });
    }
    Ok(limits)
}

/// For `--help`.
pub(super) fn help() -> String {
    let mut help = "What the plugin may use at most, where the default does not fit. May be repeated:".to_owned();
    for key in &KEYS {
        // Writing to a string does not fail.
        let _ = write!(help, "\n- {}={}: {}", key.name, key.field.default(), key.what);
    }
    help
}

impl Field {
    fn read(&self, text: &str) -> Option<Value> {
        match self {
            Self::Time(_, range) => parse_duration(text).ok().filter(|time| range.contains(time)).map(Value::Time),
            Self::Bytes(_, range) => parse_bytes(text).filter(|bytes| range.contains(bytes)).map(Value::Number),
            Self::Count(_, range) => text.parse().ok().filter(|count| range.contains(count)).map(Value::Number),
        }
    }

    fn expected(&self) -> String {
        match self {
            Self::Time(_, range) => {
                format!("a duration from {} to {}, such as 30s", time(*range.start()), time(*range.end()))
            }
            Self::Bytes(_, range) => {
                format!("a number of bytes from {} to {}, such as 256Mi", bytes(*range.start()), bytes(*range.end()))
            }
            Self::Count(_, range) => format!("a number from {} to {}", range.start(), range.end()),
        }
    }

    fn default(&self) -> String {
        let mut limits = Limits::default();
        match self {
            Self::Time(at, _) => time(*at(&mut limits)),
            Self::Bytes(at, _) => bytes(*at(&mut limits)),
            Self::Count(at, _) => at(&mut limits).to_string(),
        }
    }
}

/// Bytes as Kubernetes writes them: `512`, `64Ki`, `128Mi`, `1Gi`.
fn parse_bytes(text: &str) -> Option<usize> {
    let units = [("Gi", GI), ("Mi", MI), ("Ki", KI)];
    let (number, unit) =
        units.iter().find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit))).unwrap_or((text, 1));
    number.parse::<usize>().ok()?.checked_mul(unit)
}

fn bytes(bytes: usize) -> String {
    let unit = [("Gi", GI), ("Mi", MI), ("Ki", KI)].into_iter().find(|(_, unit)| bytes.is_multiple_of(*unit));
    unit.map_or_else(|| bytes.to_string(), |(suffix, unit)| format!("{}{suffix}", bytes / unit))
}

fn time(time: Duration) -> String {
    match (time.as_secs(), time.subsec_millis()) {
        (0, millis) => format!("{millis}ms"),
        (seconds, 0) if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        (seconds, 0) if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        (seconds, _) => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(settings: &[&str]) -> Result<Limits, PluginLimitsError> {
        let settings: Vec<_> = settings.iter().map(|text| parse(text).expect(text)).collect();
        limits(20, &settings)
    }

    // Holds: OPS-84
    #[test]
    fn every_key_sets_its_own_limit() {
        let defaults = Limits::default();
        assert_eq!(set(&[]), Ok(defaults.clone()));
        let table = [
            ("guest-cpu=500ms", Limits { guest_cpu: Duration::from_millis(500), ..defaults.clone() }),
            ("read-deadline=10s", Limits { read_deadline: 10 * SECOND, ..defaults.clone() }),
            ("write-deadline=5m0s", Limits { write_deadline: 300 * SECOND, ..defaults.clone() }),
            ("queue-deadline=1m", Limits { queue_deadline: 60 * SECOND, ..defaults.clone() }),
            ("memory=256Mi", Limits { memory: 256 * MI, ..defaults.clone() }),
            ("memory-total=4Gi", Limits { memory_total: 4 * GI, ..defaults.clone() }),
            ("table-elements=100000", Limits { table_elements: 100_000, ..defaults.clone() }),
            ("instances=1", Limits { instances: 1, ..defaults.clone() }),
            ("handles=4096", Limits { handles: 4096, ..defaults.clone() }),
            ("uses=1", Limits { uses: 1, ..defaults.clone() }),
            ("idle=1h", Limits { idle: HOUR, ..defaults.clone() }),
            ("call-size=65536", Limits { hostcall_buffer: 64 * KI, ..defaults.clone() }),
            ("log-rate=5", Limits { log_rate: 5, ..defaults.clone() }),
            ("log-burst=7", Limits { log_burst: 7, ..defaults.clone() }),
            ("routes=40000", Limits { routes: 40_000, ..defaults.clone() }),
            ("log-bytes=1Ki", Limits { log_bytes: KI, ..defaults.clone() }),
            ("compile-memory=4Gi", Limits { compile_memory: 4 * GI, ..defaults.clone() }),
            ("compile-cpu=10m", Limits { compile_cpu: Duration::from_secs(600), ..defaults.clone() }),
            ("compile-deadline=1m", Limits { compile_deadline: Duration::from_secs(60), ..defaults }),
        ];
        assert_eq!(table.len(), KEYS.len());
        for (setting, expected) in table {
            assert_eq!(set(&[setting]), Ok(expected), "{setting}");
        }
    }

    #[test]
    fn there_are_instances_for_all_services_that_are_worked_on() {
        assert_eq!(limits(100, &[]).unwrap().instances, 116);
        assert_eq!(limits(100, &[parse("instances=24").unwrap()]).unwrap().instances, 24);
    }

    #[test]
    fn a_mistake_is_told_with_key_and_what_is_allowed() {
        let table = [
            ("memory", "expected KEY=VALUE, such as memory=256Mi"),
            ("memory=1", "memory is a number of bytes from 1Mi to 4Gi, such as 256Mi"),
            ("memory=lots", "memory is a number of bytes from 1Mi to 4Gi, such as 256Mi"),
            ("memory=99999999999999Gi", "memory is a number of bytes from 1Mi to 4Gi, such as 256Mi"),
            ("guest-cpu=0", "guest-cpu is a duration from 10ms to 10m, such as 30s"),
            ("instances=0", "instances is a number from 1 to 500"),
            ("handles=-1", "handles is a number from 16 to 100000"),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text).unwrap_err(), expected, "{text}");
        }
        let unknown = parse("cpu=2s").unwrap_err();
        assert!(unknown.starts_with("there is no limit `cpu`; there are guest-cpu, read-deadline"), "{unknown}");
    }

    #[test]
    fn settings_have_to_fit_together() {
        assert_eq!(set(&["uses=1", "uses=2"]), Err(PluginLimitsError::Twice("uses")));
        let error = set(&["memory=2Gi"]).unwrap_err().to_string();
        assert!(error.starts_with("--plugin-limit memory=2Gi is more than memory-total=1Gi"), "{error}");
        assert!(set(&["memory=2Gi", "memory-total=8Gi"]).is_ok());
    }

    // Holds: OPS-85
    #[test]
    fn the_page_for_operators_has_every_limit_and_its_default() {
        let page = include_str!("../../../../docs/operating.md");
        let section =
            page.split("## What a plugin may use").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
        let rows: Vec<_> = section.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows.len(), KEYS.len());
        for (row, key) in rows.iter().zip(&KEYS) {
            assert!(row.starts_with(&format!("| `{}` | {} |", key.name, key.field.default())), "{row}");
        }
    }
}
