//! Every rule about what can be annotated and how, and the annotation that passed them.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};

use crate::args::Args;
use crate::errors::Errors;
use crate::function::{Function, Param};
use crate::future;
use crate::rules::Rules;
use crate::signature::{is_ident, is_punct};
use crate::source::{mentions, peel};
use crate::suggest::nearest;

/// How the body is wrapped.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// In a closure.
    Sync,
    /// In an `async` block.
    Future,
    /// `-> !`: by a guard, whose drop is a panic.
    Never,
    /// `#[track_caller]`: by a guard, whose drop is the end.
    Scoped,
}

/// What the checks look at after the call.
#[derive(Default)]
pub(crate) struct Post<'a> {
    /// Parameters and their rules.
    pub(crate) params: Vec<(&'a Param, Rules)>,
    /// Rules of the returned value.
    pub(crate) returned: Option<Rules>,
    pub(crate) ensures: Option<TokenStream>,
}

impl Post<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.params.is_empty() && self.returned.is_none() && self.ensures.is_none()
    }
}

/// The kind and the post-checks of an annotated function; mistakes go to `errors`.
pub(crate) fn validate<'a>(
    args: &Args,
    function: &'a Function,
    errors: &mut Errors,
) -> (Kind, Post<'a>) {
    let post = Post {
        params: checked_params(args, function, errors),
        returned: checked_return(args, function, errors),
        ensures: args.ensures.clone(),
    };
    if let Some((span, _)) = &args.assert
        && args.named_asserts.is_empty()
    {
        nothing_to_check(*span, function, &post, errors);
    }
    let rules = post
        .params
        .iter()
        .map(|(_, rules)| rules)
        .chain(&post.returned);
    if let (Some(_), Some((name, _))) = (&args.assert, args.named_asserts.first())
        && rules.into_iter().any(|rules| rules.is_void())
    {
        let span = name.span();
        errors.at(
            span,
            "the ranges of `assert = …` and `assert(…)` have no number in common",
        );
    }
    (kind(function, &post, errors), post)
}

fn kind(function: &Function, post: &Post<'_>, errors: &mut Errors) -> Kind {
    if let Some(span) = function.constness {
        errors.at(
            span,
            "cannot time a `const fn`: a const evaluation has no clock",
        );
    }
    if let Some(naked) = function.attribute("naked") {
        errors.on(
            tokens(&naked.content),
            "cannot time a naked function: its body is bare assembly",
        );
    }
    if let Some(variadic) = function.params.iter().find(|param| param.variadic) {
        errors.on(
            tokens(&variadic.pattern),
            "cannot time a C-variadic function: its arguments cannot move into the timed body",
        );
    }
    if function.returns_future && future::async_block(&function.body).is_none() {
        errors.on(
            function.returns.as_deref().map(tokens),
            "only the making of this future would be timed: write an `async fn`, or let the body be one `async move { … }` or `Box::pin(async move { … })`",
        );
    }
    if function.asyncness.is_some() || function.returns_future {
        return Kind::Future;
    }
    if function.returns.as_deref().is_some_and(is_never) {
        if !post.is_empty() {
            errors.on(function.returns.as_deref().map(tokens), "a function that never returns has no moment for a post-check (`assert`, `ensures`)");
        }
        return Kind::Never;
    }
    if let Some(attribute) = function.attribute("track_caller") {
        if !post.is_empty() {
            errors.on(
                tokens(&attribute.content),
                "`#[track_caller]` and a post-check (`assert`, `ensures`) exclude each other: a checked body runs in a closure, which has another caller",
            );
        }
        return Kind::Scoped;
    }
    Kind::Sync
}

/// Which parameters `assert` covers.
fn checked_params<'a>(
    args: &Args,
    function: &'a Function,
    errors: &mut Errors,
) -> Vec<(&'a Param, Rules)> {
    let named = |param: &Param| {
        args.named_asserts
            .iter()
            .find(|(name, _)| param.name.as_ref() == Some(name))
    };
    for (name, _) in &args.named_asserts {
        if name != "return" {
            named_param(name, function, errors);
        }
    }
    let mut checked = Vec::new();
    for param in function.params.iter().filter(|param| param.by_mut_ref) {
        let by_default = args
            .assert
            .as_ref()
            .map(|(_, rules)| *rules)
            .filter(|_| !is_self(param));
        let by_name = named(param).map(|(_, rules)| *rules);
        let rules = match (by_default, by_name) {
            (Some(default), Some(named)) => default.and(named),
            (Some(rules), None) | (None, Some(rules)) => rules,
            (None, None) => continue,
        };
        if param.name.is_none() {
            errors.on(
                tokens(&param.pattern),
                "`assert` covers every `&mut` parameter, and this one has no name to be checked by: give it one, or say what to check: `assert(out = \"no_nan\")`",
            );
            continue;
        }
        checked.push((param, rules));
    }
    checked
}

