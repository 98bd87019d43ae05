//! What an `assert` asks of numbers.

use proc_macro2::{Delimiter, Literal, Span, TokenStream, TokenTree};
use quote::quote;
use syn::LitStr;

use crate::errors::Errors;
use crate::signature::split_commas;
use crate::source::peel;
use crate::suggest::nearest;

const EXPECTED: &str = "expected \"no_nan\", \"no_inf\", \"finite\" or \"range(a, b)\"";

/// The checks of one `assert`, put together.
#[derive(Clone, Copy, Default)]
pub(crate) struct Rules {
    no_nan: bool,
    no_inf: bool,
    range: Option<(f64, f64)>,
}

impl Rules {
    /// `"no_nan"` or `["no_nan", "range(0, 1)"]`.
    pub(crate) fn parse(value: TokenStream, errors: &mut Errors) -> Rules {
        let tokens: Vec<TokenTree> = value.clone().into_iter().collect();
        let mut rules = Rules::default();
        match peel(&tokens).as_slice() {
            [TokenTree::Group(list)] if list.delimiter() == Delimiter::Bracket => {
                let checks = split_commas(list.stream());
                if checks.is_empty() {
                    errors.at(list.span(), format!("nothing is asked here; {EXPECTED}"));
                }
                for check in checks {
                    rules.add(&check, errors);
                }
            }
            tokens => rules.add(tokens, errors),
        }
        rules
    }

    /// Adds one check.
    fn add(&mut self, tokens: &[TokenTree], errors: &mut Errors) {
        let tokens: TokenStream = peel(tokens).into_iter().collect();
        let Ok(check) = syn::parse2::<LitStr>(tokens.clone()) else {
            errors.on(tokens, format!("a check is a string; {EXPECTED}"));
            return;
        };
        let text = check.value();
        match text.trim() {
            "no_nan" => self.no_nan = true,
            "no_inf" => self.no_inf = true,
            "finite" => (self.no_nan, self.no_inf) = (true, true),
            text => {
                if let Some((a, b)) = bounds(text, check.span(), errors) {
                    let (c, d) = self.range.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
                    if a.max(c) > b.min(d) {
                        errors.at(
                            check.span(),
                            "the ranges asked for have no number in common",
                        );
                    }
                    self.range = Some((a.max(c), b.min(d)));
                }
            }
        }
    }

    /// Both.
    pub(crate) fn and(self, other: Rules) -> Rules {
        let range = match (self.range, other.range) {
            (Some((a, b)), Some((c, d))) => Some((a.max(c), b.min(d))),
            (range, None) | (None, range) => range,
        };
        Rules {
            no_nan: self.no_nan || other.no_nan,
            no_inf: self.no_inf || other.no_inf,
            range,
        }
    }

    /// No number satisfies them (two ranges put together).
    pub(crate) fn is_void(self) -> bool {
        self.range.is_some_and(|(a, b)| a > b)
    }

    /// A constant expression on `brick_runtime::Rules`, without the `Rules::`.
    pub(crate) fn tokens(self) -> TokenStream {
        let range = self.range.map(|(a, b)| (number(a), number(b)));
        let base = match (self.no_nan, self.no_inf) {
            (true, true) => quote!(FINITE),
            (true, false) => quote!(NO_NAN),
            (false, true) => quote!(NO_INF),
            (false, false) => {
                let (a, b) = range.unwrap_or((number(f64::NEG_INFINITY), number(f64::INFINITY)));
                return quote!(range(#a, #b));
            }
        };
        match range {
            Some((a, b)) => quote!(#base.within(#a, #b)),
            None => base,
        }
    }

    /// As text: `no_nan, range(0, 1)`.
    pub(crate) fn text(self) -> String {
        let mut checks = Vec::new();
        match (self.no_nan, self.no_inf) {
            (true, true) => checks.push("finite".to_owned()),
            (true, false) => checks.push("no_nan".to_owned()),
            (false, true) => checks.push("no_inf".to_owned()),
            (false, false) => {}
        }
        if let Some((a, b)) = self.range {
            checks.push(format!("range({a}, {b})"));
        }
        checks.join(", ")
    }
}

fn number(value: f64) -> TokenStream {
    let literal = Literal::f64_suffixed(value.abs().min(f64::MAX));
    match (value.is_infinite(), value < 0.0) {
        (true, true) => quote!(::core::primitive::f64::NEG_INFINITY),
        (true, false) => quote!(::core::primitive::f64::INFINITY),
        (false, true) => quote!(-#literal),
        (false, false) => quote!(#literal),
    }
}

/// The two numbers of `range(a, b)`.
fn bounds(text: &str, span: Span, errors: &mut Errors) -> Option<(f64, f64)> {
    let Some(inner) = text.strip_prefix("range") else {
        let meant = match nearest(text, &["no_nan", "no_inf", "finite", "range(a, b)"]) {
            Some(check) => format!("; did you mean \"{check}\"?"),
            None if text.contains(',') => {
                "; several checks are a list: `[\"no_nan\", \"range(0, 1)\"]`".to_owned()
            }
            None => format!("; {EXPECTED}"),
        };
        errors.at(span, format!("unknown check `{text}`{meant}"));
        return None;
    };
    let numbers: Option<Vec<f64>> = inner
        .trim()
        .strip_prefix('(')
        .and_then(|inner| inner.strip_suffix(')'))
        .map(|inner| {
            inner
                .split(',')
                .map(|number| number.trim().replace('_', "").parse().unwrap_or(f64::NAN))
                .collect()
        });
    match numbers.as_deref() {
        Some(&[a, b]) if a <= b => Some((a, b)),
        Some(&[a, b]) if a > b => {
            errors.at(
                span,
                format!(
                    "`{text}` is empty: {a} is more than {b}; did you mean \"range({b}, {a})\"?"
                ),
            );
            None
        }
        _ => {
            errors.at(span, format!("`{text}` needs two numbers: \"range(0, 1)\""));
            None
        }
    }
}
