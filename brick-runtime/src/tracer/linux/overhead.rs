//! What observing took of a thread's time, piece by piece.
//!
//! Two pieces make an observed call: from its beginning to its end, and from the end of one to the
//! beginning of the next. In each lies what observing added. Under ptrace that is a stop, of a
//! length that no calibration tells: on a virtual machine of two processors 2 µs with the helper on
//! the thread's own one, 60 where one that sleeps has to be woken through the hypervisor, and the
//! scheduler changes its mind while the program runs. So what the scheduler counted of the thread at
//! each stop goes first: one that left its processor for stops only has neither slept nor been
//! preempted, so whenever it did not run it was stopped, or waited for a processor because of that.
//! What a stop takes on the processor is calibrated. A piece with a break in it is given what stops
//! lately took at least; and where nothing is counted, all is calibrated. It is never more than the
//! piece.

/// What the scheduler counted of a thread (`/proc/PID/task/TID/schedstat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ran {
    /// Nanoseconds on a processor.
    pub(super) ns: u64,
    /// Nanoseconds ready to run, but without a processor.
    pub(super) waited_ns: u64,
    /// How often it left its processor, but for its stops; counted from anywhere.
    pub(super) breaks: u64,
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
    fn until(self, end: Moment) -> u64 {
        end.at.saturating_sub(self.at)
    }

    /// Where the time until `end` went, if there was no break.
    fn unbroken(self, end: Moment) -> Option<Unbroken> {
        let (before, after) = (self.ran?, end.ran?);
        if after.breaks != before.breaks {
            return None;
        }
        let ran = after.ns.saturating_sub(before.ns);
        let off = self.until(end).saturating_sub(ran);
        let waited = after.waited_ns.saturating_sub(before.waited_ns).min(off);
        Some(Unbroken {
            ran,
            waited,
            stopped: off - waited,
        })
    }
}

/// A piece without a break, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Unbroken {
    ran: u64,
    /// For a processor, after a stop.
    waited: u64,
    stopped: u64,
}

/// Nanoseconds that observing added to a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Added {
    pub(super) ns: u64,
    /// Of those, what was not measured.
    pub(super) guessed: u64,
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
        self.whole.push(begin.until(end).saturating_sub(plain));
        if let Some(piece) = begin.unbroken(end) {
            let running = piece.ran.saturating_sub(plain);
            self.running.push(running);
            self.remember(piece.stopped + running);
        }
    }

    /// Nanoseconds that observing adds by the calibration; `None` if there was none.
    pub(super) fn calibrated(&mut self) -> Option<u64> {
        Some(self.typical()?.whole)
    }

    /// What observing added to a piece.
    pub(super) fn of(&mut self, begin: Moment, end: Moment) -> Added {
        let piece = begin.unbroken(end);
        let running = self.typical().and_then(|typical| typical.running);
        let (Some(piece), Some(running)) = (piece, running) else {
            let ns = self.least().min(begin.until(end));
            return Added { ns, guessed: ns };
        };
        // What a hypervisor takes from a thread that runs for long is counted as neither: it must not
        // pass for a long stop.
        let stopped = match piece.ran > piece.stopped {
            true => piece.stopped.min(self.recent().max().unwrap_or(u64::MAX)),
            false => piece.stopped,
        };
        // A thread that is seen to have stopped may still run for a moment: `ran` may be over the piece.
        let guessed = running.min(piece.ran).min(begin.until(end));
        self.remember(stopped + guessed);
        Added {
            ns: stopped + piece.waited + guessed,
            guessed,
        }
    }

    /// Nanoseconds that observing adds at least, as far as is known: some stops are longer because
    /// the helper has to wait for a processor.
    pub(super) fn least(&mut self) -> u64 {
        let calibrated = self.calibrated().unwrap_or(0);
        self.recent().min().unwrap_or(calibrated)
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

    fn recent(&self) -> impl Iterator<Item = u64> {
        self.recent.iter().copied().flatten()
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

    fn moment(at: u64, ns: u64, waited_ns: u64, breaks: u64) -> Moment {
        let ran = Some(Ran {
            ns,
            waited_ns,
            breaks,
        });
        Moment { at, ran }
    }

    fn clock(at: u64) -> Moment {
        Moment { at, ran: None }
    }

    const BEGIN: Moment = Moment {
        at: 0,
        ran: Some(Ran {
            ns: 0,
            waited_ns: 0,
            breaks: 0,
        }),
    };

    /// By hand: a call of 200 ns is seen as 4200, of which the thread ran 2200: observing adds 4 µs,
    /// half of it on the processor.
    fn calibrated() -> Overhead {
        let mut overhead = Overhead::default();
        for _ in 0..3 {
            overhead.calibrate(BEGIN, moment(4_200, 2_200, 0, 0), 200);
        }
        overhead
    }

    #[test]
    fn time_off_the_processor_is_the_stop() {
        let mut overhead = calibrated();
        assert_eq!(overhead.calibrated(), Some(4_000));
        let added = |ns, guessed| Added { ns, guessed };
        // Seen as 90 µs, of which it ran 12 and waited 5: 10 of those 12 are its own.
        let end = moment(90_000, 12_000, 5_000, 0);
        assert_eq!(overhead.of(BEGIN, end), added(80_000, 2_000));
        // It ran less than observing does: there is no time of its own.
        let end = moment(90_000, 1_900, 0, 0);
        assert_eq!(overhead.of(BEGIN, end), added(90_000, 1_900));
    }

    #[test]
    fn a_break_is_not_the_stop() {
        let broken = moment(2_000_000, 9_000, 0, 1);
        let mut overhead = calibrated();
        let added = |ns| Added { ns, guessed: ns };
        assert_eq!(overhead.of(BEGIN, broken), added(4_000));
        // The helper has moved away: as far as it was measured, stops are longer now, one by far. How
        // long the thread waited after them is no matter.
        for (took, waited) in [(60, 0), (961, 900), (3_000, 0), (962, 900), (63, 0)] {
            overhead.of(BEGIN, moment(1_000 * took, 2_000, 1_000 * waited, 0));
        }
        assert_eq!(overhead.of(BEGIN, broken), added(60_000));
        // And not longer than all of it.
        assert_eq!(overhead.of(BEGIN, moment(50, 10, 0, 1)), added(50));
    }

    /// It was seen to stop at 1000, and ran until 1500.
    #[test]
    fn never_more_than_the_piece() {
        let added = calibrated().of(BEGIN, moment(1_000, 1_500, 0, 0));
        assert_eq!((added.ns, added.guessed), (1_000, 1_000));
    }

    /// 20 ms on the processor, 0.1 waiting for it, and 3 that nobody has counted: no stop lately took
    /// more than 4 µs.
    #[test]
    fn stolen_time_is_not_the_stop() {
        let mut overhead = calibrated();
        let added = overhead.of(BEGIN, moment(23_100_000, 20_000_000, 100_000, 0));
        assert_eq!((added.ns, added.guessed), (104_000 + 2_000, 2_000));
    }

    #[test]
    fn without_a_scheduler_that_counts_all_is_calibrated() {
        let mut overhead = Overhead::default();
        assert_eq!(overhead.calibrated(), None);
        assert_eq!(overhead.of(clock(0), clock(70)).ns, 0);
        let mut overhead = Overhead::default();
        for seen in [900_000, 7_200, 7_300] {
            overhead.calibrate(clock(0), clock(seen), 200);
        }
        assert_eq!(overhead.of(clock(0), clock(10_000)).ns, 7_100);
        assert_eq!(overhead.of(clock(0), clock(70)).ns, 70);
    }
}
