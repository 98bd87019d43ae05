//! Token after token: feed, choose, turn into text.

use super::observe::{At, Outcome};
use super::{ModelError, Session};
use crate::tokenizer::{Tokenizer, Utf8Stream};
use brick_kernels::BrickId;
use brick_kernels::sampling::Sampler;
use brick_runtime::brick;
use brick_runtime::timeline::{fail, span_scope};
use brick_runtime::trace::TraceStep;

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// As many tokens as asked for.
    Length,
    /// The model ended the text, or its turn.
    End,
}

impl Stop {
    /// `"length"` or `"end"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::End => "end",
        }
    }
}

/// One step of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The token chosen.
    pub id: u32,
    /// The text that is certain now: nothing while a character is incomplete.
    pub text: String,
}

/// A generation in progress: what follows a prompt that was fed to the session.
///
/// The first token comes from the logits of the prompt; each further one feeds its predecessor.
pub struct Generator<'s, 'm> {
    session: &'s mut Session<'m>,
    tokenizer: &'s Tokenizer,
    sampler: Sampler,
    utf8: Utf8Stream,
    bytes: Vec<u8>,
    last: Option<u32>,
    left: usize,
    ignore_end: bool,
    stop: Stop,
}

impl<'s, 'm> Generator<'s, 'm> {
    /// Continues what was fed to `session`, `prompt` being its tokens (the sampler's repetition
    /// penalty looks at them), for at most `max_tokens`.
    pub fn new(
        session: &'s mut Session<'m>,
        tokenizer: &'s Tokenizer,
        mut sampler: Sampler,
        prompt: &[u32],
        max_tokens: usize,
    ) -> Self {
        for &token in prompt {
            sampler.accept(token);
        }
        Self {
            session,
            tokenizer,
            sampler,
            utf8: Utf8Stream::new(),
            bytes: Vec::new(),
            last: None,
            left: max_tokens,
            ignore_end: false,
            stop: Stop::Length,
        }
    }

    /// Goes on where the model would end the text.
    #[must_use]
    pub fn ignore_end(mut self) -> Self {
        self.ignore_end = true;
        self
    }

    /// The next token; `None` when the generation is over. A token that ends the text is not
    /// returned.
    ///
    /// # Errors
    /// If a kernel refuses, the logits hold NaN, or the session is full.
    pub fn step(&mut self) -> Result<Option<Decoded>, ModelError> {
        if self.left == 0 {
            return Ok(None);
        }
        let _step = span_scope("step");
        if let Some(last) = self.last {
            self.session.feed(&[last])?;
        }
        let id = self.sample()?;
        if self.tokenizer.is_end(id) && !self.ignore_end {
            self.left = 0;
            self.stop = Stop::End;
            return Ok(None);
        }
        self.sampler.accept(id);
        self.last = Some(id);
        self.left -= 1;
        let at = self.at();
        self.session.tap.begin(TraceStep::Decode, at);
        let text = self.detokenize(id)?;
        let outcome = Outcome::Text(&text);
        self.session.tap.end(TraceStep::Decode, at, outcome);
        Ok(Some(Decoded { id, text }))
    }

    /// The next token, from the logits after the last.
    fn sample(&mut self) -> Result<u32, ModelError> {
        let at = self.at();
        self.session.tap.begin(TraceStep::Sample, at);
        let chosen = self.sampler.sample(self.session.logits());
        let id = chosen.inspect_err(|error| fail(error, Some(BrickId::Sampling.info())))?;
        let outcome = Outcome::Token(id);
        self.session.tap.end(TraceStep::Sample, at, outcome);
        Ok(id)
    }

    /// Where the token to choose goes.
    fn at(&self) -> At {
        At {
            layer: None,
            first_pos: self.session.n_past(),
            n_tokens: 1,
        }
    }

    /// The text that is certain with this token.
    #[brick(id = Detokenize, budget_us = 50, tokens = 1, category = Text)]
    fn detokenize(&mut self, id: u32) -> Result<String, ModelError> {
        let mut text = String::new();
        self.bytes.clear();
        self.tokenizer.decode_into(id, &mut self.bytes)?;
        self.utf8.push(&self.bytes, &mut text);
        Ok(text)
    }

    /// Ends the text: what is left of it (U+FFFD for a character left incomplete), and why.
    pub fn finish(mut self) -> (String, Stop) {
        let mut text = String::new();
        self.utf8.finish(&mut text);
        (text, self.stop)
    }
}
