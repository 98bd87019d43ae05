//! Ticks as nanoseconds, while the rate of the ticks is still being measured.

use crate::clock;

/// From this tick on, at this rate.
#[derive(Clone, Copy, Debug)]
struct Knot {
    tick: u64,
    ns: u64,
    ns_per_tick: f64,
}

/// Nanoseconds since a recording's start, of any tick.
///
/// The longer the clock runs the better its rate is known, but what was once told stays: a better
/// rate counts from its tick on. It is looked at whenever the recording is twice as old, so its error
/// (some 50 ns over the age) never makes more of a difference than that.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    /// By their ticks; the first is the start.
    knots: Vec<Knot>,
}

impl Scale {
    /// From the tick `start`, at the rate that is known now.
    pub(super) fn from(start: u64) -> Scale {
        Scale {
            knots: vec![Knot {
                tick: start,
                ns: 0,
                ns_per_tick: clock::ns_per_tick(),
            }],
        }
    }

    /// From the tick `now` on, after which nothing was asked yet, at the rate that is known now.
    pub(crate) fn refine(&mut self, now: u64) {
        let (start, last) = (self.knots[0].tick, self.knots[self.knots.len() - 1].tick);
        let age = now.saturating_sub(start);
        if age > 0 && age >= 2 * last.saturating_sub(start) {
            self.bend(now, clock::ns_per_tick());
        }
    }

    fn bend(&mut self, tick: u64, ns_per_tick: f64) {
        let ns = self.ns(tick);
        self.knots.push(Knot {
            tick,
            ns,
            ns_per_tick,
        });
    }

    /// Of a later tick never less: what is nested in ticks is nested in nanoseconds.
    pub(crate) fn ns(&self, tick: u64) -> u64 {
        let after = self.knots.iter().rev().find(|knot| knot.tick <= tick);
        after.map_or(0, |knot| {
            knot.ns + ((tick - knot.tick) as f64 * knot.ns_per_tick) as u64
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Knot, Scale};

    /// By hand: 100 ticks at 2 ns, then at 3 ns.
    #[test]
    fn what_was_told_stays() {
        let start = Knot {
            tick: 1000,
            ns: 0,
            ns_per_tick: 2.0,
        };
        let mut scale = Scale { knots: vec![start] };
        let told = |scale: &Scale| [0, 1000, 1050, 1100].map(|tick| scale.ns(tick));
        assert_eq!(told(&scale), [0, 0, 100, 200]);
        scale.bend(1100, 3.0);
        assert_eq!(told(&scale), [0, 0, 100, 200]);
        assert_eq!(scale.ns(1110), 230);
    }

    /// At ages 1, 2, 4, … of whatever the first was: 2^20 looks add 21 knots.
    #[test]
    fn it_is_refined_as_often_as_it_grows_twice_as_old() {
        let mut scale = Scale::from(7);
        for look in 0..=(1 << 12) {
            scale.refine(7 + look);
        }
        assert_eq!(scale.knots.len(), 1 + 13);
        let ticks: Vec<u64> = scale.knots.iter().map(|knot| knot.tick - 7).collect();
        assert_eq!(ticks[..5], [0, 1, 2, 4, 8]);
    }
}
