//! What `#[brick]` says of its function: one string, taken apart when it is asked for.
//!
//! A string literal is the one kind of constant that costs rustc next to nothing. The same
//! facts as a `BrickInfo` expression (a body to type-check, to borrow-check and to evaluate per
//! function) took 0.7 ms each, which nearly doubled the `cargo check` of a crate of ten-line
//! functions; so that work waits until a table is used.

use crate::registry::{Backend, BrickInfo, Budget, Checks};

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

    /// The same, taken apart.
    const INFO: &'static BrickInfo = &info(Self::TEXT, BACKEND);
}

/// Takes [`Claim::TEXT`] apart.
///
/// # Panics
/// (At compile time.) Where the text is not one that this version's macros write.
#[must_use]
pub const fn info(text: &'static str, backend: u8) -> BrickInfo {
    let (module, text) = field(text);
    let (name, text) = field(text);
    let (function, text) = field(text);
    let (file, text) = field(text);
    let (line, text) = field(text);
    let (budget, text) = field(text);
    let (category, text) = field(text);
    let (checks, doc) = field(text);
    let mut info = BrickInfo::new(name, module, function, file, number(line) as u32);
    info.budget = match budget.as_bytes() {
        [] => Budget::None,
        [b'=', ..] => Budget::PerCall { expr: budget.split_at(1).1 },
        _ => Budget::Fixed { ns: number(budget) },
    };
    if !category.is_empty() {
        info.category = category;
    }
    info.checks = Checks::new(checks);
    info.doc = doc;
    info.backend = Backend::ALL[backend as usize];
    info
}

/// The text up to the next U+001F, and the text behind it.
const fn field(text: &'static str) -> (&'static str, &'static str) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while bytes[at] != 0x1f {
        at += 1;
    }
    (text.split_at(at).0, text.split_at(at + 1).1)
}

const fn number(digits: &str) -> u64 {
    match u64::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => panic!("brick-macros and brick-runtime are of different versions"),
    }
}

#[cfg(test)]
mod tests {
    use super::info;
    use crate::registry::{Backend, Budget};

    const TEXT: &str = "a::b\u{1f}Softmax\u{1f}softmax\u{1f}src/b.rs\u{1f}12\u{1f}2000\u{1f}Math\u{1f}x: no_nan\u{1e}requires n > 0\u{1f}Doc.";

    #[test]
    fn every_field_is_found() {
        const INFO: crate::BrickInfo = info(TEXT, Backend::Avx2 as u8);
        assert_eq!((INFO.crate_name, INFO.name, INFO.category), ("a", "Softmax", "Math"));
        assert_eq!((INFO.module, INFO.function, INFO.file, INFO.line), ("a::b", "softmax", "src/b.rs", 12));
        assert_eq!(INFO.budget, Budget::Fixed { ns: 2000 });
        assert_eq!(INFO.checks.iter().collect::<Vec<_>>(), ["x: no_nan", "requires n > 0"]);
        assert_eq!((INFO.doc, INFO.backend), ("Doc.", Backend::Avx2));
    }

    #[test]
    fn absent_fields_have_their_defaults() {
        let info = info("a\u{1f}X\u{1f}f\u{1f}a.rs\u{1f}1\u{1f}=3 * n\u{1f}\u{1f}\u{1f}", 0);
        assert_eq!((info.category, info.doc, info.backend), ("Other", "", Backend::Primary));
        assert_eq!(info.checks.iter().count(), 0);
        assert_eq!(info.budget, Budget::PerCall { expr: "3 * n" });
    }
}
