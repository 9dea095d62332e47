//! Compilation in a separate process with limits, which ends when nobody waits for it.
//!
//! A compiler's time and memory depend on its input in unpredictable ways, and it cannot be
//! interrupted from within. The host therefore starts its own program again as a compiler, passes
//! it the component, and loads its output.

mod child;
mod ending;
mod order;
#[cfg(target_os = "linux")]
mod sandbox;

use std::{ffi::OsString, path::PathBuf, process::Stdio, thread::available_parallelism};

use skydock_resources::limits::Limits;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::Command,
    time::timeout,
};

pub use child::compile_as_child;
pub use ending::CompileError;

use self::order::Order;
use crate::load::artifacts::Unfinished;

/// Exit code: the compiler failed for a reason other than the component.
const FAILED: u8 = 1;

/// Exit code: the component is not valid.
const MALFORMED: u8 = 65;

/// Exit code: the compiler was denied memory, and noticed it.
const OUT_OF_MEMORY: u8 = 66;

/// Maximum bytes of the compiler's standard error output that are kept.
const OUTPUT: usize = 16 << 10;

/// Processors of the machine for each thread of the compiler: the others are for other work, on the
/// leader and on standbys.
const PROCESSORS_PER_THREAD: usize = 4;

/// The program that compiles. When it is started with these arguments, it must call
/// [`compile_as_child`] and do nothing else.
#[derive(Clone, Debug)]
pub struct Compiler {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl Compiler {
    /// Uses the program at this absolute path. It runs in a directory of its own.
    pub fn new(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
        }
    }

    /// Uses the running program, even if its file was replaced in the meantime.
    ///
    /// # Errors
    /// If its path is not known.
    pub fn this_program(
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> std::io::Result<Self> {
        let program = if cfg!(target_os = "linux") {
            "/proc/self/exe".into()
        } else {
            std::env::current_exe()?
        };
        Ok(Self::new(program, arguments))
    }

    /// Compiles into this file, for an engine with this [reservation](crate::load::engine::config).
    /// Dropping the future ends the compiler.
    ///
    /// # Errors
    /// The reason why there is no machine code.
    pub(crate) async fn compile(
        &self,
        component: Vec<u8>,
        unfinished: &Unfinished,
        reservation: Option<u64>,
        limits: &Limits,
    ) -> Result<(), CompileError> {
        let start = |source| CompileError::Start {
            program: self.program.display().to_string(),
            source,
        };
        let mut child = self.command(unfinished).spawn().map_err(start)?;

        let order = Order {
            memory: limits.compile_memory as u64,
            // The kernel's limit has whole seconds.
            cpu: limits.compile_cpu.as_secs().max(1),
            reservation: reservation.unwrap_or(0),
            unfinished: unfinished.number(),
            component: component.len() as u64,
        };

        // Held open until the end, because the compiler ends when it is closed.
        let mut input = child.stdin.take();
        let stderr = child.stderr.take();

        let feeding = async {
            let Some(input) = &mut input else { return };
            // The compiler may end before it has read everything. Its exit status then shows why.
            if input.write_all(&order.head()).await.is_ok() {
                let _ = input.write_all(&component).await;
            }
            // Compiling may take minutes, in which nobody needs the copy.
            drop(component);
        };

        let compiled = timeout(limits.compile_deadline, async {
            // All at once, because the child waits while one of its pipes is full.
            tokio::join!(feeding, last_output(stderr), child.wait())
        })
        .await;

        match compiled {
            Ok((_, output, status)) => {
                match ending::ending(status.map_err(start)?, &output, limits) {
                    Some(error) => Err(error),
                    None => Ok(()),
                }
            }
            Err(_) => {
                // An error means that it has ended.
                let _ = child.kill().await;
                Err(CompileError::Deadline(limits.compile_deadline))
            }
        }
    }

    /// Returns the command that starts the compiler.
    fn command(&self, unfinished: &Unfinished) -> Command {
        let threads = available_parallelism().map_or(1, |processors| {
            processors.get().div_ceil(PROCESSORS_PER_THREAD)
        });

        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            // The compiler inherits nothing, because the environment may have credentials.
            .env_clear()
            .env("RAYON_NUM_THREADS", threads.to_string())
            // The sandbox allows it to write only there.
            .current_dir(unfinished.for_a_child())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Signals that a terminal sends to the host's process group must not reach the
            // compiler.
            .process_group(0)
            .kill_on_drop(true);
        command
    }
}

/// Reads everything, and keeps the end, because the last lines state the reason.
async fn last_output(stderr: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut chunk = [0; 4096];
    let Some(mut stderr) = stderr else {
        return kept;
    };

    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        kept.extend_from_slice(chunk.get(..read).unwrap_or_default());
        if let Some(surplus) = kept.len().checked_sub(OUTPUT) {
            kept.drain(..surplus);
        }
    }

    kept
}
