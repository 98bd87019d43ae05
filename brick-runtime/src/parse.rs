//! From a name back to a brick.

use std::error::Error;
use std::fmt;

use crate::registry::BrickId;

/// No brick of the crate has the name that was parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownBrick {
    /// The text that names no brick.
    pub found: String,
    /// The brick whose name is most like it, if one is near enough to be meant.
    pub nearest: Option<&'static str>,
}

impl fmt::Display for UnknownBrick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no brick is called `{}`", self.found)?;
        match self.nearest {
            Some(name) => write!(f, "; did you mean `{name}`?"),
            None => Ok(()),
        }
    }
}

impl Error for UnknownBrick {}

/// `FromStr` of every `BrickId`: names match exactly, as `Display` prints them.
///
/// # Errors
/// [`UnknownBrick`] where no brick is called `text`.
pub fn parse<B: BrickId>(text: &str) -> Result<B, UnknownBrick> {
    let table = B::table();
    match table.iter().position(|info| info.name == text) {
        Some(index) => Ok(B::ALL[index]),
        None => Err(UnknownBrick {
            found: text.to_owned(),
            nearest: nearest(text, table.iter().map(|info| info.name)),
        }),
    }
}

/// `Deserialize` of every `BrickId`: the name, as a string.
///
/// # Errors
/// Where the input holds no string, or one that names no brick.
#[cfg(feature = "serde")]
pub fn deserialize<'de, B, D>(deserializer: D) -> Result<B, D::Error>
where
    B: BrickId,
    D: serde::Deserializer<'de>,
{
    let name = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
    parse(&name).map_err(serde::de::Error::custom)
}

/// The candidate with the fewest edits to `text`, letter case aside, if a third of the letters
/// or fewer differ.
fn nearest(text: &str, candidates: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let text = text.to_lowercase();
    candidates
        .map(|name| (edits(&text, &name.to_lowercase()), name))
        .filter(|&(edits, name)| edits <= name.chars().count().div_ceil(3))
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, name)| name)
}

/// Levenshtein distance, in characters.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::{edits, nearest};

    #[test]
    fn edit_distances_of_the_textbook() {
        // Wagner & Fischer's and Wikipedia's examples.
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("saturday", "sunday"), 3);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("same", "same"), 0);
    }

    #[test]
    fn a_slip_finds_its_name_and_noise_finds_none() {
        let names = || ["Softmax", "AttentionScore"].into_iter();
        assert_eq!(nearest("softmx", names()), Some("Softmax"));
        assert_eq!(nearest("AttentionScores", names()), Some("AttentionScore"));
        assert_eq!(nearest("zebra", names()), None);
    }
}
