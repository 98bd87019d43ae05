//! Progress of what takes more than a second, on standard error, on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// How long something may take in silence.
const PATIENCE: Duration = Duration::from_secs(1);

/// A line that shows how far something is; gone when it is dropped. Shows nothing where standard
/// error is no terminal, nor for what is done within a second.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Something of `total` tokens; 0 where the length is not known.
    pub fn new(what: &'static str, total: usize) -> Self {
        let bar = match total {
            0 => ProgressBar::no_length(),
            total => ProgressBar::new(total as u64),
        };
        bar.set_draw_target(ProgressDrawTarget::hidden());
        let template = match total {
            0 => "{spinner} {msg} {elapsed}",
            // No time left is shown: there is nothing to tell it from before the first step, and
            // later tokens of a prompt take longer than its first ones.
            _ => "{spinner} {msg} {wide_bar} {human_pos}/{human_len} tokens, {elapsed}",
        };
        // A template that does not parse would be a bug, and no reason to stop: keep the default.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what);
        if std::io::stderr().is_terminal() {
            let late = bar.clone();
            std::thread::spawn(move || {
                std::thread::sleep(PATIENCE);
                if !late.is_finished() {
                    late.set_draw_target(ProgressDrawTarget::stderr());
                    late.enable_steady_tick(Duration::from_millis(120));
                }
            });
        }
        Self { bar }
    }

    /// `done` tokens of the total are done.
    pub fn set(&self, done: usize) {
        self.bar.set_position(done as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
