//! Not asking for a while somebody who does not answer.

use std::time::{Duration, Instant};

/// Whether calls are let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// All are.
    Closed,
    /// None is.
    Open {
        /// Until then.
        until: Instant,
    },
    /// One was, to see whether it is answered; the others wait for its outcome.
    HalfOpen,
}

/// Opens after so many failures in a row; after a pause lets one call through, the probe, and closes
/// or opens again by its outcome. M. Nygard, "Release It!", 2007.
#[derive(Clone, Debug)]
pub struct CircuitBreaker {
    state: BreakerState,
    failures: u32,
    threshold: u32,
    pause: Duration,
    opened: u64,
}

impl CircuitBreaker {
    /// Closed. `threshold` failures in a row, at least 1, open it for `pause`.
    #[must_use]
    pub fn new(threshold: u32, pause: Duration) -> CircuitBreaker {
        CircuitBreaker {
            state: BreakerState::Closed,
            failures: 0,
            threshold: threshold.max(1),
            pause,
            opened: 0,
        }
    }

    /// Whether a call may be made at `now`. A caller that is told so makes it, and reports its outcome:
    /// this may have been the probe.
    pub fn allow(&mut self, now: Instant) -> bool {
        match self.state {
            BreakerState::Closed => true,
            BreakerState::Open { until } if now >= until => {
                self.state = BreakerState::HalfOpen;
                true
            }
            BreakerState::Open { .. } | BreakerState::HalfOpen => false,
        }
    }

    /// A call was answered, well or not: somebody is there.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.state = BreakerState::Closed;
    }

    /// A call was not answered.
    pub fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        let probe = self.state == BreakerState::HalfOpen;
        if probe || (self.state == BreakerState::Closed && self.failures >= self.threshold) {
            self.opened += 1;
            self.state = BreakerState::Open {
                until: now + self.pause,
            };
        }
    }

    /// What it is now.
    #[must_use]
    pub fn state(&self) -> BreakerState {
        self.state
    }

    /// How often it opened.
    #[must_use]
    pub fn opened(&self) -> u64 {
        self.opened
    }
}

#[cfg(test)]
mod tests {
    use super::{BreakerState, CircuitBreaker};
    use std::time::{Duration, Instant};

    #[test]
    fn it_opens_pauses_probes_and_closes() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let mut breaker = CircuitBreaker::new(3, Duration::from_secs(10));
        // A success in between: not in a row.
        for answered in [false, false, true, false, false] {
            assert!(breaker.allow(at(0)));
            if answered {
                breaker.succeeded()
            } else {
                breaker.failed(at(0))
            }
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
        breaker.failed(at(1));
        assert_eq!(breaker.state(), BreakerState::Open { until: at(11) });
        assert!(!breaker.allow(at(10)));
        // One probe, and only one.
        assert!(breaker.allow(at(11)));
        assert!(!breaker.allow(at(99)));
        breaker.failed(at(12));
        assert!(!breaker.allow(at(21)));
        assert!(breaker.allow(at(22)));
        breaker.succeeded();
        assert!(breaker.allow(at(22)) && breaker.allow(at(22)));
        assert_eq!(breaker.opened(), 2);
    }

    /// An answer that comes after it opened belongs to a call from before, and does not prolong it.
    #[test]
    fn late_failures_do_not_prolong() {
        let now = Instant::now();
        let mut breaker = CircuitBreaker::new(1, Duration::from_secs(10));
        breaker.failed(now);
        breaker.failed(now + Duration::from_secs(9));
        assert!(breaker.allow(now + Duration::from_secs(10)));
        assert_eq!(breaker.opened(), 1);
    }
}
