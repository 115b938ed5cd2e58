//! Lexer of the plan's expression language.

use std::fmt;

use super::mistake::ExpressionMistake;

/// Largest number of tokens of an expression, which bounds the recursion of the parser and the evaluator.
const TOKENS_MAX: usize = 256;
/// Symbols of an expression. Those of two characters come first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 14] = ["<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "^", "(", ")", ","];

/// Token of an expression: a number, a name or a symbol.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ExpressionToken<'a> {
    Number(f64),
    /// Function, operator in letters, or `experiment.quantity`.
    Name(&'a str),
    Symbol(&'static str),
}

impl ExpressionToken<'_> {
    /// True if the token is the symbol or the word `text`.
    pub(super) fn is(&self, text: &str) -> bool {
        matches!(self, ExpressionToken::Name(word) | ExpressionToken::Symbol(word) if *word == text)
    }
}

impl fmt::Display for ExpressionToken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExpressionToken::Number(number) => write!(f, "{number}"),
            ExpressionToken::Name(word) | ExpressionToken::Symbol(word) => f.write_str(word),
        }
    }
}

/// Splits the text of an expression into tokens; refuses unknown characters and expressions with too many tokens.
pub(super) fn tokens(text: &str) -> Result<Vec<ExpressionToken<'_>>, ExpressionMistake> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '0'..='9' | '.' => number(rest)?,
            first if is_word(first) => word(rest),
            _ => symbol(rest)?,
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    match tokens.len() {
        0..=TOKENS_MAX => Ok(tokens),
        count => Err(ExpressionMistake::new(format!("an expression of {count} words"), format!("up to {TOKENS_MAX}"))),
    }
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// Reads a decimal number at the start of a text, with an exponent if a digit follows its `e`. Returns its token and
/// length in bytes.
fn number(text: &str) -> Result<(ExpressionToken<'_>, usize), ExpressionMistake> {
    let mantissa = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let length = mantissa + exponent_text_length(&text[mantissa..]);
    let digits = &text[..length];
    match digits.parse() {
        Ok(number) => Ok((ExpressionToken::Number(number), length)),
        Err(_) => Err(ExpressionMistake::new(format!("`{digits}` is not a number"), "numbers such as 1.5 or 2e9")),
    }
}

fn exponent_text_length(text: &str) -> usize {
    let Some(after) = text.strip_prefix(['e', 'E']) else {
        return 0;
    };
    let digits = after.strip_prefix(['-', '+']).unwrap_or(after);
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    if count == 0 { 0 } else { text.len() - digits.len() + count }
}

/// Reads a word at the start of a text: letters, digits and underscores; dots and hyphens only between two of these.
/// Returns its token and length in bytes.
fn word(text: &str) -> (ExpressionToken<'_>, usize) {
    let bytes = text.as_bytes();
    let is_word_at = |at: usize| bytes.get(at).is_some_and(|byte| is_word(char::from(*byte)));
    let joins = |at: usize| matches!(bytes.get(at), Some(b'.' | b'-')) && is_word_at(at + 1);
    let mut length = 0;
    while is_word_at(length) || joins(length) {
        length += 1;
    }
    (ExpressionToken::Name(&text[..length]), length)
}

fn symbol(text: &str) -> Result<(ExpressionToken<'_>, usize), ExpressionMistake> {
    let known = SYMBOLS.iter().find(|symbol| text.starts_with(**symbol));
    let found = || format!("unexpected `{}`", text.chars().next().unwrap_or(' '));
    let symbol = known.ok_or_else(|| ExpressionMistake::new(found(), SYMBOLS.join(" ")))?;
    Ok((ExpressionToken::Symbol(symbol), symbol.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hyphen_in_a_name_is_part_of_it_and_spaced_hyphen_subtracts() {
        assert_eq!(tokens("user-4k.iops").unwrap(), [ExpressionToken::Name("user-4k.iops")]);
        let subtraction = [ExpressionToken::Name("a"), ExpressionToken::Symbol("-"), ExpressionToken::Name("b")];
        assert_eq!(tokens("a - b").unwrap(), subtraction);
        assert_eq!(tokens("a -b").unwrap(), subtraction);
    }

    #[test]
    fn exponent_needs_digits() {
        assert_eq!(tokens("1.5e-3").unwrap(), [ExpressionToken::Number(0.0015)]);
        assert_eq!(tokens("2e").unwrap(), [ExpressionToken::Number(2.0), ExpressionToken::Name("e")]);
        assert!(tokens("1.2.3").is_err());
    }

    #[test]
    fn lexer_prefers_the_longer_symbol() {
        assert_eq!(tokens("<=<").unwrap(), [ExpressionToken::Symbol("<="), ExpressionToken::Symbol("<")]);
    }

    #[test]
    fn foreign_characters_and_overlong_expressions_are_refused() {
        assert_eq!(tokens("3 µ").unwrap_err().found, "unexpected `µ`");
        assert!(tokens(&"1 ".repeat(TOKENS_MAX)).is_ok());
        assert!(tokens(&"1 ".repeat(TOKENS_MAX + 1)).is_err());
    }
}
