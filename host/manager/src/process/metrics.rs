//! Metrics of the process and of its build, with the names and labels of other components of
//! Kubernetes.

use std::{
    fmt, fs,
    sync::LazyLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{
        MetricType,
        counter::ConstCounter,
        family::Family,
        gauge::{ConstGauge, Gauge},
    },
    registry::Registry,
};
use rustix::{
    process::{Resource, getrlimit},
    time::{ClockId, clock_gettime},
};

/// The minor version of Kubernetes whose cloud-controller-manager Skydock behaves like. Official
/// cloud-controller-managers also have the minor version of Kubernetes, and alerts about clusters
/// with several versions compare them.
const KUBERNETES: (&str, &str) = ("1", "36");

/// The commit that this is built of, if who builds it says so.
const COMMIT: &str = match option_env!("SKYDOCK_COMMIT") {
    Some(commit) => commit,
    None => "",
};

type Labels<const N: usize> = [(&'static str, &'static str); N];

/// The Unix time at which the process started, in seconds. The metrics are registered at the start.
static STARTED: LazyLock<f64> = LazyLock::new(|| {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
});

/// Registers the metrics.
pub(crate) fn register(registry: &mut Registry) {
    LazyLock::force(&STARTED);
    registry.register_collector(Box::new(ProcessCollector));

    let build = Family::<Labels<4>, Gauge>::default();
    let skydock = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("commit", COMMIT),
        ("rustc", env!("SKYDOCK_RUSTC")),
        ("wasmtime", env!("SKYDOCK_WASMTIME")),
    ];
    build.get_or_create(&skydock).set(1);
    registry.register(
        "skydock_build_info",
        "Versions of Skydock and of what it is built with; the value is always 1",
        build.clone(),
    );

    let kubernetes = Family::<[(&'static str, String); 7], Gauge>::default();
    let (major, minor) = KUBERNETES;
    let labels = [
        ("major", major.to_owned()),
        ("minor", minor.to_owned()),
        ("git_version", format!("v{major}.{minor}.0")),
        ("git_commit", COMMIT.to_owned()),
        // A build must not depend on when it is made.
        ("build_date", String::new()),
        ("compiler", "rustc".to_owned()),
        ("platform", platform()),
    ];
    kubernetes.get_or_create(&labels).set(1);
    registry.register(
        "kubernetes_build_info",
        "The version of Kubernetes whose behavior Skydock has; the value is always 1",
        kubernetes.clone(),
    );
}

/// A feature gate.
pub(crate) struct Feature {
    pub(crate) name: &'static str,
    /// Its stage in upstream, for example `ALPHA`.
    pub(crate) stage: &'static str,
    pub(crate) is_enabled: bool,
}

/// Registers which feature gates are enabled.
pub(crate) fn register_features(features: &[Feature], registry: &mut Registry) {
    let enabled = Family::<Labels<2>, Gauge>::default();
    for feature in features {
        let labels = [("name", feature.name), ("stage", feature.stage)];
        enabled
            .get_or_create(&labels)
            .set(i64::from(feature.is_enabled));
    }
    registry.register(
        "kubernetes_feature_enabled",
        "1 if the feature gate is enabled",
        enabled.clone(),
    );
}

/// Returns the platform in the words of Go.
fn platform() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{architecture}", std::env::consts::OS)
}

/// Reads what the system knows about the process, each time.
#[derive(Debug)]
struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let cpu = encoder.encode_descriptor(
            "process_cpu_seconds",
            "CPU time of the process in seconds",
            None,
            MetricType::Counter,
        )?;
        ConstCounter::new(cpu_time().as_secs_f64()).encode(cpu)?;

        let start = encoder.encode_descriptor(
            "process_start_time_seconds",
            "Start of the process as Unix time",
            None,
            MetricType::Gauge,
        )?;
        ConstGauge::new(*STARTED).encode(start)?;

        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let gauges = [
            (
                "process_resident_memory_bytes",
                "Resident memory of the process",
                bytes(&status, "VmRSS"),
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory of the process",
                bytes(&status, "VmSize"),
            ),
            (
                "process_open_fds",
                "Open file descriptors",
                open_descriptors(),
            ),
            (
                "process_max_fds",
                "Maximum number of open file descriptors",
                getrlimit(Resource::Nofile).current,
            ),
        ];
        for (name, help, value) in gauges {
            // Without /proc, it is not known.
            let Some(value) = value else { continue };
            let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(gauge)?;
        }
        Ok(())
    }
}

/// Returns the CPU time of all threads.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or(0),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

/// Returns this size of `/proc/self/status` in bytes.
fn bytes(status: &str, key: &str) -> Option<u64> {
    let mut lines = status.lines();
    let size = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let kibibytes: u64 = size.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

fn open_descriptors() -> Option<u64> {
    let listed = fs::read_dir("/proc/self/fd").ok()?.count();
    // One of them is that of the directory.
    u64::try_from(listed.saturating_sub(1)).ok()
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    /// Returns the value of this metric.
    fn value(text: &str, name: &str) -> f64 {
        let mut lines = text.lines();
        let line = lines.find(|line| line.split([' ', '{']).next() == Some(name));
        let line = line.unwrap_or_else(|| panic!("{name} is missing: {text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    fn text() -> String {
        let mut registry = Registry::default();
        register(&mut registry);
        let feature = |name, stage, is_enabled| Feature {
            name,
            stage,
            is_enabled,
        };
        let features = [feature("A", "ALPHA", true), feature("B", "BETA", false)];
        register_features(&features, &mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn metrics_of_the_process_are_plausible() {
        let file = fs::File::open("/proc/self/status").unwrap();
        let text = text();
        let read = |name| value(&text, name);

        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let age = now.as_secs_f64() - read("process_start_time_seconds");
        assert!((0.0..3600.0).contains(&age), "{age}");
        assert!(read("process_cpu_seconds_total") > 0.0);
        let resident = read("process_resident_memory_bytes");
        assert!(resident > 100_000.0, "{resident}");
        assert!(read("process_virtual_memory_bytes") >= resident);
        // Standard input, output and error, and the file.
        assert!(read("process_open_fds") >= 4.0);
        assert!(read("process_max_fds") >= read("process_open_fds"));
        drop(file);
    }

    #[test]
    fn the_build_is_told_with_upstreams_labels() {
        let text = text();
        assert_eq!(value(&text, "skydock_build_info"), 1.0);
        assert_eq!(value(&text, "kubernetes_build_info"), 1.0);
        for part in [
            concat!("version=\"", env!("CARGO_PKG_VERSION"), "\",commit="),
            "major=\"1\",minor=\"36\",git_version=\"v1.36.0\",git_commit=",
            ",compiler=\"rustc\",platform=\"linux/",
            "kubernetes_feature_enabled{name=\"A\",stage=\"ALPHA\"} 1\n",
            "kubernetes_feature_enabled{name=\"B\",stage=\"BETA\"} 0\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        for unknown in ["rustc=\"\"", "wasmtime=\"\""] {
            assert!(!text.contains(unknown), "{unknown}: {text}");
        }
    }

    #[test]
    fn sizes_are_read_in_kibibytes() {
        let status = "Name:\tskydock\nVmSize:\t  2048 kB\nVmRSS:\t    12 kB\n";
        for (key, expected) in [
            ("VmSize", Some(2 << 20)),
            ("VmRSS", Some(12 << 10)),
            ("VmSwap", None),
            ("Name", None),
        ] {
            assert_eq!(bytes(status, key), expected, "{key}");
        }
    }
}
