//! The annotated function, as far as it must be understood.
//!
//! By hand, not with syn: syn would copy the body's tokens into a buffer of its own to read the
//! dozen before it, and bodies must reach the compiler exactly as they were written.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

use crate::signature::{Angles, is_ident, is_punct, split_commas};
use crate::source::{mentions_any, peel};

/// `fn` with a body.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) constness: Option<Span>,
    pub(crate) asyncness: Option<Span>,
    pub(crate) name: Ident,
    pub(crate) params: Vec<Param>,
    /// The type after `->`.
    pub(crate) returns: Option<Vec<TokenTree>>,
    /// That type is written as a future, and the function is not `async`.
    pub(crate) returns_future: bool,
    /// All tokens before the body, untouched.
    pub(crate) head: TokenStream,
    pub(crate) body: Group,
}

/// `#[path …]`: outer attributes of the function or of a parameter.
pub(crate) struct Attribute {
    /// The `#` and its group.
    pub(crate) tokens: [TokenTree; 2],
    /// What stands between the brackets.
    pub(crate) content: Vec<TokenTree>,
}

impl Attribute {
    /// Whether it is `#[word]`, `#[word(…)]`, `#[word = …]` or `#[unsafe(word …)]`.
    pub(crate) fn is(&self, word: &str) -> bool {
        match self.content.as_slice() {
            [TokenTree::Ident(ident), TokenTree::Group(inner)] if ident == "unsafe" => inner
                .stream()
                .into_iter()
                .next()
                .is_some_and(|token| is_ident(&token, word)),
            [first, ..] => is_ident(first, word),
            [] => false,
        }
    }
}

/// How futures are spelled in return types.
const FUTURES: &[&str] = &["Future", "BoxFuture", "LocalBoxFuture"];

/// One parameter.
pub(crate) struct Param {
    /// Its `cfg`s, which must stand on whatever names it.
    pub(crate) cfgs: TokenStream,
    /// The name, if the pattern is one (`self` included).
    pub(crate) name: Option<Ident>,
    /// The pattern (or the receiver) as written.
    pub(crate) pattern: Vec<TokenTree>,
    /// `mut name`.
    pub(crate) rebinds: bool,
    /// The type as written; of a receiver without one, the receiver.
    pub(crate) ty: Vec<TokenTree>,
    /// The type is written `&mut …`.
    pub(crate) by_mut_ref: bool,
    pub(crate) variadic: bool,
}

/// What stands before a function's generics.
struct Qualified {
    constness: Option<Span>,
    asyncness: Option<Span>,
    name: Ident,
}

/// Why an item is no function with a body.
pub(crate) struct NotAFunction {
    pub(crate) span: Span,
    pub(crate) message: String,
    /// A claim may stand beside the item: it is of a kind no `impl` or `trait` block holds.
    pub(crate) free_standing: bool,
}

impl Function {
    pub(crate) fn parse(item: TokenStream) -> Result<Function, NotAFunction> {
        let mut tokens: Vec<TokenTree> = item.into_iter().collect();
        let mut at = 0;
        let attrs = attributes(&tokens, &mut at);
        let Qualified {
            constness,
            asyncness,
            name,
        } = qualifiers(&tokens, &mut at)?;
        at += 2;
        skip_generics(&tokens, &mut at);
        let Some(TokenTree::Group(params)) = tokens.get(at) else {
            return Err(not_a_function(&tokens, at));
        };
        let params = split_commas(params.stream())
            .iter()
            .map(|piece| param(piece))
            .collect();
        at += 1;
        let body = match tokens.pop() {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => group,
            _ => {
                return Err(NotAFunction {
                    span: name.span(),
                    message:
                        "a method without a body has nothing to time: annotate its implementations"
                            .to_owned(),
                    free_standing: false,
                });
            }
        };
        let returns = return_type(&tokens[at..]);
        let returns_future = asyncness.is_none()
            && returns
                .as_deref()
                .is_some_and(|ty| mentions_any(ty.iter().cloned(), FUTURES));
        Ok(Function {
            returns_future,
            attrs,
            constness,
            asyncness,
            name,
            params,
            returns,
            head: tokens.into_iter().collect(),
            body,
        })
    }

    /// The attribute `#[word …]`, if the function has it.
    pub(crate) fn attribute(&self, word: &str) -> Option<&Attribute> {
        self.attrs.iter().find(|attr| attr.is(word))
    }
}

/// Visibility, qualifiers and name; `at` moves to the `fn`.
fn qualifiers(tokens: &[TokenTree], at: &mut usize) -> Result<Qualified, NotAFunction> {
    let (mut constness, mut asyncness) = (None, None);
    loop {
        match tokens.get(*at) {
            Some(TokenTree::Ident(word)) => {
                match (word.to_string().as_str(), tokens.get(*at + 1)) {
                    ("fn", Some(TokenTree::Ident(name))) => {
                        return Ok(Qualified {
                            constness,
                            asyncness,
                            name: name.clone(),
                        });
                    }
                    ("const", _) => constness = Some(word.span()),
                    ("async", _) => asyncness = Some(word.span()),
                    // `const X: u8` and `unsafe impl` go on to fail at the token that tells.
                    ("pub" | "crate" | "default" | "unsafe" | "safe" | "extern" | "gen", _) => {}
                    _ => return Err(not_a_function(tokens, *at)),
                }
            }
            // `pub(crate)`, `extern "C"`.
            Some(TokenTree::Group(group)) if group.delimiter() != Delimiter::Brace => {}
            Some(TokenTree::Literal(_)) => {}
            _ => return Err(not_a_function(tokens, *at)),
        }
        *at += 1;
    }
}

