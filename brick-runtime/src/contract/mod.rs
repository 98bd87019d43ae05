//! Numeric contracts.

mod amount;
mod check;
mod rules;

pub use self::amount::Amount;
pub use self::check::{Check, Checker};
pub use self::rules::Rules;
