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
mod rules;
mod scan;
mod signature;
mod source;
mod suggest;
mod valid;

/// Annotates a kernel: see `brick_runtime::brick`.
#[proc_macro_attribute]
pub fn brick(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::brick(args.into(), item.into()).into()
}

/// Makes the crate's registry: see `brick_runtime::bricks`.
#[proc_macro]
pub fn bricks(input: TokenStream) -> TokenStream {
    bricks::expand(input.into()).into()
}
