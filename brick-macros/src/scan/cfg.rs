//! Under which `cfg`s an id exists.

use proc_macro2::TokenStream;
use quote::quote;

/// A disjunction of conjunctions of predicates, as source text. No alternatives: always.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cfg {
    alternatives: Vec<Vec<String>>,
    always: bool,
}

impl Cfg {
    /// All predicates at once.
    pub(crate) fn all(predicates: Vec<String>) -> Cfg {
        let mut cfg = Cfg::default();
        cfg.or(predicates);
        cfg
    }

    /// Or all of these: one id may be claimed under several `cfg`s that exclude each other.
    pub(crate) fn or(&mut self, mut predicates: Vec<String>) {
        predicates.dedup();
        self.always |= predicates.is_empty();
        if !self.alternatives.contains(&predicates) {
            self.alternatives.push(predicates);
        }
    }

    /// The predicate, if there is one.
    pub(crate) fn predicate(&self) -> Option<TokenStream> {
        if self.always {
            return None;
        }
        let alternatives = self.alternatives.iter().map(|predicates| {
            let predicates = predicates
                .iter()
                .map(|text| text.parse::<TokenStream>().unwrap_or_default());
            quote!(all(#(#predicates),*))
        });
        Some(quote!(any(#(#alternatives),*)))
    }
}
