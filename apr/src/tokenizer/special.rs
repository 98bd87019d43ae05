//! Cutting text at special tokens, before anything else looks at it.

use super::vocab::{TokenKind, Vocab};
use aho_corasick::{AhoCorasick, BuildError, MatchKind};

/// A stretch of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fragment<'t> {
    Text(&'t [u8]),
    Token(u32),
}

/// Finds the tokens that are matched in the text itself.
pub(super) struct SpecialTokens {
    automaton: AhoCorasick,
    /// Patterns of the automaton, longest text first.
    ids: Vec<u32>,
}

impl SpecialTokens {
    pub(super) fn new(vocab: &Vocab) -> Result<Self, BuildError> {
        let is_special = |&id: &u32| {
            use TokenKind::{Control, Unknown, UserDefined};
            matches!(vocab.kind(id), Control | Unknown | UserDefined) && !vocab.text(id).is_empty()
        };
        let mut ids: Vec<u32> = (0..vocab.len()).filter(is_special).collect();
        // Stable: of two equally long, the lower id goes first.
        ids.sort_by_key(|&id| std::cmp::Reverse(vocab.text(id).len()));
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .build(ids.iter().map(|&id| vocab.text(id)))?;
        Ok(Self { automaton, ids })
    }

    /// Cuts `text` at special tokens: user-defined ones always, control and unknown ones only
    /// with `parse_special`. As in llama.cpp's `tokenizer_st_partition`, the longest token is
    /// looked for first, from left to right in the whole text, then the next one in what is
    /// left; so a longer token wins over a shorter one that starts before it.
    pub(super) fn partition<'t>(
        &self,
        vocab: &Vocab,
        text: &'t [u8],
        parse_special: bool,
    ) -> Vec<Fragment<'t>> {
        let mut found: Vec<(usize, usize, usize)> = self
            .automaton
            .find_overlapping_iter(text)
            .map(|m| (m.pattern().as_usize(), m.start(), m.end()))
            .filter(|&(pattern, ..)| {
                parse_special || vocab.kind(self.ids[pattern]) == TokenKind::UserDefined
            })
            .collect();
        found.sort_unstable();
        let mut taken = std::collections::BTreeMap::new();
        for (pattern, start, end) in found {
            // Stretches taken so far do not overlap: the last one that starts before `end`
            // is the only one that could reach into this one.
            let free = match taken.range(..end).next_back() {
                Some((_, &(taken_end, _))) => taken_end <= start,
                None => true,
            };
            if free {
                taken.insert(start, (end, self.ids[pattern]));
            }
        }
        let mut fragments = Vec::with_capacity(2 * taken.len() + 1);
        let mut at = 0;
        for (start, (end, id)) in taken {
            if at < start {
                fragments.push(Fragment::Text(&text[at..start]));
            }
            fragments.push(Fragment::Token(id));
            at = end;
        }
        if at < text.len() {
            fragments.push(Fragment::Text(&text[at..]));
        }
        fragments
    }
}
