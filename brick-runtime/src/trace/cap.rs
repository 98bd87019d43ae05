//! A bound on what a trace may hold.

/// Memory that records may take, and what did not fit.
///
/// ```
/// use brick_runtime::trace::MemoryCap;
/// let mut cap = MemoryCap::new(100);
/// assert!(cap.admit(60));
/// assert!(!cap.admit(60)); // dropped, and counted
/// assert_eq!((cap.used(), cap.dropped()), (60, 1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MemoryCap {
    #[cfg_attr(feature = "serde", serde(rename = "cap_bytes"))]
    bytes: u64,
    #[cfg_attr(feature = "serde", serde(rename = "used_bytes"))]
    used: u64,
    #[cfg_attr(feature = "serde", serde(rename = "dropped_records"))]
    dropped: u64,
}

impl MemoryCap {
    /// Room for `bytes`.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self {
            bytes,
            used: 0,
            dropped: 0,
        }
    }

    /// Whether a record of `bytes` still fits. If so it counts as held, if not as dropped. Once one was
    /// dropped none is taken: a trace ends somewhere, it has no holes.
    pub fn admit(&mut self, bytes: usize) -> bool {
        let left = self.bytes - self.used;
        match u64::try_from(bytes) {
            Ok(bytes) if bytes <= left && self.dropped == 0 => {
                self.used += bytes;
                true
            }
            _ => {
                self.dropped += 1;
                false
            }
        }
    }

    /// The bound in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the records held.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Records that were dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_ends_at_the_cap_and_has_no_holes() {
        let mut cap = MemoryCap::new(10);
        assert_eq!([4, 6, 0].map(|bytes| cap.admit(bytes)), [true; 3]);
        assert_eq!([1, 0, usize::MAX].map(|bytes| cap.admit(bytes)), [false; 3]);
        assert_eq!((cap.bytes(), cap.used(), cap.dropped()), (10, 10, 3));
    }
}
