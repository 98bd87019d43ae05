//! How a token's logit evolves from layer to layer.

use super::ModelTraceError;

/// A token's logit among all, at one place of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RankedLogit {
    /// The logit.
    pub logit: f32,
    /// 1 for the largest: 1 + the tokens whose logit is larger, or equal with a lower id. So rank 1
    /// is what greedy choice takes.
    pub rank: usize,
}

impl RankedLogit {
    /// Of `token` in `logits`, `[n_vocab]`.
    ///
    /// # Errors
    /// [`ModelTraceError::NoToken`] if the vocabulary is smaller, [`ModelTraceError::NoLogit`]
    /// where a logit is NaN: ranks would mean nothing.
    pub fn of(logits: &[f32], token: u32) -> Result<Self, ModelTraceError> {
        let place = token as usize;
        let Some(&logit) = logits.get(place) else {
            let vocabulary = logits.len();
            return Err(ModelTraceError::NoToken { token, vocabulary });
        };
        let mut before = 0;
        for (index, &other) in logits.iter().enumerate() {
            if other.is_nan() {
                return Err(ModelTraceError::NoLogit { index });
            }
            before += usize::from(other > logit || (other == logit && index < place));
        }
        let rank = before + 1;
        Ok(Self { logit, rank })
    }
}

/// One token's logit after each layer, the logits being what the model's head makes of the
/// residual stream there (the "logit lens": nostalgebraist, 2020).
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LogitEvolution {
    /// The token.
    pub token: u32,
    /// Its logit and rank after each layer, the first layer first.
    pub layers: Vec<RankedLogit>,
    /// The first layer from which on the token is and stays at rank 1; `None` where it does not
    /// end there.
    pub deciding_layer: Option<usize>,
}

impl LogitEvolution {
    /// Of `token`, from what it is after each layer.
    ///
    /// ```
    /// use brick_runtime::trace::{LogitEvolution, RankedLogit};
    /// let after = [[1.0, 3.0], [2.0, 1.5], [5.0, 1.0]];
    /// let layers = after.map(|logits| RankedLogit::of(&logits, 0).unwrap());
    /// assert_eq!(LogitEvolution::new(0, layers.to_vec()).deciding_layer, Some(1));
    /// ```
    #[must_use]
    pub fn new(token: u32, layers: Vec<RankedLogit>) -> Self {
        let first = layers.iter().rposition(|after| after.rank != 1);
        let stays_from = first.map_or(0, |last_other| last_other + 1);
        Self {
            token,
            deciding_layer: (stays_from < layers.len()).then_some(stays_from),
            layers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_count_the_larger_and_the_earlier_equal() {
        let logits = [2.0, 5.0, 2.0, f32::NEG_INFINITY, 5.0];
        let rank = |token| RankedLogit::of(&logits, token).unwrap().rank;
        assert_eq!([0, 1, 2, 3, 4].map(rank), [3, 1, 4, 5, 2]);
        assert_eq!(RankedLogit::of(&logits, 4).unwrap().logit, 5.0);
    }

    #[test]
    fn what_cannot_be_ranked_is_refused() {
        let no_token = RankedLogit::of(&[1.0, 2.0], 2).unwrap_err();
        assert_eq!(
            no_token.to_string(),
            "token 2 is not in a vocabulary of 2 tokens"
        );
        let no_logit = RankedLogit::of(&[1.0, f32::NAN], 0).unwrap_err();
        assert_eq!(no_logit, ModelTraceError::NoLogit { index: 1 });
    }

    #[test]
    fn the_deciding_layer_is_where_rank_one_stays() {
        let decided = |ranks: &[usize]| {
            let layers = ranks.iter().map(|&rank| RankedLogit { logit: 0.0, rank });
            LogitEvolution::new(7, layers.collect()).deciding_layer
        };
        assert_eq!(decided(&[9, 1, 2, 1, 1]), Some(3));
        assert_eq!(decided(&[1, 1]), Some(0));
        assert_eq!(decided(&[3, 2, 1]), Some(2));
        assert_eq!(decided(&[1, 1, 2]), None);
        assert_eq!(decided(&[]), None);
    }
}
