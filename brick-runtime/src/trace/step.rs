//! The steps of an inference, and which of them are wanted.

use super::UnknownName;
use std::fmt;
use std::str::FromStr;

/// A step of an inference: one of eight, or one of the two parts of a transformer block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "SCREAMING_SNAKE_CASE")
)]
#[non_exhaustive]
pub enum TraceStep {
    /// Text to token ids.
    Tokenize,
    /// Token ids to vectors.
    Embed,
    /// Vectors to vectors, once for each layer.
    TransformerBlock,
    /// The first part of a block: from its norm to the sum with the residual stream. A kernel that makes
    /// the second part's norm together with that sum is in it.
    Attention,
    /// The second part of a block: what the feed-forward network does, to the sum with the stream.
    FeedForward,
    /// Hidden state to logits, the final norm included.
    LmHead,
    /// Logits to the next token id.
    Sample,
    /// Token id to text.
    Decode,
    /// A kernel's start on a device.
    KernelLaunch,
    /// What the profiler measured of each brick.
    BrickProfile,
}

impl TraceStep {
    /// All steps in the order of a run, each part after the step that it is part of.
    pub const ALL: [TraceStep; 10] = [
        Self::Tokenize,
        Self::Embed,
        Self::TransformerBlock,
        Self::Attention,
        Self::FeedForward,
        Self::LmHead,
        Self::Sample,
        Self::Decode,
        Self::KernelLaunch,
        Self::BrickProfile,
    ];

    /// The name in tables and files: `"LM_HEAD"`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tokenize => "TOKENIZE",
            Self::Embed => "EMBED",
            Self::TransformerBlock => "TRANSFORMER_BLOCK",
            Self::Attention => "ATTENTION",
            Self::FeedForward => "FEED_FORWARD",
            Self::LmHead => "LM_HEAD",
            Self::Sample => "SAMPLE",
            Self::Decode => "DECODE",
            Self::KernelLaunch => "KERNEL_LAUNCH",
            Self::BrickProfile => "BRICK_PROFILE",
        }
    }

    /// The step that this one is a part of, in time.
    #[must_use]
    pub fn part_of(self) -> Option<TraceStep> {
        match self {
            Self::Attention | Self::FeedForward => Some(Self::TransformerBlock),
            _ => None,
        }
    }

    fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl fmt::Display for TraceStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// By name, in any letter case, with `_` or `-`: `"lm_head"`, `"LM-HEAD"`.
impl FromStr for TraceStep {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let asked = text.trim().replace('-', "_");
        let named = Self::ALL
            .into_iter()
            .find(|step| step.name().eq_ignore_ascii_case(&asked));
        named.ok_or_else(|| UnknownName::new("trace step", text.trim(), Self::ALL.map(Self::name)))
    }
}

/// Which steps are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepFilter {
    bits: u16,
}

impl StepFilter {
    /// Every step.
    pub const ALL: StepFilter = StepFilter {
        bits: (1 << TraceStep::ALL.len()) - 1,
    };

    /// Whether `step` is wanted.
    #[must_use]
    #[inline]
    pub fn has(self, step: TraceStep) -> bool {
        self.bits & step.bit() != 0
    }

    /// The wanted steps in the order of a run.
    pub fn steps(self) -> impl Iterator<Item = TraceStep> {
        TraceStep::ALL
            .into_iter()
            .filter(move |&step| self.has(step))
    }
}

impl Default for StepFilter {
    fn default() -> Self {
        Self::ALL
    }
}

/// The names with commas between.
impl fmt::Display for StepFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.steps().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{step}")?;
        }
        Ok(())
    }
}

/// Names with commas between. A transformer block is wanted with its parts; a part alone can be
/// wanted too.
impl FromStr for StepFilter {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let mut bits = 0;
        for name in text.split(',') {
            let step: TraceStep = name.parse()?;
            bits |= step.bit();
            for part in TraceStep::ALL {
                if part.part_of() == Some(step) {
                    bits |= part.bit();
                }
            }
        }
        Ok(Self { bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for step in TraceStep::ALL {
            assert_eq!(step.to_string().parse(), Ok(step));
        }
        assert_eq!(" lm-head ".parse(), Ok(TraceStep::LmHead));
    }

    #[test]
    fn an_unknown_step_is_told_with_all_there_are() {
        let error = "sample,atention".parse::<StepFilter>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "no trace step is called \"atention\"; there are TOKENIZE, EMBED, TRANSFORMER_BLOCK, \
             ATTENTION, FEED_FORWARD, LM_HEAD, SAMPLE, DECODE, KERNEL_LAUNCH, BRICK_PROFILE"
        );
        assert!("".parse::<StepFilter>().is_err());
    }

    #[test]
    fn a_filter_has_what_was_asked_for_and_the_parts_of_it() {
        let some: StepFilter = "attention,sample".parse().unwrap();
        let has: Vec<_> = some.steps().collect();
        assert_eq!(has, [TraceStep::Attention, TraceStep::Sample]);
        let block: StepFilter = "transformer_block".parse().unwrap();
        assert_eq!(
            block.to_string(),
            "TRANSFORMER_BLOCK,ATTENTION,FEED_FORWARD"
        );
        assert_eq!(StepFilter::ALL.steps().count(), TraceStep::ALL.len());
    }
}
