//! Suggestions for names that do not exist: the known name of the most similar spelling.

/// Least similarity at which a known name is suggested for an unknown one, from 0 to 1.
const LIKENESS_MIN: f64 = 0.5;
/// Least similarity for suggestions from many names, one of which is always similar by chance; from 0 to 1.
pub(crate) const LIKENESS_AMONG_MANY_MIN: f64 = 0.75;
/// Least length in bytes of a word that is suggested as the beginning of a longer name.
const BEGINNING_BYTES_MIN: usize = 3;
/// Largest length in bytes of a word that is compared with known names: the comparison takes quadratic time.
const WORD_BYTES_MAX: usize = 64;

/// Returns the candidate most similar to `word`; `None` if none is similar enough to be suggested.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    most_similar_above(LIKENESS_MIN, word, candidates)
}

/// Returns the candidate most similar to `word` whose similarity is above `likeness_min`, if there is one.
pub(crate) fn most_similar_above<'a>(
    likeness_min: f64,
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let mut best = (likeness_min, None);
    for candidate in candidates {
        let likeness = word_similarity(word, candidate);
        if likeness > best.0 {
            best = (likeness, Some(candidate));
        }
    }
    best.1
}

/// Returns all candidates, sorted by descending similarity to `word`.
pub fn by_similarity<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut candidates: Vec<&str> = candidates.into_iter().collect();
    if word.len() <= WORD_BYTES_MAX {
        candidates.sort_by(|left, right| word_similarity(word, right).total_cmp(&word_similarity(word, left)));
    }
    candidates
}

/// Returns the similarity of a word and a candidate, from 0 to 1. A word that is the beginning of the candidate gets at
/// least the similarity that suggestions from many names need, and more, the less of the candidate is missing.
fn word_similarity(word: &str, candidate: &str) -> f64 {
    let likeness = strsim::normalized_damerau_levenshtein(word, candidate);
    let is_beginning = word.len() >= BEGINNING_BYTES_MIN && candidate.starts_with(word);
    let from = if is_beginning { LIKENESS_AMONG_MANY_MIN } else { 0.0 };
    from + (1.0 - from) * likeness
}

/// Returns a text such as `, did you mean sleep?`; an empty text without a suggestion.
pub fn question(meant: Option<&str>) -> String {
    meant.map_or(String::new(), |meant| format!(", did you mean {meant}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_suggested_and_dissimilar_ones_not() {
        assert_eq!(nearest("slep", ["spin", "sleep", "hybrid"]), Some("sleep"));
        assert_eq!(nearest("nand", ["dram", "nand-slc", "nand-mlc"]), Some("nand-slc"));
        assert_eq!(nearest("zzz", ["spin", "sleep", "hybrid"]), None);
        assert_eq!(nearest(&"sleep".repeat(100_000), ["sleep"]), None);
    }
}
