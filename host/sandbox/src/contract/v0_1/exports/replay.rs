//! Calls functions with recorded arguments.

use serde_json::Value;
use wasmtime::component::{Resource, ResourceAny};

use super::Guest;
use crate::{
    contract::{Running, dynamic, v0_1::bindings::skydock::provider::node_sets::NodeSet},
    words::names::{CONTRACT, PACKAGE},
};

impl<'a> Guest<'a, '_> {
    /// Calls a function by its name in a recording, and returns its answer as it would be recorded.
    pub(crate) fn replay(self, function: &str, arguments: &Value) -> Running<'a, Value> {
        let Self {
            functions, store, ..
        } = self;
        // Nothing of the recording is borrowed for longer than this call.
        let function = function.to_owned();
        let arguments = arguments.clone();

        Box::pin(async move {
            let Some((of, name)) = function.split_once('.') else {
                wasmtime::bail!("the contract has no function {function}");
            };
            let interface = format!("{PACKAGE}/{of}@{CONTRACT}");
            let found = dynamic::find(store, &functions.instance, &interface, name)?;

            // Which nodes it has is in the recording. After a trap, nothing of the store is used.
            let lent = Resource::<NodeSet>::new_own(0);
            let lent = ResourceAny::try_from_resource(lent, &mut *store)?;
            let answer = dynamic::call(store, found, arguments, lent).await?;
            lent.resource_drop_async(&mut *store).await?;

            Ok(Ok(answer))
        })
    }
}
