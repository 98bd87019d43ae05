//! `bricks!`: the crate's enum of ids and its table.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Error, Token};

use crate::errors::Errors;
use crate::scan::{self, Found, Invocation};
use crate::values::is_keyword;

/// One id: listed by hand or found.
struct Entry {
    id: Ident,
    /// The predicate it exists under.
    cfg: Option<TokenStream>,
    /// Its other attributes.
    attrs: TokenStream,
}

/// What stands between the brackets of `bricks!`.
struct Input {
    runtime: TokenStream,
    scans: bool,
    listed: Vec<Entry>,
}

pub(crate) fn expand(tokens: TokenStream) -> TokenStream {
    let mut errors = Errors::new();
    let input = parser(&mut errors).parse2(tokens);
    let mut input = match input {
        Ok(input) => input,
        Err(error) => {
            errors.push(error);
            Input {
                runtime: quote!(::brick_runtime),
                scans: false,
                listed: Vec::new(),
            }
        }
    };
    let found = match scan_crate() {
        Ok(found) => found,
        Err(error) => {
            if input.scans {
                errors.push(error);
            }
            Found::default()
        }
    };
    if let Some(error) = stands_twice(&found).or_else(|| stands_inside(&found)) {
        // Only the one in the root is of use; the enum of another would add to the noise.
        errors.push(error);
        return errors.check().err().unwrap_or_default();
    }
    if input.scans {
        for (name, cfg) in &found.bricks {
            if input.listed.iter().any(|entry| entry.id == *name) {
                continue;
            }
            // Keywords are refused by the attribute that names them.
            if let Ok(id) = syn::parse_str::<Ident>(name) {
                let id = Ident::new(&id.to_string(), Span::call_site());
                input.listed.push(Entry {
                    id,
                    cfg: cfg.predicate(),
                    attrs: TokenStream::new(),
                });
            }
        }
    }
    let errors = errors.check().err();
    let registry = registry(&input);
    quote!(#errors #registry)
}

fn parser<'e>(errors: &'e mut Errors) -> impl FnOnce(ParseStream<'_>) -> syn::Result<Input> + 'e {
    |input| {
        let mut runtime = quote!(::brick_runtime);
        if input.peek(Token![crate]) && input.peek2(Token![=]) {
            input.parse::<Token![crate]>()?;
            input.parse::<Token![=]>()?;
            runtime = TokenStream::new();
            while !input.is_empty() && !input.peek(Token![;]) {
                runtime.extend([input.parse::<TokenTree>()?]);
            }
            if runtime.is_empty() {
                return Err(input.error("expected the path of the runtime: `crate = ::my_runtime`"));
            }
            if !input.is_empty() {
                input.parse::<Token![;]>()?;
            }
        }
        let mut scans = input.is_empty();
        if input.peek(Token![..]) {
            input.parse::<Token![..]>()?;
            scans = true;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        let mut listed: Vec<Entry> = Vec::new();
        while !input.is_empty() {
            let entry = entry(input)?;
            if listed
                .iter()
                .any(|other| other.id == entry.id && other.cfg.is_none() && entry.cfg.is_none())
            {
                errors.at(entry.id.span(), format!("`{}` is listed twice", entry.id));
            } else {
                listed.push(entry);
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(Input {
            runtime,
            scans,
            listed,
        })
    }
}

/// `#[cfg(…)] Name`.
fn entry(input: ParseStream<'_>) -> syn::Result<Entry> {
    let (mut cfgs, mut attrs) = (Vec::new(), TokenStream::new());
    while input.peek(Token![#]) {
        let hash = input.parse::<Token![#]>()?;
        let TokenTree::Group(group) = input.parse::<TokenTree>()? else {
            return Err(Error::new(hash.span, "expected an attribute"));
        };
        let content: Vec<TokenTree> = group.stream().into_iter().collect();
        match content.as_slice() {
            [TokenTree::Ident(name), TokenTree::Group(predicate)] if name == "cfg" => {
                cfgs.push(predicate.stream())
            }
            _ => attrs.extend(quote!(#hash #group)),
        }
    }
    if !input.peek(Ident::peek_any) {
        return Err(input.error("expected the name of a brick, like `AttentionScore`"));
    }
    let id = input.call(Ident::parse_any)?;
    if is_keyword(&id) {
        return Err(Error::new(
            id.span(),
            format!("`{id}` is a keyword: an id is a plain name like `AttentionScore`"),
        ));
    }
    let cfg = (!cfgs.is_empty()).then(|| quote!(all(#(#cfgs),*)));
    Ok(Entry { id, cfg, attrs })
}

/// Scans from the file that the invocation stands in.
fn scan_crate() -> syn::Result<Found> {
    let at = Span::call_site();
    if std::env::var_os("UNSTABLE_RUSTDOC_TEST_PATH").is_some() {
        return Err(Error::new(
            at,
            "in a doc test `bricks!` cannot see the code around it: list the ids, `bricks! { AttentionScore }`",
        ));
    }
    let Some(file) = scan::file() else {
        return Err(Error::new(
            at,
            "`bricks!` stands in no file that could be scanned: list the ids, `bricks! { AttentionScore }`",
        ));
    };
    scan::scan(&file).map_err(|error| {
        Error::new(
            at,
            format!(
                "`bricks!` cannot read {}: {error}; list the ids, `bricks! {{ AttentionScore }}`",
                file.display()
            ),
        )
    })
}

/// An error if another `bricks!` of this crate comes before this one.
fn stands_twice(found: &Found) -> Option<Error> {
    let first = found.invocations.first()?;
    if found.invocations.len() < 2 || is_here(first) {
        return None;
    }
    let place = match scan::file() {
        Some(file) if file == first.file => "this file".to_owned(),
        _ => first.file.display().to_string(),
    };
    let message = format!(
        "`bricks!` stands twice in this crate; the first is on line {} of {place}",
        first.line
    );
    Some(Error::new(Span::call_site(), message))
}

/// An error if this `bricks!` stands in an inline module or a block.
fn stands_inside(found: &Found) -> Option<Error> {
    let inside = found
        .invocations
        .iter()
        .any(|invocation| is_here(invocation) && !invocation.at_top);
    inside.then(|| {
        Error::new(
            Span::call_site(),
            "put `bricks!` in the crate root, not in a module or a function",
        )
    })
}

fn is_here(invocation: &Invocation) -> bool {
    let here = Span::call_site().unwrap();
    here.local_file().as_ref() == Some(&invocation.file) && here.line() == invocation.line
}

fn registry(input: &Input) -> TokenStream {
    let runtime = &input.runtime;
    let ids: Vec<&Ident> = input.listed.iter().map(|entry| &entry.id).collect();
    let cfgs: Vec<TokenStream> = input
        .listed
        .iter()
        .map(|entry| {
            entry
                .cfg
                .as_ref()
                .map(|cfg| quote!(#[cfg(#cfg)]))
                .unwrap_or_default()
        })
        .collect();
    let attrs = input.listed.iter().map(|entry| &entry.attrs);
    let docs = ids
        .iter()
        .map(|id| format!("The brick that `#[brick(id = {id})]` annotates."));
    let markers = ids
        .iter()
        .zip(&cfgs)
        .map(|(id, cfg)| quote!(#cfg pub struct #id;));
    let claims = ids.iter().map(|id| {
        // At the id: a listed one that nobody claims is reported there.
        let at = Span::call_site().located_at(id.span());
        quote_spanned! {at=>
            <__put_bricks_in_the_crate_root::scanned_or_listed::#id
                as __put_bricks_in_the_crate_root::__rt::__private::Claim<0>>::TEXT
        }
    });
    let (repr, index) = layout(input);
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

        impl __put_bricks_in_the_crate_root::__rt::BrickId for BrickId {
            const ALL: &'static [BrickId] = BrickId::ALL;
            const CLAIMS: &'static [&'static str] = &[#(#cfgs #claims,)*];

            #[inline]
            fn index(self) -> usize {
                BrickId::index(self)
            }
        }

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

        // The attribute's names for what is here; error messages print the path, so it tells
        // what to do where something is missing.
        #[doc(hidden)]
        #[allow(dead_code, missing_docs, non_camel_case_types, unreachable_pub)]
        pub(crate) mod __put_bricks_in_the_crate_root {
            // Of an `extern crate` in the root, which is private, no more can be re-exported.
            pub(crate) use #runtime as __rt;

            pub mod scanned_or_listed {
                #(#markers)*
            }
        }
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
