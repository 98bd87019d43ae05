//! The `#[brick]` attribute and the `bricks!` registry macro.
