//! What a log entry is.
//!
//! A call's `meta` is its brick's index and the state that the brick was in when the call began:
//! `index | state << 11`. The hot path puts that together from what it has in hand, and
//! pays nothing to tell a recursive call from others. A call that made others has
//! [`CHILDREN`] set, and their ticks in its *detail*. Every other entry has the meta
//! [`OTHER`], and says in its detail what it is of.

use super::ledger::MAX_BRICKS;

/// What a slab knows of a brick when a call begins.
pub(crate) mod state {
    /// No slot yet, or no such brick: the cold path looks further.
    pub(crate) const ABSENT: u8 = 0;
    /// No call of it is open on this thread.
    pub(crate) const IDLE: u8 = 1;
    /// A call of it is open on this thread.
    pub(crate) const OPEN: u8 = 2;
}

const STATE_SHIFT: u32 = MAX_BRICKS.ilog2();

/// The entry's detail are the ticks of the calls that this call made.
pub(crate) const CHILDREN: u16 = 1 << (STATE_SHIFT + 2);

/// The meta of entries that are no calls.
pub(crate) const OTHER: u16 = 0;

/// The meta of a call of the brick `index`, whose state was `opened` when it began.
#[inline(always)]
pub(crate) const fn call(index: u16, opened: u8) -> u16 {
    index | (opened as u16) << STATE_SHIFT
}

/// The brick's index in a call's meta.
#[inline(always)]
pub(crate) const fn index(meta: u16) -> u16 {
    meta & (MAX_BRICKS as u16 - 1)
}

/// The brick's state when the call began.
#[inline(always)]
pub(crate) const fn opened(meta: u16) -> u8 {
    (meta >> STATE_SHIFT) as u8 & 0b11
}

/// An outermost call that made no others.
#[inline(always)]
pub(crate) const fn is_plain(meta: u16) -> bool {
    meta >> STATE_SHIFT == state::IDLE as u16
}

/// What an entry that is no call is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The call that is logged before this ended by a panic.
    Panic,
    /// The call that is logged before this took longer than the budget it computed.
    Over,
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
    /// Ticks of the calls that a poll made.
    PollChildren,
    /// Busy ticks of an async call, summed over its polls.
    AsyncCall,
    /// The same of one that began inside another call of its brick.
    InnerAsyncCall,
    /// Ticks from an async call's first poll to its end.
    Latency,
    /// An async call that was dropped before its end.
    Cancelled,
    /// Ticks that folding the log took.
    Fold,
    /// From here on the thread is in another layer: its code.
    Layer,
}

impl Kind {
    const ALL: [Kind; 16] = [
        Kind::Panic,
        Kind::Over,
        Kind::Flops,
        Kind::Bytes,
        Kind::Tokens,
        Kind::Elements,
        Kind::Budget,
        Kind::Check,
        Kind::Poll,
        Kind::PollChildren,
        Kind::AsyncCall,
        Kind::InnerAsyncCall,
        Kind::Latency,
        Kind::Cancelled,
        Kind::Fold,
        Kind::Layer,
    ];

    /// The detail of an entry of this kind, of the brick `index`; never 0.
    #[inline(always)]
    pub(crate) const fn of(self, index: u16) -> u64 {
        index as u64 | (self as u64 + 1) << 16
    }
}

/// Kind and index in a detail.
pub(crate) fn detail(detail: u64) -> (Kind, u16) {
    let kind = (detail >> 16).wrapping_sub(1) as usize;
    (Kind::ALL[kind % Kind::ALL.len()], detail as u16)
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
        for state in [state::IDLE, state::OPEN] {
            for i in [1, MAX_BRICKS as u16 / 2 + 1, MAX_BRICKS as u16 - 1] {
                for meta in [call(i, state), call(i, state) | CHILDREN] {
                    assert_eq!((index(meta), opened(meta)), (i, state));
                    assert_ne!(meta, OTHER);
                    assert_eq!(is_plain(meta), meta == call(i, state::IDLE));
                }
            }
        }
        for (i, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!((kind as usize, detail(kind.of(2047))), (i, (kind, 2047)));
        }
        assert_eq!(layer(layer_code(31)), Some(31));
        assert_eq!(layer(layer_code(u64::MAX)), Some(u64::MAX - 1));
        assert_eq!(layer(0), None);
    }
}
