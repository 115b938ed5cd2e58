//! Work elements in host memory. The paper names them (work element descriptors, WED) and their contents, and leaves
//! their layout open; this one fits a cache line.

/// Cache line of a POWER8, the unit of everything that the AFU moves (CAPI: "CAPI cache line size").
pub const LINE_BYTES: u32 = 128;
/// Bytes of an element's header, and of each of its commands.
const ENTRY_BYTES: usize = 16;
/// Commands that fit into the line of an element, behind its header.
pub const COMMANDS_MAX: usize = LINE_BYTES as usize / ENTRY_BYTES - 1;
/// Bytes of the status of one command.
pub const STATUS_BYTES: usize = 8;
/// The AFU's register that takes the number of an element.
pub const DOORBELL_REGISTER: u64 = 0x1000;

const READ: u64 = 1;
const WRITE: u64 = 2;
const OPCODES: u64 = LINE_BYTES as u64 - 1;

/// Status that an AFU reports for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// The command is complete, and its lines are in their place.
    Done = 1,
    /// The operation is unknown, or the lines are not within the memory.
    Refused = 2,
}

/// Operation of a command on its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Moves lines from the device to the buffer in the host.
    Read,
    /// Moves lines from the buffer in the host to the device.
    Write,
    /// Code of no operation; the AFU refuses the command.
    Unknown,
}

/// Command of a work element: operation and buffer in one word, place on the device and length in the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Operation on the lines.
    pub operation: Operation,
    /// Effective address of the buffer, aligned to a line.
    pub buffer: u64,
    /// First line on the device, of 48 bits.
    pub line: u64,
    /// Number of lines.
    pub lines: u16,
}

impl Command {
    /// Returns the bytes of the command in memory.
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

    /// Returns the command that these bytes hold.
    fn decode(bytes: &[u8; ENTRY_BYTES]) -> Command {
        let [first, second] = bytes.as_chunks::<8>().0 else { unreachable!("sixteen bytes are two words") };
        let (first, second) = (u64::from_le_bytes(*first), u64::from_le_bytes(*second));
        let operation = match first & OPCODES {
            READ => Operation::Read,
            WRITE => Operation::Write,
            _ => Operation::Unknown,
        };
        Command { operation, buffer: first & !OPCODES, line: second >> 16, lines: second as u16 }
    }
}

/// Returns the line of an element: the round of use in which it was filled, and its commands.
pub fn encode_element(round: u32, commands: &[Command]) -> [u8; LINE_BYTES as usize] {
    let mut line = [0; LINE_BYTES as usize];
    line[..4].copy_from_slice(&round.to_le_bytes());
    line[4] = commands.len() as u8;
    for (entry, command) in line[ENTRY_BYTES..].as_chunks_mut::<ENTRY_BYTES>().0.iter_mut().zip(commands) {
        *entry = command.encode();
    }
    line
}

/// Returns round and commands of an element's line; no more commands than fit, whatever its count says.
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
        fn an_element_reads_back_as_it_was_written(
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
        fn any_bytes_are_some_element(line in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode_element(&line).1.count() <= line.len() / ENTRY_BYTES);
        }
    }
}
