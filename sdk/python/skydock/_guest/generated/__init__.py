# Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.
"""What a component exports, and its conversions."""
