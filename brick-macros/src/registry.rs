//! What `bricks!` expands to: the enum, what it converts to and from, and the hidden module
//! that the attributes find it by.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

use crate::bricks::{Entry, Input};

pub(crate) fn expand(input: &Input) -> TokenStream {
    let registry = Registry::new(input);
    let (item, methods, table, text, module) = (
        registry.item(),
        registry.methods(),
        registry.table(),
        text(),
        registry.module(),
    );
    quote!(#item #methods #table #text #module)
}

/// The ids, and the `#[cfg]` of each (or nothing).
struct Registry<'a> {
    input: &'a Input,
    ids: Vec<&'a Ident>,
    cfgs: Vec<TokenStream>,
}

impl<'a> Registry<'a> {
    fn new(input: &'a Input) -> Self {
        let cfg = |entry: &Entry| {
            entry
                .cfg
                .as_ref()
                .map(|cfg| quote!(#[cfg(#cfg)]))
                .unwrap_or_default()
        };
        Registry {
            input,
            ids: input.listed.iter().map(|entry| &entry.id).collect(),
            cfgs: input.listed.iter().map(cfg).collect(),
        }
    }

    fn item(&self) -> TokenStream {
        let Registry { ids, cfgs, .. } = self;
        let (repr, _) = layout(self.input);
        let attrs = self.input.listed.iter().map(|entry| &entry.attrs);
        let docs = ids
            .iter()
            .map(|id| format!("The brick that `#[brick(id = {id})]` annotates."));
        quote! {
            /// Every brick of this crate.
            #repr
            #[derive(
                ::core::clone::Clone,
                ::core::marker::Copy,
                ::core::hash::Hash,
                ::core::cmp::PartialEq,
                ::core::cmp::PartialOrd,
                ::core::cmp::Ord,
            )]
            #[allow(dead_code, unreachable_pub, non_camel_case_types)]
            pub enum BrickId {
                #(#[doc = #docs] #attrs #cfgs #ids,)*
            }

            // By hand: the derive emits a function where nothing is optimised.
            impl ::core::cmp::Eq for BrickId {}
        }
    }

    fn methods(&self) -> TokenStream {
        let Registry { ids, cfgs, .. } = self;
        let (_, index) = layout(self.input);
        quote! {
            #[allow(dead_code, unreachable_pub)]
            impl BrickId {
                /// Every brick, in the order of the table.
                pub const ALL: &'static [BrickId] = &[#(#cfgs BrickId::#ids,)*];
                /// How many bricks there are.
                pub const COUNT: usize = BrickId::ALL.len();

                /// The id as it is written.
                #[inline]
                pub fn name(self) -> &'static str {
                    self.info().name
                }

                /// What is known of the brick at compile time.
                #[inline]
                pub fn info(self) -> &'static __put_bricks_in_the_crate_root::__rt::BrickInfo {
                    <BrickId as __put_bricks_in_the_crate_root::__rt::BrickId>::info(self)
                }

                /// The position in `ALL`.
                #[inline]
                pub fn index(self) -> usize {
                    #index
                }
            }
        }
    }

    fn table(&self) -> TokenStream {
        let Registry { ids, cfgs, .. } = self;
        let claims = ids.iter().map(|id| {
            // At the id: a listed one that nobody claims is reported there.
            let at = Span::call_site().located_at(id.span());
            quote_spanned! {at=>
                <__put_bricks_in_the_crate_root::scanned_or_listed::#id
                    as __put_bricks_in_the_crate_root::__rt::__private::Claim<0>>::TEXT
            }
        });
        quote! {
            impl __put_bricks_in_the_crate_root::__rt::BrickId for BrickId {
                const ALL: &'static [BrickId] = BrickId::ALL;
                const CLAIMS: &'static [&'static str] = &[#(#cfgs #claims,)*];

                #[inline]
                fn index(self) -> usize {
                    BrickId::index(self)
                }
            }
        }
    }

    /// The attribute's names for what is here. Error messages print the path, so it tells what to
    /// do where something is missing.
    fn module(&self) -> TokenStream {
        let Registry { ids, cfgs, .. } = self;
        let runtime = &self.input.runtime;
        quote! {
            #[doc(hidden)]
            #[allow(dead_code, missing_docs, non_camel_case_types, unreachable_pub)]
            pub(crate) mod __put_bricks_in_the_crate_root {
                // Of an `extern crate` in the root, which is private, no more can be re-exported.
                pub(crate) use #runtime as __rt;

                pub mod scanned_or_listed {
                    #(#cfgs pub struct #ids;)*
                }
            }
        }
    }
}

/// From and to text.
fn text() -> TokenStream {
    quote! {
        // By hand too: a `match` of a thousand arms is a tenth of what a thousand bricks cost.
        impl ::core::fmt::Debug for BrickId {
            #[inline]
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.pad(self.name())
            }
        }

        impl ::core::fmt::Display for BrickId {
            #[inline]
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.pad(self.name())
            }
        }

        impl ::core::str::FromStr for BrickId {
            type Err = __put_bricks_in_the_crate_root::__rt::UnknownBrick;

            #[inline]
            fn from_str(text: &str) -> ::core::result::Result<Self, Self::Err> {
                __put_bricks_in_the_crate_root::__rt::__private::parse(text)
            }
        }

        __put_bricks_in_the_crate_root::__rt::__serde!(BrickId);
    }
}

/// The enum's `repr` and the body of `index`, for enums that a `cfg` may leave empty too.
fn layout(input: &Input) -> (TokenStream, TokenStream) {
    let cfgs: Option<Vec<&TokenStream>> = input
        .listed
        .iter()
        .map(|entry| entry.cfg.as_ref())
        .collect();
    match cfgs {
        None => (quote!(#[repr(u16)]), quote!(self as usize)),
        Some(cfgs) if cfgs.is_empty() => (TokenStream::new(), quote!(match self {})),
        Some(cfgs) => (
            quote!(#[cfg_attr(any(#(#cfgs),*), repr(u16))]),
            quote! {
                #[cfg(any(#(#cfgs),*))]
                return self as usize;
                #[cfg(not(any(#(#cfgs),*)))]
                match self {}
            },
        ),
    }
}
