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

    #[test]
    fn it_is_the_process_that_was_started() {
        let mut child = start(&["60"]);
        let exe = format!("/proc/{}/exe", child.id());
        for _ in 0..500 {
            if std::fs::read_link(&exe).is_ok_and(|path| path.ends_with("sleep")) {
                child.kill().unwrap();
                assert!(!child.wait().unwrap().success());
                return;
            }
            sleep(Duration::from_millis(10));
        }
        panic!("never became the program");
    }

    #[test]
    fn it_is_killed_when_its_standard_input_is_closed() {
        let mut child = start(&["60"]);
        sleep(Duration::from_millis(200)); // until it is the program
        drop(child.stdin.take());
        for _ in 0..500 {
            if let Some(status) = child.try_wait().unwrap() {
                assert!(!status.success());
                return;
            }
            sleep(Duration::from_millis(10));
        }
        child.kill().unwrap();
        panic!("still runs");
    }
}
