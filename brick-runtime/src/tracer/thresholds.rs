//! When a brick is looked at more closely, and why.

use std::fmt;
use std::time::Duration;

/// What makes a brick's next call an escalated one.
///
/// The defaults are those of the literature: a coefficient of variation above 15 % is an unstable
/// measurement (Curtsinger and Berger, "Stabilizer", ASPLOS 2013), and traces are sampled at a
/// bounded rate (Sigelman et al., "Dapper", 2010).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EscalationThresholds {
    /// Coefficient of variation above which timing is unstable: 0.15 is 15 %.
    pub cv: f64,
    /// Efficiency (budget over actual time) below which a brick is too slow: 0.25 is 25 %.
    pub efficiency: f64,
    /// Escalated calls per second at most; 0 is none.
    pub max_per_second: u32,
    /// Timed calls since the last verdict that it takes for the next.
    ///
    /// The relative standard error of a CV over `n` calls is about 1 / √(2 n): 13 % at the default
    /// of 30, so that 15 % is told from 20 %. Fewer, and the first calls, which touch their memory
    /// for the first time, would decide.
    pub min_calls: u64,
    /// Time between two looks at the statistics: a look takes some tens of microseconds.
    pub look_every: Duration,
}

impl Default for EscalationThresholds {
    fn default() -> Self {
        EscalationThresholds {
            cv: 0.15,
            efficiency: 0.25,
            max_per_second: 100,
            min_calls: 30,
            look_every: Duration::from_millis(100),
        }
    }
}

impl EscalationThresholds {
    /// Which thresholds these figures are past; `None` if they are within, or not known (NaN).
    #[must_use]
    pub fn reason(&self, cv: f64, efficiency: f64) -> Option<EscalationReason> {
        match (cv > self.cv, efficiency < self.efficiency) {
            (true, true) => Some(EscalationReason::Both { cv, efficiency }),
            (true, false) => Some(EscalationReason::UnstableTiming { cv }),
            (false, true) => Some(EscalationReason::LowEfficiency { efficiency }),
            (false, false) => None,
        }
    }
}

/// Why a call was escalated.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "reason", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum EscalationReason {
    /// The coefficient of variation is past its threshold.
    UnstableTiming {
        /// Standard deviation over mean of the calls that were looked at.
        cv: f64,
    },
    /// The efficiency is below its threshold.
    LowEfficiency {
        /// Budget over actual time of the calls that were looked at.
        efficiency: f64,
    },
    /// Both.
    Both {
        /// Standard deviation over mean.
        cv: f64,
        /// Budget over actual time.
        efficiency: f64,
    },
    /// Somebody asked for it.
    Requested,
}

impl EscalationReason {
    /// The coefficient of variation, if it was one of the reasons.
    #[must_use]
    pub fn cv(&self) -> Option<f64> {
        match *self {
            EscalationReason::UnstableTiming { cv } | EscalationReason::Both { cv, .. } => Some(cv),
            _ => None,
        }
    }

    /// The efficiency, if it was one of the reasons.
    #[must_use]
    pub fn efficiency(&self) -> Option<f64> {
        match *self {
            EscalationReason::LowEfficiency { efficiency }
            | EscalationReason::Both { efficiency, .. } => Some(efficiency),
            _ => None,
        }
    }

    /// One word for logs and files.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            EscalationReason::UnstableTiming { .. } => "unstable_timing",
            EscalationReason::LowEfficiency { .. } => "low_efficiency",
            EscalationReason::Both { .. } => "both",
            EscalationReason::Requested => "requested",
        }
    }
}

/// `CV 31.2 %` and the like, for people.
impl fmt::Display for EscalationReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            EscalationReason::UnstableTiming { cv } => write!(f, "CV {:.1} %", 100.0 * cv),
            EscalationReason::LowEfficiency { efficiency } => {
                write!(f, "efficiency {:.1} %", 100.0 * efficiency)
            }
            EscalationReason::Both { cv, efficiency } => write!(
                f,
                "CV {:.1} % and efficiency {:.1} %",
                100.0 * cv,
                100.0 * efficiency
            ),
            EscalationReason::Requested => f.write_str("requested"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the specification: past is past, at the threshold is not.
    #[test]
    fn reasons_by_threshold() {
        let t = EscalationThresholds::default();
        let name = |cv, efficiency| t.reason(cv, efficiency).map(|r| r.name());
        assert_eq!(name(0.15, 0.25), None);
        assert_eq!(name(0.1501, 0.25), Some("unstable_timing"));
        assert_eq!(name(0.15, 0.2499), Some("low_efficiency"));
        assert_eq!(name(0.16, 0.01), Some("both"));
        assert_eq!(name(f64::NAN, f64::NAN), None);
        assert_eq!(name(0.2, f64::NAN), Some("unstable_timing"));
    }
}
