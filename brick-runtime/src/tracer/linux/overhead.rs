//! What observing took of a thread's time, piece by piece.
//!
//! Two pieces make an observed call: from its beginning to its end, and from the end of one to the
//! beginning of the next. In each lies what observing added. Under ptrace that is a stop, of a
//! length that no calibration tells: 2 µs with the helper on the thread's own processor, 60 where
//! one that sleeps has to be woken through a hypervisor, and the scheduler changes its mind while
//! the program runs. So what the scheduler counted of the thread at each stop goes first: a thread
//! that was given a processor once in a piece has neither slept nor been preempted in it, so all its
//! time off the processor was the stop. The rest is calibrated, and never more than the piece.

/// What the scheduler counted of a thread (`/proc/PID/task/TID/schedstat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ran {
    /// Nanoseconds on a processor.
    pub(super) ns: u64,
    /// How often it was given one.
    pub(super) times: u64,
}

/// One end of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// Nanoseconds of the clock that all moments share.
    pub(super) at: u64,
    /// What the thread had run by then, where that is known: it was stopped.
    pub(super) ran: Option<Ran>,
}

impl Moment {
    /// Nanoseconds on a processor until `end`, if the thread was given one once.
    fn ran_once(self, end: Moment) -> Option<u64> {
        let (before, after) = (self.ran?, end.ran?);
        let once = after.times.checked_sub(before.times) == Some(1);
        once.then(|| after.ns.saturating_sub(before.ns))
    }

    fn until(self, end: Moment) -> u64 {
        end.at.saturating_sub(self.at)
    }
}

/// Of pieces of one kind.
#[derive(Debug, Default)]
pub(super) struct Overhead {
    /// What it added to each piece of the calibration, in all.
    whole: Vec<u64>,
    /// And to the time on the processor, as far as that was known.
    running: Vec<u64>,
    typical: Option<Typical>,
    /// What was added last, as far as that was measured.
    recent: [Option<u64>; 5],
    newest: usize,
}

/// The calibration's medians.
#[derive(Clone, Copy, Debug)]
struct Typical {
    whole: u64,
    running: Option<u64>,
}

impl Overhead {
    /// A piece of which all but `plain` nanoseconds was added.
    pub(super) fn calibrate(&mut self, begin: Moment, end: Moment, plain: u64) {
        let whole = begin.until(end).saturating_sub(plain);
        self.whole.push(whole);
        if let Some(ran) = begin.ran_once(end) {
            self.running.push(ran.saturating_sub(plain));
            self.remember(whole);
        }
    }

    /// Nanoseconds that observing adds by the calibration; `None` if there was none.
    pub(super) fn calibrated(&mut self) -> Option<u64> {
        Some(self.typical()?.whole)
    }

    /// Nanoseconds of a piece that observing added to it.
    pub(super) fn of(&mut self, begin: Moment, end: Moment) -> u64 {
        let Some(typical) = self.typical() else {
            return 0;
        };
        let all = begin.until(end);
        if let (Some(ran), Some(running)) = (begin.ran_once(end), typical.running) {
            let added = all.saturating_sub(ran.saturating_sub(running));
            self.remember(added);
            return added;
        }
        // It slept, or somebody else had the processor, and for how long cannot be told from the stop:
        // that took what stops lately took at least, for some may have waited for a processor.
        let recent = self.recent.iter().copied().flatten().min();
        recent.unwrap_or(typical.whole).min(all)
    }

    fn typical(&mut self) -> Option<Typical> {
        if self.typical.is_none() {
            self.typical = median(&mut self.whole).map(|whole| Typical {
                whole,
                running: median(&mut self.running),
            });
        }
        self.typical
    }

    fn remember(&mut self, added: u64) {
        self.recent[self.newest] = Some(added);
        self.newest = (self.newest + 1) % self.recent.len();
    }
}

fn median(samples: &mut [u64]) -> Option<u64> {
    samples.sort_unstable();
    samples.get(samples.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at: u64, ns: u64, times: u64) -> Moment {
        let ran = Some(Ran { ns, times });
        Moment { at, ran }
    }

    fn clock(at: u64) -> Moment {
        Moment { at, ran: None }
    }

    /// By hand: a call of 200 ns is seen as 4200, of which the thread ran 2200: observing adds 4 µs,
    /// half of it on the processor.
    fn calibrated() -> Overhead {
        let mut overhead = Overhead::default();
        for n in 0..3 {
            overhead.calibrate(moment(0, 0, n), moment(4_200, 2_200, n + 1), 200);
        }
        overhead
    }

    #[test]
    fn time_off_the_processor_is_the_stop() {
        let mut overhead = calibrated();
        assert_eq!(overhead.calibrated(), Some(4_000));
        // Seen as 90 µs, of which it ran 12: those are 10 of its own.
        let added = overhead.of(moment(0, 0, 7), moment(90_000, 12_000, 8));
        assert_eq!(added, 80_000);
        // It ran less than observing does: there is no time of its own.
        let added = overhead.of(moment(0, 0, 7), moment(90_000, 1_900, 8));
        assert_eq!(added, 90_000);
    }

    #[test]
    fn a_sleep_is_not_the_stop() {
        let slept = [moment(0, 0, 7), moment(2_000_000, 9_000, 9)];
        let mut overhead = calibrated();
        assert_eq!(overhead.of(slept[0], slept[1]), 4_000);
        // The helper has moved away: as far as it was measured, stops are longer now, one by far.
        for took in [60_000, 61_000, 3_000_000, 62_000, 63_000] {
            overhead.of(moment(0, 0, 1), moment(took, 2_000, 2));
        }
        assert_eq!(overhead.of(slept[0], slept[1]), 60_000);
        // And not longer than all of it.
        assert_eq!(overhead.of(moment(0, 0, 7), moment(50, 10, 9)), 50);
    }

    #[test]
    fn without_a_scheduler_that_counts_all_is_calibrated() {
        let mut overhead = Overhead::default();
        assert_eq!(overhead.calibrated(), None);
        assert_eq!(overhead.of(clock(0), clock(70)), 0);
        let mut overhead = Overhead::default();
        for seen in [900_000, 7_200, 7_300] {
            overhead.calibrate(clock(0), clock(seen), 200);
        }
        assert_eq!(overhead.of(clock(0), clock(10_000)), 7_100);
        assert_eq!(overhead.of(clock(0), clock(70)), 70);
    }
}
