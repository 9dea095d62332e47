//! Commands whose end is waited for, but not for ever.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Runs a command without a word; false if it cannot be started, fails, or takes longer than that.
pub(crate) fn succeeds_within(command: &mut Command, limit: Duration) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = quiet.spawn() else { return false };
    let start = Instant::now();
    while start.elapsed() < limit {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => thread::sleep(Duration::from_millis(50)),
            Err(_) => break,
        }
    }
    // If it cannot be ended it has just ended by itself.
    let _ = child.kill();
    let _ = child.wait();
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_hangs_or_does_not_exist_is_no_success() {
        let within =
            |program: &str, arg: &str| succeeds_within(Command::new(program).arg(arg), Duration::from_millis(500));
        assert!(within("true", ""));
        assert!(!within("false", ""));
        assert!(!within("sleep", "60"));
        assert!(!within("no-such-program", ""));
    }
}
