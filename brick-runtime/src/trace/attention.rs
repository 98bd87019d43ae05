//! What one row of attention weights looks at.

use super::ModelTraceError;

/// What one head attends to from one position: statistics of a row of weights, which are not
/// negative and sum to 1.
///
/// Sums are taken in `f64`. `w` below is the row, `n` its length.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct AttentionStats {
    /// Positions that the row covers, `n`.
    pub positions: usize,
    /// The positions of the largest weights, the largest first, the earlier first among equals.
    pub top: Vec<PositionWeight>,
    /// `-Σ w ln w` in nats, with `0 ln 0 = 0`: 0 looks at one position, `ln n` at all alike.
    pub entropy_nats: f64,
    /// The sum of all weights that are not in `top`.
    pub tail_mass: f64,
    /// The weight of the text's first position, where models put what they don't need (Xiao et al.,
    /// "Efficient Streaming Language Models with Attention Sinks", 2023). `None` where a sliding
    /// window does not reach it.
    pub sink_share: Option<f64>,
    /// The sum of the weights of the last positions, as many as asked for.
    pub recent_share: f64,
}

/// A position and the weight it has.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PositionWeight {
    /// The position in the text, from 0.
    pub position: usize,
    /// Its weight.
    pub weight: f32,
}

impl AttentionStats {
    /// Of `weights`, whose first is the weight of position `first`: the `top_k` largest are kept,
    /// the last `recent` are added up.
    ///
    /// ```
    /// use brick_runtime::trace::AttentionStats;
    /// let stats = AttentionStats::of(&[0.5, 0.125, 0.125, 0.25], 0, 2, 2)?;
    /// assert_eq!((stats.top[0].position, stats.top[1].position), (0, 3));
    /// assert_eq!((stats.tail_mass, stats.sink_share, stats.recent_share), (0.25, Some(0.5), 0.375));
    /// # Ok::<(), brick_runtime::trace::ModelTraceError>(())
    /// ```
    ///
    /// # Errors
    /// [`ModelTraceError::Empty`] without weights, [`ModelTraceError::NoWeight`] where one is NaN,
    /// infinite or negative.
    pub fn of(
        weights: &[f32],
        first: usize,
        top_k: usize,
        recent: usize,
    ) -> Result<Self, ModelTraceError> {
        if weights.is_empty() {
            return Err(ModelTraceError::Empty);
        }
        let is_weight = |w: &f32| w.is_finite() && *w >= 0.0;
        if let Some(index) = weights.iter().position(|w| !is_weight(w)) {
            let value = weights[index];
            return Err(ModelTraceError::NoWeight { index, value });
        }
        let mut order: Vec<usize> = (0..weights.len()).collect();
        let largest_first =
            |&a: &usize, &b: &usize| weights[b].total_cmp(&weights[a]).then(a.cmp(&b));
        let kept = top_k.min(order.len());
        if kept < order.len() {
            order.select_nth_unstable_by(kept, largest_first);
        }
        let (top, tail) = order.split_at_mut(kept);
        top.sort_unstable_by(largest_first);
        let at = |&index: &usize| PositionWeight {
            position: first + index,
            weight: weights[index],
        };
        let plogp = |&w: &f32| match f64::from(w) {
            0.0 => 0.0,
            w => w * w.ln(),
        };
        let recent = &weights[weights.len().saturating_sub(recent)..];
        Ok(Self {
            positions: weights.len(),
            top: top.iter().map(at).collect(),
            // `0 -`, not `-`: all weight on one position is 0 and not -0.
            entropy_nats: 0.0 - weights.iter().map(plogp).sum::<f64>(),
            tail_mass: sum(tail.iter().map(|&index| weights[index])),
            sink_share: (first == 0).then(|| weights[0].into()),
            recent_share: sum(recent.iter().copied()),
        })
    }
}

/// In `f64`, and 0 rather than -0 for nothing.
fn sum(weights: impl Iterator<Item = f32>) -> f64 {
    weights.fold(0.0, |sum, w| sum + f64::from(w))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(stats: &AttentionStats) -> Vec<usize> {
        stats.top.iter().map(|top| top.position).collect()
    }

    /// By hand: 1/2 ln 2 + 1/4 ln 4 + 2/8 ln 8 = 1.75 ln 2.
    #[test]
    fn entropy_of_halves_quarters_and_eighths() {
        let stats = AttentionStats::of(&[0.125, 0.5, 0.125, 0.25], 0, 3, 1).unwrap();
        assert!((stats.entropy_nats - 1.75 * 2f64.ln()).abs() < 1e-12);
        assert_eq!(positions(&stats), [1, 3, 0]);
        assert_eq!(
            (stats.tail_mass, stats.sink_share, stats.recent_share),
            (0.125, Some(0.125), 0.25)
        );
    }

    #[test]
    fn the_two_ends_of_entropy() {
        let one = AttentionStats::of(&[0.0, 1.0, 0.0], 0, 1, 1).unwrap();
        assert_eq!(one.entropy_nats.to_bits(), 0, "no minus sign");
        assert_eq!((one.tail_mass, one.recent_share), (0.0, 0.0));
        let even = AttentionStats::of(&[1.0 / 16.0; 16], 0, 4, 4).unwrap();
        assert!((even.entropy_nats - 16f64.ln()).abs() < 1e-12);
        assert_eq!(positions(&even), [0, 1, 2, 3]);
        assert_eq!((even.tail_mass, even.recent_share), (0.75, 0.25));
    }

    /// A window that starts at position 7: positions are the text's, and its sink is not seen.
    #[test]
    fn a_window_knows_where_it_is() {
        let stats = AttentionStats::of(&[0.25, 0.75], 7, 5, 100).unwrap();
        assert_eq!(positions(&stats), [8, 7]);
        assert_eq!((stats.positions, stats.sink_share), (2, None));
        assert_eq!((stats.tail_mass, stats.recent_share), (0.0, 1.0));
        let none = AttentionStats::of(&[0.25, 0.75], 7, 0, 0).unwrap();
        assert_eq!((none.tail_mass, none.recent_share), (1.0, 0.0));
        assert!(none.top.is_empty());
    }

    #[test]
    fn what_are_no_weights_is_refused() {
        let of = |weights: &[f32]| AttentionStats::of(weights, 0, 1, 1).unwrap_err();
        assert_eq!(of(&[]), ModelTraceError::Empty);
        for bad in [f32::INFINITY, -0.5] {
            let expected = ModelTraceError::NoWeight {
                index: 1,
                value: bad,
            };
            assert_eq!(of(&[0.5, bad, f32::NAN]), expected);
        }
        let nan = of(&[f32::NAN]).to_string();
        assert_eq!(nan, "attention weight 0 is NaN");
    }
}
