//! Inputs made from others. Blind, but the same for the same seed.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Longest input; what matters fits, and longer ones only take longer.
pub const INPUT_BYTES_MAX: usize = 32768;

/// Numbers at which readers go wrong.
const NUMBERS: [u64; 14] = [
    0,
    1,
    2,
    7,
    0x7f,
    0xff,
    0x200,
    0x1000,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];

/// Numbers in text at which readers go wrong.
const WORDS: [&str; 12] = [
    "0",
    "-1",
    "1e308",
    "nan",
    "inf",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775807",
    "0.0",
    "100%",
    "\"\"",
    "[]",
];

/// A source of inputs.
#[derive(Debug)]
pub struct Mutator<'a> {
    corpus: &'a [Vec<u8>],
    random: Xoshiro256PlusPlus,
}

impl<'a> Mutator<'a> {
    /// Inputs from those of `corpus`.
    ///
    /// # Panics
    /// If it is empty.
    pub fn new(corpus: &'a [Vec<u8>], seed: u64) -> Mutator<'a> {
        assert!(!corpus.is_empty(), "nothing to alter");
        Mutator { corpus, random: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// The next input: one of the corpus with a few changes, most often one or two.
    pub fn input(&mut self) -> Vec<u8> {
        let mut input = self.other().to_vec();
        let changes = 1 + self.random.random_range(0u32..64).trailing_zeros().min(6);
        for _ in 0..changes {
            self.change(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn other(&mut self) -> &'a [u8] {
        &self.corpus[self.random.random_range(0..self.corpus.len())]
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        match self.random.random_range(0..9u8) {
            _ if input.is_empty() => input.push(self.random.random()),
            0 => self.flip(input),
            1 => *self.byte(input) = self.random.random(),
            2 => self.number(input),
            3 => self.word(input),
            4 => drop(input.drain(self.piece(input.len()))),
            5 => self.repeat(input),
            6 => self.splice(input),
            7 => self.exchange_lines(input),
            _ => input.truncate(self.random.random_range(0..input.len())),
        }
    }

    fn byte<'b>(&mut self, input: &'b mut [u8]) -> &'b mut u8 {
        &mut input[self.random.random_range(0..input.len())]
    }

    /// A short piece, wherever.
    fn piece(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.random.random_range(0..length);
        let longest = [4, 32, length][self.random.random_range(0..3usize)];
        start..(start + self.random.random_range(1..=longest.max(1))).min(length)
    }

    fn flip(&mut self, input: &mut [u8]) {
        let bit = self.random.random_range(0..8u8);
        *self.byte(input) ^= 1 << bit;
    }

    /// A telling number, of either order of bytes, or next to what was there.
    fn number(&mut self, input: &mut [u8]) {
        let width = [1, 2, 4, 8][self.random.random_range(0..4usize)].min(input.len());
        let start = self.random.random_range(0..=input.len() - width);
        let field = &mut input[start..start + width];
        let number = NUMBERS[self.random.random_range(0..NUMBERS.len())];
        let (little, big) = (number.to_le_bytes(), number.to_be_bytes());
        match self.random.random_range(0..4u8) {
            0 => field.copy_from_slice(&big[8 - width..]),
            1 => field[0] = field[0].wrapping_add(1),
            2 => field[width - 1] = field[width - 1].wrapping_sub(1),
            _ => field.copy_from_slice(&little[..width]),
        }
    }

    /// Another word for a number or a word of a text.
    fn word(&mut self, input: &mut Vec<u8>) {
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'.' || *byte == b'_';
        let at = self.random.random_range(0..input.len());
        let start = input[..at].iter().rposition(|byte| !is_word(byte)).map_or(0, |before| before + 1);
        let end = input[at..].iter().position(|byte| !is_word(byte)).map_or(input.len(), |after| at + after);
        let word: &[u8] = match self.random.random() {
            true => WORDS[self.random.random_range(0..WORDS.len())].as_bytes(),
            false => {
                let words: Vec<&[u8]> =
                    self.other().split(|byte| !is_word(byte)).filter(|word| !word.is_empty()).collect();
                if words.is_empty() { b"" } else { words[self.random.random_range(0..words.len())] }
            }
        };
        input.splice(start.min(end)..end, word.iter().copied());
    }

    /// A piece once more, at another place.
    fn repeat(&mut self, input: &mut Vec<u8>) {
        let piece = input[self.piece(input.len())].to_vec();
        let at = self.random.random_range(0..=input.len());
        input.splice(at..at, piece);
    }

    /// A piece of another input.
    fn splice(&mut self, input: &mut Vec<u8>) {
        let other = self.other();
        if other.is_empty() {
            return;
        }
        let piece = &other[self.piece(other.len())];
        let at = self.random.random_range(0..=input.len());
        let end = if self.random.random() { at } else { (at + piece.len()).min(input.len()) };
        input.splice(at..end, piece.iter().copied());
    }

    /// Two lines of a text in each other's place, or one twice.
    fn exchange_lines(&mut self, input: &mut Vec<u8>) {
        let mut lines: Vec<&[u8]> = input.split_inclusive(|byte| *byte == b'\n').collect();
        let [first, second] = [0; 2].map(|_| self.random.random_range(0..lines.len()));
        lines.swap(first, second);
        if self.random.random() {
            lines[first] = lines[second];
        }
        *input = lines.concat();
    }
}
