//! Limits of what a plugin uses. They are always enforced: each limit has a default.
//!
//! A limit is a field of [`Limits`] with its default, and a `Key` in
//! `host/manager/src/cli/plugin_limits.rs`, by which operators set it. `execution` in
//! `skydock-sandbox` enforces what an instance or a call uses, `load/compile.rs` what the compiler
//! uses, and `imports/log.rs` what is logged. It needs a row under "Limits of a plugin" in
//! `docs/operating.md`.

use std::time::Duration;

/// Time between two ticks of the clock that interrupts guests. It determines how long a guest keeps
/// a thread before other work runs, and by how much it may exceed [`Limits::guest_cpu`].
pub const TICK: Duration = Duration::from_millis(10);

/// CPU time for which a guest may keep a thread although it should have yielded: several ticks,
/// because a single call of the host may take that long. Code from a compiler enters a function or
/// starts a loop iteration every few microseconds.
pub const UNBROKEN: Duration = Duration::from_millis(250);

/// Instances in addition to one for each Service that is handled at a time: those for nodes and
/// zones, and those for routes. A plugin with volumes needs eight of the others for them.
pub const OTHER_INSTANCES: usize = 16;

/// Limits of one plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// CPU time of a call: of the guest's own code, and of what the host does for it during the
    /// call. Waiting is not counted. Default 2 s: processing thousands of nodes takes milliseconds,
    /// so a call that needs more is in an endless loop.
    pub guest_cpu: Duration,
    /// Wall-clock time of a call that changes nothing, from when it has an instance. Default 30 s.
    pub read_deadline: Duration,
    /// Wall-clock time of a call that may change the cloud, from when it has an instance. Default
    /// 120 s.
    pub write_deadline: Duration,
    /// Time that a call waits for an instance while all are busy. Default 30 s.
    pub queue_deadline: Duration,
    /// Linear memory of an instance in bytes. Default 128 MiB.
    pub memory: usize,
    /// Memory of all instances of a plugin in bytes, including both generations during a
    /// replacement: linear memory, and what the host keeps for [`Limits::handles`]. Default 1 GiB.
    pub memory_total: usize,
    /// Elements of each table of an instance. Default 65,536: more than the largest guests of
    /// garbage-collected languages need for the functions in a table.
    pub table_elements: usize,
    /// Instances of one generation at a time, and thereby concurrent calls. Default 36: one for
    /// each Service that is handled at a time by default, 8 for nodes and zones, and 8 for routes.
    /// Instances are created when they are needed, and dropped when they are idle.
    pub instances: usize,
    /// Resources that all instances of a plugin may have open in the host at a time: requests,
    /// bodies, streams, timers. Default 1024: about 200 requests in flight.
    pub handles: usize,
    /// Calls that an instance handles before it is replaced, so that a memory leak in a guest is
    /// limited; varied by up to 10 %, so that instances do not retire together. Default 1000.
    pub uses: usize,
    /// Time after which an idle instance is dropped. Default 60 s; a quarter of that for idle
    /// instances beyond eight.
    pub idle: Duration,
    /// Bytes that a guest may pass to the host in one call or answer. Default 8 MiB: 1000 nodes
    /// with 8 KiB each, or 20,000 routes with 400 bytes. A guest can keep an answer in memory as
    /// long as it runs, so the host may need this much memory for each concurrent call.
    pub hostcall_buffer: usize,
    /// Log lines of one plugin per second. Default 100.
    pub log_rate: usize,
    /// Burst of log lines of one plugin. Default 200.
    pub log_burst: usize,
    /// Bytes of log of one plugin per second, with a burst of sixteen times as many. Default 16
    /// KiB: 1.4 GB a day.
    pub log_bytes: usize,
    /// Bytes of a log line; the rest is cut off. Default 4 KiB, as in the contract.
    pub log_line: usize,
    /// Address space of the compiler in bytes. Default 2 GiB.
    pub compile_memory: usize,
    /// CPU time of the compiler, in whole seconds. Default 5 min: a guest of 128 MiB takes two.
    pub compile_cpu: Duration,
    /// Wall-clock time of the compiler, in case it hangs. Default 30 min: it has the lowest
    /// priority, and a busy machine leaves it little of its CPU time.
    pub compile_deadline: Duration,
    /// Routes in a complete list. Default 20,000: two for each node of a cluster with twice the
    /// nodes that Kubernetes supports.
    pub routes: usize,
    /// Volumes, and snapshots, in a complete list. Default 50,000: ten for each node of the largest
    /// cluster that Kubernetes supports.
    pub volumes: usize,
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
            compile_deadline: Duration::from_secs(1800),
            routes: 20_000,
            volumes: 50_000,
        }
    }
}

impl Limits {
    /// Returns [`Limits::instances`] for this many Services that are handled at a time.
    #[must_use]
    pub fn instances_for(services: usize) -> usize {
        services.saturating_add(OTHER_INSTANCES)
    }
}
