//! The `apr` command as a library: runs GGUF language models on annotated kernels and shows
//! where the time goes and whether the numbers are sane.
//!
//! From file to text, in the order data goes through:
//! - [`gguf`]: the file, memory-mapped, every length and offset checked before use;
//! - [`arch`]: the architectures that can be run, their hyperparameters and tensors;
//! - [`tokenizer`]: text to token ids and back, as the file's vocabulary asks for it;
//! - [`model`]: weights borrowed from the file, and a session that runs them.

pub mod arch;
pub mod cli;
pub mod commands;
pub mod export;
pub mod gguf;
pub mod inspect;
pub mod jidoka;
pub mod model;
pub mod model_file;
pub mod progress;
pub mod terminal;
pub mod tokenizer;
pub mod trace;
mod whole_file;

brick_runtime::bricks!();
