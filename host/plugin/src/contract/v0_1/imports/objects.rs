//! The interface `objects`.

use skydock_cloud::ReadError;
use wasmtime::{StoreContextMut, component::Linker};

use crate::{contract::v0_1::bindings::skydock::provider::objects::Refusal, host::State};

/// Name of the interface.
const INTERFACE: &str = "skydock:provider/objects@0.1.0";

/// Linked manually, because only `read` waits.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Call<'a> = StoreContextMut<'a, State>;
    let mut interface = linker.instance(INTERFACE)?;
    interface.func_wrap_async("read", |call: Call<'_>, (kind, namespace, name): (String, String, String)| {
        let granted = call.data().granted(&kind, namespace, name);
        Box::new(async move {
            let answer = match granted {
                Some(granted) => granted.read().await.map_err(refusal),
                None => Err(Refusal::NotGranted),
            };
            Ok((answer,))
        })
    })?;
    interface.func_wrap("annotate", |call: Call<'_>, (name, key, value): (String, String, Option<String>)| {
        Ok((call.data().annotate(&name, key, value),))
    })
}

fn refusal(error: ReadError) -> Refusal {
    match error {
        ReadError::NotThere => Refusal::NotThere,
        ReadError::Unavailable(why) => Refusal::Unavailable(why),
    }
}
