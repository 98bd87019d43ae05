//! What a log entry is.
//!
//! A slab keeps a word per brick, its *state*: 0 if it has no slot for the brick, else the
//! brick's index, with flags that say so and whether a call of it is open. A call takes the state
//! it found for its entry's `meta`, puts the state with [`OPEN`] in its place, and puts
//! it back at the end: nothing is put together on the hot path, and telling a recursive
//! call from others costs nothing. A call that made others has [`CHILDREN`] set in its meta,
//! and their ticks in its *detail*. Every other entry has the meta [`OTHER`], and says in its
//! detail what it is of.

use super::ledger::MAX_BRICKS;

const SHIFT: u32 = MAX_BRICKS.ilog2();

/// The slab has no slot for the brick yet, or there is no such brick: the cold path looks further.
pub(crate) const ABSENT: u16 = 0;
/// The slab has a slot for the brick.
const PRESENT: u16 = 1 << SHIFT;
/// A call of the brick is open on this thread.
const OPEN: u16 = 1 << (SHIFT + 1);
/// The entry's detail are the ticks of the calls that this call made.
pub(crate) const CHILDREN: u16 = 1 << (SHIFT + 2);

/// The meta of entries that are no calls.
pub(crate) const OTHER: u16 = 0;

/// The state of the brick `index` that has a slot and no open call.
pub(crate) const fn idle(index: u16) -> u16 {
    index | PRESENT
}

/// A state, with a call open.
#[inline(always)]
pub(crate) const fn open(state: u16) -> u16 {
    state | OPEN
}

/// A state, with no call open.
pub(crate) const fn close(state: u16) -> u16 {
    state & !OPEN
}

/// A call was open: the one of this meta is recursive. Of a state: a call is open.
#[inline(always)]
pub(crate) const fn is_open(meta: u16) -> bool {
    meta & OPEN != 0
}

/// An outermost call that made no others.
#[inline(always)]
pub(crate) const fn is_plain(meta: u16) -> bool {
    meta >> SHIFT == PRESENT >> SHIFT
}

/// The brick's index in a call's meta.
#[inline(always)]
pub(crate) const fn index(meta: u16) -> u16 {
    meta & (MAX_BRICKS as u16 - 1)
}

/// What an entry that is no call is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// One call that took longer than its budget.
    Over,
    /// One call that ended by a panic.
    Panic,
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
    /// Ticks that threads shared a call's work, summed over the threads.
    Shared,
    /// Those of them that a thread waited for others.
    Waited,
    /// One async call that was dropped before its end.
    Cancelled,
    /// One async call that began inside another call of its brick, and ended.
    InnerAsyncCall,
    /// Ticks spent in checks of a call's results.
    Check,
    /// Ticks of one poll of an async call.
    Poll,
    /// Ticks of the calls that a poll made.
    PollChildren,
    /// Busy ticks of an async call, summed over its polls.
    AsyncCall,
    /// Ticks from an async call's first poll to its end.
    Latency,
    /// Ticks that folding the log took.
    Fold,
    /// From here on the thread is in another layer: its code.
    Layer,
}

/// Kinds up to here are summed and nothing else: see `Slot::sums`.
pub(crate) const SUMMED: usize = Kind::InnerAsyncCall as usize + 1;

impl Kind {
    const ALL: [Kind; 18] = [
        Kind::Over,
        Kind::Panic,
        Kind::Flops,
        Kind::Bytes,
        Kind::Tokens,
        Kind::Elements,
        Kind::Budget,
        Kind::Shared,
        Kind::Waited,
        Kind::Cancelled,
        Kind::InnerAsyncCall,
        Kind::Check,
        Kind::Poll,
        Kind::PollChildren,
        Kind::AsyncCall,
        Kind::Latency,
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
        for i in [1, 7, MAX_BRICKS as u16 - 1] {
            let state = idle(i);
            for meta in [state, open(state), state | CHILDREN, open(state) | CHILDREN] {
                assert_eq!(index(meta), i);
                assert_ne!(meta, OTHER);
                assert_eq!(is_plain(meta), meta == state);
            }
            assert!(is_open(open(state)) && !is_open(state));
            assert_eq!(
                (close(open(state)), close(state), close(ABSENT)),
                (state, state, ABSENT)
            );
        }
        for (i, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!((kind as usize, detail(kind.of(2047))), (i, (kind, 2047)));
        }
        assert_eq!(layer(layer_code(31)), Some(31));
        assert_eq!(layer(layer_code(u64::MAX)), Some(u64::MAX - 1));
        assert_eq!(layer(0), None);
    }
}
