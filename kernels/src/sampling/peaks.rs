//! Where the largest logits are, found in one pass.

use crate::KernelError;
use crate::check::Check;

/// Logits of a block: so many that few blocks are looked at again, and of a vocabulary of 262,144 there
/// are enough for any usual top-k.
const BLOCK: usize = 256;
/// Largest logits that are kept apart while a block is read, so that several are compared at once.
const LANES: usize = 16;

/// The largest logit of each block. A block that has none of the best is not looked at again.
#[derive(Debug, Clone, Default)]
pub(super) struct Peaks {
    of_blocks: Vec<f32>,
    /// `of_blocks` in another order, kept between tokens for its memory.
    ranked: Vec<f32>,
}

impl Peaks {
    /// Reads all logits.
    ///
    /// # Errors
    /// If there are none, one is NaN or `+inf`, or all are `-inf`.
    pub(super) fn of(&mut self, logits: &[f32]) -> Result<(), KernelError> {
        Check("sample").non_zero("logits.len()", logits.len())?;
        Check("sample").at_most("logits.len()", logits.len(), u32::MAX as usize)?;
        let bad = |index: usize| KernelError::BadValue {
            kernel: "sample",
            argument: "logits",
            index,
            value: logits[index],
        };
        self.of_blocks.clear();
        for (index, block) in logits.chunks(BLOCK).enumerate() {
            if !block
                .iter()
                .fold(true, |all, &l| all & is_below_infinity(l))
            {
                let within = block.iter().position(|&l| !is_below_infinity(l));
                return Err(bad(index * BLOCK + within.unwrap_or(0)));
            }
            self.of_blocks.push(largest(block));
        }
        match self.largest() {
            f32::NEG_INFINITY => Err(bad(0)),
            _ => Ok(()),
        }
    }

    /// Reads logits that are known to be neither NaN nor `+inf`.
    pub(super) fn of_checked(&mut self, logits: &[f32]) {
        self.of_blocks.clear();
        self.of_blocks.extend(logits.chunks(BLOCK).map(largest));
    }

    /// The largest logit.
    pub(super) fn largest(&self) -> f32 {
        largest(&self.of_blocks)
    }

    /// The index of the largest logit, the lowest among equals.
    pub(super) fn index_of_largest(&self, logits: &[f32]) -> usize {
        let largest = self.largest();
        let is_largest = |l: &f32| *l == largest;
        let block = self.of_blocks.iter().position(is_largest).unwrap_or(0);
        let within = logits[block * BLOCK..].iter().position(is_largest);
        block * BLOCK + within.unwrap_or(0)
    }

    /// A logit that at least `k` logits reach, the `k` best among them: the smallest of the `k` largest
    /// of the blocks, each of which is one. `None` where that tells nothing, with `k` 0 or so large that
    /// most blocks would be looked at.
    pub(super) fn reached_by(&mut self, k: usize) -> Option<f32> {
        if k == 0 || k > self.of_blocks.len() / 2 {
            return None;
        }
        self.ranked.clone_from(&self.of_blocks);
        let largest_first = |a: &f32, b: &f32| b.total_cmp(a);
        let (_, &mut least, _) = self.ranked.select_nth_unstable_by(k - 1, largest_first);
        Some(least)
    }

    /// The indices and values of the logits that reach `least`, in order.
    pub(super) fn reaching<'l>(
        &'l self,
        logits: &'l [f32],
        least: f32,
    ) -> impl Iterator<Item = (usize, f32)> + 'l {
        let blocks = self.of_blocks.iter().zip(logits.chunks(BLOCK)).enumerate();
        let blocks = blocks.filter(move |(_, (peak, _))| **peak >= least);
        let logits = blocks.flat_map(|(index, (_, block))| (index * BLOCK..).zip(block));
        let reaching = logits.filter(move |&(_, &logit)| logit >= least);
        reaching.map(|(index, &logit)| (index, logit))
    }
}

/// Neither NaN nor `+inf`.
fn is_below_infinity(logit: f32) -> bool {
    logit < f32::INFINITY
}

/// The largest of some numbers, none of which is NaN; `-inf` of none.
fn largest(numbers: &[f32]) -> f32 {
    // In the order in which one instruction does it: the second is the result where they are equal.
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    let (lanes, rest) = numbers.as_chunks::<LANES>();
    let mut largest = [f32::NEG_INFINITY; LANES];
    for lane in lanes {
        largest = std::array::from_fn(|i| larger(lane[i], largest[i]));
    }
    let both = largest.iter().chain(rest);
    both.fold(f32::NEG_INFINITY, |a, &b| larger(a, b))
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Peaks, largest};

    fn peaks(logits: &[f32]) -> Peaks {
        let mut peaks = Peaks::default();
        peaks.of(logits).unwrap();
        peaks
    }

    /// Numbers from -500 to 500 in no order, each once in 1001.
    fn shuffled(n: usize) -> Vec<f32> {
        (0..n).map(|i| (i * 373 % 1001) as f32 - 500.0).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing in it is unsafe, and it takes Miri a minute")]
    fn the_largest_is_that_of_a_plain_scan() {
        for n in [1, 2, 15, 16, 17, 255, 256, 257, 1000, 5000] {
            let logits = shuffled(n);
            let plain = logits.iter().copied().reduce(f32::max);
            assert_eq!(Some(largest(&logits)), plain);
            let first = logits.iter().position(|&l| Some(l) == plain);
            assert_eq!(Some(peaks(&logits).index_of_largest(&logits)), first);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing in it is unsafe, and it takes Miri a minute")]
    fn what_reaches_the_bound_holds_the_best() {
        let logits = shuffled(10 * BLOCK + 3);
        let mut best: Vec<usize> = (0..logits.len()).collect();
        best.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
        let mut peaks = peaks(&logits);
        for k in 1..=5 {
            let least = peaks.reached_by(k).unwrap();
            let reaching: Vec<_> = peaks.reaching(&logits, least).collect();
            let plain = logits.iter().copied().enumerate();
            assert_eq!(
                reaching,
                plain.filter(|&(_, l)| l >= least).collect::<Vec<_>>()
            );
            assert!(best[..k].iter().all(|&i| logits[i] >= least));
        }
        assert_eq!(peaks.reached_by(0), None);
        assert_eq!(peaks.reached_by(6), None);
    }
}
