//! What a plugin may use. Always on: each limit has a default.

use std::time::Duration;

/// Time between two ticks of the clock that interrupts guests: how long a guest keeps a thread before other work gets its turn,
/// and how far it may go beyond [`Limits::guest_cpu`].
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// CPU time for which a guest may keep a thread though it was to give it up: some ticks, since what the host does for it at once may take
/// as long. A guest that is made by a compiler enters a function or begins a loop anew every few microseconds.
pub(crate) const UNBROKEN: Duration = Duration::from_millis(250);

/// Instances beside one for each service that is worked on at a time: those of nodes and zones, and those of routes.
pub(crate) const OTHER_INSTANCES: usize = 16;

/// What one plugin may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// CPU time per call: of the guest's own code, and of what the host does for it meanwhile. Waiting costs nothing. Default
    /// 2 s: thousands of nodes are a matter of milliseconds, so more is a loop.
    pub guest_cpu: Duration,
    /// Time on the clock for a call that changes nothing, from when it has an instance. Default 30 s.
    pub read_deadline: Duration,
    /// Time on the clock for a call that may change the cloud, from when it has an instance. Default 120 s.
    pub write_deadline: Duration,
    /// Time a call waits for an instance while all are busy. Default 30 s.
    pub queue_deadline: Duration,
    /// Linear memory per instance in bytes. Default 128 MiB.
    pub memory: usize,
    /// Bytes of all instances of a plugin, of both generations while one replaces the other: linear memory, and what the host
    /// keeps for [`Limits::handles`]. Default 1 GiB.
    pub memory_total: usize,
    /// Elements of each table of an instance. Default 65,536: more than the largest guests of garbage-collected languages have
    /// functions in a table.
    pub table_elements: usize,
    /// Instances of one generation at a time, and so calls at a time. Default 36: one for each service that is worked on at
    /// a time by default, 8 for nodes and zones, and 8 for routes. One is made when it is needed, and none is kept that stands
    /// idle.
    pub instances: usize,
    /// What all instances of a plugin may have open in the host at a time: requests, bodies, streams, timers. Default 1024:
    /// some 200 requests in the air.
    pub handles: usize,
    /// Calls an instance serves before it is replaced, so that a leaking guest starts afresh; varied by 10 % either way, so
    /// that instances do not retire together. Default 1000.
    pub uses: usize,
    /// Time after which an instance that serves nothing gives its memory back. Default 60 s; a quarter of that for those
    /// beyond eight.
    pub idle: Duration,
    /// Bytes a guest may hand to the host in one call or answer. Default 8 MiB: 1000 nodes with 8 KiB each, or 20,000 routes with 400
    /// bytes. A guest can keep an answer alive for as long as it computes on, so all calls together may take that often.
    pub hostcall_buffer: usize,
    /// Log lines per second of one plugin, over time. Default 100.
    pub log_rate: usize,
    /// Log lines of one plugin at once. Default 200.
    pub log_burst: usize,
    /// Bytes of log per second of one plugin, over time; sixteen times as many at once. Default 16 KiB: 1.4 GB a day.
    pub log_bytes: usize,
    /// Bytes of a log line; the rest is cut off. Default 4 KiB, as the contract says.
    pub log_line: usize,
    /// Bytes of address space of the compiler. Default 2 GiB.
    pub compile_memory: usize,
    /// CPU time of the compiler, in whole seconds. Default 5 min: a guest of 128 MiB takes two.
    pub compile_cpu: Duration,
    /// Time on the clock for the compiler. Default 5 min.
    pub compile_deadline: Duration,
    /// Routes in one answer. Default 20,000: two per node of a cluster twice the size Kubernetes supports.
    pub routes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            guest_cpu: Duration::from_secs(2),
            read_deadline: Duration::from_secs(30),
            write_deadline: Duration::from_secs(120),
            queue_deadline: Duration::from_secs(30),
            memory: 128 << 20,
            memory_total: 1 << 30,
            table_elements: 65_536,
            instances: Self::instances_for(20),
            handles: 1024,
            uses: 1000,
            idle: Duration::from_secs(60),
            hostcall_buffer: 8 << 20,
            log_rate: 100,
            log_burst: 200,
            log_bytes: 16 << 10,
            log_line: 4 << 10,
            compile_memory: 2 << 30,
            compile_cpu: Duration::from_secs(300),
            compile_deadline: Duration::from_secs(300),
            routes: 20_000,
        }
    }
}

impl Limits {
    /// [`Limits::instances`] for so many services that are worked on at a time.
    #[must_use]
    pub fn instances_for(services: usize) -> usize {
        services.saturating_add(OTHER_INSTANCES)
    }
}

/// What the contract says to authors of plugins, without the marks of comments and ends of lines.
#[cfg(test)]
pub(crate) fn contract() -> String {
    let text = include_str!("../../../wit/v0.1.0/plugin.wit");
    text.split_whitespace().filter(|word| *word != "///").collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_tells_authors_of_plugins_the_default_limits() {
        let (contract, limits) = (contract(), Limits::default());
        for said in [
            format!("{} s of CPU time", limits.guest_cpu.as_secs()),
            format!("{} s on the clock, or {} s", limits.read_deadline.as_secs(), limits.write_deadline.as_secs()),
            format!("{} MiB of memory an instance, and {} GiB for all", limits.memory >> 20, limits.memory_total >> 30),
            format!("{} handles of host resources", limits.handles),
            format!("{} MiB of arguments and answer", limits.hostcall_buffer >> 20),
            format!("{} log lines and {} KiB of log a second", limits.log_rate, limits.log_bytes >> 10),
            format!("Up to {} calls run at a time", limits.instances),
        ] {
            assert!(contract.contains(&said), "{said}");
        }
    }
}
