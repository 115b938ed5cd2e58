//! Layout of CAPI work elements in host memory. The paper names work element descriptors (WED) and their contents, but
//! leaves their layout open. In this layout, an element fits a cache line.

use crate::number::{index, low_u16};

/// Size in bytes of a cache line of a POWER8, the unit of everything that the AFU moves (CAPI: "CAPI cache line size").
pub const LINE_BYTES: u32 = 128;
/// Size in bytes of a work element's header, and of each of its commands.
const ENTRY_BYTES: usize = 16;
/// Largest number of commands of a work element: those that fit its line behind the header.
pub const COMMANDS_MAX: usize = index(LINE_BYTES) / ENTRY_BYTES - 1;
/// Size in bytes of the status that completes one command of a work element.
pub const STATUS_BYTES: usize = 8;
/// Address of the AFU's doorbell register, to which the host writes the number of a work element.
pub const DOORBELL_REGISTER: u64 = 0x1000;

const READ: u64 = 1;
const WRITE: u64 = 2;
const OPCODES: u64 = LINE_BYTES as u64 - 1;

/// Status code by which the AFU tells the host how a command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// Status of a command that was executed: its lines have been moved.
    Done = 1,
    /// Status of a command that was refused: its operation is unknown, its length not allowed, or its lines are beyond
    /// the device.
    Refused = 2,
}

/// Operation of a command: the direction in which it moves lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Moves lines from the device to the buffer in the host.
    Read,
    /// Moves lines from the buffer in the host to the device.
    Write,
    /// Operation code that the AFU does not know; the AFU refuses the command.
    Unknown,
}

/// Command of a work element. One word holds operation and buffer, the other first line on the device and number of
/// lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Operation of the command: read, write, or a code that the AFU does not know.
    pub operation: Operation,
    /// Effective address of the data buffer in the host, aligned to a line.
    pub buffer: u64,
    /// Number of the command's first line on the device, in 48 bits.
    pub line: u64,
    /// Length of the command in lines of 128 bytes.
    pub lines: u16,
}

impl Command {
    /// Returns the encoded bytes of the command, as they stand in its work element.
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let operation = match self.operation {
            Operation::Read => READ,
            Operation::Write => WRITE,
            Operation::Unknown => 0,
        };
        let words = [self.buffer & !OPCODES | operation, self.line << 16 | u64::from(self.lines)];
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&words[0].to_le_bytes());
        bytes[8..].copy_from_slice(&words[1].to_le_bytes());
        bytes
    }

    /// Decodes a command from its bytes in a work element. An unknown operation code becomes [`Operation::Unknown`].
    fn decode(bytes: &[u8; ENTRY_BYTES]) -> Command {
        let [first, second] = bytes.as_chunks::<8>().0 else { unreachable!("sixteen bytes are two words") };
        let (first, second) = (u64::from_le_bytes(*first), u64::from_le_bytes(*second));
        let operation = match first & OPCODES {
            READ => Operation::Read,
            WRITE => Operation::Write,
            _ => Operation::Unknown,
        };
        Command { operation, buffer: first & !OPCODES, line: second >> 16, lines: low_u16(second) }
    }
}

/// Returns the encoded line of a work element. `round` counts how often the element has been filled, so that the AFU
/// recognises new commands.
pub fn encode_element(round: u32, commands: &[Command]) -> [u8; index(LINE_BYTES)] {
    let mut line = [0; index(LINE_BYTES)];
    line[..4].copy_from_slice(&round.to_le_bytes());
    line[4] = commands.len() as u8;
    for (entry, command) in line[ENTRY_BYTES..].as_chunks_mut::<ENTRY_BYTES>().0.iter_mut().zip(commands) {
        *entry = command.encode();
    }
    line
}

/// Decodes the line of a work element into its round and its commands. Returns no more commands than fit the line, even
/// if its header says more.
pub fn decode_element(line: &[u8]) -> (u32, impl Iterator<Item = Command>) {
    let (entries, _) = line.as_chunks::<ENTRY_BYTES>();
    let header = entries.first().copied().unwrap_or_default();
    let commands = entries.iter().skip(1).take(header[4].into()).map(Command::decode);
    (u32::from_le_bytes([header[0], header[1], header[2], header[3]]), commands)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn work_element_reads_back_as_written(
            round: u32, lines in prop::collection::vec((0u64..1 << 48, 1u16.., 0u64..1 << 50), 0..=COMMANDS_MAX),
        ) {
            let command = |&(line, lines, buffer): &(u64, u16, u64)| Command {
                operation: if lines % 2 == 0 { Operation::Read } else { Operation::Write },
                buffer: buffer * u64::from(LINE_BYTES),
                line,
                lines,
            };
            let commands: Vec<Command> = lines.iter().map(command).collect();
            let line = encode_element(round, &commands);
            let (found, decoded) = decode_element(&line);
            prop_assert_eq!((found, decoded.collect::<Vec<_>>()), (round, commands));
        }

        #[test]
        fn any_bytes_decode_to_a_work_element(line in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode_element(&line).1.count() <= line.len() / ENTRY_BYTES);
        }
    }
}
