//! What was probably meant by a name that does not exist.

/// Names less alike than this are not worth suggesting.
const LIKENESS_MIN: f64 = 0.5;
/// A word among many must be more alike: one of them always is by chance.
pub(crate) const LIKENESS_AMONG_MANY_MIN: f64 = 0.75;
/// Shorter words are the beginning of too much.
const BEGINNING_BYTES_MIN: usize = 3;
/// Longer words are not compared: the comparison takes quadratic time.
const WORD_BYTES_MAX: usize = 64;

/// The candidate most like `word`, if any is like it at all.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_above(LIKENESS_MIN, word, candidates)
}

pub(crate) fn nearest_above<'a>(
    likeness_min: f64,
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let mut best = (likeness_min, None);
    for candidate in candidates {
        let likeness = likeness(word, candidate);
        if likeness > best.0 {
            best = (likeness, Some(candidate));
        }
    }
    best.1
}

/// All candidates, those most like `word` first.
pub fn most_alike_first<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut candidates: Vec<&str> = candidates.into_iter().collect();
    if word.len() <= WORD_BYTES_MAX {
        candidates.sort_by(|left, right| likeness(word, right).total_cmp(&likeness(word, left)));
    }
    candidates
}

/// From 0 to 1; a word that is the beginning of the candidate is at least as like as a word among many must be, and the
/// more, the less is missing.
fn likeness(word: &str, candidate: &str) -> f64 {
    let likeness = strsim::normalized_damerau_levenshtein(word, candidate);
    let is_beginning = word.len() >= BEGINNING_BYTES_MIN && candidate.starts_with(word);
    let from = if is_beginning { LIKENESS_AMONG_MANY_MIN } else { 0.0 };
    from + (1.0 - from) * likeness
}

/// `, did you mean sleep?`, or nothing.
pub fn question(meant: Option<&str>) -> String {
    meant.map_or(String::new(), |meant| format!(", did you mean {meant}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_strangers_are_not() {
        assert_eq!(nearest("slep", ["spin", "sleep", "hybrid"]), Some("sleep"));
        assert_eq!(nearest("nand", ["dram", "nand-slc", "nand-mlc"]), Some("nand-slc"));
        assert_eq!(nearest("zzz", ["spin", "sleep", "hybrid"]), None);
        assert_eq!(nearest(&"sleep".repeat(100_000), ["sleep"]), None);
    }
}
