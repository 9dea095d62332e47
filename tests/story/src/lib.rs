//! Story.
