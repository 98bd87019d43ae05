//! Runs a whole document.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::compare;
use crate::document::{self, Block, Directive};
use crate::transcript::{self, Shell, Step};

/// What became of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Commands that were run.
    pub commands: usize,
    /// Blocks that say why they are not: `README.md:12: why`.
    pub skipped: Vec<String>,
    /// What does not hold: `README.md:12: …`.
    pub failures: Vec<String>,
}

/// Checks documents of one repository, the later ones in the state that the earlier ones left.
#[derive(Debug)]
pub struct Checker {
    root: PathBuf,
    scratch: tempfile::TempDir,
    in_root: Shell,
    in_scratch: Shell,
    /// Write down what came instead of comparing it.
    bless: bool,
}

impl Checker {
    /// For the repository at `root`. With `BLESS` in the environment, output that differs from
    /// what a document shows is written into the document.
    ///
    /// # Errors
    /// Where no scratch directory can be made.
    pub fn new(root: &Path) -> io::Result<Checker> {
        let scratch = tempfile::tempdir()?;
        std::os::unix::fs::symlink(root, scratch.path().join("brick"))?;
        Ok(Checker {
            in_root: Shell::new(root),
            in_scratch: Shell::new(scratch.path()),
            root: root.to_owned(),
            scratch,
            bless: env::var_os("BLESS").is_some(),
        })
    }

    /// Runs every command of a document and looks at every other block.
    ///
    /// # Errors
    /// Where `path`, relative to the root, cannot be read.
    pub fn check(&mut self, path: &str) -> io::Result<Outcome> {
        let file = self.root.join(path);
        let source = fs::read_to_string(&file)?;
        let is_rust = path.ends_with(".rs");
        let markdown = if is_rust {
            document::inner_docs(&source)
        } else {
            source.clone()
        };
        let mut outcome = Outcome::default();
        let blocks = match document::blocks(&markdown) {
            Ok(blocks) => blocks,
            Err(mistake) => {
                outcome.failures.push(format!("{path}: {mistake}"));
                return Ok(outcome);
            }
        };
        let mut blessed = source.clone();
        for block in blocks {
            let place = format!("{path}:{}", block.line);
            match self.block(&block, &mut outcome.commands) {
                Ok(Verdict::Holds) => {}
                Ok(Verdict::Skipped(why)) => outcome.skipped.push(format!("{place}: {why}")),
                Ok(Verdict::Differs { text, .. }) if self.bless => {
                    let written = |text: &str| {
                        if is_rust {
                            document::as_inner_docs(text)
                        } else {
                            text.to_owned()
                        }
                    };
                    blessed = blessed.replacen(&written(&block.text), &written(&text), 1);
                }
                Ok(Verdict::Differs { how, .. }) => {
                    outcome.failures.push(format!("{place}: {how}"))
                }
                Err(error) => outcome.failures.push(format!("{place}: {error}")),
            }
        }
        if blessed != source {
            fs::write(&file, blessed)?;
        }
        Ok(outcome)
    }

    fn block(&mut self, block: &Block, commands: &mut usize) -> Result<Verdict, String> {
        let shell = match (&block.directive, block.language.as_str()) {
            (Directive::Skip { why }, _) => return Ok(Verdict::Skipped(why.clone())),
            (Directive::In { path }, _) => return self.contained(block, path),
            (Directive::Write { path }, _) => return self.write(block, path),
            (Directive::Step { name }, "console") => return self.is_step(block, name),
            (Directive::Needs { path }, "console") if !self.has(path) => {
                return Ok(Verdict::Skipped(format!(
                    "{path} is not there: tests/fetch-models"
                )));
            }
            (Directive::None | Directive::Needs { .. }, "console") => &mut self.in_root,
            (Directive::Scratch, "console") => &mut self.in_scratch,
            (Directive::None, "text") => return Ok(Verdict::Holds),
            (_, language) => {
                return Err(format!(
                    "nothing checks this `{language}` block: say what does in a `test:` comment"
                ));
            }
        };
        let steps = transcript::steps(&block.text)?;
        let (mut text, mut differences) = (String::new(), String::new());
        for step in &steps {
            *commands += 1;
            let Step { command, shown } = step;
            let came = shell
                .run(step)
                .map_err(|error| format!("`{command}` {error}"))?;
            match compare::same(shown, &came) {
                Ok(()) => text += &format!("$ {command}\n{shown}"),
                Err(how) => {
                    text += &format!("$ {command}\n{}\n", came.trim_end());
                    differences += &format!("`{command}` printed something else:\n{how}");
                }
            }
        }
        Ok(if differences.is_empty() {
            Verdict::Holds
        } else {
            Verdict::Differs {
                how: differences,
                text,
            }
        })
    }

    fn has(&self, path: &str) -> bool {
        self.root.join(path).exists() || env::var_os("BRICK_REQUIRE_MODELS").is_some()
    }

    /// The commands of the block are, but for their `-q`, those of a step of `tests/run`.
    fn is_step(&self, block: &Block, name: &str) -> Result<Verdict, String> {
        let script = fs::read_to_string(self.root.join("tests/run"))
            .map_err(|error| format!("tests/run: {error}"))?;
        let words = |line: &str| {
            line.split_whitespace()
                .filter(|word| *word != "-q")
                .collect::<Vec<_>>()
                .join(" ")
        };
        let does = |line: &str| {
            words(line)
                .strip_prefix("step ")?
                .strip_prefix(name)?
                .strip_prefix(' ')
                .map(str::to_owned)
        };
        let step = script
            .lines()
            .find_map(does)
            .ok_or_else(|| format!("tests/run has no step {name}"))?;
        for Step { command, .. } in transcript::steps(&block.text)? {
            if !step.contains(&words(&command)) {
                return Err(format!(
                    "the step {name} of tests/run is `{step}`, not `{command}`"
                ));
            }
        }
        Ok(Verdict::Holds)
    }

    fn contained(&self, block: &Block, path: &str) -> Result<Verdict, String> {
        let whole =
            fs::read_to_string(self.root.join(path)).map_err(|error| format!("{path}: {error}"))?;
        if whole.contains(&block.text) {
            Ok(Verdict::Holds)
        } else {
            Err(format!("{path} does not hold this, word for word"))
        }
    }

    fn write(&self, block: &Block, path: &str) -> Result<Verdict, String> {
        fs::write(self.scratch.path().join(path), &block.text)
            .map_err(|error| format!("{path}: {error}"))?;
        Ok(Verdict::Holds)
    }
}

/// What became of a block.
enum Verdict {
    Holds,
    Skipped(String),
    Differs {
        how: String,
        /// The block with what came.
        text: String,
    },
}
