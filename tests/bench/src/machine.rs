//! The machine used for a measurement, and the versions of the measured programs.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

/// Information that is required to interpret the figures.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The model name of the CPU.
    pub cpu: String,
    /// The number of available CPUs.
    pub cores: usize,
    /// The memory in GiB.
    pub memory_gib: u64,
    /// The version of Linux.
    pub kernel: String,
    /// The version of Skydock, as it reports it.
    pub skydock: String,
    /// The Kubernetes version of etcd and the API server.
    pub kubernetes: String,
    /// The version of upstream's framework.
    pub cloud_provider: String,
}

impl Machine {
    /// Reads the information about this machine, this program, and the Go modules of the tests.
    #[must_use]
    pub fn look(skydock: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let version = Command::new(skydock).arg("--version").output();
        let version =
            version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let module = |file: &str, name: &str| {
            required(
                &fs::read_to_string(tests.join(file)).unwrap_or_default(),
                name,
            )
        };
        Self {
            cpu: cpu(&read("/proc/cpuinfo")),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: memory_gib(&read("/proc/meminfo")),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            skydock: version.unwrap_or_default(),
            kubernetes: module("clusters/control-plane/go.mod", "k8s.io/kubernetes"),
            cloud_provider: module("bench/peer/go.mod", "k8s.io/cloud-provider"),
        }
    }
}

fn cpu(cpuinfo: &str) -> String {
    let line = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let name = line
        .and_then(|line| line.split_once(':'))
        .map(|(_, name)| name.trim().to_owned());
    name.unwrap_or_else(|| "unknown CPU".to_owned())
}

/// Returns the memory in GiB. It is rounded, because a part is always reserved.
fn memory_gib(meminfo: &str) -> u64 {
    let kib = meminfo.lines().find_map(|line| {
        line.strip_prefix("MemTotal:")?
            .trim()
            .strip_suffix(" kB")?
            .parse()
            .ok()
    });
    (kib.unwrap_or(0u64) + (1 << 19)) >> 20
}

/// Returns the required version of a module in a go.mod.
fn required(go_mod: &str, module: &str) -> String {
    let version = go_mod
        .lines()
        .find_map(|line| line.trim().strip_prefix(module)?.split_whitespace().next());
    version.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_data_is_parsed_from_linux_files() {
        assert_eq!(cpu("processor\t: 0\nmodel name\t: AMD EPYC\n"), "AMD EPYC");
        assert_eq!(cpu(""), "unknown CPU");
        assert_eq!(memory_gib("MemTotal:       24593692 kB\n"), 23);
        assert_eq!(
            required(
                "require (\n\tk8s.io/api v0.36.3\n\tk8s.io/cloud-provider v0.36.3\n)",
                "k8s.io/api"
            ),
            "v0.36.3"
        );
    }

    #[test]
    fn module_versions_are_found() {
        let machine = Machine::look(Path::new("/nonexistent"));
        assert!(
            machine.kubernetes.starts_with('v') && machine.cloud_provider.starts_with('v'),
            "{machine:?}"
        );
    }
}
