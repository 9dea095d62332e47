//! Takes from the compiler what it does not need, before it reads the component: a fault of the
//! compiler must not give a component the files and the network of the host.
//!
//! Landlock limits files to the working directory, and denies TCP connections. The filter of system
//! calls denies everything that starts programs, opens sockets, or reaches other processes. A kernel
//! without Landlock enforces the filter only.

use std::collections::BTreeMap;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// The newest Landlock that is used; older kernels enforce what they know.
const LANDLOCK: ABI = ABI::V6;

/// System calls for memory, threads, time, and files that are open or that Landlock allows.
const ALLOWED: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getcwd,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_ppoll,
    libc::SYS_prctl,
    libc::SYS_pread64,
    libc::SYS_prlimit64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    // For a panic that ends the process.
    libc::SYS_tgkill,
    libc::SYS_uname,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Why the sandbox cannot be entered, although the kernel supports it.
#[derive(Debug, thiserror::Error)]
pub(super) enum SandboxError {
    #[error(transparent)]
    Files(#[from] landlock::RulesetError),
    #[error(transparent)]
    Directory(#[from] landlock::PathFdError),
    #[error(transparent)]
    Calls(#[from] seccompiler::Error),
    #[error(transparent)]
    Filter(#[from] seccompiler::BackendError),
}

/// Restricts this thread and all that it starts, for good. Called before other threads are started.
/// Returns how far the kernel restricts files.
///
/// # Errors
/// [`SandboxError`].
pub(super) fn enter() -> Result<RulesetStatus, SandboxError> {
    let files = restrict_files()?;
    // Processors of other kinds have no filter.
    if let Ok(architecture) = TargetArch::try_from(std::env::consts::ARCH) {
        seccompiler::apply_filter(&filter(architecture)?)?;
    }
    Ok(files)
}

/// Allows files to be created and written in the working directory. Also ensures that no program
/// gets additional privileges.
fn restrict_files() -> Result<RulesetStatus, SandboxError> {
    let writes = AccessFs::MakeReg | AccessFs::WriteFile | AccessFs::Truncate;
    let directory = PathFd::new(".")?;

    let restricted = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .handle_access(AccessNet::from_all(LANDLOCK))?
        .scope(BitFlags::<Scope>::all())?
        .create()?
        .add_rule(PathBeneath::new(directory, writes))?
        .restrict_self()?;

    Ok(restricted.ruleset)
}

/// Returns the filter. A denied call looks like one that the kernel does not have, because programs
/// expect that.
fn filter(architecture: TargetArch) -> Result<BpfProgram, SandboxError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().map(|call| (*call, Vec::new())).collect();

    // Threads, but no processes. `clone3` passes its flags in memory, where a filter cannot see
    // them; without it, `clone` is used.
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    let is_thread = SeccompCondition::new(
        0,
        SeccompCmpArgLen::Qword,
        SeccompCmpOp::MaskedEq(thread),
        thread,
    )?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![is_thread])?]);

    let denied = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let filter = SeccompFilter::new(rules, denied, SeccompAction::Allow, architecture)?;
    Ok(filter.try_into()?)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        net::{TcpStream, UdpSocket},
        os::unix::net::UnixStream,
        process::{Command, Stdio},
        thread,
    };

    use super::*;

    /// Runs in a process of its own, which the test below starts in an empty directory.
    #[test]
    #[ignore = "part of another test: ends the use of this process"]
    fn inside() {
        let passwd = fs::read("/etc/passwd").is_ok();
        let files = enter().unwrap();
        let mut can = vec![format!("{files:?}")];
        let mut note = |what: &str, is_possible: bool| {
            if is_possible {
                can.push(what.to_owned());
            }
        };
        note("read before", passwd);
        note("write here", fs::write("here", "x").is_ok());
        note("start a thread", thread::spawn(|| 7).join().is_ok());
        note("read a file", fs::read("/etc/passwd").is_ok());
        note("read what it wrote", fs::read("here").is_ok());
        note("read memory", File::open("/proc/self/mem").is_ok());
        note("list a folder", fs::read_dir("/").is_ok());
        note("write elsewhere", fs::write("../outside", "x").is_ok());
        note("remove", fs::remove_file("here").is_ok());
        note(
            "connect",
            TcpStream::connect("127.0.0.1:1")
                .err()
                .map(|it| it.raw_os_error())
                == Some(Some(libc::ECONNREFUSED)),
        );
        note("send", UdpSocket::bind("127.0.0.1:0").is_ok());
        note("use a socket", UnixStream::pair().is_ok());
        note(
            "start a program",
            Command::new("/bin/true").status().is_ok(),
        );
        eprintln!("can: {}", can.join(", "));
    }

    // Holds: SEC-13
    #[test]
    fn a_compiler_can_only_write_its_file() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("work");
        fs::create_dir(&dir).unwrap();
        let name = format!("{}::inside", module_path!().split_once("::").unwrap().1);
        let ran = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &name, "--ignored", "--nocapture"])
            .current_dir(&dir)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&ran.stderr).into_owned();
        let can = output.lines().find_map(|line| line.strip_prefix("can: "));
        let can: Vec<&str> = can.unwrap_or(&output).split(", ").collect();
        let expected = ["read before", "write here", "start a thread"];
        let denied = ["connect", "send", "use a socket", "start a program"];
        match can.split_first() {
            Some((&"FullyEnforced", can)) => assert_eq!(can, expected),
            // Only the filter is enforced.
            Some((_, can)) => assert!(
                expected.iter().all(|it| can.contains(it))
                    && !denied.iter().any(|it| can.contains(it)),
                "{can:?}"
            ),
            None => unreachable!("{output}"),
        }
    }
}
