//! Which types' numbers can be checked.

use super::Rules;

/// Walks the numbers of a value.
#[derive(Debug)]
pub struct Checker<'a> {
    _rules: &'a Rules,
}

/// A type whose numbers `assert` can check.
#[diagnostic::on_unimplemented(
    message = "`assert` cannot check a `{Self}`: it holds no numbers this crate knows",
    label = "`{Self}` is not checkable",
    note = "implement `brick_runtime::Check` for it, or, to check only some parameters, name them: `assert(out = \"no_nan\")`"
)]
pub trait Check {
    /// Shows every number of `self` to the checker.
    fn check(&self, checker: &mut Checker<'_>);
}

impl Check for [f32] {
    fn check(&self, _checker: &mut Checker<'_>) {}
}
