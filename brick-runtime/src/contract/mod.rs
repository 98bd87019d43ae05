//! Numeric contracts: what `assert`, `requires` and `ensures` check, and what happens when one
//! does not hold.
//!
//! A check walks a value's numbers ([`Check`], [`Checker`]) for the first that breaks a rule
//! ([`Rules`]). What it finds becomes a [`Violation`], and the [`Policy`] decides what follows:
//! stop (a panic with the violation as its payload), keep it for later, or call a function.
//! The time that checks take is in no brick's time; it is reported as theirs.
//!
//! ```
//! use brick_runtime::contract::{self, Policy};
//! contract::set_policy(Policy::Record);
//! contract::set_sampling(16); // check one call in sixteen
//! // … run some bricks …
//! for violation in contract::violations().kept {
//!     println!("{violation}");
//! }
//! # contract::set_policy(Policy::Stop);
//! # contract::set_sampling(1);
//! ```

mod amount;
mod check;
mod checker;
mod policy;
mod rules;
mod scan;
mod stats;
mod violation;

pub use self::amount::Amount;
pub use self::check::Check;
pub use self::checker::{Checker, Number};
pub use self::policy::{
    KEPT, Policy, Violations, clear_violations, policy, sampling, set_policy, set_sampling,
    set_sampling_of, violations,
};
pub use self::rules::Rules;
pub use self::stats::TensorStats;
pub use self::violation::{Fault, Violation};

pub(crate) use self::checker::Found;
#[cfg(feature = "visualization")]
pub(crate) use self::policy::{all_checked, apply, count, every};
