//! Cutting text at special tokens, before anything else looks at it.

use super::TokenizerError;
use super::vocab::{TokenKind, Vocab};
use aho_corasick::{AhoCorasick, BuildError, MatchKind};
use std::sync::OnceLock;

/// A stretch of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fragment<'t> {
    Text(&'t [u8]),
    Token(u32),
}

/// Finds the tokens that are matched in the text itself.
pub(super) struct SpecialTokens {
    /// The tokens, longest text first.
    ids: Vec<u32>,
    /// The bytes that their texts start with.
    starts: [bool; 256],
    /// Of their texts, made for the first text that has one of these bytes: Gemma's 6,242 take as
    /// long as a third of the rest of the vocabulary, and most prompts hold none.
    automaton: OnceLock<Result<AhoCorasick, BuildError>>,
}

impl SpecialTokens {
    pub(super) fn new(vocab: &Vocab) -> Self {
        let is_special = |&id: &u32| {
            use TokenKind::{Control, Unknown, UserDefined};
            matches!(vocab.kind(id), Control | Unknown | UserDefined) && !vocab.text(id).is_empty()
        };
        let mut ids: Vec<u32> = (0..vocab.len()).filter(is_special).collect();
        // Stable: of two equally long, the lower id goes first.
        ids.sort_by_key(|&id| std::cmp::Reverse(vocab.text(id).len()));
        let mut starts = [false; 256];
        for &id in &ids {
            starts[usize::from(vocab.text(id)[0])] = true;
        }
        Self {
            ids,
            starts,
            automaton: OnceLock::new(),
        }
    }

    /// Patterns are numbered as `ids` are.
    fn automaton(&self, vocab: &Vocab) -> Result<&AhoCorasick, TokenizerError> {
        let build = || {
            AhoCorasick::builder()
                .match_kind(MatchKind::Standard)
                .build(self.ids.iter().map(|&id| vocab.text(id)))
        };
        let built = self.automaton.get_or_init(build).as_ref();
        built.map_err(|error| TokenizerError::Special(error.clone()))
    }

    /// Cuts `text` at special tokens: user-defined ones always, control and unknown ones only
    /// with `parse_special`. As in llama.cpp's `tokenizer_st_partition`, the longest token is
    /// looked for first, from left to right in the whole text, then the next one in what is
    /// left; so a longer token wins over a shorter one that starts before it.
    ///
    /// # Errors
    /// [`TokenizerError::Special`].
    pub(super) fn partition<'t>(
        &self,
        vocab: &Vocab,
        text: &'t [u8],
        parse_special: bool,
    ) -> Result<Vec<Fragment<'t>>, TokenizerError> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        if !text.iter().any(|&byte| self.starts[usize::from(byte)]) {
            return Ok(vec![Fragment::Text(text)]);
        }
        let mut found: Vec<(usize, usize, usize)> = self
            .automaton(vocab)?
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
        Ok(fragments)
    }
}
