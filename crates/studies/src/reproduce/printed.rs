//! Tolerance of a printed number: the one rule from which the tolerances of all papers follow.
//!
//! | the paper's words | a simulated value may lie |
//! |---|---|
//! | none | within half a unit of the last printed digit, but 2 % at least and 20 % at most |
//! | "about", "around", "near", "~", … | likewise, but 10 % at least |
//! | "just over", "a little over" | from the number to a tenth above it |
//! | "just under", "nearly", "almost" | from a tenth below the number up to it |
//! | "more than", "at least", "exceed", … | from the number to a fifth above it: a paper that had more would have printed more |
//! | "less than", "at most", "within", … | from a fifth below the number up to it |
//! | "hundreds of", "several", "more than two orders of magnitude", … | from the number to ten times it |
//! | "orders of magnitude" | within half an order either way, a factor of √10 |
//! | "figure" | within a tenth: read off a curve |
//! | "exactly" | at the number |
//!
//! All digits in the file count, zeros too, so that "75" has two and "75.0" three. A number in words ("a microsecond",
//! "twice", "tenfold") has one. The 2 % are the accuracy of a measurement for which a paper states no variation:
//! results that one paper prints twice differ by 1.4 % ("78 kIOPS" and "nearly 13 us"), 0.5 % ("75 kIOPS" and 300 k for
//! four cards) and 3 % ("16 MB/s" and 66 MHz at two bits).

/// Smallest and largest tolerance of a printed number without words, as a share of the number.
const PLAIN: (f64, f64) = (0.02, 0.2);
/// Smallest and largest tolerance of a printed number with "about", as a share of the number.
const ABOUT: (f64, f64) = (0.1, 0.2);
/// Tolerance above or below a printed number with "just over" or "just under", as a share of the number.
const JUST: f64 = 0.1;
/// Tolerance beyond a printed number that is a bound, such as "more than 5", as a share of the number.
const BOUND: f64 = 0.2;
/// Tolerance of a value that was read off a figure, as a share of the value.
const FIGURE: f64 = 0.1;
/// Relative rounding error of computed numbers, by which each tolerance is widened.
const ROUNDING: f64 = 1e-9;

/// Number as a paper prints it, with its precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Printed {
    pub value: f64,
    /// Half a unit of the last printed digit, in the unit of the number.
    pub half_unit: f64,
}

/// Meaning of the words that a paper puts around a printed number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    Plain,
    About,
    JustOver,
    JustUnder,
    Over,
    Under,
    Multiples,
    Orders,
    Figure,
    Exactly,
}

/// Words that a published result may have around its number, each with its meaning.
const WORDS: &[(&str, Words)] = &[
    ("", Words::Plain),
    ("~", Words::About),
    ("about", Words::About),
    ("around", Words::About),
    ("near", Words::About),
    ("typical", Words::About),
    ("just over", Words::JustOver),
    ("a little over", Words::JustOver),
    ("just under", Words::JustUnder),
    ("nearly", Words::JustUnder),
    ("almost", Words::JustUnder),
    ("over", Words::Over),
    ("well over", Words::Over),
    ("exceed", Words::Over),
    ("more than", Words::Over),
    ("at least", Words::Over),
    ("no less than", Words::Over),
    ("less than", Words::Under),
    ("at most", Words::Under),
    ("within", Words::Under),
    ("up to", Words::Under),
    ("several", Words::Multiples),
    ("tens of", Words::Multiples),
    ("hundreds of", Words::Multiples),
    ("more than two orders of magnitude", Words::Multiples),
    ("orders of magnitude", Words::Orders),
    ("figure", Words::Figure),
    ("exactly", Words::Exactly),
];

