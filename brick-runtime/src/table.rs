//! A snapshot as a table for people.

use crate::figure::Figure;
use crate::snapshot::Snapshot;
use crate::stats::BrickStats;
use std::fmt;

/// A snapshot as a table: one row per brick, the largest share first, then what the bricks cover
/// and what measuring them cost. Plain text, aligned for a fixed-width font; a dash where a figure is
/// not available.
///
/// ```text
/// brick     calls  mean µs  total ms  share %  p50 µs  p99 µs  over budget   GB/s  GFLOP/s
/// Softmax    1000     1.93      1.93     71.2    1.91    2.30           12   21.2     5.30
/// ```
///
/// Times are inclusive; the share is of self time (what a brick called is not in it) in wall-clock
/// time, so shares of one thread never exceed 100 together.
#[derive(Clone, Debug)]
#[must_use = "print it"]
pub struct Table<'s> {
    snapshot: &'s Snapshot,
    wall_ns: f64,
    per_token: Option<u64>,
    share_of: &'static str,
}

impl Snapshot {
    /// The snapshot as a table for people.
    pub fn table(&self) -> Table<'_> {
        Table {
            snapshot: self,
            wall_ns: self.total_ns() as f64,
            per_token: None,
            share_of: "wall",
        }
    }

    /// Self time of all bricks over `wall_ns`: how much of that time they explain. More than 1
    /// where several threads ran bricks at once.
    #[must_use]
    pub fn coverage(&self, wall_ns: f64) -> Figure {
        match self.unavailable() {
            Some(why) => Figure::unavailable(why),
            None if wall_ns <= 0.0 => Figure::unavailable("no time has passed"),
            None => Figure::Derived {
                value: self.covered_ns() / wall_ns,
                from: "measured self times / measured wall time",
            },
        }
    }
}

