//! What a log entry is: its brick, kind and flags in one word.
//!
//! ```text
//! 31    26   25      24   23  20 19   18 17      16 15      0
//! |      | over | panic |  kind |       | opened    | index  |
//! ```
//!
//! `opened` is the brick's state when the call began (see `state`): the hot path
//! puts it there as it is, and pays nothing to tell a recursive call from others.

/// What a slab knows of a brick when a call begins.
pub(crate) mod state {
    /// No slot yet, or no such brick: the cold path looks further.
    pub(crate) const ABSENT: u8 = 0;
    /// No call of it is open on this thread.
    pub(crate) const IDLE: u8 = 1;
    /// A call of it is open on this thread.
    pub(crate) const OPEN: u8 = 2;
}

const OPENED_SHIFT: u32 = 16;
const KIND_SHIFT: u32 = 20;
const KIND_MASK: u64 = 0xf << KIND_SHIFT;

/// The call ended by a panic.
pub(crate) const PANIC: u64 = 1 << 24;
/// The call took longer than the budget that it had computed for itself.
pub(crate) const OVER: u64 = 1 << 25;

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
    /// Ticks that folding the log took.
    Fold,
    /// From here on the thread is in another layer: its code.
    Layer,
}

impl Kind {
    const ALL: [Kind; 13] = [
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
        Kind::Layer,
    ];

    /// The kind in a meta word.
    pub(crate) fn of(meta: u64) -> Kind {
        let kind = (meta & KIND_MASK) >> KIND_SHIFT;
        *Kind::ALL.get(kind as usize).unwrap_or(&Kind::Call)
    }
}

/// The meta word of a call of the brick `index`, whose state was `opened` when it began.
#[inline(always)]
pub(crate) const fn call(index: u16, opened: u8) -> u64 {
    index as u64 | (opened as u64) << OPENED_SHIFT
}

/// The meta word of another entry of the brick `index`.
#[inline(always)]
pub(crate) const fn of(kind: Kind, index: u16) -> u64 {
    index as u64 | (kind as u64) << KIND_SHIFT
}

/// The brick's index.
#[inline(always)]
pub(crate) const fn index(meta: u64) -> u16 {
    meta as u16
}

/// Nothing but an outermost call that returned.
#[inline(always)]
pub(crate) const fn is_plain(meta: u64) -> bool {
    meta >> OPENED_SHIFT == state::IDLE as u64
}

/// The call began while another of the same brick was open on the thread.
pub(crate) const fn is_recursive(meta: u64) -> bool {
    opened(meta) & 0b11 == state::OPEN
}

/// The brick's state when the call began, of a word made by [`call`].
#[inline(always)]
pub(crate) const fn opened(call: u64) -> u8 {
    (call >> OPENED_SHIFT) as u8
}

/// A layer's code: 0 is none.
#[inline]
pub(crate) fn layer_code(layer: u64) -> u64 {
    layer.saturating_add(1)
}

/// The layer of a code.
pub(crate) fn layer(code: u64) -> Option<u64> {
    code.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        let plain = call(2047, state::IDLE);
        assert!(is_plain(plain) && !is_recursive(plain));
        assert_eq!((index(plain), Kind::of(plain)), (2047, Kind::Call));
        assert_eq!(opened(plain), state::IDLE);
        let recursive = call(2047, state::OPEN) | PANIC | OVER;
        assert!(is_recursive(recursive) && !is_plain(recursive));
        assert_eq!((index(recursive), Kind::of(recursive)), (2047, Kind::Call));
        assert!(!is_plain(plain | PANIC) && !is_plain(plain | OVER));
        for (i, kind) in Kind::ALL.into_iter().enumerate() {
            let meta = of(kind, 77) | PANIC;
            assert_eq!((kind as usize, Kind::of(meta), index(meta)), (i, kind, 77));
            assert!(!is_plain(of(kind, 77)));
        }
        assert_eq!(layer(layer_code(31)), Some(31));
        assert_eq!(layer(layer_code(u64::MAX)), Some(u64::MAX - 1));
        assert_eq!(layer(0), None);
    }
}
