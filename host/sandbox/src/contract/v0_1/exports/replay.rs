//! Calls functions with recorded arguments.

use serde_json::Value;
use wasmtime::{
    Store,
    component::{Func, Resource, ResourceAny},
};

use super::{Functions, Guest};
use crate::{
    contract::{
        Running,
        dynamic::{self, BadCall},
        v0_1::bindings::skydock::provider::node_sets::NodeSet,
    },
    imports::State,
    words::names::interface,
};

impl<'a> Guest<'a, '_> {
    /// Calls a function by its name in a recording, and returns its answer as it would be recorded.
    pub(crate) fn replay(
        self,
        function: &str,
        arguments: &Value,
    ) -> Running<'a, Result<Value, BadCall>> {
        let Self {
            functions, store, ..
        } = self;
        // Nothing of the recording is borrowed for longer than this call.
        let function = function.to_owned();
        let arguments = arguments.clone();

        Box::pin(async move {
            // Which nodes it has is in the recording. After a trap, nothing of the store is used.
            let lent = Resource::<NodeSet>::new_own(0);
            let lent = ResourceAny::try_from_resource(lent, &mut *store)?;

            let prepared = found(store, functions, &function).and_then(|found| {
                let arguments = dynamic::arguments(store, found, arguments, lent)?;
                Ok((found, arguments))
            });
            let (found, arguments) = match prepared {
                Ok(prepared) => prepared,
                Err(error) => return Ok(Ok(Err(error))),
            };

            let answer = dynamic::call(store, found, &arguments).await?;
            lent.resource_drop_async(&mut *store).await?;

            Ok(Ok(Ok(answer)))
        })
    }
}

/// Finds a function by its name in a recording, `INTERFACE.FUNCTION`.
fn found(store: &mut Store<State>, functions: &Functions, function: &str) -> Result<Func, BadCall> {
    let Some((of, name)) = function.split_once('.') else {
        return Err(BadCall::new(function, "the contract has no such function"));
    };

    dynamic::find(store, &functions.instance, &interface(of), name)
}
