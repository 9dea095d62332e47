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
    recording::tape::value,
};

/// Defines [`Function`] from the names in recordings.
macro_rules! functions {
    ($($name:literal => $function:ident,)*) => {
        /// A function of the contract.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Function {
            $($function,)*
        }

        impl Function {
            /// Returns the function with this name in a recording.
            fn of(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$function),)*
                    _ => None,
                }
            }
        }
    };
}

functions! {
    "plugin.configure" => Configure,
    "plugin.info" => Info,
    "instances.check" => Check,
    "instances.describe" => Describe,
    "zones.locate" => Locate,
    "load-balancers.get" => BalancerGet,
    "load-balancers.ensure" => BalancerEnsure,
    "load-balancers.update-nodes" => BalancerUpdateNodes,
    "load-balancers.ensure-deleted" => BalancerEnsureDeleted,
    "routes.list-routes" => ListRoutes,
    "routes.create-routes" => CreateRoutes,
    "routes.delete-routes" => DeleteRoutes,
    "maintenance.maintain" => Maintain,
}

impl<'a, 's> Guest<'a, 's> {
    /// Calls a function by its name in a recording, and returns its answer as it would be recorded.
    pub(crate) fn replay(self, function: &'s str, arguments: &'s Value) -> Running<'a, Value> {
        let Self {
            functions: f,
            store,
            ..
        } = self;
        // Nothing of the recording is borrowed for longer than this call.
        let function = function.to_owned();
        let arguments = arguments.clone();

        Box::pin(async move {
            let s = store;
            let balancers = f.load_balancers.as_ref();
            let nodes = f.instances.as_ref();

            let Some(function) = Function::of(&function) else {
                wasmtime::bail!("the contract has no function {function}");
            };

            let answer = match function {
                Function::Configure => {
                    let (settings,): (plugin::Settings,) = read(arguments)?;
                    told(f.plugin.call_configure(s, &settings).await?)
                }
                Function::Info => told(f.plugin.call_info(s).await?),
                Function::Check => {
                    let (all,): (Vec<Node>,) = read(arguments)?;
                    told(exported(nodes)?.call_check(s, &all).await?)
                }
                Function::Describe => {
                    let (all,): (Vec<Node>,) = read(arguments)?;
                    told(exported(nodes)?.call_describe(s, &all).await?)
                }
                Function::Locate => {
                    let (all,): (Vec<Node>,) = read(arguments)?;
                    told(exported(f.zones.as_ref())?.call_locate(s, &all).await?)
                }
                Function::BalancerGet => {
                    let (service,): (Service,) = read(arguments)?;
                    told(exported(balancers)?.call_get(s, &service).await?)
                }
                Function::BalancerEnsure => {
                    let (service,): (Service,) = read(arguments)?;
                    told(
                        exported(balancers)?
                            .call_ensure(s, &service, lent())
                            .await?,
                    )
                }
                Function::BalancerUpdateNodes => {
                    let (service,): (Service,) = read(arguments)?;
                    told(
                        exported(balancers)?
                            .call_update_nodes(s, &service, lent())
                            .await?,
                    )
                }
                Function::BalancerEnsureDeleted => {
                    let (service,): (Service,) = read(arguments)?;
                    told(
                        exported(balancers)?
                            .call_ensure_deleted(s, &service)
                            .await?,
                    )
                }
                Function::ListRoutes => {
                    let (page,): (Option<String>,) = read(arguments)?;
                    told(
                        exported(f.routes.as_ref())?
                            .call_list_routes(s, page.as_deref())
                            .await?,
                    )
                }
                Function::CreateRoutes => {
                    let (all,): (Vec<routes::NewRoute>,) = read(arguments)?;
                    told(
                        exported(f.routes.as_ref())?
                            .call_create_routes(s, &all)
                            .await?,
                    )
                }
                Function::DeleteRoutes => {
                    let (all,): (Vec<routes::Route>,) = read(arguments)?;
                    told(
                        exported(f.routes.as_ref())?
                            .call_delete_routes(s, &all)
                            .await?,
                    )
                }
                Function::Maintain => {
                    told(exported(f.maintenance.as_ref())?.call_maintain(s).await?)
                }
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
    use std::{collections::BTreeSet, fs, path::Path};

    use skydock_cloud::Capability;

    use super::Function;

    /// Returns the functions that a file of the contract declares.
    fn functions(text: &str) -> impl Iterator<Item = &str> {
        let declared = text
            .lines()
            .filter_map(|line| line.trim().split_once(": func("));
        declared.map(|(name, _)| name)
    }

    #[test]
    fn every_function_that_is_recorded_can_be_replayed() {
        let contract = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/v0.1.0");
        let interfaces = Capability::ALL.map(Capability::name);
        let mut names = BTreeSet::new();
        for interface in interfaces.into_iter().chain(["plugin"]) {
            let text = fs::read_to_string(contract.join(interface).with_extension("wit")).unwrap();
            for function in functions(&text) {
                let name = format!("{interface}.{function}");
                assert_ne!(Function::of(&name), None, "{name} cannot be replayed");
                names.insert(name);
            }
        }
        for known in ["plugin.info", "routes.list-routes", "maintenance.maintain"] {
            assert!(names.contains(known), "{known} was not found: {names:?}");
        }
    }
}
