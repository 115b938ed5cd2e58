//! Layout of the command of the `ramdisk` protocol, which the doorbell write carries.

use crate::number::{low_u16, low_u32};

/// Size in bytes of a block, the unit in which commands give offsets and lengths.
pub(super) const BLOCK_BYTES: u32 = 512;
/// Size in bytes of a command, which is the payload of a doorbell write.
pub(super) const COMMAND_BYTES: usize = 24;
/// Size in bytes of the status word that completes a command.
pub(super) const STATUS_BYTES: usize = 4;
/// Bus address of the doorbell register, to which the driver writes commands.
pub(super) const DOORBELL: u64 = 0;

/// Read or write command for the device: slot, direction, number of blocks, first block and bus address of the data
/// buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Command {
    pub write: bool,
    pub slot: u16,
    pub blocks: u32,
    pub block: u64,
    pub buffer: u64,
}

impl Command {
    /// Returns the encoded command, little-endian: slot, direction, length, first block and buffer address.
    pub(super) fn encode(self) -> [u8; COMMAND_BYTES] {
        let mut bytes = [0; COMMAND_BYTES];
        bytes[..2].copy_from_slice(&self.slot.to_le_bytes());
        bytes[2] = self.write.into();
        bytes[4..8].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.block.to_le_bytes());
        bytes[16..].copy_from_slice(&self.buffer.to_le_bytes());
        bytes
    }

    /// Decodes a command from the bytes of a doorbell write.
    pub(super) fn decode(bytes: &[u8; COMMAND_BYTES]) -> Command {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|place| bytes[at + place]));
        Command {
            write: bytes[2] != 0,
            slot: low_u16(word(0)),
            blocks: low_u32(word(0) >> 32),
            block: word(8),
            buffer: word(16),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ramdisk_command_reads_back() {
        let command = Command { write: true, slot: 0x1234, blocks: 0x8765_4321, block: 1 << 40 | 5, buffer: 7 << 50 };
        assert_eq!(Command::decode(&command.encode()), command);
    }
}
