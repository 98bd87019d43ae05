//! One file for each command: its arguments and what it does with them.

pub mod inspect;
pub mod tokenize;
