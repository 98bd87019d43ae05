//! All mistakes of one attribute, reported together (after serde_derive's `Ctxt`).

use std::fmt::Display;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::Error;

/// Collects errors; must be asked for them before it is dropped.
pub(crate) struct Errors {
    found: Option<Vec<Error>>,
}

impl Errors {
    pub(crate) fn new() -> Self {
        Errors {
            found: Some(Vec::new()),
        }
    }

    /// An error at one token.
    pub(crate) fn at(&mut self, span: Span, message: impl Display) {
        self.push(Error::new(span, message));
    }

    /// An error at a run of tokens.
    pub(crate) fn on(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(Error::new_spanned(tokens, message));
    }

    pub(crate) fn push(&mut self, error: Error) {
        self.found
            .as_mut()
            .expect("errors are pushed before they are taken")
            .push(error);
    }

    /// `Ok` if nothing was found, else a `compile_error!` per mistake.
    pub(crate) fn check(mut self) -> Result<(), TokenStream> {
        let found = self.found.take().expect("taken once: `check` consumes");
        if found.is_empty() {
            Ok(())
        } else {
            Err(found.iter().map(Error::to_compile_error).collect())
        }
    }
}

impl Drop for Errors {
    fn drop(&mut self) {
        assert!(
            self.found.is_none() || std::thread::panicking(),
            "forgot to check for errors"
        );
    }
}
