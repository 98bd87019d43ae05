//! Runs of tokens in types: what commas and angle brackets separate.

use proc_macro2::{Spacing, TokenStream, TokenTree};

/// Follows `<` and `>` through a run of tokens; the `>` of `->` and `=>` is none.
#[derive(Default)]
pub(crate) struct Angles {
    depth: usize,
    arrow: bool,
}

impl Angles {
    /// Takes the next token; whether it stands outside all brackets.
    pub(crate) fn outside(&mut self, token: &TokenTree) -> bool {
        let arrow = std::mem::take(&mut self.arrow);
        let TokenTree::Punct(punct) = token else {
            return self.depth == 0;
        };
        match punct.as_char() {
            '<' => self.depth += 1,
            '>' if !arrow => {
                self.depth = self.depth.saturating_sub(1);
                return false;
            }
            '-' | '=' => self.arrow = punct.spacing() == Spacing::Joint,
            _ => {}
        }
        self.depth == 0
    }

    /// Whether all brackets are closed.
    pub(crate) fn closed(&self) -> bool {
        self.depth == 0
    }
}

/// Splits at the commas outside of angle brackets; no empty last piece.
pub(crate) fn split_commas(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut pieces = vec![Vec::new()];
    let mut angles = Angles::default();
    for token in tokens {
        if angles.outside(&token) && is_punct(&token, ',') {
            pieces.push(Vec::new());
        } else {
            pieces.last_mut().expect("never empty").push(token);
        }
    }
    if pieces.last().is_some_and(Vec::is_empty) {
        pieces.pop();
    }
    pieces
}

pub(crate) fn is_punct(token: &TokenTree, ch: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == ch)
}

pub(crate) fn is_ident(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}
