//! WASI with a tape: clocks, randomness, and what depends on time, such as which of several
//! requests is answered first.
//!
//! These functions are only linked if instances have tapes. Everything else of WASI depends on what
//! the guest does, or on an HTTP exchange, which [`http`](super::http) records. When a tape is
//! played, a guest is told that something is ready when it was ready in the recording, and the host
//! waits for it until then; nothing takes the time that it took.

use skydock_recording::{Diverged, Payload, Tape, value};
use wasmtime::{
    StoreContextMut,
    component::{Linker, Resource},
};
use wasmtime_wasi::{
    WasiView as _,
    clocks::WasiClocksView as _,
    p2::{
        DynInputStream, DynOutputStream, DynPollable, StreamError, StreamResult,
        bindings::{
            clocks::{monotonic_clock, wall_clock},
            io::{
                poll::{Host as _, HostPollable as _},
                streams::{self, Host as _, HostInputStream as _, HostOutputStream as _},
            },
            random::{insecure, insecure_seed, random},
        },
    },
};

use super::State;

type Call<'a> = StoreContextMut<'a, State>;
type Answer<T> = wasmtime::Result<(Result<T, streams::StreamError>,)>;
type Lent<T> = Resource<T>;

/// Links them instead of those without a tape.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    clocks(linker)?;
    randomness(linker)?;
    readiness(linker)?;
    input(linker)?;
    output(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

impl State {
    /// Runs a function of WASI, or returns its recorded answer.
    fn taped<A: serde::Serialize, T: serde::Serialize + serde::de::DeserializeOwned>(
        &mut self,
        function: &'static str,
        arguments: A,
        live: impl FnOnce(&mut Self, A) -> wasmtime::Result<T>,
    ) -> wasmtime::Result<T> {
        let tape = self.tape.clone();
        if let Some(answer) = recalled(tape.as_ref(), function, &arguments)? {
            return Ok(answer);
        }

        // Before `live` takes the arguments.
        let before = value(&arguments);
        let answer = live(self, arguments)?;
        if let Some(tape) = tape {
            tape.record(function, before, &answer);
        }

        Ok(answer)
    }

    /// Returns true if a tape is played.
    fn is_played(&self) -> bool {
        matches!(self.tape, Some(Tape::Playing(_)))
    }
}

fn recalled<T: serde::de::DeserializeOwned>(
    tape: Option<&Tape>,
    function: &'static str,
    arguments: &impl serde::Serialize,
) -> Result<Option<T>, Diverged> {
    tape.map_or(Ok(None), |tape| tape.recall(function, arguments))
}

fn clocks(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut wall = linker.instance("wasi:clocks/wall-clock@0.2.12")?;
    wall.func_wrap("now", |mut call: Call<'_>, (): ()| {
        let (seconds, nanoseconds) = call.data_mut().taped("wall-clock.now", (), |state, ()| {
            let now = wall_clock::Host::now(&mut state.clocks())?;
            Ok((now.seconds, now.nanoseconds))
        })?;
        Ok((wall_clock::Datetime {
            seconds,
            nanoseconds,
        },))
    })?;

    let mut monotonic = linker.instance("wasi:clocks/monotonic-clock@0.2.12")?;
    monotonic.func_wrap("now", |mut call: Call<'_>, (): ()| {
        Ok((call
            .data_mut()
            .taped("monotonic-clock.now", (), |state, ()| {
                monotonic_clock::Host::now(&mut state.clocks())
            })?,))
    })?;

    // When a tape is played, the recording says when a timer has run out.
    monotonic.func_wrap(
        "subscribe-duration",
        |mut call: Call<'_>, (duration,): (u64,)| {
            let state = call.data_mut();
            let duration = if state.is_played() { 0 } else { duration };

            Ok((monotonic_clock::Host::subscribe_duration(
                &mut state.clocks(),
                duration,
            )?,))
        },
    )?;

    monotonic.func_wrap(
        "subscribe-instant",
        |mut call: Call<'_>, (when,): (u64,)| {
            let state = call.data_mut();
            let when = if state.is_played() { 0 } else { when };

            Ok((monotonic_clock::Host::subscribe_instant(
                &mut state.clocks(),
                when,
            )?,))
        },
    )
}

