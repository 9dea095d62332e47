//! The interface `objects`: reads objects, and annotates them.

use skydock_cloud::ReadError;
use skydock_recording::{functions, observed, observed_later};
use wasmtime::{StoreContextMut, component::Linker};

use crate::{
    contract::v0_1::bindings::skydock::provider::objects::Refusal, imports::State,
    words::names::interface,
};

/// Linked manually, because only `read` waits.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Call<'a> = StoreContextMut<'a, State>;
    let mut interface = linker.instance(&interface("objects"))?;

    interface.func_wrap_async(
        "read",
        |call: Call<'_>, arguments: (String, String, String)| {
            let (kind, namespace, name) = &arguments;
            let granted = call.data().granted(kind, namespace.clone(), name.clone());
            let tape = call.data().tape().cloned();

            Box::new(async move {
                let read = |_| async move {
                    match granted {
                        Some(granted) => granted.read().await.map_err(refusal),
                        None => Err(Refusal::NotGranted),
                    }
                };

                Ok((observed_later(tape, functions::OBJECTS_READ, arguments, read).await?,))
            })
        },
    )?;

    interface.func_wrap(
        "annotate",
        |call: Call<'_>, arguments: (String, String, Option<String>)| {
            let state = call.data();
            Ok((observed(
                state.tape(),
                "objects.annotate",
                arguments,
                |(name, key, value)| state.annotate(&name, key, value),
            )?,))
        },
    )
}

fn refusal(error: ReadError) -> Refusal {
    match error {
        ReadError::NotThere => Refusal::NotThere,
        ReadError::NotGranted => Refusal::NotGranted,
        ReadError::Unavailable(why) => Refusal::Unavailable(why),
    }
}
