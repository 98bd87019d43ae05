//! Items, blocks and the files that `mod x;` leads to, as rustc finds them
//! (rustc_expand's `module.rs`, <https://doc.rust-lang.org/reference/items/modules.html>).

use std::path::{Path, PathBuf};

use super::attrs::Attrs;
use super::lexer::{Kind, Token, lex};
use super::{Found, Invocation};

/// Files this deep in each other lead in a circle.
const MAX_DEPTH: usize = 128;

/// Where the submodules of a place are.
#[derive(Clone)]
struct Place {
    /// The file's directory, and the inline modules below it.
    dir: PathBuf,
    /// `x` in the file `x.rs`: its submodules are in `x/`, but a `#[path]` starts beside it.
    stem: Option<String>,
    /// Outside of inline modules and blocks.
    at_top: bool,
    depth: usize,
}

struct Walk<'a> {
    file: &'a Path,
    source: &'a str,
    tokens: Vec<Token<'a>>,
    found: &'a mut Found,
}

/// Walks the crate root, whose modules lie beside it whatever its name.
pub(super) fn root(file: &Path, source: &str, found: &mut Found) {
    let dir = file.parent().map(Path::to_owned).unwrap_or_default();
    walk_file(
        file,
        source,
        Place {
            dir,
            stem: None,
            at_top: true,
            depth: 0,
        },
        &[],
        found,
    );
}

fn walk_file(file: &Path, source: &str, place: Place, cfgs: &[String], found: &mut Found) {
    // Leaves without bricks are most files: no need to take them apart.
    if !source.contains("brick") && !source.contains("mod ") {
        return;
    }
    let mut walk = Walk {
        file,
        source,
        tokens: lex(source),
        found,
    };
    let mut at = 0;
    while at < walk.tokens.len() {
        // A stray closing bracket must not end the file.
        at = walk.block(at, cfgs.to_vec(), &place);
    }
}

/// What is known between the brackets of a block.
#[derive(Default)]
struct Scope {
    /// The predicates that all of it stands under.
    cfgs: Vec<String>,
    /// The attributes of the item to come.
    pending: Attrs,
    /// Between an item's keyword and its body, where a comma separates generics, not items.
    in_header: bool,
}

impl Scope {
    /// The attributes of the item whose body or end is here.
    fn take(&mut self) -> Attrs {
        self.in_header = false;
        std::mem::take(&mut self.pending)
    }
}

