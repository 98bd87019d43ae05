//! Into which ranges work is split.

use std::ops::Range;

/// Part `index` of `n_parts` of `0..n`: consecutive ranges that differ by one at most, longer ones
/// first (oneDNN's `balance211`).
pub(super) fn balance211(n: usize, n_parts: usize, index: usize) -> Range<usize> {
    let (each, longer) = (n / n_parts, n % n_parts);
    let start = index * each + index.min(longer);
    start..start + each + usize::from(index < longer)
}

/// `0..n` in `n_parts` consecutive ranges, all but the last of which end at a multiple of `multiple`; fewer
/// where there are not as many multiples.
pub(crate) fn ranges(
    n: usize,
    multiple: usize,
    n_parts: usize,
) -> impl ExactSizeIterator<Item = Range<usize>> + Clone {
    let units = n.div_ceil(multiple);
    let n_parts = n_parts.min(units);
    (0..n_parts).map(move |index| {
        let units = balance211(units, n_parts, index);
        units.start * multiple..n.min(units.end * multiple)
    })
}

/// `slice` cut into pieces as long as `lengths`, which together are as long as it.
pub(crate) fn cut<T>(
    mut slice: &mut [T],
    lengths: impl Iterator<Item = usize>,
) -> impl Iterator<Item = &mut [T]> {
    lengths.map(move |length| {
        let (piece, rest) = std::mem::take(&mut slice).split_at_mut(length);
        slice = rest;
        piece
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By hand: ten in four parts are 3, 3, 2, 2.
    #[test]
    fn the_first_parts_are_the_longer_ones() {
        let parts: Vec<_> = (0..4).map(|i| balance211(10, 4, i)).collect();
        assert_eq!(parts, [0..3, 3..6, 6..8, 8..10]);
        assert_eq!(balance211(2, 3, 2), 2..2);
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "minutes, and nothing here is unsafe")]
        fn ranges_cover_everything_once_and_in_order(
            n in 0..10_000_usize,
            multiple in 1..70_usize,
            n_parts in 1..40_usize,
        ) {
            let ranges: Vec<_> = ranges(n, multiple, n_parts).collect();
            let mut end = 0;
            for range in &ranges {
                prop_assert_eq!(range.start, end);
                prop_assert!(range.end > range.start);
                prop_assert!(range.end == n || range.end.is_multiple_of(multiple));
                end = range.end;
            }
            prop_assert_eq!(end, n);
            prop_assert!(ranges.len() <= n_parts);
            let units = |range: &Range<usize>| range.len().div_ceil(multiple);
            let longest = ranges.iter().map(units).max().unwrap_or(0);
            let shortest = ranges.iter().map(units).min().unwrap_or(0);
            prop_assert!(longest - shortest <= 1);

            let mut slice: Vec<usize> = (0..n).collect();
            let pieces = cut(&mut slice, ranges.iter().map(ExactSizeIterator::len));
            for (piece, range) in pieces.zip(&ranges) {
                prop_assert!(piece.iter().copied().eq(range.clone()));
            }
        }
    }
}
