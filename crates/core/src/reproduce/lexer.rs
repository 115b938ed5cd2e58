//! Words of the plan's expression language.

use std::fmt;

use super::mistake::Mistake;

/// Longest expression. It bounds the depth of the parser's and evaluator's recursion.
const TOKENS_MAX: usize = 256;
/// Two-character symbols first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 14] = ["<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "^", "(", ")", ","];

/// A word of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Number(f64),
    /// A function, an operator in letters, or `experiment.quantity`.
    Name(&'a str),
    Symbol(&'static str),
}

impl Token<'_> {
    /// Whether the token is this symbol or word.
    pub(super) fn is(&self, text: &str) -> bool {
        matches!(self, Token::Name(word) | Token::Symbol(word) if *word == text)
    }
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Number(number) => write!(f, "{number}"),
            Token::Name(word) | Token::Symbol(word) => f.write_str(word),
        }
    }
}

/// Cut `text` into tokens, or say which character starts none.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, Mistake> {
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
        count => Err(Mistake::new(format!("an expression of {count} words"), format!("up to {TOKENS_MAX}"))),
    }
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// A decimal number, with an exponent if a digit follows its `e`.
fn number(text: &str) -> Result<(Token<'_>, usize), Mistake> {
    let mantissa = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let length = mantissa + exponent_length(&text[mantissa..]);
    let digits = &text[..length];
    match digits.parse() {
        Ok(number) => Ok((Token::Number(number), length)),
        Err(_) => Err(Mistake::new(format!("`{digits}` is not a number"), "numbers such as 1.5 or 2e9")),
    }
}

fn exponent_length(text: &str) -> usize {
    let Some(after) = text.strip_prefix(['e', 'E']) else {
        return 0;
    };
    let digits = after.strip_prefix(['-', '+']).unwrap_or(after);
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    if count == 0 { 0 } else { text.len() - digits.len() + count }
}

/// Letters, digits and underscores; dots and hyphens only between two of these.
fn word(text: &str) -> (Token<'_>, usize) {
    let bytes = text.as_bytes();
    let is_word_at = |at: usize| bytes.get(at).is_some_and(|byte| is_word(char::from(*byte)));
    let joins = |at: usize| matches!(bytes.get(at), Some(b'.' | b'-')) && is_word_at(at + 1);
    let mut length = 0;
    while is_word_at(length) || joins(length) {
        length += 1;
    }
    (Token::Name(&text[..length]), length)
}

fn symbol(text: &str) -> Result<(Token<'_>, usize), Mistake> {
    let known = SYMBOLS.iter().find(|symbol| text.starts_with(**symbol));
    let found = || format!("unexpected `{}`", text.chars().next().unwrap_or(' '));
    let symbol = known.ok_or_else(|| Mistake::new(found(), SYMBOLS.join(" ")))?;
    Ok((Token::Symbol(symbol), symbol.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hyphen_inside_a_name_belongs_to_it_and_one_with_spaces_subtracts() {
        assert_eq!(tokens("user-4k.iops").unwrap(), [Token::Name("user-4k.iops")]);
        let subtraction = [Token::Name("a"), Token::Symbol("-"), Token::Name("b")];
        assert_eq!(tokens("a - b").unwrap(), subtraction);
        assert_eq!(tokens("a -b").unwrap(), subtraction);
    }

    #[test]
    fn numbers_take_an_exponent_only_with_digits() {
        assert_eq!(tokens("1.5e-3").unwrap(), [Token::Number(0.0015)]);
        assert_eq!(tokens("2e").unwrap(), [Token::Number(2.0), Token::Name("e")]);
        assert!(tokens("1.2.3").is_err());
    }

    #[test]
    fn longer_symbols_win() {
        assert_eq!(tokens("<=<").unwrap(), [Token::Symbol("<="), Token::Symbol("<")]);
    }

    #[test]
    fn foreign_characters_and_endless_texts_are_refused() {
        assert_eq!(tokens("3 µ").unwrap_err().found, "unexpected `µ`");
        assert!(tokens(&"1 ".repeat(TOKENS_MAX)).is_ok());
        assert!(tokens(&"1 ".repeat(TOKENS_MAX + 1)).is_err());
    }
}
