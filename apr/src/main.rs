//! The `apr` command.
fn main() {}
