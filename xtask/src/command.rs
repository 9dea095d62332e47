//! Commands with a timeout.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Runs a command without output. Returns false if it cannot be started, fails, or exceeds the time
/// limit.
pub(crate) fn succeeds_within(command: &mut Command, limit: Duration) -> bool {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let Ok(mut child) = quiet.spawn() else {
        return false;
    };
    let start = Instant::now();
    while start.elapsed() < limit {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => thread::sleep(Duration::from_millis(50)),
            Err(_) => break,
        }
    }
    // Fails only if the process has already exited.
    let _ = child.kill();
    let _ = child.wait();
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_hanging_and_missing_commands_do_not_succeed() {
        let within = |program: &str, arg: &str| {
            succeeds_within(Command::new(program).arg(arg), Duration::from_millis(500))
        };
        assert!(within("true", ""));
        assert!(!within("false", ""));
        assert!(!within("sleep", "60"));
        assert!(!within("no-such-program", ""));
    }
}
