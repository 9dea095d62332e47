//! Hostile.
