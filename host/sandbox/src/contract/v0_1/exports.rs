//! The functions that a plugin exports: one module for each interface, with its calls and the rules
//! for their answers.

/// Calls a function of the guest, and records arguments and answer. A set of nodes is lent, and not
/// recorded with the arguments.
macro_rules! call {
    ($functions:ident, $store:ident, $function:ident:
        $interface:ident.$method:ident($($argument:expr),*) $(lent $lent:expr)?) => {{
        $store.data().called(&skydock_cloud::Function::$function, &($($argument,)*));
        let answer = $crate::contract::v0_1::exports::exported($functions.$interface.as_ref())?
            .$method(&mut *$store, $($argument,)* $($lent)?)
            .await?;
        $store.data().answered(&answer);
        answer
    }};
}

mod instances;
mod load_balancers;
mod maintenance;
mod pages;
mod plugin;
mod replay;
mod routes;
mod volumes;
mod zones;

pub(crate) use self::pages::Page;

use std::{collections::BTreeSet, marker::PhantomData};

use skydock_cloud::Capability;
use wasmtime::{
    Store,
    component::{Instance, InstancePre},
};

use super::bindings::exports::skydock::provider as generated;
use crate::{imports::State, load::error::LoadProblem};

/// An instance during one call. Each function consumes it; its arguments live for `'s`, longer than
/// the call.
pub(crate) struct Guest<'a, 's> {
    functions: &'a Functions,
    store: &'a mut Store<State>,
    arguments: PhantomData<&'a &'s ()>,
}

impl<'a> Guest<'a, '_> {
    /// Prepares a call.
    pub(crate) fn new(functions: &'a Functions, store: &'a mut Store<State>) -> Self {
        Self {
            functions,
            store,
            arguments: PhantomData,
        }
    }
}

/// Defines [`Exports`] and [`Functions`] from the interfaces that are capabilities.
macro_rules! capabilities {
    ($($interface:ident: $capability:ident),* $(,)?) => {
        /// Positions of the functions of each exported interface in a component.
        pub(crate) struct Exports {
            plugin: generated::plugin::GuestIndices,
            $($interface: Option<generated::$interface::GuestIndices>,)*
        }

        /// The functions of each exported interface of one instance.
        pub(crate) struct Functions {
            instance: Instance,
            plugin: generated::plugin::Guest,
            $($interface: Option<generated::$interface::Guest>,)*
        }

        impl Exports {
            /// Finds the functions of each capability.
            ///
            /// # Errors
            /// [`LoadProblem::WrongType`], if a function of an exported interface is missing.
            pub(crate) fn find(
                pre: &InstancePre<State>,
                capabilities: &BTreeSet<Capability>,
            ) -> Result<Self, LoadProblem> {
                let plugin = generated::plugin::GuestIndices::new(pre).map_err(wrong(PLUGIN))?;
                $(let $interface = capabilities
                    .contains(&Capability::$capability)
                    .then(|| generated::$interface::GuestIndices::new(pre))
                    .transpose()
                    .map_err(wrong(Capability::$capability.name()))?;)*

                Ok(Self { plugin, $($interface),* })
            }

            /// Loads the functions, which checks their types.
            ///
            /// # Errors
            /// [`LoadProblem::WrongType`], if a function does not have the contract's type.
            pub(crate) fn load(&self, store: &mut Store<State>, instance: &Instance) -> Result<Functions, LoadProblem> {
                Ok(Functions {
                    instance: *instance,
                    plugin: self.plugin.load(&mut *store, instance).map_err(wrong(PLUGIN))?,
                    $($interface: self
                        .$interface
                        .as_ref()
                        .map(|interface| interface.load(&mut *store, instance))
                        .transpose()
                        .map_err(wrong(Capability::$capability.name()))?,)*
                })
            }
        }
    };
}

capabilities! {
    instances: Instances,
    load_balancers: LoadBalancers,
    routes: Routes,
    zones: Zones,
    maintenance: Maintenance,
    volumes: Volumes,
    attachments: Attachments,
    volume_expansion: VolumeExpansion,
    volume_attributes: VolumeAttributes,
    snapshots: Snapshots,
    storage_capacity: StorageCapacity,
}

/// Name of the interface that every plugin exports.
const PLUGIN: &str = "plugin";

/// Returns the conversion of an error about an interface.
fn wrong(interface: &'static str) -> impl FnOnce(wasmtime::Error) -> LoadProblem {
    move |reason| LoadProblem::WrongType {
        interface,
        reason: reason.into(),
    }
}

/// Returns the functions of an interface that the plugin exports. The caller has checked that it
/// does.
fn exported<T>(interface: Option<&T>) -> wasmtime::Result<&T> {
    interface.ok_or_else(|| wasmtime::format_err!("the interface is not exported"))
}