impl Printed {
    /// Parses printed digits with an optional power of ten that takes them into the row's unit: `2.432e3`, `75e3`,
    /// `0.52`. Returns none unless the number is above 0.
    pub(super) fn parse(text: &str) -> Option<Printed> {
        let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0)?;
        let (digits, power) = text.split_once('e').unwrap_or((text, "0"));
        let power: i32 = power.parse().ok()?;
        let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let last_digit = power.checked_sub(i32::try_from(decimals).ok()?)?;
        Some(Printed { value, half_unit: 0.5 * libm::pow(10.0, f64::from(last_digit)) })
    }

    /// Returns the lowest and the highest simulated value that count as this printed number with these words.
    pub(super) fn accepted(self, words: Words) -> (f64, f64) {
        let value = self.value;
        let around = |(least, most): (f64, f64)| (self.half_unit / value).clamp(least, most);
        let (below, above) = match words {
            Words::Plain => (-around(PLAIN), around(PLAIN)),
            Words::About => (-around(ABOUT), around(ABOUT)),
            Words::JustOver => (0.0, JUST),
            Words::JustUnder => (-JUST, 0.0),
            Words::Over => (0.0, BOUND),
            Words::Under => (-BOUND, 0.0),
            Words::Multiples => (0.0, 9.0),
            Words::Orders => (1.0 / libm::sqrt(10.0) - 1.0, libm::sqrt(10.0) - 1.0),
            Words::Figure => (-FIGURE, FIGURE),
            Words::Exactly => (0.0, 0.0),
        };
        (value * (1.0 + below - ROUNDING), value * (1.0 + above + ROUNDING))
    }
}

impl Words {
    pub(super) fn parse(text: &str) -> Option<Words> {
        WORDS.iter().find(|(known, _)| *known == text).map(|(_, words)| *words)
    }

    /// Returns all known words around a number, as a list for messages.
    pub(super) fn known() -> String {
        let phrases: Vec<&str> = WORDS.iter().map(|(phrase, _)| *phrase).filter(|phrase| !phrase.is_empty()).collect();
        format!("nothing, {}", phrases.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the tolerance below and above a printed number with these words, in per cent.
    fn tolerance_of_words(text: &str, words: &str) -> (f64, f64) {
        let printed = Printed::parse(text).unwrap();
        let (low, high) = printed.accepted(Words::parse(words).unwrap());
        let pct = |bound: f64| (100.0 * (bound / printed.value - 1.0) * 100.0).round() / 100.0;
        (pct(low), pct(high))
    }

    #[test]
    fn printed_number_tolerance_is_half_a_unit_within_2_to_20_percent() {
        assert_eq!(tolerance_of_words("1.4e3", ""), (-3.57, 3.57));
        assert_eq!(tolerance_of_words("1.40e3", ""), (-2.0, 2.0));
        assert_eq!(tolerance_of_words("12", ""), (-4.17, 4.17));
        assert_eq!(tolerance_of_words("1e6", ""), (-20.0, 20.0));
        assert_eq!(tolerance_of_words("0.03", ""), (-16.67, 16.67));
        assert_eq!(tolerance_of_words("273e3", ""), (-2.0, 2.0));
    }

    #[test]
    fn words_widen_the_tolerance_or_turn_the_number_into_a_bound() {
        assert_eq!(tolerance_of_words("4.5e3", "~"), (-10.0, 10.0));
        assert_eq!(tolerance_of_words("3", "about"), (-16.67, 16.67));
        assert_eq!(tolerance_of_words("1e3", "just over"), (0.0, 10.0));
        assert_eq!(tolerance_of_words("1e6", "just under"), (-10.0, 0.0));
        assert_eq!(tolerance_of_words("700e3", "exceed"), (0.0, 20.0));
        assert_eq!(tolerance_of_words("6", "less than"), (-20.0, 0.0));
        assert_eq!(tolerance_of_words("100", "hundreds of"), (0.0, 900.0));
        assert_eq!(tolerance_of_words("1e4", "orders of magnitude"), (-68.38, 216.23));
        assert_eq!(tolerance_of_words("5.0", "figure"), (-10.0, 10.0));
        assert_eq!(tolerance_of_words("25", "exactly"), (0.0, 0.0));
    }

    #[test]
    fn text_without_a_printed_number_is_refused() {
        for text in ["", "x", "-1", "0", "1e", "1e400", "nan", "inf", "1.2.3"] {
            assert_eq!(Printed::parse(text), None, "{text}");
        }
        assert_eq!(Words::parse("roughly speaking"), None);
    }
}
