//! Against the real things, where they run: `SKYDOCK_KEYSTONE` and `SKYDOCK_KEYSTONE_PASSWORD` (of `admin`; tokens of a minute or
//! more), `SKYDOCK_MOTO` (a moto server nobody else uses: its authentication is switched on).

mod keystone;
mod moto;

/// A variable of the environment that such a test needs.
fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}
