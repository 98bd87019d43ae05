//! Documents as tests: the commands that a document shows are run, and what they print is
//! compared with what the document says they print.
//!
//! [`document`] finds the fenced blocks and what a comment above each says about it;
//! [`transcript`] runs the commands of a block; [`compare`] knows which figures may differ; [`check`]
//! does it all for a document.

pub mod check;
pub mod compare;
pub mod document;
pub mod transcript;
