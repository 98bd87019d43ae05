//! The text of an expression as its author wrote it (`stringify!` prints `| r : & f32 |`).

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The source text of `tokens`, runs of white space as one blank.
pub(crate) fn text(tokens: &TokenStream) -> String {
    let mut text = String::new();
    let mut last: Option<proc_macro::Span> = None;
    for token in tokens.clone() {
        // Only inside a macro do spans know where they are; elsewhere (unit tests) any layout will do.
        let span = proc_macro::is_available().then(|| token.span().unwrap());
        let apart = match (last, span) {
            (Some(last), Some(span)) => {
                (last.end().line(), last.end().column())
                    != (span.start().line(), span.start().column())
            }
            _ => false,
        };
        if apart {
            text.push(' ');
        }
        match span.and_then(|span| span.source_text()) {
            Some(source) => push_on_one_line(&mut text, &source),
            None => text.push_str(&token.to_string()),
        }
        last = span;
    }
    text
}

fn push_on_one_line(text: &mut String, source: &str) {
    // A string literal's own line breaks and blanks are its value.
    if source.contains('"') {
        return text.push_str(source);
    }
    for (i, word) in source.split_whitespace().enumerate() {
        if i > 0 {
            text.push(' ');
        }
        text.push_str(word);
    }
}

/// Whether `word` stands among the tokens, at any depth.
pub(crate) fn mentions(tokens: &TokenStream, word: &str) -> bool {
    mentions_any(tokens.clone(), &[word])
}

/// Whether one of the words stands among the tokens, at any depth.
pub(crate) fn mentions_any(tokens: impl IntoIterator<Item = TokenTree>, words: &[&str]) -> bool {
    tokens.into_iter().any(|token| match token {
        // To a string once: each comparison of an `Ident` makes one.
        TokenTree::Ident(ident) => words.contains(&ident.to_string().as_str()),
        TokenTree::Group(group) => mentions_any(group.stream(), words),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// The tokens behind the invisible groups that `macro_rules!` wraps around fragments.
pub(crate) fn peel(tokens: &[TokenTree]) -> Vec<TokenTree> {
    match tokens {
        [TokenTree::Group(group)] if group.delimiter() == Delimiter::None => {
            peel(&group.stream().into_iter().collect::<Vec<_>>())
        }
        _ => tokens.to_vec(),
    }
}
