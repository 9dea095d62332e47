//! The macro that turns a crate into a component.

/// Exports a type as a plugin with the given capabilities: any of `instances`, `load_balancers`, `routes`, `zones` and `maintenance`.
///
/// The type must implement [`Plugin`](crate::Plugin) and the trait of each capability; in a native build, the macro only checks this.
/// Use it once per crate.
///
/// ```ignore
/// skydock_sdk::export!(Metal: instances, load_balancers);
/// ```
///
/// ```compile_fail
/// struct Metal;
/// skydock_sdk::export!(Metal: instances); // Metal implements nothing.
/// ```
#[macro_export]
macro_rules! export {
    ($plugin:ident $(: $($capability:ident),* $(,)?)?) => {
        $crate::__export_capability!(plugin $plugin);
        $($($crate::__export_capability!($capability $plugin);)*)?
    };
}

/// Exports one capability of [`export!`] in a component, and checks its trait bound in a native build.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_capability {
    (plugin $plugin:ident) => {
        $crate::__export_capability!(@ $plugin, Plugin, plugin, export_plugin);
    };
    (instances $plugin:ident) => {
        $crate::__export_capability!(@ $plugin, Instances, instances, export_instances);
    };
    (load_balancers $plugin:ident) => {
        $crate::__export_capability!(@ $plugin, LoadBalancers, load_balancers, export_load_balancers);
    };
    (routes $plugin:ident) => {
        $crate::__export_capability!(@ $plugin, Routes, routes, export_routes);
    };
    (zones $plugin:ident) => {
        $crate::__export_capability!(@ $plugin, Zones, zones, export_zones);
    };
    (maintenance $plugin:ident) => {
        $crate::__export_capability!(@ $plugin, Maintenance, maintenance, export_maintenance);
    };
    (@ $plugin:ident, $trait:ident, $module:ident, $export:ident) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            $crate::bindings::$module::$export!($plugin with_types_in $crate::bindings::$module);
        };
        #[cfg(not(target_arch = "wasm32"))]
        const _: () = {
            const fn has_capability<T: $crate::$trait>() {}
            has_capability::<$plugin>();
        };
    };
    ($unknown:ident $plugin:ident) => {
        ::core::compile_error!(::core::concat!(
            "unknown capability `", ::core::stringify!($unknown),
            "`: there are `instances`, `load_balancers`, `routes`, `zones` and `maintenance`"
        ));
    };
}
