//! Reading forward through untrusted bytes.

use super::GgufError;

/// A position in the file's bytes. Each read names what it reads, so that a file that ends
/// early is told as such.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// Byte offset from the start of the file.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Bytes left in the file.
    pub(super) fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    /// The next `n` bytes.
    #[inline]
    pub(super) fn take(&mut self, n: u64, what: &'static str) -> Result<&'a [u8], GgufError> {
        let rest = &self.bytes[self.at..];
        match usize::try_from(n).ok().and_then(|n| rest.get(..n)) {
            Some(taken) => {
                self.at += taken.len();
                Ok(taken)
            }
            None => Err(self.truncated(n, what)),
        }
    }

    /// Apart, so that the many reads that succeed don't make room for it.
    #[cold]
    fn truncated(&self, need: u64, what: &'static str) -> GgufError {
        GgufError::Truncated {
            what,
            at: self.at as u64,
            need,
            have: self.left(),
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], GgufError> {
        match self.bytes[self.at..].first_chunk() {
            Some(taken) => {
                self.at += N;
                Ok(*taken)
            }
            None => Err(self.truncated(N as u64, what)),
        }
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, GgufError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, GgufError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A string: a `u64` length and that many bytes.
    #[inline]
    pub(super) fn string(&mut self, what: &'static str) -> Result<&'a [u8], GgufError> {
        let len = self.u64(what)?;
        self.take(len, what)
    }

    /// Refuses a count of items that the rest of the file could not hold, so that nothing is
    /// ever allocated, or looped over, on the word of a corrupt count.
    pub(super) fn check_count(
        &self,
        what: impl FnOnce() -> String,
        count: u64,
        min_bytes: u64,
    ) -> Result<(), GgufError> {
        match count.checked_mul(min_bytes) {
            Some(bytes) if bytes <= self.left() => Ok(()),
            _ => Err(GgufError::Count {
                what: what(),
                count,
                min_bytes,
                have: self.left(),
            }),
        }
    }
}
