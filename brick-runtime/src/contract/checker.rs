//! What walks the numbers of a value.

use super::stats::Moments;
use super::{Check, Rules, TensorStats, scan};

/// Walks the numbers of a value: looks for the first that breaks a rule, or measures them all.
///
/// Made by this crate; a [`Check`] shows it what there is.
#[derive(Debug)]
pub struct Checker<'a> {
    rules: &'a Rules,
    part: Option<&'static str>,
    /// Numbers of this part seen so far.
    seen: usize,
    task: Task,
}

#[derive(Debug)]
enum Task {
    Find(Option<Found>),
    Measure {
        only: Option<&'static str>,
        moments: Moments,
    },
    Collect(Vec<f64>),
}

/// The first number that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) part: Option<&'static str>,
    pub(crate) index: usize,
    pub(crate) value: f64,
}

impl<'a> Checker<'a> {
    /// Looks for the first number that breaks one of `rules`.
    #[inline]
    pub(crate) fn find(rules: &'a Rules) -> Checker<'a> {
        Checker {
            rules,
            part: None,
            seen: 0,
            task: Task::Find(None),
        }
    }

    /// Measures all numbers of one part.
    pub(crate) fn measure(rules: &'a Rules, only: Option<&'static str>) -> Checker<'a> {
        Checker {
            rules,
            part: None,
            seen: 0,
            task: Task::Measure {
                only,
                moments: Moments::NONE,
            },
        }
    }

    /// All numbers of a value, in order.
    pub(crate) fn collect<T: Check + ?Sized>(value: &T) -> Vec<f64> {
        let rules = const { &Rules::FINITE };
        let mut checker = Checker {
            rules,
            part: None,
            seen: 0,
            task: Task::Collect(Vec::new()),
        };
        value.check(&mut checker);
        match checker.task {
            Task::Collect(numbers) => numbers,
            Task::Find(_) | Task::Measure { .. } => Vec::new(),
        }
    }

    /// What was found.
    #[inline]
    pub(crate) fn found(&self) -> Option<Found> {
        match self.task {
            Task::Find(found) => found,
            Task::Measure { .. } | Task::Collect(_) => None,
        }
    }

    /// What was measured.
    pub(crate) fn into_stats(self) -> TensorStats {
        match self.task {
            Task::Find(_) | Task::Collect(_) => Moments::NONE.stats(),
            Task::Measure { moments, .. } => moments.stats(),
        }
    }

    /// Shows some numbers, in order.
    #[inline]
    pub fn numbers<T: Number>(&mut self, values: &[T]) {
        match &mut self.task {
            Task::Find(Some(_)) => {}
            Task::Find(found) => {
                if let Some(i) = T::first_bad(values, self.rules) {
                    let value = values[i].to_f64();
                    *found = Some(Found {
                        part: self.part,
                        index: self.seen + i,
                        value,
                    });
                }
            }
            Task::Measure { only, moments } => {
                if *only == self.part {
                    T::measure(values, moments);
                }
            }
            Task::Collect(numbers) => numbers.extend(values.iter().map(|value| value.to_f64())),
        }
        self.seen += values.len();
    }

    /// Shows a part of the value under its own name; its numbers are counted from 0.
    pub fn part<T: Check + ?Sized>(&mut self, name: &'static str, value: &T) {
        let outside = (self.part.replace(name), std::mem::take(&mut self.seen));
        value.check(self);
        (self.part, self.seen) = outside;
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A number that a [`Checker`] can look at: `f32`, `f64`, and with the feature `half` `f16` and
/// `bf16`. Whole numbers are never NaN or infinite: there is nothing to check.
pub trait Number: Copy + sealed::Sealed {
    #[doc(hidden)]
    fn first_bad(values: &[Self], rules: &Rules) -> Option<usize>;
    #[doc(hidden)]
    fn measure(values: &[Self], moments: &mut Moments);
    #[doc(hidden)]
    fn to_f64(self) -> f64;
}

macro_rules! number {
    ($t:ty, $measure:ident) => {
        impl sealed::Sealed for $t {}
        impl Number for $t {
            fn first_bad(values: &[$t], rules: &Rules) -> Option<usize> {
                scan::first_bad(values, rules)
            }
            fn measure(values: &[$t], moments: &mut Moments) {
                moments.$measure(values);
            }
            #[inline]
            fn to_f64(self) -> f64 {
                self.into()
            }
        }
    };
}
number!(f32, add_f32s);
number!(f64, add_each);
#[cfg(feature = "half")]
number!(half::f16, add_each);
#[cfg(feature = "half")]
number!(half::bf16, add_each);