impl Table<'_> {
    /// Shares and coverage of `wall_ns`, which the caller measured, instead of the time since the
    /// reset; `name` says what of: `"decode"`.
    pub fn share_of(mut self, name: &'static str, wall_ns: f64) -> Self {
        self.wall_ns = wall_ns;
        self.share_of = name;
        self
    }

    /// Total time divided by `tokens`, instead of mean and total.
    pub fn per_token(mut self, tokens: u64) -> Self {
        self.per_token = Some(tokens);
        self
    }

    /// Whether any brick's work was shared by threads: else there is nothing to say of their waiting.
    fn shares_work(&self) -> bool {
        let mut bricks = self.snapshot.bricks().iter();
        bricks.any(|brick| brick.shared_ns() > 0.0)
    }

    fn header(&self) -> Vec<String> {
        let mut header = vec!["brick".to_owned(), "calls".to_owned()];
        match self.per_token {
            Some(_) => header.push("µs/token".to_owned()),
            None => header.extend(["mean µs".to_owned(), "total ms".to_owned()]),
        }
        header.push(format!("% of {}", self.share_of));
        header.extend(["p50 µs", "p99 µs", "over budget"].map(String::from));
        if self.shares_work() {
            header.push("wait %".to_owned());
        }
        header.extend(["GB/s*", "GFLOP/s*"].map(String::from));
        header
    }

    fn row(&self, brick: &BrickStats) -> Vec<String> {
        let us = |ns: Option<f64>| significant(ns.map(|ns| ns / 1e3));
        let mut row = vec![brick.info().name.to_owned(), brick.calls().to_string()];
        match self.per_token {
            Some(0) => row.push(significant(None)),
            Some(tokens) => row.push(us(Some(brick.total_ns() / tokens as f64))),
            None => row.extend([
                us(brick.mean_ns()),
                significant(Some(brick.total_ns() / 1e6)),
            ]),
        }
        let share = (self.wall_ns > 0.0).then(|| 100.0 * brick.self_ns() / self.wall_ns);
        row.push(share.map_or("–".to_owned(), |share| format!("{share:.1}")));
        row.extend([us(brick.p50_ns()), us(brick.p99_ns())]);
        row.push(match brick.info().budget {
            crate::Budget::None => "–".to_owned(),
            _ => brick.over_budget().to_string(),
        });
        if self.shares_work() {
            let share = brick.wait_share().value();
            row.push(share.map_or("–".to_owned(), |share| format!("{:.1}", 100.0 * share)));
        }
        let rates = [brick.gb_per_s(), brick.gflop_per_s()];
        row.extend(rates.map(|rate| significant(rate.value())));
        row
    }

    fn footer(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.snapshot;
        let percent = |ns: f64| match 100.0 * ns / self.wall_ns {
            share if share.is_finite() => format!("{share:.2} %"),
            _ => "–".to_owned(),
        };
        if let Some(coverage) = s.coverage(self.wall_ns).value() {
            let wall = significant(Some(self.wall_ns / 1e6));
            // No brick at all is an empty sum, which is -0.
            let coverage = 100.0 * coverage.abs();
            writeln!(
                f,
                "bricks cover {coverage:.1} % of {wall} ms {}",
                self.share_of
            )?;
        }
        let cost = s.cost();
        if let (Some(each), Some(all)) = (cost.ns_per_hook.value(), cost.hooks_ns.value()) {
            let (hooks, percent) = (cost.hooks, percent(all));
            writeln!(
                f,
                "profiler: {hooks} hooks × {each:.0} ns (measured) = {percent}"
            )?;
        }
        if cost.checks.count > 0 {
            let (checks, percent) = (cost.checks.count, percent(cost.checks.total_ns));
            writeln!(
                f,
                "contracts: {checks} results checked, {percent} (measured)"
            )?;
        }
        if s.dropped() > 0 {
            writeln!(f, "{} calls could not be recorded", s.dropped())?;
        }
        let off = 100.0 * BrickStats::PERCENTILE_RESOLUTION;
        let (total, each) = match self.per_token {
            Some(_) => ("", "µs/token"),
            None => ("total, ", "mean"),
        };
        write!(
            f,
            "measured: calls, {total}p50 and p99 (at most {off:.2} % off), over budget; \
             derived: {each}, %, * from declared work"
        )?;
        if self.shares_work() {
            write!(
                f,
                "\nwait %: of the threads' time in work that they shared, what they waited for each other \
                 (derived from measured times)"
            )?;
        }
        Ok(())
    }
}

/// Three significant digits, all digits before the point; a dash for what is not known.
fn significant(value: Option<f64>) -> String {
    let Some(value) = value.filter(|v| v.is_finite()) else {
        return "–".to_owned();
    };
    let decimals = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 || v == 0.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = self.snapshot.unavailable() {
            return write!(f, "no bricks: {why}");
        }
        let mut bricks: Vec<&BrickStats> = self.snapshot.bricks().iter().collect();
        bricks.sort_by(|a, b| b.self_ns().total_cmp(&a.self_ns()));
        let mut lines = vec![self.header()];
        lines.extend(bricks.into_iter().map(|brick| self.row(brick)));
        let width = |column: usize| {
            let cells = lines.iter().map(|line| line[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
        for line in &lines {
            // Names to the left, numbers to the right.
            write!(f, "{:<1$}", line[0], widths[0])?;
            for (cell, width) in line.iter().zip(&widths).skip(1) {
                write!(f, "  {cell:>width$}")?;
            }
            writeln!(f)?;
        }
        self.footer(f)
    }
}

#[cfg(test)]
mod tests {
    use super::significant;

    #[test]
    fn three_digits_and_never_a_false_zero() {
        let shown = [0.0123, 1.234, 12.34, 123.4, 12345.6, 0.0].map(|v| significant(Some(v)));
        assert_eq!(shown, ["0.012", "1.23", "12.3", "123", "12346", "0.00"]);
        assert_eq!(significant(None), "–");
        assert_eq!(significant(Some(f64::NAN)), "–");
    }
}
