//! The attribute's arguments, parsed one by one so that each mistake is its own error.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{LitStr, Token};

use crate::errors::Errors;
use crate::rules::Rules;
use crate::signature::is_punct;
use crate::source::peel;
use crate::suggest::hint;

/// `#[brick(…)]`, every argument that could be read.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) id: Option<Ident>,
    pub(crate) backend: Option<Ident>,
    pub(crate) category: Option<String>,
    pub(crate) budget: Option<Budget>,
    /// `flops`, `bytes`, `tokens`, `elements`, `layer`, as written.
    pub(crate) amounts: Vec<(Ident, TokenStream)>,
    pub(crate) requires: Option<TokenStream>,
    pub(crate) ensures: Option<TokenStream>,
    /// `assert = …`: where it stands, and what it asks.
    pub(crate) assert: Option<(Span, Rules)>,
    /// `assert(name = …)`.
    pub(crate) named_asserts: Vec<(Ident, Rules)>,
}

/// `budget_us = …`.
pub(crate) enum Budget {
    Fixed { ns: u64 },
    PerCall { us: TokenStream },
}

const NAMES: [&str; 12] = [
    "id",
    "budget_us",
    "assert",
    "requires",
    "ensures",
    "category",
    "flops",
    "bytes",
    "tokens",
    "elements",
    "layer",
    "backend",
];

/// Where a claim can run: the variants of `brick_runtime::Backend`, but for the primary.
const BACKENDS: [&str; 6] = ["Cuda", "Wgpu", "Avx2", "Avx512", "Neon", "Wasm"];

/// One argument before its value is looked at.
struct Argument {
    name: Ident,
    value: Value,
}

enum Value {
    /// `= tokens`
    Equals(TokenStream),
    /// `( tokens )`
    List(Group),
    Missing,
    /// Reported already.
    Wrong,
}

/// Reads all arguments; mistakes go to `errors`.
pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Args {
    let mut args = Args::default();
    let mut seen: Vec<String> = Vec::new();
    for argument in split(tokens, "expected `name = value`", errors) {
        let name = argument.name.to_string();
        let form = if matches!(argument.value, Value::List(_)) {
            "(…)"
        } else {
            ""
        };
        if seen.contains(&format!("{name}{form}")) {
            errors.at(
                argument.name.span(),
                format!("`{name}{form}` is given twice"),
            );
            continue;
        }
        seen.push(format!("{name}{form}"));
        match (name.as_str(), argument.value) {
            (_, Value::Wrong) => {}
            ("assert", Value::List(list)) => args.named_asserts = named_asserts(&list, errors),
            (_, Value::Equals(value)) if NAMES.contains(&name.as_str()) => args.take(argument.name, value, errors),
            (known, _) if NAMES.contains(&known) => {
                errors.at(argument.name.span(), format!("`{known}` needs a value: `{}`", example(known)));
            }
            ("crate", _) => errors.at(
                argument.name.span(),
                "where the runtime lives is told once, to `bricks!(crate = path)`, not to each `#[brick]`",
            ),
            (unknown, _) => errors.at(argument.name.span(), format!("unknown argument `{unknown}`{}", hint(unknown, &NAMES))),
        }
    }
    if args.id.is_none() && !seen.iter().any(|name| name == "id") {
        errors.at(
            Span::call_site(),
            "`#[brick]` needs an id: `#[brick(id = AttentionScore)]`",
        );
    }
    args
}

/// A form that works, for messages.
fn example(name: &str) -> &'static str {
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

impl Args {
    /// Takes `name = value`, `name` being a known one.
    fn take(&mut self, name: Ident, value: TokenStream, errors: &mut Errors) {
        if value.is_empty() {
            let known = name.to_string();
            return errors.at(
                name.span(),
                format!("`{known}` needs a value: `{}`", example(&known)),
            );
        }
        if !is_whole(&value) {
            return errors.on(value.into_iter().last(), "an expression does not end here");
        }
        match name.to_string().as_str() {
            "id" => self.id = id(value, errors),
            "backend" => self.backend = backend(value, errors),
            "category" => self.category = category(value, errors),
            "budget_us" => self.budget = budget(value, errors),
            "requires" => self.requires = Some(value),
            "ensures" => self.ensures = ensures(value, errors),
            "assert" => self.assert = Some((name.span(), Rules::parse(value, errors))),
            _ => self.amounts.push((name, value)),
        }
    }
}

/// Splits `name = value, name(list), …`; what is neither gets the message `expected`.
fn split(tokens: TokenStream, expected: &str, errors: &mut Errors) -> Vec<Argument> {
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

fn id(value: TokenStream, errors: &mut Errors) -> Option<Ident> {
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

fn backend(value: TokenStream, errors: &mut Errors) -> Option<Ident> {
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

fn category(value: TokenStream, errors: &mut Errors) -> Option<String> {
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

fn budget(value: TokenStream, errors: &mut Errors) -> Option<Budget> {
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

fn ensures(value: TokenStream, errors: &mut Errors) -> Option<TokenStream> {
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

fn named_asserts(list: &Group, errors: &mut Errors) -> Vec<(Ident, Rules)> {
    let mut named: Vec<(Ident, Rules)> = Vec::new();
    if list.stream().is_empty() {
        errors.at(
            list.span(),
            "name what to check: `assert(out = \"no_nan\")`",
        );
    }
    for argument in split(
        list.stream(),
        "name what to check: `assert(out = \"no_nan\")`",
        errors,
    ) {
        let Value::Equals(value) = argument.value else {
            errors.at(
                argument.name.span(),
                "name what to check and how: `assert(out = \"no_nan\")`",
            );
            continue;
        };
        if named.iter().any(|(name, _)| *name == argument.name) {
            errors.at(
                argument.name.span(),
                format!(
                    "`{}` is given twice: `[\"no_nan\", \"range(0, 1)\"]` asks for several checks",
                    argument.name
                ),
            );
            continue;
        }
        named.push((argument.name, Rules::parse(value, errors)));
    }
    named
}

/// Whether no operator at the end waits for its operand: rustc would say so at the whole
/// attribute, and find the claim lost with it.
fn is_whole(value: &TokenStream) -> bool {
    let tokens: Vec<TokenTree> = value.clone().into_iter().collect();
    match tokens.as_slice() {
        [.., dot, last] if is_punct(last, '.') => is_punct(dot, '.'),
        [.., TokenTree::Punct(last)] => last.as_char() == '?',
        _ => true,
    }
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
