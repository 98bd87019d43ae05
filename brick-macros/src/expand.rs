//! What `#[brick]` expands to: the function as written, its body handed to the runtime's
//! `__brick!`, which knows whether `visualization` is on.

use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};

use crate::args::{self, Args};
use crate::errors::Errors;
use crate::fallback;
use crate::function::{Function, Param};
use crate::future::{self, AsyncBlock};
use crate::signature::is_ident;
use crate::source;
use crate::valid::{self, Kind, Post};
use crate::values::Budget;

/// Expands the attribute, or reports every mistake in it beside the untouched item.
pub(crate) fn brick(tokens: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::new();
    let args = args::parse(tokens, &mut errors);
    let function = match Function::parse(item.clone()) {
        Ok(function) => function,
        Err(reason) => {
            // What the arguments say is of no use until the attribute has moved.
            let _ = errors.check();
            return fallback::no_function(&args, &reason, item);
        }
    };
    let (kind, post) = valid::validate(&args, &function, &mut errors);
    match (errors.check(), &args.id) {
        (Ok(()), Some(id)) => {
            let block = function
                .returns_future
                .then(|| future::async_block(&function.body))
                .flatten();
            annotated(id, &args, &function, kind, &post, block)
        }
        (errors, _) => fallback::function(&args, function, errors.err()),
    }
}