/// `assert(name = …)` must name a `&mut` parameter.
fn named_param(name: &Ident, function: &Function, errors: &mut Errors) {
    let outputs: Vec<String> = function
        .params
        .iter()
        .filter(|p| p.by_mut_ref)
        .filter_map(|p| p.name.as_ref())
        .map(Ident::to_string)
        .collect();
    match function.params.iter().find(|param| param.name.as_ref() == Some(name)) {
        Some(param) if param.by_mut_ref => {}
        Some(_) => errors.at(name.span(), format!("`{name}` is an input, and `assert` looks at results: check an input with `requires`")),
        None => {
            let candidates: Vec<&str> = outputs.iter().map(String::as_str).chain(["return"]).collect();
            let hint = match nearest(&name.to_string(), &candidates) {
                Some(near) => format!("; did you mean `{near}`?"),
                None if outputs.is_empty() => "; there are no `&mut` parameters here".to_owned(),
                None => format!("; `&mut` parameters here: {}", outputs.join(", ")),
            };
            errors.at(name.span(), format!("no parameter `{name}`{hint}"));
        }
    }
}

fn checked_return(args: &Args, function: &Function, errors: &mut Errors) -> Option<Rules> {
    let named = args.named_asserts.iter().find(|(name, _)| name == "return");
    let holds_a_value = returned_type(function).is_some_and(|ty| !is_never(&ty) && !is_empty(&ty));
    match (args.assert.as_ref(), named) {
        (_, Some((name, _))) if !holds_a_value => {
            errors.at(
                name.span(),
                "nothing is returned here that could be checked",
            );
            None
        }
        (Some((_, default)), Some((_, named))) => Some(default.and(*named)),
        (Some((_, rules)), None) if holds_a_value => Some(*rules),
        (None, Some((_, rules))) => Some(*rules),
        _ => None,
    }
}

fn nothing_to_check(assert: Span, function: &Function, post: &Post<'_>, errors: &mut Errors) {
    let has_mut_pattern = function
        .params
        .iter()
        .any(|param| param.by_mut_ref && param.name.is_none());
    if !post.params.is_empty()
        || post.returned.is_some()
        || has_mut_pattern
        || function.returns.as_deref().is_some_and(is_never)
    {
        return;
    }
    let way_out = match function
        .params
        .iter()
        .any(|param| is_self(param) && param.by_mut_ref)
    {
        true => "to check `&mut self`, name it: `assert(self = \"no_nan\")`",
        false => "check an input with `requires`",
    };
    errors.at(assert, format!("`assert` has nothing to check: no value is returned and no parameter is `&mut`; {way_out}"));
}

/// The type that callers get: of an async function what it resolves to.
pub(crate) fn returned_type(function: &Function) -> Option<Vec<TokenTree>> {
    let ty = function.returns.as_deref()?;
    match function.returns_future {
        true => Some(
            future::output(ty)
                .unwrap_or_else(|| vec![TokenTree::Ident(Ident::new("_", Span::call_site()))]),
        ),
        false => Some(ty.to_vec()),
    }
}

/// The parameters that the body must give back: what is checked and what `ensures` names.
pub(crate) fn set_aside<'a>(function: &'a Function, post: &Post<'a>) -> Vec<&'a Param> {
    let is_checked = |param: &Param| {
        post.params
            .iter()
            .any(|(checked, _)| std::ptr::eq(*checked, param))
    };
    let is_named = |param: &Param| match (&post.ensures, &param.name) {
        (Some(ensures), Some(name)) => mentions(ensures, &name.to_string()),
        _ => false,
    };
    function
        .params
        .iter()
        .filter(|p| {
            p.by_mut_ref && !is_self(p) && p.name.is_some() && (is_checked(p) || is_named(p))
        })
        .collect()
}

pub(crate) fn is_self(param: &Param) -> bool {
    param.name.as_ref().is_some_and(|name| name == "self")
}

fn is_never(ty: &[TokenTree]) -> bool {
    matches!(ty, [never] if is_punct(never, '!'))
}

/// `()`, and `Result<(), E>` and the like, which hold no number but in an error.
fn is_empty(ty: &[TokenTree]) -> bool {
    let ty = peel(ty);
    let is_unit =
        |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.stream().is_empty());
    if let [unit] = ty.as_slice() {
        return is_unit(unit);
    }
    let Some(open) = ty.iter().position(|token| is_punct(token, '<')) else {
        return false;
    };
    match (ty[..open].last(), &ty[open + 1..]) {
        (Some(name), [unit, end, ..]) => {
            (is_ident(name, "Result") || is_ident(name, "Option"))
                && is_unit(unit)
                && (is_punct(end, '>') || is_punct(end, ','))
        }
        _ => false,
    }
}

fn tokens(run: &[TokenTree]) -> TokenStream {
    run.iter().cloned().collect()
}
