//! What stays when an annotation has mistakes: every message, the item itself, and the claim of
//! the id where it is known, so that one mistake gives one error.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Error;

use crate::args::Args;
use crate::expand::{claim, with_body};
use crate::function::{Function, NotAFunction};

/// The function as written, claiming its id.
pub(crate) fn function(
    args: &Args,
    function: Function,
    errors: Option<TokenStream>,
) -> TokenStream {
    let claim = bare_claim(args);
    let body = function.body.stream();
    let function = with_body(&function, quote!(#claim #body));
    quote!(#errors #function)
}

/// The item as written, and the claim beside it where that is sure to be allowed.
pub(crate) fn no_function(args: &Args, reason: &NotAFunction, item: TokenStream) -> TokenStream {
    let error = Error::new(reason.span, &reason.message).into_compile_error();
    let claim = reason.free_standing.then(|| bare_claim(args));
    quote!(#error #item #claim)
}

fn bare_claim(args: &Args) -> Option<TokenStream> {
    let id = args.id.as_ref()?;
    let text = format!("\u{1f}{id}\u{1f}\u{1f}\u{1f}0\u{1f}\u{1f}\u{1f}\u{1f}");
    let claim = claim(id, args.backend.as_ref());
    Some(quote! {
        const _: () = {
            #[allow(non_local_definitions, unused_qualifications)]
            #claim {
                const TEXT: &'static str = #text;
            }
        };
    })
}
