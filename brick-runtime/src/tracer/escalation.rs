//! How often: a bucket of tokens, one per escalated call.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A bucket that holds one token and is refilled at a steady rate: no second holds more
/// escalated calls than the rate says, however many bricks are in trouble.
#[derive(Debug)]
pub(super) struct TokenBucket {
    /// Time between two tokens; `None` where there is never one.
    every: Option<Duration>,
    /// When the next token is there; `None` for at once.
    next: Mutex<Option<Instant>>,
}

impl TokenBucket {
    pub(super) fn new(per_second: u32) -> TokenBucket {
        TokenBucket {
            every: Duration::from_secs(1).checked_div(per_second),
            next: Mutex::new(None),
        }
    }

    /// Takes a token, if there is one at `now`.
    pub(super) fn take(&self, now: Instant) -> bool {
        let Some(every) = self.every else {
            return false;
        };
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if next.is_some_and(|next| now < next) {
            return false;
        }
        *next = now.checked_add(every);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asked every 100 µs over three seconds: 100 tokens a second, none saved up by a pause.
    #[test]
    fn a_hundred_a_second_and_no_more() {
        let bucket = TokenBucket::new(100);
        let start = Instant::now();
        let taken = |from_ms: u64, to_ms: u64| {
            let asks = (from_ms * 10..to_ms * 10).map(|i| start + Duration::from_micros(100 * i));
            asks.filter(|&at| bucket.take(at)).count()
        };
        assert_eq!(taken(0, 1000), 100);
        assert_eq!(taken(5000, 6000), 100);
        assert_eq!(taken(6000, 6005), 1);
        assert_eq!(taken(6005, 6010), 0);
    }

    #[test]
    fn a_rate_of_zero_is_never() {
        assert!(!TokenBucket::new(0).take(Instant::now()));
    }
}
