//! Calls functions with recorded arguments.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    Guest, exported,
    generated::{plugin, routes},
    load_balancers::lent,
};
use crate::{
    contract::{
        Running,
        v0_1::bindings::skydock::provider::types::{Node, Service},
    },
    tape::value,
};

impl<'a, 's> Guest<'a, 's> {
    /// Calls a function by its name in a recording, and returns its answer as it would be recorded.
    pub(crate) fn replay(self, function: &'s str, arguments: &'s Value) -> Running<'a, Value> {
        let Self {
            functions: f,
            store,
            ..
        } = self;
        // Nothing of the recording is borrowed for longer than this call.
        let (function, arguments) = (function.to_owned(), arguments.clone());
        Box::pin(async move {
            let s = store;
            let (balancers, nodes) = (f.load_balancers.as_ref(), f.instances.as_ref());
            let answer = match function.as_str() {
                "plugin.configure" => {
                    let (settings,): (plugin::Settings,) = read(arguments)?;
                    told(f.plugin.call_configure(s, &settings).await?)
                }
                "plugin.info" => told(f.plugin.call_info(s).await?),
                "instances.check" => {
                    let (all,): (Vec<Node>,) = read(arguments)?;
                    told(exported(nodes)?.call_check(s, &all).await?)
                }
                "instances.describe" => {
                    let (all,): (Vec<Node>,) = read(arguments)?;
                    told(exported(nodes)?.call_describe(s, &all).await?)
                }
                "zones.locate" => {
                    let (all,): (Vec<Node>,) = read(arguments)?;
                    told(exported(f.zones.as_ref())?.call_locate(s, &all).await?)
                }
                "load-balancers.get" => {
                    let (service,): (Service,) = read(arguments)?;
                    told(exported(balancers)?.call_get(s, &service).await?)
                }
                "load-balancers.ensure" => {
                    let (service,): (Service,) = read(arguments)?;
                    told(
                        exported(balancers)?
                            .call_ensure(s, &service, lent())
                            .await?,
                    )
                }
                "load-balancers.update-nodes" => {
                    let (service,): (Service,) = read(arguments)?;
                    told(
                        exported(balancers)?
                            .call_update_nodes(s, &service, lent())
                            .await?,
                    )
                }
                "load-balancers.ensure-deleted" => {
                    let (service,): (Service,) = read(arguments)?;
                    told(
                        exported(balancers)?
                            .call_ensure_deleted(s, &service)
                            .await?,
                    )
                }
                "routes.list-routes" => {
                    let (page,): (Option<String>,) = read(arguments)?;
                    told(
                        exported(f.routes.as_ref())?
                            .call_list_routes(s, page.as_deref())
                            .await?,
                    )
                }
                "routes.create-routes" => {
                    let (all,): (Vec<routes::NewRoute>,) = read(arguments)?;
                    told(
                        exported(f.routes.as_ref())?
                            .call_create_routes(s, &all)
                            .await?,
                    )
                }
                "routes.delete-routes" => {
                    let (all,): (Vec<routes::Route>,) = read(arguments)?;
                    told(
                        exported(f.routes.as_ref())?
                            .call_delete_routes(s, &all)
                            .await?,
                    )
                }
                "maintenance.maintain" => {
                    told(exported(f.maintenance.as_ref())?.call_maintain(s).await?)
                }
                _ => wasmtime::bail!("the contract has no function {function}"),
            };
            Ok(Ok(answer))
        })
    }
}

fn read<T: DeserializeOwned>(arguments: Value) -> wasmtime::Result<T> {
    serde_json::from_value(arguments).map_err(|error| {
        wasmtime::format_err!("the recorded arguments are not those of this version: {error}")
    })
}

fn told(answer: impl Serialize) -> Value {
    value(&answer)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use skydock_cloud::Capability;

    /// Returns the functions that a file of the contract declares.
    fn functions(text: &str) -> impl Iterator<Item = &str> {
        let declared = text
            .lines()
            .filter_map(|line| line.trim().split_once(": func("));
        declared.map(|(name, _)| name)
    }

    #[test]
    fn every_function_that_is_recorded_can_be_replayed() {
        let source = include_str!("replay.rs");
        let contract = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/v0.1.0");
        let interfaces = Capability::ALL.map(Capability::name);
        let mut count = 0;
        for interface in interfaces.into_iter().chain(["plugin"]) {
            let text = fs::read_to_string(contract.join(interface).with_extension("wit")).unwrap();
            for function in functions(&text) {
                let arm = format!("                \"{interface}.{function}\" => ");
                assert!(
                    source.contains(&arm),
                    "{interface}.{function} cannot be replayed"
                );
                count += 1;
            }
        }
        assert!(count >= 13, "only {count} functions were found");
    }
}
