//! A program that ends with whoever started it, though it does not know.

use std::path::Path;
use std::process::Command;

/// A shell becomes the program; one that it leaves behind kills it when the standard input is closed. It looks first whether the process
/// of that number is still the program.
const SCRIPT: &str = r#"
exec 3<&0
(cat <&3; [ "/proc/$$/exe" -ef "$0" ] && kill -9 "$$") >/dev/null 2>&1 &
exec "$0" "$@" 3<&- </dev/null
"#;

/// A command that becomes this program; its arguments are to be added.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(SCRIPT).arg(program);
    command
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Stdio};
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    fn start(arguments: &[&str]) -> Child {
        command(Path::new("/bin/sleep")).args(arguments).stdin(Stdio::piped()).spawn().unwrap()
    }

    /// Whether this comes true within five seconds.
    fn within(mut done: impl FnMut() -> bool) -> bool {
        for _ in 0..500 {
            if done() {
                return true;
            }
            sleep(Duration::from_millis(10));
        }
        false
    }

    fn is_program(child: &Child) -> bool {
        std::fs::read_link(format!("/proc/{}/exe", child.id())).is_ok_and(|path| path.ends_with("sleep"))
    }

    #[test]
    fn it_is_the_process_that_was_started() {
        let mut child = start(&["60"]);
        let became = within(|| is_program(&child));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(became);
    }

    #[test]
    fn it_is_killed_when_its_standard_input_is_closed() {
        let mut child = start(&["60"]);
        let became = within(|| is_program(&child));
        drop(child.stdin.take());
        let ended = within(|| child.try_wait().unwrap().is_some());
        child.kill().unwrap(); // nothing, if it has ended
        assert!(!child.wait().unwrap().success());
        assert!(became && ended, "{became} {ended}");
    }
}
