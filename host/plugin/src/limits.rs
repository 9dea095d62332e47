//! What a plugin may use. Always on: each limit has a default.

use std::time::Duration;

/// Time between two ticks of the clock that interrupts guests: how exact [`Limits::guest_cpu`] is, and how long a guest keeps
/// a thread before other work gets its turn.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// What one plugin may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time in the guest's own code per call, without waiting for the host. Default 2 s: thousands of nodes are a matter of
    /// milliseconds, so more is a loop. Counted in ticks of 10 ms.
    pub guest_cpu: Duration,
    /// Time on the clock for a call that changes nothing, waiting for an instance included. Default 30 s.
    pub read_deadline: Duration,
    /// Time on the clock for a call that may change the cloud, waiting for an instance included. Default 120 s.
    pub write_deadline: Duration,
    /// Linear memory per instance in bytes. Default 128 MiB.
    pub memory: usize,
    /// Elements of each table of an instance. Default 65,536: more than the largest guests of garbage-collected languages have
    /// functions in a table.
    pub table_elements: usize,
    /// Instances of one generation at a time, and so calls at a time. Default 24: one for each service that is worked on at
    /// a time by default, and some for nodes and routes. One is made when it is needed, and none is kept that stands idle.
    pub instances: usize,
    /// Calls an instance serves before it is replaced, so that a leaking guest starts afresh; varied by 10 % either way, so
    /// that instances do not retire together. Default 1000.
    pub uses: u32,
    /// Time after which an instance that serves nothing gives its memory back. Default 60 s.
    pub idle: Duration,
    /// Bytes a guest may hand to the host in one call or answer. Default 16 MiB: 1000 nodes with 16 KiB each.
    pub hostcall_buffer: usize,
    /// Log lines per second of one plugin, over time. Default 100.
    pub log_rate: u32,
    /// Log lines of one plugin at once. Default 200.
    pub log_burst: u32,
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
            memory: 128 << 20,
            table_elements: 65_536,
            instances: 24,
            uses: 1000,
            idle: Duration::from_secs(60),
            hostcall_buffer: 16 << 20,
            log_rate: 100,
            log_burst: 200,
            log_line: 4 << 10,
            compile_memory: 2 << 30,
            compile_cpu: Duration::from_secs(300),
            compile_deadline: Duration::from_secs(300),
            routes: 20_000,
        }
    }
}

impl Limits {
    /// [`Limits::guest_cpu`] in ticks; at least one.
    pub(crate) fn cpu_ticks(&self) -> u32 {
        u32::try_from(self.guest_cpu.as_millis() / TICK.as_millis()).unwrap_or(u32::MAX).max(1)
    }
}
