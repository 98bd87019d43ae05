//! `bricks!`: the crate's enum of ids and its table.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote;
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Error, Token};

use crate::errors::Errors;
use crate::registry;
use crate::scan::{self, Found, Invocation};
use crate::values::is_keyword;

/// One id: listed by hand or found.
pub(crate) struct Entry {
    pub(crate) id: Ident,
    /// The predicate it exists under.
    pub(crate) cfg: Option<TokenStream>,
    /// Its other attributes.
    pub(crate) attrs: TokenStream,
}

/// What stands between the brackets of `bricks!`.
pub(crate) struct Input {
    pub(crate) runtime: TokenStream,
    scans: bool,
    pub(crate) listed: Vec<Entry>,
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
    let registry = registry::expand(&input);
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
