//! Text to token ids and back, as the vocabulary in a GGUF file asks for it.
//!
//! Two families: `"llama"` (SentencePiece by score, with byte fallback: Llama 2, Gemma) and
//! `"gpt2"` (byte-level BPE: Llama 3, Qwen, SmolLM). The tokens are llama.cpp's, exactly; the
//! tests compare with what it makes of a list of awkward strings.
//!
//! ```no_run
//! # use apr::gguf::{Gguf, Mapping};
//! use apr::tokenizer::{EncodeOptions, Tokenizer, Utf8Stream};
//! # let file = Mapping::open("model.gguf".as_ref())?;
//! # let gguf = Gguf::parse(&file)?;
//! let tokenizer = Tokenizer::from_gguf(&gguf)?;
//! let ids = tokenizer.encode("Hello, world!", EncodeOptions::default())?;
//!
//! let (mut stream, mut text, mut bytes) = (Utf8Stream::new(), String::new(), Vec::new());
//! for id in ids {
//!     bytes.clear();
//!     tokenizer.decode_into(id, &mut bytes)?;
//!     stream.push(&bytes, &mut text);
//! }
//! stream.finish(&mut text);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bpe;
mod error;
mod pre;
mod special;
mod spm;
mod utf8;
mod vocab;

pub use error::TokenizerError;
pub use utf8::Utf8Stream;
pub use vocab::TokenKind;

use crate::gguf::Gguf;
use bpe::Bpe;
use pre::PreTokenizer;
use special::{Fragment, SpecialTokens};
use spm::Spm;
use vocab::Vocab;

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const BOS: &str = "tokenizer.ggml.bos_token_id";
const EOS: &str = "tokenizer.ggml.eos_token_id";
const EOT: &str = "tokenizer.ggml.eot_token_id";
const EOM: &str = "tokenizer.ggml.eom_token_id";
const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";
const ADD_SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";

/// Tokens that end a turn or a text in the chat formats of the supported architectures. llama.cpp
/// stops at them, and takes them for control tokens, whatever the file calls them.
const END_TEXTS: [&str; 7] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eom_id|>",
];

/// What [`Tokenizer::encode`] does around and inside the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Add BOS before and EOS after the text, where the file asks for them.
    pub add_special: bool,
    /// Turn the text of control tokens, such as `<bos>`, into these tokens. User-defined tokens
    /// are always recognised.
    pub parse_special: bool,
}

impl Default for EncodeOptions {
    /// Both on: what a prompt needs.
    fn default() -> Self {
        Self {
            add_special: true,
            parse_special: true,
        }
    }
}

/// A vocabulary and the rules for using it.
pub struct Tokenizer {
    vocab: Vocab,
    special: SpecialTokens,
    family: Family,
    bos: Option<u32>,
    eos: Option<u32>,
    /// Tokens that end generation, EOS among them.
    ends: Vec<u32>,
    add_bos: bool,
    add_eos: bool,
}

enum Family {
    Spm { spm: Spm, space_prefix: bool },
    Bpe(Bpe),
}

impl Tokenizer {
    /// Reads the `tokenizer.ggml.*` metadata. Copies what it needs: nothing of the file is
    /// borrowed.
    ///
    /// # Errors
    /// Any [`TokenizerError`] but those of encoding and decoding.
    pub fn from_gguf(gguf: &Gguf<'_>) -> Result<Self, TokenizerError> {
        let model: &str = gguf.require(MODEL)?;
        let pre = match model {
            "llama" => None,
            "gpt2" => {
                let name: &str = gguf.require(PRE)?;
                let pre = PreTokenizer::from_name(name);
                Some(pre.ok_or_else(|| TokenizerError::Pre(name.into()))?)
            }
            _ => return Err(TokenizerError::Model(model.into())),
        };
        let mut vocab = Vocab::from_gguf(gguf)?;
        let [bos, eos, eot, eom, unknown] =
            [BOS, EOS, EOT, EOM, UNKNOWN].map(|key| special_id(gguf, &vocab, key));
        let (bos, eos) = (bos?, eos?);
        let ends = find_ends(&mut vocab, [eos, eot?, eom?]);
        let family = match pre {
            None => Family::Spm {
                spm: Spm::from_gguf(gguf, &vocab, unknown?)?,
                space_prefix: gguf.find(ADD_SPACE_PREFIX)?.unwrap_or(true),
            },
            Some(pre) => Family::Bpe(Bpe::from_gguf(gguf, &vocab, pre)?),
        };
        let adds_bos = pre.is_none_or(PreTokenizer::adds_bos);
        let add_bos = gguf.find(ADD_BOS)?.unwrap_or(adds_bos);
        let add_eos = gguf.find(ADD_EOS)?.unwrap_or(false);
        for (asked, id, flag, key) in [(add_bos, bos, ADD_BOS, BOS), (add_eos, eos, ADD_EOS, EOS)] {
            if asked && id.is_none() {
                return Err(TokenizerError::MissingSpecial { flag, key });
            }
        }
        Ok(Self {
            special: SpecialTokens::new(&vocab),
            vocab,
            family,
            bos,
            eos,
            ends,
            add_bos,
            add_eos,
        })
    }

