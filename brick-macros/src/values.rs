//! Values of single arguments.

use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};
use syn::LitStr;
use syn::ext::IdentExt as _;

use crate::errors::Errors;
use crate::signature::is_punct;
use crate::source::peel;
use crate::suggest::hint;

/// `budget_us = …`.
pub(crate) enum Budget {
    Fixed { ns: u64 },
    PerCall { us: TokenStream },
}

/// Where a claim can run: the variants of `brick_runtime::Backend`, but for the primary.
const BACKENDS: [&str; 6] = ["Cuda", "Wgpu", "Avx2", "Avx512", "Neon", "Wasm"];

pub(crate) fn id(value: TokenStream, errors: &mut Errors) -> Option<Ident> {
    match one_token(value) {
        Ok(TokenTree::Ident(id)) if id.to_string().starts_with("r#") => {
            errors.at(
                id.span(),
                format!("an id is a plain name, without `r#`: `id = {}`", id.unraw()),
            );
            None
        }
        Ok(TokenTree::Ident(id)) if is_keyword(&id) => {
            errors.at(
                id.span(),
                format!("`{id}` is a keyword: an id is a plain name like `AttentionScore`"),
            );
            None
        }
        Ok(TokenTree::Ident(id)) => Some(id),
        Ok(TokenTree::Literal(text)) if text.to_string().starts_with('"') => {
            let bare = text.to_string();
            errors.at(
                text.span(),
                format!(
                    "an id is a name, not a string: `id = {}`",
                    bare.trim_matches('"')
                ),
            );
            None
        }
        Ok(other) => {
            errors.at(other.span(), "an id is a plain name like `AttentionScore`");
            None
        }
        Err(tokens) => {
            errors.on(tokens, "an id is a plain name like `AttentionScore`");
            None
        }
    }
}

/// Keywords, raw or not, are no ids.
pub(crate) fn is_keyword(id: &Ident) -> bool {
    let id = id.to_string();
    id.starts_with("r#") || syn::parse_str::<Ident>(&id).is_err()
}

pub(crate) fn backend(value: TokenStream, errors: &mut Errors) -> Option<Ident> {
    match one_token(value) {
        Ok(TokenTree::Ident(name)) if BACKENDS.iter().any(|known| name == known) => Some(name),
        Ok(TokenTree::Ident(name)) if name == "Primary" => {
            errors.at(
                name.span(),
                "the primary claim is the one without `backend`",
            );
            None
        }
        Ok(other) => {
            let found = other.to_string();
            errors.at(
                other.span(),
                format!("unknown backend `{found}`{}", hint(&found, &BACKENDS)),
            );
            None
        }
        Err(tokens) => {
            errors.on(tokens, "a backend is a name like `Cuda`");
            None
        }
    }
}

pub(crate) fn category(value: TokenStream, errors: &mut Errors) -> Option<String> {
    let named = match one_token(value) {
        Ok(TokenTree::Ident(name)) => Ok(name.to_string()),
        Ok(TokenTree::Literal(text)) => {
            match syn::parse2::<LitStr>(TokenTree::Literal(text.clone()).into()) {
                Ok(text) if !text.value().is_empty() => Ok(text.value()),
                _ => Err(text.span()),
            }
        }
        Ok(other) => Err(other.span()),
        Err(tokens) => Err(tokens
            .into_iter()
            .next()
            .map_or_else(Span::call_site, |token| token.span())),
    };
    named
        .map_err(|span| {
            errors.at(
                span,
                "a category is a name or a string: `category = Attention`",
            )
        })
        .ok()
}

pub(crate) fn budget(value: TokenStream, errors: &mut Errors) -> Option<Budget> {
    const EXAMPLE: &str = "give microseconds as a number (`budget_us = 2000`) or as an expression over the parameters (`budget_us = 3 * x.len()`)";
    let tokens: Vec<TokenTree> = value.clone().into_iter().collect();
    let literal = match peel(&tokens).as_slice() {
        [TokenTree::Literal(literal)] => literal.clone(),
        [minus, TokenTree::Literal(_)] if is_punct(minus, '-') => {
            errors.on(value, "a budget must be more than 0 microseconds");
            return None;
        }
        _ => return Some(Budget::PerCall { us: value }),
    };
    let digits = match syn::parse2::<syn::Lit>(TokenTree::Literal(literal.clone()).into()) {
        Ok(syn::Lit::Int(number)) if number.suffix().is_empty() => {
            number.base10_digits().to_owned()
        }
        Ok(syn::Lit::Float(number)) if number.suffix().is_empty() => {
            number.base10_digits().to_owned()
        }
        Ok(syn::Lit::Int(_) | syn::Lit::Float(_)) => {
            errors.at(
                literal.span(),
                "a budget's number has no suffix: it is in microseconds",
            );
            return None;
        }
        _ => {
            errors.at(
                literal.span(),
                format!(
                    "a budget is not a {}: {EXAMPLE}",
                    kind(&literal.to_string())
                ),
            );
            return None;
        }
    };
    let ns = digits.parse::<f64>().unwrap_or(0.0) * 1000.0;
    if !(0.5..=u64::MAX as f64).contains(&ns) {
        let message = if ns == 0.0 {
            "a budget must be more than 0 microseconds"
        } else {
            "a budget lies between 0.001 µs and 584 years"
        };
        errors.at(literal.span(), message);
        return None;
    }
    Some(Budget::Fixed {
        ns: ns.round() as u64,
    })
}

fn kind(literal: &str) -> &'static str {
    match literal.chars().next() {
        Some('\'') => "character",
        _ => "string",
    }
}

pub(crate) fn ensures(value: TokenStream, errors: &mut Errors) -> Option<TokenStream> {
    let is_closure = match value.clone().into_iter().next() {
        Some(first) => {
            is_punct(&first, '|') || matches!(&first, TokenTree::Ident(word) if word == "move")
        }
        None => false,
    };
    if !is_closure {
        errors.on(
            value,
            "`ensures` is a closure over the returned value: `ensures = |ret| ret.is_finite()`",
        );
        return None;
    }
    Some(value)
}

/// The only token of a value.
fn one_token(value: TokenStream) -> Result<TokenTree, TokenStream> {
    let tokens: Vec<TokenTree> = value.clone().into_iter().collect();
    match peel(&tokens).as_slice() {
        [token] if !matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::None) => {
            Ok(token.clone())
        }
        _ => Err(value),
    }
}
