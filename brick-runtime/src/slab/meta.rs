//! The second word of a log entry: what its amount is of.
//!
//! ```text
//! 63        48 47    44 43   40 39     24 23        0
//! |  index    | flags  | kind  |  layer  |  depth   |
//! ```
//!
//! The low 40 bits are the thread's *context* as it was when the call began, so that
//! one load and one store at entry, and one store at exit, keep depth and layer right.

/// Nesting depth: brick calls (polls, checks) of this thread that were open.
const DEPTH_BITS: u32 = 24;
const LAYER_SHIFT: u32 = DEPTH_BITS;
const LAYER_MASK: u64 = 0xffff << LAYER_SHIFT;
const KIND_SHIFT: u32 = 40;
const KIND_MASK: u64 = 0xf << KIND_SHIFT;
const INDEX_SHIFT: u32 = 48;

/// One more level of nesting, added to a context.
pub(crate) const DEEPER: u64 = 1;

/// The call began while another call of the same brick was open on this thread.
pub(crate) const RECURSIVE: u64 = 1 << 44;
/// The call ended by a panic.
pub(crate) const PANIC: u64 = 1 << 45;
/// The call took longer than the budget that it had computed for itself.
pub(crate) const OVER: u64 = 1 << 46;
/// The guard must end on the slow path: a device to wait for, or no cycle counter.
pub(crate) const SLOW: u64 = 1 << 47;

/// Anything but a plain outermost call that returned.
pub(crate) const SPECIAL: u64 = KIND_MASK | RECURSIVE | PANIC | OVER;

/// What an entry's amount is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Kind {
    /// Ticks of a call.
    Call = 0,
    /// Floating-point operations declared by a call.
    Flops,
    /// Bytes declared by a call.
    Bytes,
    /// Tokens declared by a call.
    Tokens,
    /// Elements declared by a call.
    Elements,
    /// Ticks of budget that a call computed for itself.
    Budget,
    /// Ticks spent in checks of a call's results.
    Check,
    /// Ticks of one poll of an async call.
    Poll,
    /// Busy ticks of an async call, summed over its polls.
    AsyncCall,
    /// Ticks from an async call's first poll to its end.
    Latency,
    /// Busy ticks of an async call that was dropped before its end.
    Cancelled,
    /// Ticks that folding the log took: the profiler's own, and nobody's self time.
    Fold,
}

impl Kind {
    const ALL: [Kind; 12] = [
        Kind::Call,
        Kind::Flops,
        Kind::Bytes,
        Kind::Tokens,
        Kind::Elements,
        Kind::Budget,
        Kind::Check,
        Kind::Poll,
        Kind::AsyncCall,
        Kind::Latency,
        Kind::Cancelled,
        Kind::Fold,
    ];

    /// This kind's bits of a meta word.
    #[inline(always)]
    pub(crate) const fn bits(self) -> u64 {
        (self as u64) << KIND_SHIFT
    }

    /// The kind in a meta word. A torn read (thrown away later) may hold any bits.
    pub(crate) fn of(meta: u64) -> Kind {
        let kind = (meta & KIND_MASK) >> KIND_SHIFT;
        *Kind::ALL.get(kind as usize).unwrap_or(&Kind::Call)
    }
}

/// The meta word of a call of the brick `index` in `context`.
#[inline(always)]
pub(crate) const fn call(index: u32, context: u64) -> u64 {
    (index as u64) << INDEX_SHIFT | context
}

/// The brick's index.
#[inline(always)]
pub(crate) const fn index(meta: u64) -> usize {
    (meta >> INDEX_SHIFT) as usize
}

/// The nesting depth; 0 has no brick above it.
#[inline(always)]
pub(crate) const fn depth(meta: u64) -> usize {
    (meta & ((1 << DEPTH_BITS) - 1)) as usize
}

/// The layer plus one; 0 is none.
#[inline(always)]
pub(crate) const fn layer_code(meta: u64) -> usize {
    ((meta & LAYER_MASK) >> LAYER_SHIFT) as usize
}

/// The layer, if there is one. Layers from 65 534 on are one.
pub(crate) const fn layer(meta: u64) -> Option<u32> {
    match layer_code(meta) {
        0 => None,
        code => Some(code as u32 - 1),
    }
}

/// `context` with another layer.
#[inline(always)]
pub(crate) const fn with_layer(context: u64, layer: u64) -> u64 {
    let code = if layer > 0xfffe { 0xffff } else { layer + 1 };
    context & !LAYER_MASK | code << LAYER_SHIFT
}

/// `context` with the layer of `other`.
#[inline(always)]
pub(crate) const fn with_layer_of(context: u64, other: u64) -> u64 {
    context & !LAYER_MASK | other & LAYER_MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        let context = with_layer(5 * DEEPER, 31);
        let meta = call(2047, context) | Kind::Cancelled.bits() | RECURSIVE | PANIC | OVER | SLOW;
        assert_eq!(index(meta), 2047);
        assert_eq!(depth(meta), 5);
        assert_eq!(layer(meta), Some(31));
        assert_eq!(Kind::of(meta), Kind::Cancelled);
        assert_eq!(layer(with_layer(context, 7)), Some(7));
        assert_eq!(layer(with_layer(0, u64::MAX)), Some(65_534));
        assert_eq!(layer(call(3, 9)), None);
        assert_eq!(with_layer_of(9, context), with_layer(9, 31));
        for (i, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, i);
            assert_eq!(Kind::of(kind.bits()), kind);
        }
    }
}
