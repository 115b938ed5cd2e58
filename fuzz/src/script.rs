//! Numbers from the bytes of an input, so that the input chooses a target's steps.

/// Rest of an input, followed by zeros.
#[derive(Debug)]
pub(crate) struct Script<'a> {
    rest: &'a [u8],
}

impl<'a> Script<'a> {
    /// Returns a script of the whole of `input`.
    pub(crate) fn new(input: &'a [u8]) -> Script<'a> {
        Script { rest: input }
    }

    /// True if the whole input has been read.
    pub(crate) fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns up to `count` bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Returns the next byte.
    pub(crate) fn byte(&mut self) -> u8 {
        self.number(1) as u8
    }

    /// Returns the next number of up to eight bytes, little-endian.
    pub(crate) fn number(&mut self, bytes: usize) -> u64 {
        self.bytes(bytes).iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}
