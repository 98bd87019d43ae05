//! How much of a run a trace keeps.

use super::UnknownName;
use std::fmt;
use std::str::FromStr;

/// How much of a run a trace keeps; each level has what the ones before have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "lowercase")
)]
pub enum TraceLevel {
    /// Nothing.
    #[default]
    None,
    /// The steps and how long each took.
    Basic,
    /// The statistics of each tensor between the kernels.
    Layer,
    /// The values of these tensors.
    Payload,
}

impl TraceLevel {
    /// All levels, the least first.
    pub const ALL: [TraceLevel; 4] = [Self::None, Self::Basic, Self::Layer, Self::Payload];

    /// The name on the command line and in files: `"layer"`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "basic",
            Self::Layer => "layer",
            Self::Payload => "payload",
        }
    }
}

impl fmt::Display for TraceLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for TraceLevel {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let named = Self::ALL.into_iter().find(|level| level.name() == text);
        named.ok_or_else(|| UnknownName::new("trace level", text, Self::ALL.map(Self::name)))
    }
}

#[cfg(test)]
mod tests {
    use super::TraceLevel;

    #[test]
    fn names_go_both_ways_and_levels_are_ordered() {
        for level in TraceLevel::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        assert!(TraceLevel::ALL.is_sorted());
        let error = "deep".parse::<TraceLevel>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "no trace level is called \"deep\"; there are none, basic, layer, payload"
        );
    }
}
