//! Which interfaces of WASI a plugin can import.

use skydock_recording::Taping;
use wasmtime::{Engine, component::Linker};
use wasmtime_wasi::{
    cli::{WasiCli, WasiCliView as _},
    filesystem::{WasiFilesystem, WasiFilesystemView as _},
    p2::bindings as wasi,
    random::WasiRandom,
};

use super::{State, http, taped};

/// Links the interfaces of WASI that `inspect` allows, and no others: no sockets.
pub(crate) fn linker(engine: &Engine, taping: &Taping) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    let l = &mut linker;

    // Clocks, random, io, stdin, stdout, stderr.
    wasmtime_wasi::p2::add_to_linker_proxy_interfaces_async(l)?;
    wasi::random::insecure::add_to_linker::<State, WasiRandom>(l, |state| state.wasi.random())?;
    wasi::random::insecure_seed::add_to_linker::<State, WasiRandom>(l, |state| {
        state.wasi.random()
    })?;

    // Interfaces that standard libraries import and providers do not use, with empty
    // implementations.
    wasi::cli::environment::add_to_linker::<State, WasiCli>(l, State::cli)?;
    wasi::cli::exit::add_to_linker::<State, WasiCli>(l, State::cli)?;
    wasi::cli::terminal_input::add_to_linker::<State, WasiCli>(l, State::cli)?;
    wasi::cli::terminal_output::add_to_linker::<State, WasiCli>(l, State::cli)?;
    wasi::cli::terminal_stdin::add_to_linker::<State, WasiCli>(l, State::cli)?;
    wasi::cli::terminal_stdout::add_to_linker::<State, WasiCli>(l, State::cli)?;
    wasi::cli::terminal_stderr::add_to_linker::<State, WasiCli>(l, State::cli)?;
    wasi::filesystem::types::add_to_linker::<State, WasiFilesystem>(l, State::filesystem)?;
    wasi::filesystem::preopens::add_to_linker::<State, WasiFilesystem>(l, State::filesystem)?;

    http::add_to_linker(l)?;
    if taping.is_on() {
        taped::add_to_linker(l)?;
    }

    Ok(linker)
}
