//! What `#[brick]` says of its function: one string, taken apart when it is asked for.
//!
//! A string literal is the one kind of constant that costs rustc next to nothing. The same
//! facts as a `BrickInfo` expression (a body to type-check, to borrow-check and to evaluate per
//! function) took 0.7 ms each, which nearly doubled the `cargo check` of a crate of ten-line
//! functions, and taking the string apart in a constant took twice that.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::registry::{Backend, BrickId, BrickInfo, Budget, Checks};

/// Made by `#[brick(id = X)]` for the marker `X` that `bricks!` made.
#[diagnostic::on_unimplemented(
    message = "brick `{Self}` is registered by `bricks!` but no `#[brick(id = ...)]` function claims it",
    label = "registered here, claimed nowhere",
    note = "exactly one `#[brick(id = {Self})]` without `backend = …` must claim it; claims with a `backend` come on top"
)]
pub trait Claim<const BACKEND: u8 = 0> {
    /// `module path`, `name`, `function`, `file`, `line`, `budget`, `category`, `checks`, `doc`,
    /// with U+001F between them. The budget is empty, nanoseconds, or `=` and an expression.
    const TEXT: &'static str;
}

/// All that was ever asked for; small and kept for good, like the strings it comes from.
#[derive(Default)]
struct Known {
    infos: HashMap<(&'static str, u8), &'static BrickInfo>,
    tables: HashMap<TypeId, &'static [&'static BrickInfo]>,
}

impl Known {
    fn info(&mut self, text: &'static str, backend: u8) -> &'static BrickInfo {
        self.infos
            .entry((text, backend))
            .or_insert_with(|| Box::leak(Box::new(parse(text, backend))))
    }
}

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// What a claim says: the same reference each time.
#[cfg(any(feature = "visualization", test))]
#[must_use]
pub(crate) fn info(text: &'static str, backend: u8) -> &'static BrickInfo {
    KNOWN
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .info(text, backend)
}

/// What the primary claims of a crate say, in the order of its ids.
pub(crate) fn table<B: BrickId>() -> &'static [&'static BrickInfo] {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(table) = known.tables.get(&TypeId::of::<B>()) {
        return table;
    }
    let infos: Vec<_> = B::CLAIMS
        .iter()
        .map(|text| known.info(text, Backend::Primary as u8))
        .collect();
    let table: &[_] = Vec::leak(infos);
    known.tables.insert(TypeId::of::<B>(), table);
    table
}

/// Takes [`Claim::TEXT`] apart.
fn parse(text: &'static str, backend: u8) -> BrickInfo {
    let mut fields = text.splitn(9, '\u{1f}');
    let mut field = || fields.next().unwrap_or_default();
    let (module, name, function, file) = (field(), field(), field(), field());
    let line = field().parse().unwrap_or_default();
    let mut info = BrickInfo::new(name, module, function, file, line);
    let budget = field();
    info.budget = match (budget.strip_prefix('='), budget.parse()) {
        (Some(expr), _) => Budget::PerCall { expr },
        (None, Ok(ns)) => Budget::Fixed { ns },
        (None, Err(_)) => Budget::None,
    };
    let category = field();
    if !category.is_empty() {
        info.category = category;
    }
    info.checks = Checks::new(field());
    info.doc = field();
    info.backend = Backend::ALL
        .into_iter()
        .find(|known| *known as u8 == backend)
        .unwrap_or(Backend::Primary);
    info
}

#[cfg(test)]
mod tests {
    use super::{info, parse};
    use crate::registry::{Backend, Budget};

    const TEXT: &str = "a::b\u{1f}Softmax\u{1f}softmax\u{1f}src/b.rs\u{1f}12\u{1f}2000\u{1f}Math\u{1f}x: no_nan\u{1e}requires n > 0\u{1f}Doc.";

    #[test]
    fn every_field_is_found() {
        let info = parse(TEXT, Backend::Avx2 as u8);
        assert_eq!(
            (info.crate_name, info.name, info.category),
            ("a", "Softmax", "Math")
        );
        assert_eq!(
            (info.module, info.function, info.file, info.line),
            ("a::b", "softmax", "src/b.rs", 12)
        );
        assert_eq!(info.budget, Budget::Fixed { ns: 2000 });
        assert_eq!(
            info.checks.iter().collect::<Vec<_>>(),
            ["x: no_nan", "requires n > 0"]
        );
        assert_eq!((info.doc, info.backend), ("Doc.", Backend::Avx2));
    }

    #[test]
    fn absent_fields_have_their_defaults() {
        let info = parse(
            "a\u{1f}X\u{1f}f\u{1f}a.rs\u{1f}1\u{1f}=3 * n\u{1f}\u{1f}\u{1f}",
            0,
        );
        assert_eq!(
            (info.category, info.doc, info.backend),
            ("Other", "", Backend::Primary)
        );
        assert_eq!(info.checks.iter().count(), 0);
        assert_eq!(info.budget, Budget::PerCall { expr: "3 * n" });
    }

    #[test]
    fn one_claim_has_one_info() {
        assert!(std::ptr::eq(info(TEXT, 0), info(TEXT, 0)));
        assert_ne!(info(TEXT, 0), info(TEXT, 1));
    }
}
