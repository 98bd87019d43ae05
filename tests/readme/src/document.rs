//! Fenced blocks of Markdown, of a file or of a file's `//!` comment.

use std::fmt;

/// What is to be done with a block. Said in a comment on the line above the fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directive {
    /// No comment: commands are run from the root of the repository.
    None,
    /// `<!-- test: skip: why -->`.
    Skip {
        /// Why.
        why: String,
    },
    /// `<!-- test: step name -->`: a step of `tests/run`, which runs this very command.
    Step {
        /// As `tests/run --list` names it.
        name: String,
    },
    /// `<!-- test: needs path -->`: run only where the repository has this file (a model that is
    /// fetched), or where `BRICK_REQUIRE_MODELS` is set.
    Needs {
        /// Relative to the root of the repository.
        path: String,
    },
    /// `<!-- test: scratch -->`: run in a directory outside of the repository, which holds a
    /// link `brick` to it.
    Scratch,
    /// `<!-- test: write path -->`: the block is the content of a file in that directory.
    Write {
        /// Relative to the scratch directory.
        path: String,
    },
    /// `<!-- test: in path -->`: a file of the repository holds the block, word for word.
    In {
        /// Relative to the root of the repository.
        path: String,
    },
}

/// One fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its opening fence, from 1.
    pub line: usize,
    /// What stands behind the opening fence.
    pub language: String,
    /// What the comment above says.
    pub directive: Directive,
    /// The lines between the fences.
    pub text: String,
}

/// What cannot be a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// From 1.
    pub line: usize,
    /// A sentence.
    pub what: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for Mistake {}

/// The fenced blocks of a Markdown text, in order.
///
/// # Errors
/// A fence that is never closed; a `test:` comment that is unknown or stands above no fence.
pub fn blocks(markdown: &str) -> Result<Vec<Block>, Mistake> {
    let mut blocks = Vec::new();
    let mut pending: Option<(usize, Directive)> = None;
    let mut open: Option<Block> = None;
    for (line, text) in (1..).zip(markdown.lines()) {
        if let Some(mut block) = open.take() {
            if text.trim_end() == "```" {
                blocks.push(block);
            } else {
                block.text.push_str(text);
                block.text.push('\n');
                open = Some(block);
            }
        } else if let Some(language) = text.strip_prefix("```") {
            let directive = pending
                .take()
                .map_or(Directive::None, |(_, directive)| directive);
            open = Some(Block {
                line,
                language: language.trim().into(),
                directive,
                text: String::new(),
            });
        } else if let Some((line, _)) = pending {
            return Err(Mistake {
                line,
                what: "a `test:` comment stands right above a fence".into(),
            });
        } else {
            pending = directive(text)
                .map(|said| said.map(|said| (line, said)))
                .transpose()
                .map_err(|what| Mistake { line, what })?;
        }
    }
    match (open, pending) {
        (Some(block), _) => Err(Mistake {
            line: block.line,
            what: "this fence is never closed".into(),
        }),
        (None, Some((line, _))) => Err(Mistake {
            line,
            what: "a `test:` comment stands right above a fence".into(),
        }),
        (None, None) => Ok(blocks),
    }
}

/// What a line says, if it is a `test:` comment.
fn directive(line: &str) -> Option<Result<Directive, String>> {
    let said = line
        .trim()
        .strip_prefix("<!-- test:")?
        .strip_suffix("-->")?
        .trim();
    let (verb, rest) = said.split_once([' ', ':']).unwrap_or((said, ""));
    let rest = rest.trim().to_owned();
    Some(match (verb, rest.is_empty()) {
        ("skip", false) => Ok(Directive::Skip { why: rest }),
        ("skip", true) => Err("say why this block is skipped: `skip: why`".into()),
        ("step", false) => Ok(Directive::Step { name: rest }),
        ("needs", false) => Ok(Directive::Needs { path: rest }),
        ("scratch", true) => Ok(Directive::Scratch),
        ("write", false) => Ok(Directive::Write { path: rest }),
        ("in", false) => Ok(Directive::In { path: rest }),
        _ => Err(format!("unknown `test: {said}`")),
    })
}

/// The Markdown of a Rust file's own doc comment, with the line numbers of the file.
#[must_use]
pub fn inner_docs(rust: &str) -> String {
    let markdown = |line: &str| match line.strip_prefix("//!") {
        Some(text) => text.strip_prefix(' ').unwrap_or(text).to_owned(),
        None => String::new(),
    };
    rust.lines().map(|line| markdown(line) + "\n").collect()
}

/// Lines as a Rust file's own doc comment.
#[must_use]
pub fn as_inner_docs(markdown: &str) -> String {
    markdown
        .lines()
        .map(|line| format!("//! {line}").trim_end().to_owned() + "\n")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Block, Directive, as_inner_docs, blocks, inner_docs};

    fn block(line: usize, language: &str, directive: Directive, text: &str) -> Block {
        Block {
            line,
            language: language.into(),
            directive,
            text: text.into(),
        }
    }

    #[test]
    fn blocks_and_what_is_said_of_them() {
        let text = "a\n```console\n$ ls\n\nb\n```\n<!-- test: skip: slow -->\n```rust\n<!-- test: scratch -->\n```\n\
                    <!-- a comment -->\n<!-- test: write src/main.rs -->\n```\n```\n";
        let expected = [
            block(2, "console", Directive::None, "$ ls\n\nb\n"),
            block(
                8,
                "rust",
                Directive::Skip { why: "slow".into() },
                "<!-- test: scratch -->\n",
            ),
            block(
                13,
                "",
                Directive::Write {
                    path: "src/main.rs".into(),
                },
                "",
            ),
        ];
        assert_eq!(blocks(text).unwrap(), expected);
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, line, word) in [
            ("a\n```\n$ ls\n", 2, "closed"),
            ("<!-- test: skip -->\n```\n```\n", 1, "why"),
            ("<!-- test: skpi: slow -->\n```\n```\n", 1, "unknown"),
            (
                "<!-- test: scratch -->\nand then\n```\n```\n",
                1,
                "above a fence",
            ),
            ("<!-- test: scratch -->\n", 1, "above a fence"),
        ] {
            let mistake = blocks(text).unwrap_err();
            assert!(
                mistake.line == line && mistake.what.contains(word),
                "{text:?}: {mistake}"
            );
        }
    }

    #[test]
    fn a_doc_comment_keeps_its_lines() {
        let rust = "//! One.\n//!\n//! ```console\n//! $ ls\n//! ```\n\nfn main() {} // ```\n";
        let markdown = inner_docs(rust);
        assert_eq!(markdown, "One.\n\n```console\n$ ls\n```\n\n\n");
        assert_eq!(
            blocks(&markdown).unwrap(),
            [block(3, "console", Directive::None, "$ ls\n")]
        );
        assert_eq!(
            as_inner_docs("One.\n\n  two\n"),
            "//! One.\n//!\n//!   two\n"
        );
    }
}