fn not_a_function(tokens: &[TokenTree], at: usize) -> NotAFunction {
    let span = tokens
        .get(at)
        .or(tokens.last())
        .map_or_else(Span::call_site, TokenTree::span);
    let keyword = tokens.iter().find_map(|token| match token {
        TokenTree::Ident(word) => ITEMS
            .iter()
            .find(|(known, ..)| word == known)
            .map(|item| (item, word.span())),
        _ => None,
    });
    let (what, span, free_standing) = match keyword {
        Some((&(_, what, free_standing), span)) => (what, span, free_standing),
        None => ("this", span, false),
    };
    NotAFunction {
        span,
        message: format!("`#[brick]` goes on a function with a body, not on {what}"),
        free_standing,
    }
}

/// Item keywords, how to call the item, and whether only modules and blocks hold it.
const ITEMS: [(&str, &str, bool); 11] = [
    ("struct", "a struct", true),
    ("enum", "an enum", true),
    ("union", "a union", true),
    ("trait", "a trait: annotate its methods", true),
    ("impl", "an `impl` block: annotate its methods", true),
    ("mod", "a module: annotate its functions", true),
    ("static", "a static", true),
    ("use", "a `use`", true),
    (
        "macro_rules",
        "a macro: annotate the functions it makes",
        true,
    ),
    ("const", "a constant", false),
    ("type", "a type alias", false),
];

/// The outer attributes from `at` on; `at` moves behind them.
fn attributes(tokens: &[TokenTree], at: &mut usize) -> Vec<Attribute> {
    let mut attrs = Vec::new();
    while let [hash, TokenTree::Group(group), ..] = &tokens[*at..]
        && is_punct(hash, '#')
        && group.delimiter() == Delimiter::Bracket
    {
        let content = group.stream().into_iter().collect();
        attrs.push(Attribute {
            tokens: [hash.clone(), TokenTree::Group(group.clone())],
            content,
        });
        *at += 2;
    }
    attrs
}

fn skip_generics(tokens: &[TokenTree], at: &mut usize) {
    let mut angles = Angles::default();
    if tokens.get(*at).is_some_and(|token| is_punct(token, '<')) {
        while let Some(token) = tokens.get(*at) {
            *at += 1;
            let outside = angles.outside(token);
            if !outside && is_punct(token, '>') && angles.closed() {
                break;
            }
        }
    }
}

/// The type between `->` and `where` or the end.
fn return_type(tokens: &[TokenTree]) -> Option<Vec<TokenTree>> {
    let [dash, arrow, ty @ ..] = tokens else {
        return None;
    };
    if !is_punct(dash, '-') || !is_punct(arrow, '>') {
        return None;
    }
    let mut angles = Angles::default();
    Some(
        ty.iter()
            .take_while(|token| !(angles.outside(token) && is_ident(token, "where")))
            .cloned()
            .collect(),
    )
}

fn param(tokens: &[TokenTree]) -> Param {
    let mut at = 0;
    let attrs = attributes(tokens, &mut at);
    let cfgs = attrs
        .into_iter()
        .filter(|attr| attr.is("cfg"))
        .flat_map(|attr| attr.tokens)
        .collect();
    let tokens = &tokens[at..];
    let (pattern, ty) = match colon(tokens) {
        Some(colon) => (&tokens[..colon], &tokens[colon + 1..]),
        None => (tokens, tokens),
    };
    let plain = peel(pattern);
    let (name, rebinds) = match plain.as_slice() {
        [TokenTree::Ident(name)] if name != "_" => (Some(name.clone()), false),
        [TokenTree::Ident(word), TokenTree::Ident(name)] if word == "mut" => {
            (Some(name.clone()), true)
        }
        // `&self`, `&mut self`, `&'a mut self`.
        [and, .., TokenTree::Ident(name)] if is_punct(and, '&') && name == "self" => {
            (Some(name.clone()), false)
        }
        _ => (None, false),
    };
    Param {
        cfgs,
        name,
        pattern: pattern.to_vec(),
        rebinds,
        by_mut_ref: is_mut_ref(&peel(ty)),
        variadic: ty.len() >= 3 && ty.iter().all(|token| is_punct(token, '.')),
        ty: ty.to_vec(),
    }
}

/// The `:` between pattern and type, which is no half of a `::`.
fn colon(tokens: &[TokenTree]) -> Option<usize> {
    let is_colon = |at: usize| tokens.get(at).is_some_and(|token| is_punct(token, ':'));
    let mut at = 0;
    while at < tokens.len() {
        match (is_colon(at), is_colon(at + 1)) {
            (true, true) => at += 2,
            (true, false) => return Some(at),
            (false, _) => at += 1,
        }
    }
    None
}

fn is_mut_ref(ty: &[TokenTree]) -> bool {
    match ty {
        [and, tick, _, word, ..] if is_punct(and, '&') && is_punct(tick, '\'') => {
            is_ident(word, "mut")
        }
        [and, word, ..] if is_punct(and, '&') => is_ident(word, "mut"),
        _ => false,
    }
}
