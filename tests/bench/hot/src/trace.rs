//! Runs a program with a breakpoint at each of its functions, which is removed when it is hit.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Event, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::program::Program;

/// The instruction `int3`, which stops the program.
const BREAKPOINT: u8 = 0xcc;

/// The breakpoints of a process.
struct Breakpoints {
    memory: File,
    /// The first byte of the functions at each address, and their names until they were executed.
    at: BTreeMap<u64, (u8, Vec<String>)>,
}

impl Breakpoints {
    /// Sets a breakpoint at each function of a process that has just started the program.
    fn set(process: Pid, program: &Program) -> Result<Self> {
        let maps = fs::read_to_string(format!("/proc/{process}/maps")).context("cannot read the memory map")?;
        let base = base(&maps, &program.path).with_context(|| format!("{} is not mapped", program.path.display()))?;
        let memory = memory(process)?;
        let mut at = BTreeMap::new();
        for (address, names) in &program.functions {
            let address = base + address;
            let mut first = [0];
            memory.read_exact_at(&mut first, address).context("cannot read the memory")?;
            memory.write_all_at(&[BREAKPOINT], address).context("cannot write the memory")?;
            at.insert(address, (first[0], names.clone()));
        }
        Ok(Self { memory, at })
    }

    /// Removes the breakpoint that a thread has hit, and writes the names of the functions if they
    /// are executed for the first time. Returns false if there is no breakpoint at the address.
    fn hit(&mut self, thread: Pid, address: u64, file: &mut File) -> Result<bool> {
        let Some((first, names)) = self.at.get_mut(&address) else { return Ok(false) };
        if !names.is_empty() {
            write(file, names.drain(..))?;
            self.memory.write_all_at(&[*first], address).context("cannot write the memory")?;
        } else {
            // The same breakpoint in another thread, or in the copy of the memory that a new
            // process has.
            memory(thread)?.write_all_at(&[*first], address).context("cannot write the memory")?;
        }
        Ok(true)
    }
}

fn write(file: &mut File, names: impl Iterator<Item = String>) -> Result<()> {
    let text: String = names.map(|name| name + "\n").collect();
    file.write_all(text.as_bytes()).context("cannot write the names")
}

fn memory(process: Pid) -> Result<File> {
    let path = format!("/proc/{process}/mem");
    OpenOptions::new().read(true).write(true).open(path).context("cannot open the memory")
}

/// Returns the address at which the program is mapped.
fn base(maps: &str, program: &Path) -> Option<u64> {
    let line = maps.lines().find(|line| Path::new(line.split_whitespace().last().unwrap_or_default()) == program)?;
    u64::from_str_radix(line.split('-').next()?, 16).ok()
}

/// Runs the program until it ends, and appends the name of each function to the file when it is
/// executed for the first time. Processes that it starts are not traced. If this process is killed,
/// so is the program.
///
/// # Errors
/// If the program cannot be started or traced.
pub(crate) fn run(program: &Program, arguments: &[OsString], names: &Path) -> Result<()> {
    let mut names = OpenOptions::new()
        .create(true)
        .append(true)
        .open(names)
        .with_context(|| format!("cannot write {}", names.display()))?;
    write(&mut names, program.untouched.iter().cloned())?;
    let main = start(program, arguments)?;
    let mut breakpoints = None;
    loop {
        let status = match waitpid(None, Some(WaitPidFlag::__WALL)) {
            Ok(status) => status,
            Err(Errno::ECHILD) => return Ok(()),
            Err(error) => return Err(error).context("cannot wait for the program"),
        };
        let (thread, signal) = match status {
            WaitStatus::Exited(ended, _) | WaitStatus::Signaled(ended, ..) if ended == main => return Ok(()),
            WaitStatus::PtraceEvent(thread, _, event) if event == Event::PTRACE_EVENT_EXEC as i32 => {
                if thread != main || breakpoints.is_some() {
                    // Another program. An error means that it has ended already.
                    let _ = ptrace::detach(thread, None);
                    continue;
                }
                breakpoints = Some(Breakpoints::set(thread, program)?);
                (thread, None)
            }
            WaitStatus::PtraceEvent(thread, ..) => (thread, None),
            WaitStatus::Stopped(thread, Signal::SIGTRAP) => {
                (thread, breakpoint(thread, breakpoints.as_mut(), &mut names)?.then_some(Signal::SIGTRAP))
            }
            WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
            _ => continue,
        };
        match ptrace::cont(thread, signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => return Err(error).context("cannot continue the program"),
        }
    }
}

/// Handles a trap. Returns true if it was not caused by a breakpoint of this tracer.
fn breakpoint(thread: Pid, breakpoints: Option<&mut Breakpoints>, names: &mut File) -> Result<bool> {
    let Some(breakpoints) = breakpoints else { return Ok(true) };
    let mut registers = match ptrace::getregs(thread) {
        Ok(registers) => registers,
        Err(Errno::ESRCH) => return Ok(false),
        Err(error) => return Err(error).context("cannot read the registers"),
    };
    let address = registers.rip.wrapping_sub(1);
    if !breakpoints.hit(thread, address, names)? {
        return Ok(true);
    }
    registers.rip = address;
    match ptrace::setregs(thread, registers) {
        Ok(()) | Err(Errno::ESRCH) => Ok(false),
        Err(error) => Err(error).context("cannot write the registers"),
    }
}

/// Starts the program, stopped and traced. A shell stops itself before it executes the program, so
/// that tracing can begin in between.
fn start(program: &Program, arguments: &[OsString]) -> Result<Pid> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "kill -STOP $$; exec \"$0\" \"$@\""]).arg(&program.path).args(arguments);
    // `run` waits for its end.
    let child = shell.spawn().context("cannot start /bin/sh")?;
    let main = Pid::from_raw(child.id().try_into().context("the process has an odd number")?);
    match waitpid(main, Some(WaitPidFlag::WUNTRACED)).context("cannot wait for the shell")? {
        WaitStatus::Stopped(..) => {}
        other => bail!("the shell did not stop: {other:?}"),
    }
    let options = Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_EXITKILL;
    ptrace::seize(main, options).context("cannot trace the program: is ptrace allowed?")?;
    kill(main, Signal::SIGCONT).context("cannot continue the shell")?;
    Ok(main)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_mapping_is_the_base() {
        let maps = "1000-2000 r--p 00000000 00:00 0 /a\n55d0-56d0 r--p 0 00:00 0 /b\n56d0-57d0 r-xp 0 00:00 0 /b\n7000-8000 rw-p 0 00:00 0 \n";
        assert_eq!(base(maps, Path::new("/b")), Some(0x55d0));
        assert_eq!(base(maps, Path::new("/c")), None);
    }
}
