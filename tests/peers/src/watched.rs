//! A program that ends with the process that started it, without support in the program.

use std::path::Path;
use std::process::Command;

/// A shell starts a background process and then becomes the program. The background process kills
/// the program when the standard input is closed, after checking that the process with this ID is
/// still the program.
const SCRIPT: &str = r#"
exec 3<&0
(cat <&3; [ "/proc/$$/exe" -ef "$0" ] && kill -9 "$$") >/dev/null 2>&1 &
exec "$0" "$@" 3<&- </dev/null
"#;

/// Returns a command that becomes this program. Its arguments can be added.
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
        command(Path::new("/bin/sleep"))
            .args(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Returns whether this becomes true within five seconds.
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
        std::fs::read_link(format!("/proc/{}/exe", child.id()))
            .is_ok_and(|path| path.ends_with("sleep"))
    }

    #[test]
    fn a_watched_process_becomes_the_started_program() {
        let mut child = start(&["60"]);
        let became = within(|| is_program(&child));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(became);
    }

    #[test]
    fn a_watched_process_ends_when_its_stdin_is_closed() {
        let mut child = start(&["60"]);
        let became = within(|| is_program(&child));
        drop(child.stdin.take());
        let ended = within(|| child.try_wait().unwrap().is_some());
        child.kill().unwrap(); // no effect if it has ended
        assert!(!child.wait().unwrap().success());
        assert!(became && ended, "{became} {ended}");
    }
}
