//! The command of DC Express: one 64-byte entry of a ring in host memory (section 4.1: "one 64 B command").
//!
//! The paper does not print a layout; this one holds what its text needs. Its device takes reads alone, as the modelled
//! one does; served in shared memory, where there is no NVMe beside it, the ring takes the other operations too.

/// Bytes of a command.
pub const COMMAND_BYTES: usize = 64;

/// What a command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Read = 1,
    /// Store what is in the buffer.
    Write = 2,
    /// What has been written before survives the device's end.
    Flush = 3,
}

/// A command, as the host puts it into the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    pub operation: Operation,
    /// Alternates between 1 and 2 each time the ring wraps, so that the endpoint knows a new entry from an old one.
    pub pass: u8,
    /// Receive buffer, and which attempt at reading into it this is.
    pub slot: u16,
    pub attempt: u8,
    /// First byte on the device, and length in bytes.
    pub offset: u64,
    pub bytes: u32,
    /// Bus address of the receive buffer.
    pub buffer: u64,
    /// Incomplete tag that the buffer is marked with.
    pub tag: u64,
}

impl Command {
    /// The command as it stands in the ring.
    #[inline]
    pub fn encode(&self) -> [u8; COMMAND_BYTES] {
        let mut bytes = [0; COMMAND_BYTES];
        bytes[0] = self.operation as u8;
        bytes[1] = self.pass;
        bytes[2..4].copy_from_slice(&self.slot.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.buffer.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.tag.to_le_bytes());
        bytes[32] = self.attempt;
        bytes
    }

    /// The command that these bytes hold, unless they are none.
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

/// The mark of the pass after `pass`.
pub fn next_pass(pass: u8) -> u8 {
    3 - pass
}

/// Marks of the first pass over a ring.
pub const FIRST_PASS: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_reads_back_and_an_empty_slot_is_none() {
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
