//! The tokens still in the running, and the filters that thin them out.

use std::cmp::Ordering;

/// A token and its logit.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    id: u32,
    logit: f32,
}

impl Candidate {
    /// Larger logits first, the lower id first among equals. Logits are never NaN here.
    fn best_first(&self, other: &Self) -> Ordering {
        let by_logit = other.logit.partial_cmp(&self.logit);
        by_logit
            .unwrap_or(Ordering::Equal)
            .then(self.id.cmp(&other.id))
    }
}

/// At least one candidate, once filled. The buffer is kept between tokens.
#[derive(Debug, Clone, Default)]
pub(super) struct Candidates {
    list: Vec<Candidate>,
    /// How many at the head of the list are the best of all, in order.
    sorted: usize,
}

impl Candidates {
    /// Candidates from their ids and logits, in order of ids.
    pub(super) fn fill(&mut self, logits: impl Iterator<Item = (usize, f32)>) {
        self.list.clear();
        // Peaks::of has checked that ids fit.
        self.list.extend(logits.map(|(id, logit)| Candidate {
            id: id as u32,
            logit,
        }));
        self.sorted = 0;
    }

    /// Keeps the `k` best; all for 0.
    pub(super) fn top_k(&mut self, k: usize) {
        if k != 0 && k < self.list.len() {
            self.keep_best(k);
        }
    }

    /// Keeps the `k` best, in order.
    pub(super) fn keep_best(&mut self, k: usize) {
        self.sort_best(k);
        self.list.truncate(k);
    }

    /// Keeps the fewest best whose probabilities sum to at least `p`, but one.
    pub(super) fn top_p(&mut self, p: f32) {
        /// The candidates that are sorted first: mostly enough, and far cheaper than all.
        const FIRST_LOOK: usize = 128;
        if p >= 1.0 {
            return;
        }
        let max = self.max_logit();
        let weight = |candidate: &Candidate| f64::from(candidate.logit - max).exp();
        let wanted = f64::from(p) * self.list.iter().map(weight).sum::<f64>();
        let mut sum = 0.0;
        let mut kept = 0;
        while kept < self.list.len() {
            if kept == self.sorted {
                self.sort_best((kept * 4).max(FIRST_LOOK));
            }
            sum += weight(&self.list[kept]);
            kept += 1;
            if sum >= wanted {
                break;
            }
        }
        self.list.truncate(kept);
        self.sorted = self.sorted.min(kept);
    }

    /// Keeps what is at least `p` times as probable as the best.
    pub(super) fn min_p(&mut self, p: f32) {
        if p > 0.0 {
            let least = self.max_logit() + p.ln();
            self.list.retain(|candidate| candidate.logit >= least);
            self.sorted = self.sorted.min(self.list.len());
        }
    }

    /// The candidate at `uniform` (in 0..1) of the cumulative distribution.
    pub(super) fn draw(&self, temperature: f32, uniform: f64) -> u32 {
        let max = self.max_logit();
        let weight = |candidate: &Candidate| {
            (f64::from(candidate.logit - max) / f64::from(temperature)).exp()
        };
        let wanted = uniform * self.list.iter().map(weight).sum::<f64>();
        let mut sum = 0.0;
        for candidate in &self.list {
            sum += weight(candidate);
            if sum > wanted {
                return candidate.id;
            }
        }
        // The same sum in the same order exceeds its own fraction, unless rounding made them equal.
        let best = self.list.iter().min_by(|a, b| a.best_first(b));
        best.map_or(0, |candidate| candidate.id)
    }

    fn max_logit(&self) -> f32 {
        if self.sorted > 0 {
            return self.list[0].logit;
        }
        let logits = self.list.iter().map(|candidate| candidate.logit);
        logits.fold(f32::NEG_INFINITY, f32::max)
    }

    /// Brings the `n` best to the head of the list, in order.
    fn sort_best(&mut self, n: usize) {
        let n = n.min(self.list.len());
        if n <= self.sorted {
            return;
        }
        let rest = &mut self.list[self.sorted..];
        let wanted = n - self.sorted;
        if wanted < rest.len() {
            rest.select_nth_unstable_by(wanted - 1, Candidate::best_first);
        }
        rest[..wanted].sort_unstable_by(Candidate::best_first);
        self.sorted = n;
    }
}
