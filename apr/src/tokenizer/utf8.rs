//! Text out of bytes that arrive in pieces.

/// Turns a stream of bytes into text without ever splitting a character.
///
/// Tokens can end in the middle of a character; what could still become one is held back until
/// it is whole or proven not to be one. All that comes out, together, is what
/// [`String::from_utf8_lossy`] makes of all the bytes.
#[derive(Debug, Default)]
pub struct Utf8Stream {
    /// The start of a character, at most three bytes.
    held: Vec<u8>,
}

impl Utf8Stream {
    /// A stream at its beginning.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and appends to `out` all the text that is certain now.
    pub fn push(&mut self, bytes: &[u8], out: &mut String) {
        let mut seen = std::mem::take(&mut self.held);
        seen.extend_from_slice(bytes);
        let mut chunks = seen.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            out.push_str(chunk.valid());
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && is_unfinished(invalid) {
                self.held.extend_from_slice(invalid);
            } else if !invalid.is_empty() {
                out.push(char::REPLACEMENT_CHARACTER);
            }
        }
    }

    /// Ends the stream: a character left incomplete becomes U+FFFD.
    pub fn finish(&mut self, out: &mut String) {
        if !self.held.is_empty() {
            out.push(char::REPLACEMENT_CHARACTER);
            self.held.clear();
        }
    }
}

/// Whether `bytes`, the last of a stream, could become a character with more.
fn is_unfinished(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}
