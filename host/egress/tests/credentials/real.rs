//! Against the real things, where they run.
