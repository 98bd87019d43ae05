//! The two ids of W3C Trace Context: 16 bytes for a trace, 8 for a span, never all zero.

use std::collections::hash_map::RandomState;
use std::fmt::{self, Debug, Display, Formatter};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

/// The id of a trace: everything that one request caused, in whatever process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId([u8; 16]);

/// The id of a span within its trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId([u8; 8]);

impl TraceId {
    /// The id of these bytes; `None` where all are zero, which the specification keeps for "none".
    #[must_use]
    pub fn new(bytes: [u8; 16]) -> Option<TraceId> {
        (bytes != [0; 16]).then_some(TraceId(bytes))
    }

    /// A new one.
    #[must_use]
    pub fn random() -> TraceId {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&random().to_be_bytes());
        bytes[8..].copy_from_slice(&random().to_be_bytes());
        TraceId::new(bytes).unwrap_or_else(TraceId::random)
    }

    /// The bytes, the most significant first.
    #[must_use]
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl SpanId {
    /// The id of these bytes; `None` where all are zero.
    #[must_use]
    pub fn new(bytes: [u8; 8]) -> Option<SpanId> {
        (bytes != [0; 8]).then_some(SpanId(bytes))
    }

    /// A new one.
    #[must_use]
    pub fn random() -> SpanId {
        SpanId::new(random().to_be_bytes()).unwrap_or_else(SpanId::random)
    }

    /// The bytes, the most significant first.
    #[must_use]
    pub fn bytes(self) -> [u8; 8] {
        self.0
    }
}

/// 64 bits that nobody else has: SipHash of a counter under keys that std takes from the system's
/// random numbers, once per thread. The process id is in it, for a forked child has the same keys.
fn random() -> u64 {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    RandomState::new().hash_one((count, std::process::id()))
}

/// Lower-case hexadecimal digits, as many as the id has.
impl Display for TraceId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Lower-case hexadecimal digits, as many as the id has.
impl Display for SpanId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Debug for TraceId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "TraceId({self})")
    }
}

impl Debug for SpanId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "SpanId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn zero_is_no_id() {
        assert_eq!(TraceId::new([0; 16]), None);
        assert_eq!(SpanId::new([0; 8]), None);
        let id = SpanId::new([0, 0, 0, 0, 0, 0, 0, 0xab]).unwrap();
        assert_eq!(id.to_string(), "00000000000000ab");
    }

    /// Distinct on all threads, and each of the 64 bits takes both values about equally often:
    /// of 8192 draws, 4096 ± 6 σ, and σ is √8192 / 2 = 45.
    #[test]
    #[cfg_attr(miri, ignore = "safe arithmetic, and a great deal of it")]
    fn ids_are_distinct_and_their_bits_even() {
        let draw = || (0..2048).map(|_| SpanId::random()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(draw)).collect();
        let ids: Vec<SpanId> = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 8192);
        for bit in 0..64 {
            let set = |id: &&SpanId| u64::from_be_bytes(id.bytes()) >> bit & 1 == 1;
            let ones = ids.iter().filter(set).count();
            assert!(ones.abs_diff(4096) < 272, "bit {bit}: {ones}");
        }
    }
}
