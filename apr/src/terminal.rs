//! What may be shown on a terminal.

use comfy_table::{CellAlignment, Row, Table, presets};

/// The text with control characters escaped: paths can hold line breaks and terminal commands.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}

/// Columns without lines; those in `right` hold numbers.
pub(crate) fn table(header: impl Into<Row>, right: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    for &column in right {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Some four significant digits, also of what is very small or large; a dash for what is no number.
pub(crate) fn number(value: f32) -> String {
    match value.abs() {
        v if !v.is_finite() => "–".to_owned(),
        v if v != 0.0 && !(1e-3..1e5).contains(&v) => format!("{value:.3e}"),
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}