fn randomness(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut secure = linker.instance("wasi:random/random@0.2.12")?;
    secure.func_wrap(
        "get-random-bytes",
        |mut call: Call<'_>, (length,): (u64,)| {
            let bytes = call.data_mut().taped(
                "random.get-random-bytes",
                (length,),
                |state, (length,)| {
                    random::Host::get_random_bytes(state.wasi.random(), length).map(Payload)
                },
            )?;
            Ok((bytes.0,))
        },
    )?;

    secure.func_wrap("get-random-u64", |mut call: Call<'_>, (): ()| {
        Ok((call
            .data_mut()
            .taped("random.get-random-u64", (), |state, ()| {
                random::Host::get_random_u64(state.wasi.random())
            })?,))
    })?;

    let mut fast = linker.instance("wasi:random/insecure@0.2.12")?;
    fast.func_wrap(
        "get-insecure-random-bytes",
        |mut call: Call<'_>, (length,): (u64,)| {
            let bytes = call.data_mut().taped(
                "random.get-insecure-random-bytes",
                (length,),
                |state, (length,)| {
                    insecure::Host::get_insecure_random_bytes(state.wasi.random(), length)
                        .map(Payload)
                },
            )?;
            Ok((bytes.0,))
        },
    )?;

    fast.func_wrap("get-insecure-random-u64", |mut call: Call<'_>, (): ()| {
        Ok((call
            .data_mut()
            .taped("random.get-insecure-random-u64", (), |state, ()| {
                insecure::Host::get_insecure_random_u64(state.wasi.random())
            })?,))
    })?;

    let mut seed = linker.instance("wasi:random/insecure-seed@0.2.12")?;
    seed.func_wrap("insecure-seed", |mut call: Call<'_>, (): ()| {
        Ok((call
            .data_mut()
            .taped("random.insecure-seed", (), |state, ()| {
                insecure_seed::Host::insecure_seed(state.wasi.random())
            })?,))
    })
}

type Pollable = (Lent<DynPollable>,);

fn readiness(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut interface = linker.instance("wasi:io/poll@0.2.12")?;
    interface.func_wrap_async(
        "poll",
        |mut call: Call<'_>, (all,): (Vec<Lent<DynPollable>>,)| {
            Box::new(async move { Ok((poll(call.data_mut(), all).await?,)) })
        },
    )?;

    interface.func_wrap_async(
        "[method]pollable.block",
        |mut call: Call<'_>, (handle,): Pollable| {
            Box::new(async move { block(call.data_mut(), handle).await })
        },
    )?;

    interface.func_wrap_async(
        "[method]pollable.ready",
        |mut call: Call<'_>, (handle,): Pollable| {
            Box::new(async move { Ok((is_ready(call.data_mut(), handle).await?,)) })
        },
    )
}

/// Waits until one of them is ready, and returns the indexes of those that are.
async fn poll(state: &mut State, all: Vec<Lent<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
    let tape = state.tape.clone();
    let handles: Vec<_> = all.iter().map(Resource::rep).collect();
    let arguments = (handles,);
    let table = state.ctx().table;
    let recorded: Option<Vec<u32>> = recalled(tape.as_ref(), "poll.poll", &arguments)?;

    if let Some(ready) = recorded {
        // What was ready in the recording must be ready here before the guest uses it.
        for handle in ready
            .iter()
            .filter_map(|index| all.get(usize::try_from(*index).ok()?))
        {
            table.block(Resource::new_borrow(handle.rep())).await?;
        }
        return Ok(ready);
    }

    let ready = table.poll(all).await?;
    tape.iter()
        .for_each(|tape| tape.record("poll.poll", value(&arguments), &ready));

    Ok(ready)
}

/// Waits until it is ready.
async fn block(state: &mut State, handle: Lent<DynPollable>) -> wasmtime::Result<()> {
    let tape = state.tape.clone();
    let arguments = (handle.rep(),);

    let recorded: Option<()> = recalled(tape.as_ref(), "poll.block", &arguments)?;
    state.ctx().table.block(handle).await?;
    if let Some(tape) = tape.filter(|_| recorded.is_none()) {
        tape.record("poll.block", value(&arguments), &());
    }

    Ok(())
}

/// Returns true if it is ready.
async fn is_ready(state: &mut State, handle: Lent<DynPollable>) -> wasmtime::Result<bool> {
    let tape = state.tape.clone();
    let arguments = (handle.rep(),);

    let table = state.ctx().table;
    if let Some(ready) = recalled(tape.as_ref(), "poll.ready", &arguments)? {
        if ready {
            table.block(handle).await?;
        }
        return Ok(ready);
    }

    let ready = table.ready(handle).await?;
    tape.iter()
        .for_each(|tape| tape.record("poll.ready", value(&arguments), &ready));
    Ok(ready)
}

/// Only whether something has arrived depends on time. What arrives is recorded with the exchange.
fn input(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut interface = linker.instance("wasi:io/streams@0.2.12")?;
    type Read = (Lent<DynInputStream>, u64);

    interface.func_wrap_async(
        "[method]input-stream.read",
        |mut call: Call<'_>, (stream, length): Read| {
            Box::new(async move {
                let state = call.data_mut();
                let tape = state.tape.clone();
                let arguments = (stream.rep(), length);

                let table = state.ctx().table;
                let read = match recalled(tape.as_ref(), "streams.read", &arguments)? {
                    // Nothing had arrived when this was recorded.
                    Some(false) => Ok(Vec::new()),
                    Some(true) => table.blocking_read(stream, length).await,
                    None => {
                        let read = table.read(stream, length);
                        let arrived = !matches!(&read, Ok(bytes) if bytes.is_empty());
                        tape.iter().for_each(|tape| {
                            tape.record("streams.read", value(&arguments), &arrived);
                        });
                        read
                    }
                };

                answer(state, read)
            })
        },
    )
}

type Output = (Lent<DynOutputStream>,);
type Write = (Lent<DynOutputStream>, Vec<u8>);

