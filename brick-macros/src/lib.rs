//! The `#[brick]` attribute and the `bricks!` registry macro of brick-runtime, which documents
//! and re-exports them.

use proc_macro::TokenStream;

mod args;
mod bricks;
mod errors;
mod expand;
mod fallback;
mod function;
mod future;
mod registry;
mod rules;
mod scan;
mod signature;
mod source;
mod split;
mod suggest;
mod valid;
mod values;

/// Annotates a kernel: an entry in the crate's registry, a budget, contracts, a profiler hook.
///
/// ```
/// use brick_runtime::{brick, bricks};
///
/// bricks! { AttentionScore } // `bricks!();` where a file can be scanned
///
/// /// Scores of one query against all keys.
/// #[brick(id = AttentionScore, budget_us = 2000, assert = "no_nan", flops = 2 * k.len())]
/// pub fn attention_score(q: &[f32], k: &[f32], out: &mut [f32]) {
///     for (score, k) in out.iter_mut().zip(k.chunks_exact(q.len())) {
///         *score = q.iter().zip(k).map(|(q, k)| q * k).sum();
///     }
/// }
///
/// fn main() {
///     let mut out = [0.0; 2];
///     attention_score(&[1.0, 2.0], &[1.0, 0.0, 0.0, 1.0], &mut out);
///     assert_eq!(out, [1.0, 2.0]);
///     assert_eq!(BrickId::AttentionScore.info().function, "attention_score");
/// }
/// ```
///
/// # Arguments
///
/// Expressions are over the parameters, as they are before the body runs; they are evaluated
/// only with the runtime's feature `visualization`, and type-checked always.
///
/// | argument | meaning |
/// |---|---|
/// | `id = Name` | the variant of `BrickId`; needed, and claimed by one function of the crate |
/// | `backend = Cuda` | a further claim of an id, by an implementation for a `brick_runtime::Backend` |
/// | `category = Name` | a name or a string; bricks without one are in `"Other"` |
/// | `budget_us = 2000` | microseconds that a call may take: a number, or an expression of any number type |
/// | `assert = "no_nan"` | checks the returned value and every `&mut` parameter: `"no_nan"`, `"no_inf"`, `"finite"`, `"range(a, b)"`, or a list of them |
/// | `assert(out = "finite", return = …, self = …)` | checks what is named, alone or on top of `assert = …` |
/// | `requires = expr` | a precondition, looked at before the clock starts |
/// | `ensures = \|ret\| expr` | a postcondition: sees `&` of the returned value, and the parameters |
/// | `flops`, `bytes`, `tokens`, `elements` `= expr` | how much work a call is |
/// | `layer = expr` | the layer that this call, and all that it calls, belongs to |
///
/// Checks see every exit but a panic: `return` and `?` too. `assert` is strict: what it covers
/// and cannot check is a compile error, and so is an `assert` with nothing to check. `Result<(),
/// E>` and `Option<()>` hold nothing to check. A type of your own is checkable once it implements
/// `brick_runtime::Check`.
///
/// # Functions
///
/// Any function with a body: methods, defaults of trait methods, generic, `async`, `unsafe`,
/// `extern`, with `impl Trait`, in a block. An async function is timed poll by poll. A function
/// that returns a future is one if its body is an `async` block or `Box::pin` of one, as
/// `async_trait` makes them; else it is refused, for only the making of the future would be timed.
///
/// Refused are `const fn`, naked and C-variadic functions; on `-> !` and `#[track_caller]`
/// functions `assert` and `ensures` are.
///
/// What differs from the bare function while `visualization` is on:
/// - the body is a closure's: `Location::caller()` inside of it is that of `#[track_caller]`
///   functions only, which are timed by a guard instead;
/// - a large value returned by a checked function is copied once more;
/// - a parameter that `assert` or `ensures` looks at is borrowed until after the body: a function
///   that returns a borrow of it can be checked on `return` only;
/// - where `impl Trait` stands in the return type, what looks at the returned value is
///   type-checked in builds with `visualization` only.
///
/// With it off the function's machine code is that of the bare one, optimised or not.
///
/// # Expansion
///
/// The signature stays as it is. The body becomes a call of a `macro_rules!` of the runtime (which
/// knows whether `visualization` is on) with the claim, the declarations and the untouched body.
#[proc_macro_attribute]
pub fn brick(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::brick(args.into(), item.into()).into()
}

/// Makes the crate's registry: `enum BrickId`, with a variant per brick. Once, in the crate root.
///
/// - `bricks!();` finds the `#[brick(id = …)]`s by following the module tree from the file that
///   it stands in, and takes the `cfg`s on their way along. It does not see what macros make, what
///   `include!` brings, or an attribute under another name (`use brick as kernel`).
/// - `bricks! { AttentionScore, #[cfg(feature = "moe")] Router }` takes a list instead: in doc
///   tests, and for builds whose compiler may read nothing but what it is given.
/// - `bricks! { .., FromMacro }` does both.
/// - `bricks!(crate = ::my_runtime);` and `bricks! { crate = ::my_runtime; … }` tell where the
///   runtime is if not at `::brick_runtime`; the attributes find it through this.
///
/// An id that no function claims, one that two claim, and one that is not there are compile errors.
///
/// ```
/// use brick_runtime::{brick, bricks};
///
/// bricks! { Softmax, FromMacro }
///
/// #[brick(id = Softmax)]
/// fn softmax(x: &mut [f32]) {}
///
/// macro_rules! kernel {
///     ($id:ident, $name:ident) => {
///         #[brick(id = $id)]
///         fn $name() {}
///     };
/// }
/// kernel!(FromMacro, from_macro);
///
/// fn main() {
///     assert_eq!(BrickId::ALL, [BrickId::Softmax, BrickId::FromMacro]);
///     assert_eq!(BrickId::COUNT, 2);
///     assert_eq!("Softmax".parse(), Ok(BrickId::Softmax));
///     assert_eq!(BrickId::Softmax.to_string(), "Softmax");
///     let error = "softmx".parse::<BrickId>().unwrap_err();
///     assert_eq!(error.to_string(), "no brick is called `softmx`; did you mean `Softmax`?");
/// }
/// ```
///
/// The enum is `#[repr(u16)]`, `Copy`, ordered by the list or the scan, prints and parses as its
/// name, and with the runtime's feature `serde` is that string to serde too.
#[proc_macro]
pub fn bricks(input: TokenStream) -> TokenStream {
    bricks::expand(input.into()).into()
}
