//! Functions that return a future instead of being `async`: async_trait's methods and their like.
//!
//! Timed as they stand they would show how long it takes to *make* a future. So the attribute
//! goes into the one `async` block such a body consists of, or refuses.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::signature::{Angles, is_ident, is_punct};

/// `async move { … }` or `Box::pin(async move { … })`, taken apart.
pub(crate) struct AsyncBlock {
    /// Tokens before the block or before the parentheses around it.
    before: Vec<TokenTree>,
    /// `async move` inside parentheses: the group they make and the tokens before the block.
    pinned: Option<(Group, Vec<TokenTree>)>,
    /// The block.
    pub(crate) block: Group,
}

impl AsyncBlock {
    /// The same around another block.
    pub(crate) fn around(self, inner: TokenStream) -> TokenStream {
        let mut block = Group::new(Delimiter::Brace, inner);
        block.set_span(self.block.span());
        let mut tokens: TokenStream = self.before.into_iter().collect();
        match self.pinned {
            None => tokens.extend([TokenTree::Group(block)]),
            Some((parens, before)) => {
                let inner = before
                    .into_iter()
                    .chain([TokenTree::Group(block)])
                    .collect();
                let mut pinned = Group::new(Delimiter::Parenthesis, inner);
                pinned.set_span(parens.span());
                tokens.extend([TokenTree::Group(pinned)]);
            }
        }
        tokens
    }
}

/// The async block that the body consists of.
pub(crate) fn async_block(body: &Group) -> Option<AsyncBlock> {
    let mut tokens: Vec<TokenTree> = body.stream().into_iter().collect();
    let TokenTree::Group(last) = tokens.pop()? else {
        return None;
    };
    if is_async(&tokens) && last.delimiter() == Delimiter::Brace {
        return Some(AsyncBlock {
            before: tokens,
            pinned: None,
            block: last,
        });
    }
    if !matches!(tokens.as_slice(), [.., boxed, _, _, pin] if is_ident(boxed, "Box") && is_ident(pin, "pin"))
        || last.delimiter() != Delimiter::Parenthesis
    {
        return None;
    }
    let mut inner: Vec<TokenTree> = last.stream().into_iter().collect();
    if inner.last().is_some_and(|token| is_punct(token, ',')) {
        inner.pop();
    }
    let TokenTree::Group(block) = inner.pop()? else {
        return None;
    };
    (is_async(&inner) && block.delimiter() == Delimiter::Brace).then(|| AsyncBlock {
        before: tokens,
        pinned: Some((last, inner)),
        block,
    })
}

fn is_async(tokens: &[TokenTree]) -> bool {
    match tokens {
        [word] => is_ident(word, "async"),
        [word, mover] => is_ident(word, "async") && is_ident(mover, "move"),
        _ => false,
    }
}

/// `T` of `Future<Output = T>`.
pub(crate) fn output(ty: &[TokenTree]) -> Option<Vec<TokenTree>> {
    let ty = crate::source::peel(ty);
    let at = ty
        .windows(2)
        .position(|pair| is_ident(&pair[0], "Output") && is_punct(&pair[1], '='))?;
    let mut angles = Angles::default();
    let ends = |token: &TokenTree| {
        let was_closed = angles.closed();
        let outside = angles.outside(token);
        was_closed && (is_punct(token, '>') || (outside && is_punct(token, ',')))
    };
    let mut ends = ends;
    Some(
        ty[at + 2..]
            .iter()
            .take_while(|token| !ends(token))
            .cloned()
            .collect(),
    )
}
