//! Some durations taken together.

/// Some durations taken together; at least one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) count: u64,
    pub(super) total: u64,
    pub(super) min: u64,
    pub(super) max: u64,
    /// Sum of squares. As a float: exact sums need a 128-bit multiply each, and the error of a
    /// sum of squares (1e-16) is far below what a deviation is read for.
    pub(super) squares: f64,
}

impl Run {
    pub(super) fn one(ticks: u64) -> Run {
        let float = ticks as f64;
        Run {
            count: 1,
            total: ticks,
            min: ticks,
            max: ticks,
            squares: float * float,
        }
    }
}
