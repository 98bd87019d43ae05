//! One file for each command: its arguments and what it does with them.

pub mod bench;
mod collector;
pub mod doctor;
mod engine;
mod escalate;
mod escalate_human;
pub mod inspect;
pub mod profile;
mod record;
mod roofline;
pub mod run;
mod sampling;
mod token;
pub mod tokenize;
pub mod trace;
mod tracing;