fn annotated(
    id: &Ident,
    args: &Args,
    function: &Function,
    kind: Kind,
    post: &Post<'_>,
    block: Option<AsyncBlock>,
) -> TokenStream {
    let written = block.as_ref().map_or(&function.body, |block| &block.block);
    let mut body = Group::new(Delimiter::Brace, written.stream());
    // At the author's braces, where a missing value is reported, but not those themselves:
    // inside of ours they would be "unnecessary".
    body.set_span(Span::call_site().located_at(written.span()));
    let aside = valid::set_aside(function, post);
    let claim = claim(id, args.backend.as_ref());
    let info = info(id, args, function, post);
    let enter = enter(args);
    let outside = aside.iter().map(|param| outside(param));
    let inside = aside.iter().map(|param| inside(param));
    let head = head(kind, function, post);
    let post = if post.is_empty() {
        TokenStream::new()
    } else {
        post_checks(function, post)
    };
    let kind = Ident::new(
        match kind {
            Kind::Sync => "sync",
            Kind::Future => "future",
            Kind::Never => "never",
            Kind::Scoped => "scoped",
        },
        Span::call_site(),
    );
    let root = root(id.span());
    let gate = quote!(#root::__rt::__brick! { #kind {#claim} {#info} {#enter} {#(#outside)*} {#head} {#(#inside)*} {#post} #body });
    let inner = match block {
        Some(block) => block.around(gate),
        None => gate,
    };
    with_body(function, inner)
}

/// The signature as it was, and a body that keeps the braces' place, where lints point.
pub(crate) fn with_body(function: &Function, inner: TokenStream) -> TokenStream {
    let mut body = Group::new(Delimiter::Brace, inner);
    body.set_span(function.body.span());
    let mut tokens = function.head.clone();
    tokens.extend([TokenTree::Group(body)]);
    tokens
}

/// The module that `bricks!` made; its name is what rustc says where there is none.
fn root(span: Span) -> TokenStream {
    quote_spanned!(Span::call_site().located_at(span)=> crate::__put_bricks_in_the_crate_root)
}

/// The head of the claim's `impl`, all of it at the id: E0119 points there for a second claim.
pub(crate) fn claim(id: &Ident, backend: Option<&Ident>) -> TokenStream {
    let at = Span::call_site().located_at(id.span());
    let root = root(id.span());
    let backend = self::backend(backend, at);
    quote_spanned!(at=> impl #root::__rt::__private::Claim<#backend> for #root::scanned_or_listed::#id)
}

/// The backend's number.
fn backend(backend: Option<&Ident>, at: Span) -> TokenStream {
    match backend {
        None => quote_spanned!(at=> 0),
        Some(backend) => {
            let root = root(at);
            quote_spanned!(at=> { #root::__rt::Backend::#backend as u8 })
        }
    }
}

/// The end of `Claim::TEXT`, which the module path begins, and the backend's number.
fn info(id: &Ident, args: &Args, function: &Function, post: &Post<'_>) -> TokenStream {
    let place = function.name.span().unwrap();
    let budget = match &args.budget {
        Some(Budget::Fixed { ns }) => ns.to_string(),
        Some(Budget::PerCall { us }) => format!("={}", source::text(us)),
        None => String::new(),
    };
    let fields = [
        String::new(),
        id.to_string(),
        function.name.to_string(),
        place.file(),
        place.line().to_string(),
        budget,
        args.category.clone().unwrap_or_default(),
        check_texts(args, post).join("\u{1e}"),
        doc(function),
    ];
    let text = Literal::string(&fields.join("\u{1f}"));
    let backend = backend(args.backend.as_ref(), Span::call_site());
    quote!(#text, #backend)
}

/// The contracts as text, for reports.
fn check_texts(args: &Args, post: &Post<'_>) -> Vec<String> {
    let requires = args
        .requires
        .as_ref()
        .map(|requires| format!("requires {}", source::text(requires)));
    let params = post.params.iter().map(|(param, rules)| {
        let name = param
            .name
            .as_ref()
            .map(Ident::to_string)
            .unwrap_or_default();
        let cfgs = if param.cfgs.is_empty() {
            String::new()
        } else {
            format!(" under {}", source::text(&param.cfgs))
        };
        format!("{name}: {}{cfgs}", rules.text())
    });
    let returned = post
        .returned
        .map(|rules| format!("return: {}", rules.text()));
    let ensures = post
        .ensures
        .as_ref()
        .map(|ensures| format!("ensures {}", source::text(ensures)));
    requires
        .into_iter()
        .chain(params)
        .chain(returned)
        .chain(ensures)
        .collect()
}

/// The first paragraph of the doc comment.
fn doc(function: &Function) -> String {
    let mut doc = String::new();
    for attr in function.attrs.iter().filter(|attr| attr.is("doc")) {
        let [_, _, TokenTree::Literal(text)] = attr.content.as_slice() else {
            continue;
        };
        let Ok(text) = syn::parse2::<syn::LitStr>(TokenTree::Literal(text.clone()).into()) else {
            continue;
        };
        for line in text.value().split('\n').map(str::trim) {
            match (line.is_empty(), doc.is_empty()) {
                (true, true) => {}
                (true, false) => return doc,
                (false, true) => doc.push_str(line),
                (false, false) => {
                    doc.push(' ');
                    doc.push_str(line);
                }
            }
        }
    }
    doc
}

/// What the call says of itself before it starts.
fn enter(args: &Args) -> TokenStream {
    let mut enter = TokenStream::new();
    for (method, amount) in &args.amounts {
        enter.extend(quote!(.#method(#amount)));
    }
    if let Some(Budget::PerCall { us }) = &args.budget {
        enter.extend(quote!(.budget_us(#us)));
    }
    if let Some(requires) = &args.requires {
        let text = source::text(requires);
        enter.extend(quote!(.requires(#requires, #text)));
    }
    enter
}

/// The name a parameter is set aside under.
fn spare(param: &Param) -> Option<(&Ident, Ident)> {
    let name = param.name.as_ref()?;
    Some((
        name,
        format_ident!(
            "__brick_{}",
            name.to_string().trim_start_matches("r#"),
            span = Span::call_site()
        ),
    ))
}

/// `let __brick_out = &mut *out;`: the body may move `out` or point it elsewhere.
fn outside(param: &Param) -> Option<TokenStream> {
    let (name, spare) = spare(param)?;
    let cfgs = &param.cfgs;
    // `mut out` must look used as one.
    let place = if param.rebinds {
        quote!(**&mut #name)
    } else {
        quote!(*#name)
    };
    Some(quote!(#cfgs let #spare = &mut #place;))
}

/// `let out = __brick_out;`
fn inside(param: &Param) -> Option<TokenStream> {
    let (_, spare) = spare(param)?;
    let (cfgs, pattern) = (&param.cfgs, &param.pattern);
    Some(quote!(#cfgs let #(#pattern)* = #spare;))
}

/// `|| -> R`, or `async move, R`.
fn head(kind: Kind, function: &Function, post: &Post<'_>) -> TokenStream {
    let ty = valid::returned_type(function).map_or_else(|| quote!(()), |ty| nameable(ty).0);
    match kind {
        Kind::Sync => quote!(|| -> #ty),
        // `self` cannot be set aside under another name: it is borrowed instead.
        Kind::Future
            if post
                .ensures
                .as_ref()
                .is_some_and(|ensures| source::mentions(ensures, "self")) =>
        {
            quote!({async} #ty)
        }
        Kind::Future if post.params.iter().any(|(param, _)| valid::is_self(param)) => {
            quote!({async} #ty)
        }
        Kind::Future => quote!({async move} #ty),
        Kind::Never | Kind::Scoped => TokenStream::new(),
    }
}

/// The type with `_` for each `impl Trait`, which no closure can name; and whether there was none.
fn nameable(ty: Vec<TokenTree>) -> (TokenStream, bool) {
    let mut named = TokenStream::new();
    let mut whole = true;
    let mut depth = 0_usize;
    let mut skipping: Option<usize> = None;
    let mut last_dash = false;
    for token in ty {
        let ch = match &token {
            TokenTree::Punct(punct) => punct.as_char(),
            _ => ' ',
        };
        if skipping.is_some_and(|at| depth == at && (ch == ',' || (ch == '>' && !last_dash))) {
            skipping = None;
        }
        match ch {
            '<' => depth += 1,
            '>' if !last_dash => depth = depth.saturating_sub(1),
            _ => {}
        }
        last_dash = ch == '-';
        if skipping.is_some() {
            continue;
        }
        match token {
            token if is_ident(&token, "impl") => {
                skipping = Some(depth);
                whole = false;
                named.extend(quote!(_));
            }
            TokenTree::Ident(ident) if ident == "_" => {
                whole = false;
                named.extend([TokenTree::Ident(ident)]);
            }
            TokenTree::Group(group) => {
                let (inner, is_whole) = nameable(group.stream().into_iter().collect());
                whole &= is_whole;
                let mut copy = Group::new(group.delimiter(), inner);
                copy.set_span(group.span());
                named.extend([TokenTree::Group(copy)]);
            }
            token => named.extend([token]),
        }
    }
    (named, whole)
}

/// `__brick_ret: known {R} {params} {returned} {ensures}`.
fn post_checks(function: &Function, post: &Post<'_>) -> TokenStream {
    let ret = Ident::new("__brick_ret", Span::call_site());
    let written =
        valid::returned_type(function).unwrap_or_else(|| quote!(()).into_iter().collect());
    let (ty, is_known) = nameable(written.clone());
    let known = Ident::new(if is_known { "known" } else { "opaque" }, Span::call_site());
    let params = post.params.iter().filter_map(|(param, rules)| {
        let (cfgs, name) = (&param.cfgs, param.name.as_ref()?);
        let (text, rules) = (name.to_string(), rules.tokens());
        let value = at_type(&param.ty, true, name);
        Some(quote!([#cfgs] #text, #value, {#rules};))
    });
    let returned = post.returned.map(|rules| {
        let rules = rules.tokens();
        let value = at_type(&written, false, &ret);
        quote!("return", #value, {#rules};)
    });
    let ensures = post.ensures.as_ref().map(|ensures| {
        let text = source::text(ensures);
        quote!(#text, #ensures;)
    });
    quote!(#ret: #known {#ty} {#(#params)*} {#returned} {#ensures})
}

/// `&name` or `&*name`, all at the end of a type: a bound that fails is reported there.
fn at_type(ty: &[TokenTree], deref: bool, name: &Ident) -> TokenStream {
    let Some(last) = ty.last() else {
        return quote!(&#name);
    };
    let at = Span::call_site().located_at(last.span());
    let borrow = if deref {
        quote_spanned!(at=> &*)
    } else {
        quote_spanned!(at=> &)
    };
    let mut name = name.clone();
    name.set_span(name.span().located_at(last.span()));
    quote!(#borrow #name)
}
