//! The `#[brick]` attribute and the `bricks!` registry macro.

use proc_macro::TokenStream;

/// Annotates a kernel.
#[proc_macro_attribute]
pub fn brick(_args: TokenStream, item: TokenStream) -> TokenStream {
    item
}

/// Makes the crate's registry.
#[proc_macro]
pub fn bricks(_input: TokenStream) -> TokenStream {
    TokenStream::new()
}
