//! A benchmark under way, and how it ends.

use crate::commands::collector::{Failed, Generated, Subject};
use crate::commands::engine::{self, Engine};
use crate::commands::record::{Recorded, Recorder, all_told};
use crate::model::Session;
use anyhow::Result;
use std::io;

/// Tokens that were fed so far, warm-up included.
#[derive(Debug, Default)]
pub(super) struct Fed {
    /// Several at once.
    pub(super) input: usize,
    /// One by one.
    pub(super) output: usize,
}

/// A benchmark under way.
pub(super) struct Running<'e, 'a> {
    /// The model that it is of.
    pub(super) engine: &'e Engine<'a>,
    fed: Fed,
    /// The text of the session that failed.
    failed: Vec<u32>,
}

impl<'e, 'a> Running<'e, 'a> {
    /// Nothing fed yet.
    pub(super) fn new(engine: &'e Engine<'a>) -> Self {
        Self {
            engine,
            fed: Fed::default(),
            failed: Vec::new(),
        }
    }

    /// Runs `body` with a session of `context` positions.
    ///
    /// # Errors
    /// That of `body`; a contract that a kernel breaks; no memory for the session.
    pub(super) fn session<R>(
        &mut self,
        context: usize,
        body: impl FnOnce(&mut Session<'e>, &mut Fed) -> Result<R>,
    ) -> Result<R> {
        let mut session = Session::new(&self.engine.model, context)?;
        let ran = engine::caught(|| body(&mut session, &mut self.fed));
        if ran.is_err() {
            self.failed = session.fed().to_vec();
        }
        ran
    }

    /// Prints what came of it and hands out what was recorded; of a failure the recording too, and the
    /// diagnosis.
    ///
    /// # Errors
    /// The failure, or what could not be printed or written.
    pub(super) fn end<R>(
        self,
        subject: Subject<'_>,
        recorder: Recorder<'_>,
        ran: Result<R>,
        print: impl FnOnce(R) -> io::Result<()>,
    ) -> Result<()> {
        let stopped = recorder.stop();
        let ran = ran.map_err(|error| self.engine.diagnose(error, &self.failed));
        let failed = ran.as_ref().err().map(Failed::of);
        let recorded = stopped.spans(&Generated {
            subject,
            input_tokens: self.fed.input,
            output_tokens: self.fed.output,
            failed: failed.as_ref(),
        });
        match ran {
            Ok(report) => {
                recorded.as_ref().map_or(Ok(()), Recorded::write)?;
                print(report)?;
                recorded.map_or(Ok(()), Recorded::send)
            }
            Err(error) => {
                let delivered = recorded.map_or(Ok(()), Recorded::deliver);
                all_told([Err(error), delivered])
            }
        }
    }
}
