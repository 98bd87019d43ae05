//! Mistakes that people make with `#[brick]` and `bricks!`, one per file of `fail/`, each with
//! the message it must get beside it; and in `pass/`, what must compile.
//!
//! ```text
//! cargo test -p ui-tests                        # with `visualization`
//! cargo test -p ui-tests --no-default-features  # without
//! TRYBUILD=overwrite cargo test -p ui-tests     # after a message changed; read it as prose
//! ```
