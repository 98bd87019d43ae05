//! "did you mean".

/// `; did you mean ...?` where a candidate is near, else the candidates.
pub(crate) fn hint(word: &str, candidates: &[&str]) -> String {
    match nearest(word, candidates) {
        Some(name) => format!("; did you mean `{name}`?"),
        None => format!(
            "; expected one of {}",
            candidates
                .iter()
                .map(|c| format!("`{c}`"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}

/// The candidate that fewest edits turn `word` into, if at most a third of its letters change,
/// or that `word` is the beginning or the end of.
pub(crate) fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| {
        text.chars()
            .filter(|c| c.is_alphanumeric())
            .collect::<String>()
            .to_lowercase()
    };
    let word = plain(word);
    candidates
        .iter()
        .map(|name| (edits(&word, &plain(name)), *name))
        .filter(|&(edits, name)| {
            let name = plain(name);
            (edits <= name.len().div_ceil(3) && edits < name.len())
                || (word.len() > 2 && (name.starts_with(&word) || name.ends_with(&word)))
        })
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, name)| name)
}

/// Levenshtein distance, in bytes.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::{edits, nearest};

    #[test]
    fn edit_distances_of_the_textbook() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("saturday", "sunday"), 3);
    }

    #[test]
    fn slips_are_understood_and_noise_is_not() {
        let names = ["budget_us", "flops", "no_nan"];
        assert_eq!(nearest("budget", &names), Some("budget_us"));
        assert_eq!(nearest("budgetus", &names), Some("budget_us"));
        assert_eq!(nearest("flop", &names), Some("flops"));
        assert_eq!(nearest("nonan", &names), Some("no_nan"));
        assert_eq!(nearest("inline", &names), None);
    }
}
