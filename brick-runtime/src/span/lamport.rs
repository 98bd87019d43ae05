//! Order without clocks that agree.

use std::sync::atomic::{AtomicU64, Ordering};

/// A logical clock: what happened before has the smaller number, on whatever machine.
///
/// L. Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System", CACM 21(7), 1978.
/// Two events with different numbers need not have to do with each other.
#[derive(Debug, Default)]
pub struct LamportClock(AtomicU64);

impl LamportClock {
    /// A clock at 0.
    #[must_use]
    pub const fn new() -> LamportClock {
        LamportClock(AtomicU64::new(0))
    }

    /// Something happened here, such as a message that is being sent: its number, from 1.
    pub fn tick(&self) -> u64 {
        self.advance(|now| now)
    }

    /// A message came that was sent at `remote`: the number of its arrival, larger than that and
    /// than every number given here before.
    pub fn receive(&self, remote: u64) -> u64 {
        self.advance(|now| now.max(remote))
    }

    /// The last number given; 0 if none was.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// At `u64::MAX` it stands still instead of starting again: equal says "unordered", smaller
    /// would say "before".
    fn advance(&self, from: impl Fn(u64) -> u64) -> u64 {
        let next = |now| from(now).saturating_add(1);
        let before = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| Some(next(now)));
        // The closure never returns `None`, so both arms hold the value before.
        next(before.unwrap_or_else(|now| now))
    }
}

#[cfg(test)]
mod tests {
    use super::LamportClock;

    /// The rules of the paper: IR1 (tick), IR2 (receive).
    #[test]
    fn what_caused_it_comes_before_it() {
        let (here, there) = (LamportClock::new(), LamportClock::new());
        assert_eq!((here.tick(), here.tick(), there.tick()), (1, 2, 1));
        let sent = here.tick();
        assert_eq!((sent, there.receive(sent), there.now()), (3, 4, 4));
        // An old message does not set the clock back.
        assert_eq!(there.receive(1), 5);
        assert_eq!(here.now(), 3);
    }

    #[test]
    fn a_hostile_number_does_not_wrap() {
        let clock = LamportClock::new();
        assert_eq!(clock.receive(u64::MAX), u64::MAX);
        assert_eq!(clock.tick(), u64::MAX);
    }

    #[test]
    fn no_number_is_given_twice() {
        let clock = LamportClock::new();
        let mut numbers: Vec<u64> = std::thread::scope(|scope| {
            let draw = || (0..500).map(|_| clock.tick()).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
            let joined = threads.into_iter().flat_map(|t| t.join().unwrap());
            joined.collect()
        });
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=2000).collect::<Vec<_>>());
    }
}