impl Walk<'_> {
    /// Walks to the bracket that closes this block, or to the end; the index behind it.
    fn block(&mut self, mut at: usize, cfgs: Vec<String>, place: &Place) -> usize {
        let mut scope = Scope {
            cfgs,
            ..Scope::default()
        };
        while let Some(token) = self.tokens.get(at) {
            if token.kind == Kind::Close {
                return at + 1;
            }
            at = self.step(at, &mut scope, place);
        }
        at
    }

    /// Takes one token, or all that belongs to it; the index behind.
    fn step(&mut self, at: usize, scope: &mut Scope, place: &Place) -> usize {
        let token = self.tokens[at];
        if token.is("#") && (self.is(at + 1, "[") || self.is(at + 1, "!") && self.is(at + 2, "[")) {
            return self.attribute(at, scope);
        }
        if token.is("mod") && self.is_word(at + 1) && (self.is(at + 2, ";") || self.is(at + 2, "{"))
        {
            return self.module(at, scope, place);
        }
        if token.is("fn") && self.is_word(at + 1) {
            return self.function(at + 2, scope.take(), &scope.cfgs, place);
        }
        if token.kind == Kind::Word && self.is(at + 1, "!") && !is_expression_keyword(token.text) {
            // `macro_rules! name { … }` has a word more.
            let open = at + if self.is_word(at + 2) { 3 } else { 2 };
            if self
                .tokens
                .get(open)
                .is_some_and(|token| token.kind == Kind::Open)
            {
                self.note_bricks(token, place);
                return self.group_end(open);
            }
        }
        if token.is("{") && !self.is_const_argument(at) {
            let attrs = scope.take();
            let cfgs = joined(&scope.cfgs, &attrs.cfgs);
            return self.block(at + 1, cfgs, &in_block(place));
        }
        if token.kind == Kind::Open {
            return self.block(at + 1, scope.cfgs.clone(), &in_block(place));
        }
        if token.is(";") || (token.is(",") && !scope.in_header) {
            scope.take();
        } else if !scope.pending.is_empty() && is_item_keyword(token.text) {
            scope.in_header = true;
        }
        at + 1
    }

    /// `#[…]` or `#![…]`.
    fn attribute(&self, at: usize, scope: &mut Scope) -> usize {
        let open = if self.is(at + 1, "[") { at + 1 } else { at + 2 };
        let end = self.group_end(open);
        let content = self.tokens.get(open + 1..end - 1).unwrap_or(&[]);
        if open == at + 1 {
            scope.pending.add(self.source, content);
        } else {
            let mut inner = Attrs::default();
            inner.add(self.source, content);
            scope.cfgs.extend(inner.cfgs);
        }
        end
    }

    /// `mod name;` or `mod name { … }`.
    fn module(&mut self, at: usize, scope: &mut Scope, place: &Place) -> usize {
        let name = self.tokens[at + 1].text;
        let attrs = scope.take();
        let cfgs = joined(&scope.cfgs, &attrs.cfgs);
        if self.is(at + 2, ";") {
            self.module_file(name, &attrs, cfgs, place);
            at + 3
        } else {
            self.block(at + 3, cfgs, &inline(name, &attrs, place))
        }
    }

    fn is(&self, at: usize, text: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(text))
    }

    fn is_word(&self, at: usize) -> bool {
        self.tokens
            .get(at)
            .is_some_and(|token| token.kind == Kind::Word)
    }

    /// From behind a function's name: to its body, which is walked too. A function without one
    /// claims no id.
    fn function(&mut self, mut at: usize, attrs: Attrs, cfgs: &[String], place: &Place) -> usize {
        while let Some(&token) = self.tokens.get(at) {
            if token.is("{") && !self.is_const_argument(at) {
                let cfgs = joined(cfgs, &attrs.cfgs);
                for (conditions, id) in attrs.bricks {
                    self.found.add(id, joined(&cfgs, &conditions));
                }
                return self.block(at + 1, cfgs, &in_block(place));
            }
            match token.kind {
                Kind::Open => at = self.group_end(at),
                Kind::Close => return at,
                _ if token.is(";") => return at + 1,
                _ => at += 1,
            }
        }
        at
    }

    /// Follows `mod name;` into each file it may be.
    fn module_file(&mut self, name: &str, attrs: &Attrs, cfgs: Vec<String>, place: &Place) {
        if place.depth >= MAX_DEPTH {
            return;
        }
        let depth = place.depth + 1;
        let mut otherwise = Vec::new();
        for (conditions, path) in &attrs.paths {
            let file = place.dir.join(path);
            let dir = file.parent().map(Path::to_owned).unwrap_or_default();
            self.read(
                &file,
                Place {
                    dir,
                    stem: None,
                    at_top: true,
                    depth,
                },
                &joined(&cfgs, conditions),
            );
            if conditions.is_empty() {
                return;
            }
            otherwise.push(format!("not(all({}))", conditions.join(", ")));
        }
        let cfgs = joined(&cfgs, &otherwise);
        let dir = place
            .stem
            .iter()
            .fold(place.dir.clone(), |dir, stem| dir.join(stem));
        let beside = dir.join(format!("{name}.rs"));
        if !self.read(
            &beside,
            Place {
                dir: dir.clone(),
                stem: Some(name.to_owned()),
                at_top: true,
                depth,
            },
            &cfgs,
        ) {
            let dir = dir.join(name);
            self.read(
                &dir.join("mod.rs"),
                Place {
                    dir,
                    stem: None,
                    at_top: true,
                    depth,
                },
                &cfgs,
            );
        }
    }

    /// Walks a file; false where there is none (which is rustc's to report, or `cfg`d off).
    fn read(&mut self, file: &Path, place: Place, cfgs: &[String]) -> bool {
        let Ok(source) = std::fs::read_to_string(file) else {
            return false;
        };
        walk_file(file, &source, place, cfgs, self.found);
        true
    }

    fn note_bricks(&mut self, name: Token<'_>, place: &Place) {
        if name.is("bricks") {
            let line = self.source[..name.start].matches('\n').count() + 1;
            let (file, at_top) = (self.file.to_owned(), place.at_top);
            self.found
                .invocations
                .push(Invocation { file, line, at_top });
        }
    }

    /// The index behind the group that opens at `at`.
    fn group_end(&self, at: usize) -> usize {
        let mut depth = 0_usize;
        for (offset, token) in self.tokens[at..].iter().enumerate() {
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close => depth -= 1,
                _ => continue,
            }
            if depth == 0 {
                return at + offset + 1;
            }
        }
        self.tokens.len()
    }

    /// `{ N }` of `Matrix<{ M }, { N }>` is no body; one after `where T: Copy,` is.
    fn is_const_argument(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(1).and_then(|before| self.tokens.get(before)) else {
            return false;
        };
        let after = || self.tokens.get(self.group_end(at));
        before.is("<")
            || (before.is(",") && after().is_some_and(|after| after.is(">") || after.is(",")))
    }
}

fn joined(cfgs: &[String], more: &[String]) -> Vec<String> {
    cfgs.iter().chain(more).cloned().collect()
}

/// The place of `mod name { … }`.
fn inline(name: &str, attrs: &Attrs, place: &Place) -> Place {
    let dir = match attrs.paths.first() {
        // For an inline module `#[path]` names a directory.
        Some((_, path)) => place.dir.join(path),
        None => place
            .stem
            .iter()
            .fold(place.dir.clone(), |dir, stem| dir.join(stem))
            .join(name),
    };
    Place {
        dir,
        stem: None,
        at_top: false,
        depth: place.depth,
    }
}

/// Inside a block only `#[path]` leads to files, and starts at the directory.
fn in_block(place: &Place) -> Place {
    Place {
        dir: place.dir.clone(),
        stem: None,
        at_top: false,
        depth: place.depth,
    }
}

/// Words that `!` can follow without being a macro's name.
fn is_expression_keyword(word: &str) -> bool {
    matches!(
        word,
        "if" | "while"
            | "match"
            | "return"
            | "break"
            | "in"
            | "else"
            | "move"
            | "yield"
            | "impl"
            | "for"
            | "as"
    )
}

fn is_item_keyword(word: &str) -> bool {
    matches!(
        word,
        "impl" | "trait" | "struct" | "enum" | "union" | "unsafe" | "extern" | "where"
    )
}