/// How much a guest may write at a time, and whether the other side still reads, depends on time.
fn output(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    writing(linker)?;
    flushing(linker)
}

fn writing(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut interface = linker.instance("wasi:io/streams@0.2.12")?;
    interface.func_wrap_async(
        "[method]output-stream.check-write",
        |mut call: Call<'_>, (stream,): Output| {
            Box::new(async move { check_write(call.data_mut(), stream).await })
        },
    )?;

    interface.func_wrap_async(
        "[method]output-stream.write",
        |mut call: Call<'_>, (stream, bytes): Write| {
            Box::new(async move {
                let state = call.data_mut();
                let closing = Closing::of(state, "streams.write", &stream)?;

                // The write succeeded when it was recorded.
                if closing.was == Some(false) {
                    writable(state, &stream).await?;
                }

                let written = if closing.is_closed() {
                    CLOSED
                } else {
                    state.ctx().table.write(stream, bytes)
                };

                closing.recorded(state, written)
            })
        },
    )?;

    let name = "[method]output-stream.blocking-write-and-flush";
    interface.func_wrap_async(name, |mut call: Call<'_>, (stream, bytes): Write| {
        Box::new(async move {
            let state = call.data_mut();
            let closing = Closing::of(state, "streams.blocking-write-and-flush", &stream)?;

            let written = if closing.is_closed() {
                CLOSED
            } else {
                let table = state.ctx().table;
                table.blocking_write_and_flush(stream, bytes).await
            };

            closing.recorded(state, written)
        })
    })
}

fn flushing(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut interface = linker.instance("wasi:io/streams@0.2.12")?;
    interface.func_wrap_async(
        "[method]output-stream.flush",
        |mut call: Call<'_>, (stream,): Output| {
            Box::new(async move {
                let state = call.data_mut();
                let closing = Closing::of(state, "streams.flush", &stream)?;

                let flushed = if closing.is_closed() {
                    CLOSED
                } else {
                    state.ctx().table.flush(stream)
                };

                closing.recorded(state, flushed)
            })
        },
    )?;

    interface.func_wrap_async(
        "[method]output-stream.blocking-flush",
        |mut call: Call<'_>, (stream,): Output| {
            Box::new(async move {
                let state = call.data_mut();
                let closing = Closing::of(state, "streams.blocking-flush", &stream)?;

                let flushed = if closing.is_closed() {
                    CLOSED
                } else {
                    state.ctx().table.blocking_flush(stream).await
                };

                closing.recorded(state, flushed)
            })
        },
    )
}

/// Returns how many bytes a guest may write to the stream.
async fn check_write(state: &mut State, stream: Lent<DynOutputStream>) -> Answer<u64> {
    let tape = state.tape.clone();
    let arguments = (stream.rep(),);
    let recorded: Option<Option<u64>> = recalled(tape.as_ref(), "streams.check-write", &arguments)?;

    let permit = match recorded {
        Some(Some(0)) => Ok(0),
        Some(Some(_)) => {
            writable(state, &stream).await?;
            state.ctx().table.check_write(stream)
        }
        Some(None) => Err(StreamError::Closed),
        None => {
            let permit = state.ctx().table.check_write(stream);
            let permitted = permit.as_ref().ok();
            tape.iter().for_each(|tape| {
                tape.record("streams.check-write", value(&arguments), &permitted);
            });
            permit
        }
    };

    answer(state, permit)
}

/// The answer on a stream that nobody reads any more.
const CLOSED: StreamResult<()> = Err(StreamError::Closed);

/// Whether a stream was closed when a guest wrote to it.
struct Closing {
    function: &'static str,
    arguments: (u32,),
    /// As recorded, if a tape is played.
    was: Option<bool>,
}

impl Closing {
    fn of(
        state: &State,
        function: &'static str,
        stream: &Lent<DynOutputStream>,
    ) -> Result<Self, Diverged> {
        let arguments = (stream.rep(),);
        let was = recalled(state.tape.as_ref(), function, &arguments)?;
        Ok(Self {
            function,
            arguments,
            was,
        })
    }

    fn is_closed(&self) -> bool {
        self.was == Some(true)
    }

    fn recorded(self, state: &mut State, result: StreamResult<()>) -> Answer<()> {
        let closed = matches!(result, Err(StreamError::Closed));
        state
            .tape
            .iter()
            .for_each(|tape| tape.record(self.function, value(&self.arguments), &closed));
        answer(state, result)
    }
}

/// Waits until a guest may write to the stream.
async fn writable(state: &mut State, stream: &Lent<DynOutputStream>) -> wasmtime::Result<()> {
    state.ctx().table.get_mut(stream)?.ready().await;
    Ok(())
}

/// Converts the answer of a stream for the guest.
fn answer<T>(state: &mut State, answer: StreamResult<T>) -> Answer<T> {
    let answer = answer.map_err(|error| state.ctx().table.convert_stream_error(error));
    match answer {
        Ok(answer) => Ok((Ok(answer),)),
        Err(error) => Ok((Err(error?),)),
    }
}
