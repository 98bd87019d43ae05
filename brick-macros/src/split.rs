//! Arguments as they stand between the brackets: names, and the tokens of their values.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use syn::Token;
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};

use crate::errors::Errors;
use crate::signature::is_punct;

/// One argument before its value is looked at.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    pub(crate) value: Value,
}

pub(crate) enum Value {
    /// `= tokens`
    Equals(TokenStream),
    /// `( tokens )`
    List(Group),
    Missing,
    /// Reported already.
    Wrong,
}

/// Splits `name = value, name(list), …`; what is neither gets the message `expected`.
pub(crate) fn split(tokens: TokenStream, expected: &str, errors: &mut Errors) -> Vec<Argument> {
    let parser = |input: ParseStream<'_>| {
        let mut arguments = Vec::new();
        while !input.is_empty() {
            match input.call(Ident::parse_any) {
                Ok(name) => arguments.push(argument(name, input, errors)?),
                Err(_) => {
                    errors.push(input.error(expected));
                    // On from the next comma: what follows may have mistakes of its own.
                    skip_to_comma(input)?;
                }
            }
            if !input.is_empty() && !input.peek(Token![,]) {
                errors.push(input.error("expected `,`"));
                // `id = Softmax budget_us = 2` goes on with the name; all else is lost.
                if input.peek(Ident::peek_any) {
                    continue;
                }
                skip_to_comma(input)?;
            }
            input.parse::<Option<Token![,]>>()?;
        }
        Ok(arguments)
    };
    parser.parse2(tokens).unwrap_or_default()
}

fn skip_to_comma(input: ParseStream<'_>) -> syn::Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}

/// What follows an argument's name.
fn argument(name: Ident, input: ParseStream<'_>, errors: &mut Errors) -> syn::Result<Argument> {
    let value = if input.peek(Token![=]) && !input.peek(Token![==]) {
        input.parse::<Token![=]>()?;
        let is_one_token = ["id", "category", "backend", "assert"]
            .iter()
            .any(|known| name == known);
        let value = value(input, is_one_token)?;
        if is_one_token && input.peek(Token![::]) {
            errors.push(input.error(format!(
                "`{name}` takes a plain name, not a path: `{}`",
                example(&name.to_string())
            )));
            skip_to_comma(input)?;
            Value::Wrong
        } else {
            Value::Equals(value)
        }
    } else if input.peek(syn::token::Paren) {
        match input.parse::<TokenTree>()? {
            TokenTree::Group(group) => Value::List(group),
            _ => unreachable!("peeked a parenthesis"),
        }
    } else {
        Value::Missing
    };
    Ok(Argument { name, value })
}

/// The tokens up to the comma that ends the value: for an expression that is one outside of
/// `|a, b|`, `::<A, B>` and `<A as B<C, D>>`.
fn value(input: ParseStream<'_>, is_one_token: bool) -> syn::Result<TokenStream> {
    let mut tokens = TokenStream::new();
    let (mut pipes, mut angles) = (0, 0_usize);
    let mut last: Option<TokenTree> = None;
    while !input.is_empty() && (!input.peek(Token![,]) || angles > 0 || pipes == 1) {
        let token: TokenTree = input.parse()?;
        let opens_type = match &last {
            None => true,
            Some(last) => is_punct(last, ':') || (angles > 0 && !is_punct(last, '-')),
        };
        let opens_closure = last
            .as_ref()
            .is_none_or(|last| matches!(last, TokenTree::Ident(word) if word == "move"));
        if is_punct(&token, '<') && opens_type {
            angles += 1;
        } else if is_punct(&token, '>') && !last.as_ref().is_some_and(|last| is_punct(last, '-')) {
            angles = angles.saturating_sub(1);
        } else if is_punct(&token, '|') && (pipes == 1 || opens_closure) {
            pipes += 1;
        }
        tokens.extend([token.clone()]);
        last = Some(token);
        if is_one_token {
            break;
        }
    }
    Ok(tokens)
}

/// A form that works, for messages.
pub(crate) fn example(name: &str) -> &'static str {
    match name {
        "id" => "id = AttentionScore",
        "budget_us" => "budget_us = 2000",
        "assert" => "assert = \"no_nan\"",
        "requires" => "requires = !x.is_empty()",
        "ensures" => "ensures = |ret| *ret >= 0.0",
        "category" => "category = Attention",
        "backend" => "backend = Cuda",
        "layer" => "layer = index",
        "tokens" => "tokens = ids.len()",
        "elements" => "elements = x.len()",
        "bytes" => "bytes = 4 * x.len()",
        _ => "flops = 2 * x.len()",
    }
}

/// Whether no operator at the end waits for its operand: rustc would say so at the whole
/// attribute, and find the claim lost with it.
pub(crate) fn is_whole(value: &TokenStream) -> bool {
    let tokens: Vec<TokenTree> = value.clone().into_iter().collect();
    match tokens.as_slice() {
        [.., dot, last] if is_punct(last, '.') => is_punct(dot, '.'),
        [.., TokenTree::Punct(last)] => last.as_char() == '?',
        _ => true,
    }
}
