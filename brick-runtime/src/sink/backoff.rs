//! How long to wait before trying again.

use std::time::Duration;

/// Doubles with each attempt up to a limit, and takes a random part of that: those who were refused
/// together do not come back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// The most.
    pub most: Duration,
}

impl Backoff {
    /// The pause after `failures` failures, at least 1. `random` says where in the upper half of the
    /// range: 0 is its middle, `u32::MAX` its end ("equal jitter" of M. Brooker, "Exponential
    /// Backoff and Jitter", 2015: never so short that it is no pause).
    #[must_use]
    pub fn pause(&self, failures: u32, random: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let range = self.first.saturating_mul(1 << doublings).min(self.most);
        range / 2 + (range / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;
    use std::time::Duration;

    #[test]
    fn it_doubles_to_a_limit_and_jitters_in_the_upper_half() {
        let ms = Duration::from_millis;
        let backoff = Backoff {
            first: ms(100),
            most: ms(500),
        };
        let ranges = [
            (1, 50, 100),
            (2, 100, 200),
            (3, 200, 400),
            (4, 250, 500),
            (99, 250, 500),
        ];
        for (failures, least, most) in ranges {
            assert_eq!(backoff.pause(failures, 0), ms(least));
            assert_eq!(backoff.pause(failures, u32::MAX), ms(most));
            let middle = backoff.pause(failures, u32::MAX / 2);
            assert!(ms(least) < middle && middle < ms(most));
        }
        let forever = Backoff {
            first: Duration::MAX,
            most: Duration::MAX,
        };
        assert_eq!(forever.pause(u32::MAX, 0), Duration::MAX / 2);
    }
}
