"""What runs inside the processes of the fixtures; the Rust crate beside it starts them."""
