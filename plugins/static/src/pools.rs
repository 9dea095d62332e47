//! Pools of addresses, and which Service has which.

pub mod allocate;
pub mod holders;
pub mod pool;
pub mod range;
