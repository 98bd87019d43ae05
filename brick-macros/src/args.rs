//! The attribute's arguments, parsed one by one so that each mistake is its own error.

use proc_macro2::{Group, Ident, Span, TokenStream};

use crate::errors::Errors;
use crate::rules::Rules;
use crate::split::{Value, example, is_whole, split};
use crate::suggest::hint;
use crate::values::{self, Budget};

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
            "id" => self.id = values::id(value, errors),
            "backend" => self.backend = values::backend(value, errors),
            "category" => self.category = values::category(value, errors),
            "budget_us" => self.budget = values::budget(value, errors),
            "requires" => self.requires = Some(value),
            "ensures" => self.ensures = values::ensures(value, errors),
            "assert" => self.assert = Some((name.span(), Rules::parse(value, errors))),
            _ => self.amounts.push((name, value)),
        }
    }
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
