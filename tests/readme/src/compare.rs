//! What is shown against what came: times differ from run to run, counts do not.

use std::sync::LazyLock;

use regex::Regex;
use snapbox::{Assert, IntoData as _};

/// Stands for a figure that no two runs share.
const FIGURE: &str = "«…»";

/// A number with a decimal point, or with a unit of time, rate or share. Whole numbers without one
/// are counts, and stay.
static FIGURES: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?x)
        \b \d+ (?: \.\d+ (?: e-?\d+ )? )? \s? (?: (?: ns|µs|us|ms|s|min ) \b | (?: GB|GFLOP|tokens?|tok)/s | % | × )
        | \b \d+ \.\d+ (?: e-?\d+ )? x?";
    Regex::new(pattern).expect("a valid pattern")
});

/// A table's heading that names a unit, or counts the slow: all numbers below vary.
static HEADINGS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"%|\b(ns|µs|ms|s)\b|/s\b|/token\b|over budget").expect("a valid pattern")
});

/// The text with every figure that varies as `«…»`, and runs of blanks (which align columns of
/// such figures) as one.
///
/// Such a figure carries its unit, or stands in a table in a column whose heading does. A
/// table is a run of lines with equally many cells, three or more, with two or more blanks between.
/// The rows of one that has such a column may be ordered by it: here they come by their words.
#[must_use]
pub fn normalised(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut heading: Vec<bool> = Vec::new();
    let mut first_row = 0;
    for line in text.trim_end().lines() {
        let mut cells: Vec<String> = cells(line).map(str::to_owned).collect();
        let is_row = cells.len() >= 3 && cells.len() == heading.len();
        if !is_row {
            lines[first_row..].sort();
            heading = cells.iter().map(|cell| HEADINGS.is_match(cell)).collect();
        } else {
            for (cell, _) in cells
                .iter_mut()
                .zip(&heading)
                .filter(|(cell, varies)| **varies && is_number(cell))
            {
                *cell = FIGURE.into();
            }
        }
        let line = cells.join(" ");
        let words: Vec<&str> = line.split_whitespace().collect();
        lines.push(FIGURES.replace_all(&words.join(" "), FIGURE).into_owned());
        if !is_row || !heading.contains(&true) {
            first_row = lines.len();
        }
    }
    lines[first_row..].sort();
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

/// What two or more blanks separate.
fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.split("  ")
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
}

fn is_number(cell: &str) -> bool {
    cell.parse::<f64>().is_ok()
}

/// Whether what came is what is shown, up to such figures; `[..]` in what is shown stands for
/// anything within a line, a line `...` for any lines.
///
/// # Errors
/// The difference, as text.
pub fn same(shown: &str, came: &str) -> Result<(), String> {
    Assert::new()
        .try_eq(
            None,
            normalised(came).into_data().raw(),
            normalised(shown).into_data(),
        )
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::{normalised, same};

    #[test]
    fn times_vary_and_counts_do_not() {
        assert_eq!(
            normalised("Softmax   1000  12.3 µs   4 ms 99 % \n\n"),
            "Softmax 1000 «…» «…» «…»\n"
        );
        assert_eq!(
            normalised("1.5e-3 and 3.2 GB/s, 1.07x, 7×"),
            "«…» and «…», «…», «…»\n"
        );
        assert_eq!(
            normalised("layer 3, index 7, v1x2, 3 steps"),
            "layer 3, index 7, v1x2, 3 steps\n"
        );
    }

    #[test]
    fn a_column_varies_if_its_heading_names_a_unit() {
        let table = "brick    calls  mean µs  over budget  GB/s*\n\
                     Softmax   1000      120            2      –\n\
                     Gemv        64        7            –    150\n\
                     64 calls in 3 bricks\n";
        let normal = "brick calls mean µs over budget GB/s*\n\
                      Gemv 64 «…» – «…»\n\
                      Softmax 1000 «…» «…» –\n\
                      64 calls in 3 bricks\n";
        assert_eq!(normalised(table), normal);
    }

    #[test]
    fn only_tables_of_figures_come_in_any_order() {
        let of_times = "name  calls  µs\nb  1  5\na  2  7\n";
        assert!(same(of_times, "name  calls  µs\na  2  9\nb  1  3\n").is_ok());
        assert!(same(of_times, "name  calls  µs\na  1  9\nb  2  3\n").is_err());
        assert!(same("x  y  z\nb  1  5\na  2  7\n", "x  y  z\na  2  7\nb  1  5\n").is_err());
    }

    #[test]
    fn a_wrong_count_or_word_is_a_difference() {
        assert!(same("Softmax 1000 1.5 µs\n", "Softmax  1000  20.5 µs\n").is_ok());
        let error = same("Softmax 1000 1.5 µs\n", "Softmax 1001 1.5 µs\n").unwrap_err();
        assert!(error.contains("1001"), "{error}");
        assert!(same("one\ntwo\n", "one\n").is_err());
        assert!(same("one\n", "one\ntwo\n").is_err());
    }

    #[test]
    fn wildcards_of_a_line_and_of_lines() {
        assert!(same("a [..] z\n...\nend\n", "a b c z\n1\n2\nend\n").is_ok());
        assert!(same("a [..] z\n...\nend\n", "a b c\n1\n2\nend\n").is_err());
    }
}
