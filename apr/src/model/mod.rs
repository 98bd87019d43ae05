//! A language model: its weights, borrowed from a GGUF file, and a session that runs them.
//!
//! ```no_run
//! use apr::gguf::{Gguf, Mapping};
//! use apr::model::{Model, Session};
//!
//! let file = Mapping::open("model.gguf".as_ref())?;
//! let gguf = Gguf::parse(&file)?;
//! let model = Model::load(&gguf)?;
//! let mut session = Session::new(&model, 128)?;
//! let logits = session.feed(&[1, 42, 7])?; // for the token after the last one
//! assert_eq!(logits.len(), model.n_vocab());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod forward;
mod generate;
mod observe;
mod score;
mod scratch;
mod session;
mod weights;

pub use error::ModelError;
pub use generate::{Decoded, Generator, Stop};
pub use observe::{At, Halt, Node, Observer, Outcome, Tensor, View};
pub use session::Session;
pub use weights::Model;
