//! Something to read.

use std::path::Path;

use super::CeilingsError;
use crate::arch::Isa;

/// A part for each thread of the pool, which has written it, so that it is in memory, and near.
#[derive(Debug)]
pub(super) struct Buffer {
    parts: Vec<Vec<u64>>,
}

impl Buffer {
    /// Of `bytes` in all, or a little less: parts are equal, and whole numbers.
    pub(super) fn new(bytes: usize, threads: usize) -> Result<Buffer, CeilingsError> {
        let numbers = bytes / size_of::<u64>() / threads;
        let parts = rayon::broadcast(|context| {
            let mut part = Vec::new();
            part.try_reserve_exact(numbers)
                .map_err(|_| CeilingsError::Memory { bytes })?;
            let first = (context.index() * numbers) as u64;
            part.extend(first..first + numbers as u64);
            Ok(part)
        });
        let parts = parts.into_iter().collect::<Result<_, _>>()?;
        Ok(Buffer { parts })
    }

    pub(super) fn bytes(&self) -> usize {
        (0..self.parts.len()).map(|part| self.bytes_of(part)).sum()
    }

    pub(super) fn bytes_of(&self, part: usize) -> usize {
        size_of_val(self.parts[part].as_slice())
    }

    /// The numbers of one part that are in its piece `piece`, of `pieces` of one size: the numbers that are
    /// left over are in none.
    fn piece(&self, part: usize, (piece, pieces): (usize, usize)) -> &[u64] {
        let part = &self.parts[part];
        let len = part.len() / pieces;
        &part[piece * len..][..len]
    }

    /// Bytes of one piece of all parts.
    pub(super) fn bytes_of_a_piece(&self, pieces: usize) -> usize {
        let bytes = |part| size_of_val(self.piece(part, (0, pieces)));
        (0..self.parts.len()).map(bytes).sum()
    }

    /// The sum of one part, modulo 2^64.
    pub(super) fn sum_of(&self, part: usize) -> u64 {
        Isa::detect().sum_of(&self.parts[part])
    }

    /// The sum of one piece of all parts, on this thread.
    pub(super) fn sum_on_one(&self, piece: (usize, usize)) -> u64 {
        let sum = |part| Isa::detect().sum_of(self.piece(part, piece));
        (0..self.parts.len()).map(sum).fold(0, u64::wrapping_add)
    }

    /// The sum of one piece of all parts, each on the thread that wrote it.
    pub(super) fn sum_on_all(&self, piece: (usize, usize)) -> u64 {
        let sums = rayon::broadcast(|context| {
            let numbers = self.piece(context.index(), piece);
            Isa::detect().sum_of(numbers)
        });
        sums.into_iter().fold(0, u64::wrapping_add)
    }
}

/// Bytes of the largest cache of the first core, where Linux tells it.
pub(super) fn last_level_cache() -> Option<usize> {
    let caches = Path::new("/sys/devices/system/cpu/cpu0/cache").read_dir();
    let sizes = caches.ok()?.flatten().filter_map(|cache| {
        let size = std::fs::read_to_string(cache.path().join("size")).ok()?;
        bytes_in(size.trim())
    });
    sizes.max()
}

/// `"2048K"` is 2 MiB.
fn bytes_in(size: &str) -> Option<usize> {
    let units = [("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)];
    let unit = units.into_iter().find_map(|(letter, unit)| {
        let number = size.strip_suffix(letter)?;
        Some((number, unit))
    });
    let (number, unit) = unit.unwrap_or((size, 1));
    number.parse::<usize>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of 0, 1, …, n − 1 is n (n − 1) / 2: every byte that is counted was read, once.
    #[test]
    #[cfg_attr(miri, ignore = "rayon's deque does what Miri refuses")]
    fn the_bytes_that_are_counted_are_read() {
        for (bytes, threads) in [(0, 1), (8, 1), (1 << 16, 1), (1 << 16, 3), (100_000, 4)] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| {
                let buffer = Buffer::new(bytes, threads).unwrap();
                let n = (buffer.bytes() / 8) as u64;
                assert!(bytes - buffer.bytes() < 8 * threads);
                let sum = n * n.saturating_sub(1) / 2;
                let whole = (0, 1);
                assert_eq!(buffer.bytes_of_a_piece(1), buffer.bytes());
                assert_eq!(buffer.sum_on_one(whole), sum);
                assert_eq!(buffer.sum_on_all(whole), sum);
                assert_eq!(
                    (0..threads).map(|part| buffer.sum_of(part)).sum::<u64>(),
                    sum
                );
                // 2 pieces of a part each: nothing twice, at most one number of each part in none.
                let sums = [0, 1].map(|piece| buffer.sum_on_all((piece, 2)));
                assert_eq!(sums, [0, 1].map(|piece| buffer.sum_on_one((piece, 2))));
                let odd: u64 = match n / threads as u64 % 2 {
                    0 => 0,
                    _ => (1..=threads as u64)
                        .map(|part| n / threads as u64 * part - 1)
                        .sum(),
                };
                assert_eq!(sums[0] + sums[1], sum - odd);
            });
        }
    }

    #[test]
    fn sizes_of_caches() {
        let sizes = ["48K", "2M", "266240K", "512", "", "K", "many"].map(bytes_in);
        let known = [48 << 10, 2 << 20, 260 << 20, 512].map(Some);
        assert_eq!(sizes[..4], known);
        assert_eq!(sizes[4..], [None; 3]);
    }
}
