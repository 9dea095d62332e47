//! The simulation: scenarios with one kind of failure, and random sequences of all kinds.

mod faults;
mod random;
