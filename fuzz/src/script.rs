//! Numbers from bytes, so that a target can let its input choose what happens.

/// The rest of an input. Behind the end come zeros.
#[derive(Debug)]
pub(crate) struct Script<'a> {
    rest: &'a [u8],
}

impl<'a> Script<'a> {
    /// All of `input` is ahead.
    pub(crate) fn new(input: &'a [u8]) -> Script<'a> {
        Script { rest: input }
    }

    /// Whether everything has been taken.
    pub(crate) fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// Up to `count` bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> u8 {
        self.number(1) as u8
    }

    /// The next number of up to eight bytes, little end first.
    pub(crate) fn number(&mut self, bytes: usize) -> u64 {
        self.bytes(bytes).iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}
