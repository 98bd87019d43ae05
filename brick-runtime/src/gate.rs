//! The one switch: with `visualization` off, the first branch is never compiled.
//!
//! A `macro_rules!` of this crate, not a feature of the macro crate: one build of a proc macro
//! can serve a host and a target build of the runtime that differ in features, and a
//! `cfg` in the expansion would be read against the user's crate.

/// Picks the instrumented (`{on}`) or the bare (`{off}`) form of a brick.
#[cfg(feature = "visualization")]
#[doc(hidden)]
#[macro_export]
macro_rules! __gate {
    ({ $($on:tt)* } { $($off:tt)* }) => { $($on)* };
}

/// Picks the instrumented (`{on}`) or the bare (`{off}`) form of a brick.
#[cfg(not(feature = "visualization"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __gate {
    ({ $($on:tt)* } { $($off:tt)* }) => { $($off)* };
}

/// Passes `serde` implementations of a crate's `BrickId` through, if this crate has serde.
#[cfg(feature = "serde")]
#[doc(hidden)]
#[macro_export]
macro_rules! __if_serde {
    ($($item:item)*) => { $($item)* };
}

/// Passes `serde` implementations of a crate's `BrickId` through, if this crate has serde.
#[cfg(not(feature = "serde"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __if_serde {
    ($($item:item)*) => {};
}
