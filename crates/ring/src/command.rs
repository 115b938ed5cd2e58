//! Command of DC Express: a 64-byte entry of a ring in host memory (section 4.1: "one 64 B command").
//!
//! The paper prints no layout; this one has the fields that its text mentions. The device of the paper, and the modelled one,
//! execute reads only. The ring in shared memory has no NVMe queue beside it, so it also carries writes and flushes.

/// Length of a command in bytes.
pub const COMMAND_BYTES: usize = 64;

/// Operation of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads data from the device into the buffer of the command.
    Read = 1,
    /// Writes data from the buffer of the command to the device.
    Write = 2,
    /// Makes all completed writes durable.
    Flush = 3,
}

/// Fields of a command in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Operation to execute.
    pub operation: Operation,
    /// Pass over the ring, 1 or 2 in turn, by which the device tells a new entry from an old one (as NVMe's phase tag does).
    pub pass: u8,
    /// Number of the slot, which has one buffer and one status word.
    pub slot: u16,
    /// Number of the command's use of its slot, modulo 256, by which the late status of an earlier use is recognised.
    pub attempt: u8,
    /// Offset on the device of the first byte.
    pub offset: u64,
    /// Length of the transfer in bytes.
    pub bytes: u32,
    /// Bus address of the host's buffer.
    pub buffer: u64,
    /// Incomplete tag that the host wrote into the trailers of the buffer.
    pub tag: u64,
}

impl Command {
    /// Encodes the command as an entry of the ring.
    #[inline]
    pub fn encode(&self) -> [u8; COMMAND_BYTES] {
        let (operation, pass) = (self.operation as u64, u64::from(self.pass));
        let first = operation | pass << 8 | u64::from(self.slot) << 16 | u64::from(self.bytes) << 32;
        let words = [first, self.offset, self.buffer, self.tag, self.attempt.into()];
        let mut bytes = [0; COMMAND_BYTES];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// Decodes the command in an entry of the ring, or returns none if the operation is unknown.
    #[inline]
    pub fn decode(bytes: &[u8; COMMAND_BYTES]) -> Option<Command> {
        let words = bytes.as_chunks::<8>().0;
        let word = |place: usize| u64::from_le_bytes(words[place]);
        Some(Command {
            operation: Operation::decode(bytes[0])?,
            pass: bytes[1],
            slot: (word(0) >> 16) as u16,
            attempt: bytes[32],
            bytes: (word(0) >> 32) as u32,
            offset: word(1),
            buffer: word(2),
            tag: word(3),
        })
    }

    /// Returns true if the command's range is one or more whole blocks within a device of this size.
    #[inline]
    pub fn is_within(&self, capacity_bytes: u64, block_bytes: u32) -> bool {
        let (block, bytes) = (u64::from(block_bytes), u64::from(self.bytes));
        let is_whole = bytes > 0 && self.offset.is_multiple_of(block) && bytes.is_multiple_of(block);
        is_whole && self.offset.checked_add(bytes).is_some_and(|end| end <= capacity_bytes)
    }
}

impl Operation {
    #[inline]
    fn decode(code: u8) -> Option<Operation> {
        match code {
            1 => Some(Operation::Read),
            2 => Some(Operation::Write),
            3 => Some(Operation::Flush),
            _ => None,
        }
    }
}

/// Value of [`Command::pass`] in the first pass over a ring.
pub const FIRST_PASS: u8 = 1;

/// Returns the index of the entry after `entry` in a ring of `entries`, and its pass.
#[inline]
pub fn next_entry(entry: u32, pass: u8, entries: u32) -> (u32, u8) {
    if entry + 1 == entries { (0, 3 - pass) } else { (entry + 1, pass) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phase_changes_each_time_a_ring_of_any_length_wraps() {
        for entries in 1..5 {
            let (mut entry, mut pass) = (0, FIRST_PASS);
            for step in 1..20 {
                (entry, pass) = next_entry(entry, pass, entries);
                assert_eq!((entry, pass), (step % entries, 1 + (step / entries % 2) as u8));
            }
        }
    }

    #[test]
    fn command_beyond_the_device_or_of_partial_blocks_is_refused() {
        let command = |offset, bytes| Command {
            operation: Operation::Read,
            pass: 1,
            slot: 0,
            attempt: 0,
            offset,
            bytes,
            buffer: 0,
            tag: 0,
        };
        assert!(command(512, 512).is_within(1024, 512) && command(1023, 1).is_within(1024, 1));
        for (offset, bytes) in [(0, 0), (1024, 512), (0, 1536), (256, 512), (512, 256), (u64::MAX - 511, 1024)] {
            assert!(!command(offset, bytes).is_within(1024, 512), "{bytes} at {offset}");
        }
    }

    #[test]
    fn encoded_command_decodes_to_itself_and_all_zeros_decode_to_none() {
        let command = Command {
            operation: Operation::Read,
            pass: 2,
            slot: 513,
            attempt: 3,
            offset: 1 << 40,
            bytes: 4096,
            buffer: 0x1234_5000,
            tag: 0xdead_beef,
        };
        assert_eq!(Command::decode(&command.encode()), Some(command));
        assert_eq!(Command::decode(&[0; COMMAND_BYTES]), None);
        for operation in [Operation::Write, Operation::Flush] {
            let command = Command { operation, ..command };
            assert_eq!(Command::decode(&command.encode()), Some(command));
        }
    }
}
