//! Outer attributes, as far as the scan minds them.

use super::lexer::{Kind, Token};

/// What stands before an item.
#[derive(Clone, Debug, Default)]
pub(super) struct Attrs {
    /// Predicates of `#[cfg(…)]`.
    pub(super) cfgs: Vec<String>,
    /// `#[path = "…"]`, with the predicates of the `cfg_attr`s around it.
    pub(super) paths: Vec<(Vec<String>, String)>,
    /// Ids of `#[brick(id = …)]`, with the predicates of the `cfg_attr`s around it.
    pub(super) bricks: Vec<(Vec<String>, String)>,
}

impl Attrs {
    pub(super) fn is_empty(&self) -> bool {
        self.cfgs.is_empty() && self.paths.is_empty() && self.bricks.is_empty()
    }

    /// Takes the attribute between these brackets.
    pub(super) fn add(&mut self, source: &str, content: &[Token<'_>]) {
        self.add_under(source, content, &[]);
    }

    fn add_under(&mut self, source: &str, content: &[Token<'_>], conditions: &[String]) {
        let path = content
            .iter()
            .take_while(|token| token.kind == Kind::Word || token.is(":"))
            .count();
        let (Some(name), rest) = (content[..path].last(), &content[path..]) else {
            return;
        };
        let inner = rest.get(1..rest.len().saturating_sub(1)).unwrap_or(&[]);
        match name.text {
            "cfg" => {
                let predicate = text(source, inner).to_owned();
                // Under `cfg_attr(a, cfg(b))` the item is there unless `a` holds and `b` does not.
                match conditions {
                    [] => self.cfgs.push(predicate),
                    _ => self.cfgs.push(format!(
                        "any(not(all({})), {predicate})",
                        conditions.join(", ")
                    )),
                }
            }
            "cfg_attr" => {
                let mut pieces = split(inner);
                if pieces.is_empty() {
                    return;
                }
                let mut conditions = conditions.to_vec();
                conditions.push(text(source, pieces.remove(0)).to_owned());
                for attribute in pieces {
                    self.add_under(source, attribute, &conditions);
                }
            }
            "path" => {
                if let [equals, file] = rest
                    && equals.is("=")
                    && let Ok(file) = syn::parse_str::<syn::LitStr>(file.text)
                {
                    self.paths.push((conditions.to_vec(), file.value()));
                }
            }
            "brick" => self
                .bricks
                .extend(id(inner).map(|id| (conditions.to_vec(), id))),
            _ => {}
        }
    }
}

/// The `X` of `id = X`.
fn id(arguments: &[Token<'_>]) -> Option<String> {
    split(arguments)
        .into_iter()
        .find_map(|argument| match argument {
            [name, equals, id]
                if name.is("id") && equals.is("=") && id.kind == Kind::Word && !id.is_raw() =>
            {
                Some(id.text.to_owned())
            }
            _ => None,
        })
}

/// The source from the first token to the last.
fn text<'a>(source: &'a str, tokens: &[Token<'_>]) -> &'a str {
    match tokens {
        [first, .., last] => &source[first.start..last.end],
        [only] => &source[only.start..only.end],
        [] => "",
    }
}

/// Splits at the commas outside of all groups.
fn split<'t, 'a>(tokens: &'t [Token<'a>]) -> Vec<&'t [Token<'a>]> {
    let mut depth = 0_usize;
    tokens
        .split(|token| {
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && token.is(",")
        })
        .collect()
}
