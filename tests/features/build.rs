//! Nothing: cargo considers build dependencies only if there is a build script.

fn main() {}