    /// Number of tokens: ids are below this.
    pub fn n_tokens(&self) -> u32 {
        self.vocab.len()
    }

    /// The token that begins a text, if the file names one.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a text, if the file names one.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Whether [`encode`](Self::encode) begins with BOS when asked for special tokens.
    pub fn adds_bos(&self) -> bool {
        self.add_bos
    }

    /// Whether [`encode`](Self::encode) ends with EOS when asked for special tokens.
    pub fn adds_eos(&self) -> bool {
        self.add_eos
    }

    /// Whether generation is over at this token: EOS, or the end of a turn.
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.contains(&id)
    }

    /// The kind of a token; `None` where there is no such token.
    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        (id < self.n_tokens()).then(|| self.vocab.kind(id))
    }

    /// The tokens of a text, which need not be UTF-8.
    ///
    /// # Errors
    /// [`TokenizerError::NoToken`] where the vocabulary has nothing for a byte;
    /// [`TokenizerError::Special`].
    pub fn encode(
        &self,
        text: impl AsRef<[u8]>,
        options: EncodeOptions,
    ) -> Result<Vec<u32>, TokenizerError> {
        let text = text.as_ref();
        let mut out = Vec::new();
        if options.add_special && self.add_bos {
            out.extend(self.bos);
        }
        let mut after_special = true;
        for fragment in self
            .special
            .partition(&self.vocab, text, options.parse_special)?
        {
            match fragment {
                Fragment::Token(id) => out.push(id),
                Fragment::Text(text) => self.encode_fragment(text, after_special, &mut out)?,
            }
            after_special = matches!(fragment, Fragment::Token(_));
        }
        if options.add_special && self.add_eos {
            out.extend(self.eos);
        }
        Ok(out)
    }

    fn encode_fragment(
        &self,
        text: &[u8],
        after_special: bool,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        match &self.family {
            Family::Bpe(bpe) => bpe.encode(&self.vocab, text, out),
            Family::Spm { spm, space_prefix } => {
                let mut escaped = Vec::with_capacity(text.len() + text.len() / 2);
                if *space_prefix && after_special {
                    escaped.extend_from_slice(spm::SPACE);
                }
                for &byte in text {
                    match byte {
                        b' ' => escaped.extend_from_slice(spm::SPACE),
                        _ => escaped.push(byte),
                    }
                }
                spm.encode(&self.vocab, &escaped, out)
            }
        }
    }

    /// Appends the bytes that a token stands for. They can be part of a character:
    /// [`Utf8Stream`] makes text of them. Control tokens give their own text, `<bos>`.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`].
    pub fn decode_into(&self, id: u32, out: &mut Vec<u8>) -> Result<(), TokenizerError> {
        let kind = self.kind(id).ok_or(TokenizerError::UnknownId {
            id,
            tokens: self.n_tokens(),
        })?;
        let text = self.vocab.text(id);
        match (kind, &self.family) {
            (TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined, _) => {
                out.extend_from_slice(text);
            }
            (_, Family::Bpe(_)) => bpe::decode(text, out),
            (_, Family::Spm { .. }) => spm::decode(kind, text, out),
        }
        Ok(())
    }

    /// The bytes that tokens stand for, one after the other.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`].
    pub fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, TokenizerError> {
        let mut out = Vec::new();
        for &id in ids {
            self.decode_into(id, &mut out)?;
        }
        Ok(out)
    }
}

/// The token id under `key`, checked against the vocabulary.
fn special_id(
    gguf: &Gguf<'_>,
    vocab: &Vocab,
    key: &'static str,
) -> Result<Option<u32>, TokenizerError> {
    let tokens = vocab.len();
    match gguf.find::<u32>(key)? {
        Some(id) if id >= tokens => Err(TokenizerError::SpecialId { key, id, tokens }),
        found => Ok(found),
    }
}

/// The tokens that end generation: those the file names, and those known by their text.
fn find_ends(vocab: &mut Vocab, named: [Option<u32>; 3]) -> Vec<u32> {
    let mut ends: Vec<u32> = named.into_iter().flatten().collect();
    for text in END_TEXTS {
        if let Some(id) = vocab.id(text.as_bytes()) {
            vocab.set_kind(id, TokenKind::Control);
            ends.push(id);
        }
    }
    ends.sort_unstable();
    ends.dedup();
    ends
}
