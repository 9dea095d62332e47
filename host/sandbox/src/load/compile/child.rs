//! The process of the compiler: it reads one component, writes one file, and exits.
//!
//! It sets its own limits, and gives up what it does not need, before it reads the component. The
//! host holds its standard input open: when the host ends, in whatever way, the compiler ends too.

use std::{
    fs::OpenOptions,
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    process::exit,
    thread,
};

use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};
use wasmtime::{Engine, OutOfMemory};

use super::{FAILED, MALFORMED, OUT_OF_MEMORY, order::Order};
use crate::load::{artifacts, engine};

/// Added to the niceness, so that everything else on the machine has priority.
const NICENESS: i32 = 10;

/// Compiles the component from standard input into the working directory; the process does nothing
/// else. Returns its exit code.
#[must_use]
pub fn compile_as_child() -> u8 {
    match compile() {
        Ok(()) => 0,
        Err(Failure { code, reason }) => {
            // Skydock reads it, and cuts it off.
            let _ = writeln!(io::stderr(), "{reason}");
            code
        }
    }
}

/// Why there is no machine code.
struct Failure {
    /// The exit code.
    code: u8,
    reason: String,
}

impl Failure {
    fn new(code: u8, reason: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
        }
    }
}

fn compile() -> Result<(), Failure> {
    let failed = |what: &str, error: io::Error| Failure::new(FAILED, format!("{what}: {error}"));

    let mut input = io::stdin();
    let order =
        Order::read(&mut input).map_err(|error| failed("cannot read the request", error))?;
    limit(&order).map_err(|error| failed("cannot set limits", error))?;

    // After the limits, because the sandbox denies what sets the niceness and the OOM score.
    #[cfg(target_os = "linux")]
    super::sandbox::enter()
        .map_err(|error| Failure::new(FAILED, format!("cannot restrict the process: {error}")))?;

    let mut component = Vec::new();
    let length = (&mut input)
        .take(order.component)
        .read_to_end(&mut component);
    if length.map_err(|error| failed("cannot read the component", error))? as u64 != order.component
    {
        return Err(Failure::new(FAILED, "the component is truncated"));
    }

    // Only after the component, because the thread reads the rest of the same input.
    end_with_the_host().map_err(|error| failed("cannot start a thread", error))?;

    let machine_code = Engine::new(&engine::config(
        Some(order.reservation).filter(|bytes| *bytes > 0),
    ))
    .map_err(|error| Failure::new(FAILED, format!("{error:#}")))?
    .precompile_component(&component)
    .map_err(|error| {
        let code = if error.is::<OutOfMemory>() {
            OUT_OF_MEMORY
        } else {
            MALFORMED
        };
        Failure::new(code, format!("{error:#}"))
    })?;

    let seal = artifacts::seal(&component, &machine_code);
    drop(component);

    let name = artifacts::unfinished(order.unfinished);
    let mut file = OpenOptions::new();
    let file = file.write(true).create_new(true).mode(0o600).open(name);

    file.and_then(|mut file| {
        file.write_all(&machine_code)?;
        file.write_all(&seal)
    })
    .map_err(|error| failed("cannot write the machine code", error))
}

fn limit(order: &Order) -> io::Result<()> {
    // Limits that are already lower are kept.
    let lower = |resource, most: u64| {
        let before = getrlimit(resource);
        let at_most =
            |limit: Option<u64>, most: u64| Some(limit.map_or(most, |limit| limit.min(most)));

        // At the soft limit of CPU time, the process ends by a signal that shows the reason; at the
        // hard limit, by SIGKILL.
        let after = Rlimit {
            current: at_most(before.current, most),
            maximum: at_most(before.maximum, most.saturating_add(5)),
        };

        setrlimit(resource, after)
    };

    nice(NICENESS)?;
    lower(Resource::Core, 0)?;
    lower(Resource::As, order.memory)?;
    lower(Resource::Fsize, artifacts::LARGEST)?;
    lower(Resource::Cpu, order.cpu)?;

    // If the machine runs out of memory, this process is killed first.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    Ok(())
}

/// Ends this process when its standard input is closed, which the host holds open.
fn end_with_the_host() -> io::Result<()> {
    thread::Builder::new()
        .name("host-watcher".to_owned())
        .spawn(|| {
            // Nothing follows the component, so this waits for the end.
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            exit(i32::from(FAILED));
        })?;
    Ok(())
}
