//! Actions before an answer is returned.
use std::time::{Duration, Instant};

use skydock_sdk::cache::{self, Reservation};
use skydock_sdk::types::CloudError;
use skydock_sdk::{Result, log};

use crate::behavior::{Behavior, Failure};

/// The number of lines of a log flood, much more than any host allows.
const FLOOD: u32 = 10_000;
/// The computing time of a slow answer.
const SLOW: Duration = Duration::from_millis(200);
/// Longer than any deadline in tests.
const SLEEP: Duration = Duration::from_secs(60);
/// The delay in throttled and in-progress answers.
const RETRY: Duration = Duration::from_millis(1500);

/// Publishes an event on the object of the call, or on another object of the same kind. Returns
/// true if the host accepted it.
pub(crate) type Publish<'a> = &'a dyn Fn(Target) -> bool;

/// The object of an event.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    Itself,
    Other,
}

/// Performs the behavior. If it returns an error, this is the answer. Otherwise a correct or wrong
/// answer follows. `name` is the name of the object.
pub(crate) fn commit(behavior: Behavior, name: &str, publish: Publish<'_>) -> Result<()> {
    match behavior {
        Behavior::Good
        | Behavior::Cluster
        | Behavior::Proxy
        | Behavior::Nodes
        | Behavior::NodesForever
        | Behavior::TargetsForever
        | Behavior::KeepNodes
        | Behavior::Lie(_) => {}
        Behavior::Loop => run_forever(),
        Behavior::Allocate => allocate_forever(),
        Behavior::Trap => std::process::abort(),
        Behavior::LogFlood => flood(),
        Behavior::Slow => {
            let start = Instant::now();
            while start.elapsed() < SLOW {}
        }
        Behavior::Sleep => std::thread::sleep(SLEEP),
        Behavior::PublishEvent => {
            if !publish(Target::Itself) {
                return Err(CloudError::internal(
                    "the host rejected an event on the object of the call",
                ));
            }
        }
        Behavior::PublishEventOnOther => {
            if publish(Target::Other) {
                return Err(CloudError::internal(
                    "the host took an event on another object",
                ));
            }
        }
        Behavior::Reserve => reserve(name)?,
        Behavior::LookAround => look_around()?,
        Behavior::Fail(failure) => return Err(error(failure, name)),
    }
    Ok(())
}

/// Collects everything that a program can find out about its machine, if allowed.
fn look_around() -> Result<()> {
    let mut seen: Vec<String> = std::env::vars_os()
        .map(|(name, _)| format!("variable {name:?}"))
        .collect();
    seen.extend(
        std::env::args_os()
            .skip(1)
            .map(|argument| format!("argument {argument:?}")),
    );
    for path in [
        "/",
        ".",
        "/proc/self/environ",
        "/etc/passwd",
        "/var/run/secrets/kubernetes.io/serviceaccount/token",
    ] {
        if std::fs::metadata(path).is_ok()
            || std::fs::read_dir(path).is_ok()
            || std::fs::File::open(path).is_ok()
        {
            seen.push(format!("file {path}"));
        }
    }
    if std::fs::write("left-behind", "x").is_ok() {
        seen.push("a file that it wrote".to_owned());
    }
    if seen.is_empty() {
        Ok(())
    } else {
        Err(CloudError::internal(format!("it sees {}", seen.join(", "))))
    }
}

fn run_forever() -> ! {
    let mut turns = 0_u64;
    loop {
        turns = std::hint::black_box(turns.wrapping_add(1));
    }
}

fn allocate_forever() -> ! {
    let mut hoard = Vec::new();
    loop {
        hoard.push(std::hint::black_box(vec![1_u8; 1 << 20]));
    }
}

#[allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "these are part of the flood"
)]
fn flood() {
    log::error(
        "flood",
        format_args!("{}\u{1b}[31m\r\n\0", "x".repeat(100 << 10)),
    );
    for line in 0..FLOOD {
        log::info("flood", format_args!("line {line}"));
        println!("line {line}");
        eprintln!("line {line}");
    }
}

fn reserve(name: &str) -> Result<()> {
    match cache::reserve("reserved", name.as_bytes(), Duration::from_secs(60)) {
        Reservation::Held => Ok(()),
        Reservation::Taken(holder) => Err(CloudError::conflict(format!(
            "held by {}",
            String::from_utf8_lossy(&holder)
        ))),
        Reservation::Rejected => Err(CloudError::internal(
            "the host rejected a reservation that is in bounds",
        )),
    }
}

fn error(failure: Failure, name: &str) -> CloudError {
    let message = format!("{name} asked for it");
    match failure {
        Failure::NotFound => CloudError::not_found(message),
        Failure::ImplementedElsewhere => CloudError::ImplementedElsewhere,
        Failure::Conflict => CloudError::conflict(message),
        Failure::Throttled => CloudError::throttled(RETRY, message),
        Failure::InProgress => CloudError::in_progress(RETRY, message),
        Failure::Denied => CloudError::denied(message),
        Failure::Invalid => CloudError::invalid(message),
        Failure::Unavailable => CloudError::unavailable(message),
        Failure::Internal => CloudError::internal(message),
    }
}
