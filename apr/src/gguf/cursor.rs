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
    pub(super) fn take(&mut self, n: u64, what: &'static str) -> Result<&'a [u8], GgufError> {
        let truncated = GgufError::Truncated {
            what,
            at: self.at as u64,
            need: n,
            have: self.left(),
        };
        let Ok(n) = usize::try_from(n) else {
            return Err(truncated);
        };
        match self.bytes[self.at..].get(..n) {
            Some(taken) => {
                self.at += n;
                Ok(taken)
            }
            None => Err(truncated),
        }
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], GgufError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64, what)?);
        Ok(out)
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, GgufError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, GgufError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A string: a `u64` length and that many bytes.
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
