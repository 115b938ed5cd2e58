//! Register addresses of the Moneta device and layout of its request word; definitions only.
//!
//! MON says that a request is compressed into 64 bits, without its DMA address, and that the device holds a table of
//! DMA addresses. The positions of fields and the addresses of registers are assumed.

use crate::number::{low_u8, low_u32};

/// Size in bytes of a block, the unit of device addresses and lengths: "the smallest request is about 512 bytes" (MON).
pub const BLOCK_BYTES: u32 = 512;
/// Size in bytes of a device register, and of a request word.
pub const WORD_BYTES: u64 = 8;

const REGISTERS: u64 = 0xe000_0000;
/// Address of the register for a request's first block. Used only if a request takes three register writes.
pub const BLOCK_REGISTER: u64 = REGISTERS;
/// Address of the register for a request's DMA address. Used only if a request takes two or three register writes.
pub const BUFFER_REGISTER: u64 = REGISTERS + 0x08;
/// Address of the register for a request word. A write to it submits the request.
pub const REQUEST_REGISTER: u64 = REGISTERS + 0x10;
/// Address of the table of DMA addresses: one register for each tag, with the bus address of its data buffer.
const BUFFER_TABLE: u64 = REGISTERS + 0x1000;
/// Address of the status registers, one for each interrupt vector. Bit number t of a register is set once the request
/// with tag t is done.
const STATUS_REGISTERS: u64 = REGISTERS + 0x2000;

/// Position of the lowest bit of the tag in a request word. Operation (bit 0), tag, length and first block follow each
/// other.
const TAG_SHIFT: u32 = 1;
const BLOCKS_SHIFT: u32 = 7;
const BLOCK_SHIFT: u32 = 24;
const TAG_MASK: u64 = (1 << (BLOCKS_SHIFT - TAG_SHIFT)) - 1;
const BLOCKS_MASK: u64 = (1 << (BLOCK_SHIFT - BLOCKS_SHIFT)) - 1;

/// Moneta request in the form of one 64-bit word: operation, tag, length and first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonetaRequestWord {
    /// True if the request is a write, false if it is a read.
    pub write: bool,
    /// Tag of the request, in 6 bits.
    pub tag: u8,
    /// Length of the request in blocks of [`BLOCK_BYTES`], in 17 bits.
    pub blocks: u32,
    /// First block of the request on the device, in 40 bits.
    pub block: u64,
}

impl MonetaRequestWord {
    /// Returns the 64-bit word of a request that the host writes to [`REQUEST_REGISTER`].
    pub fn encode(&self) -> u64 {
        u64::from(self.write)
            | (u64::from(self.tag) & TAG_MASK) << TAG_SHIFT
            | (u64::from(self.blocks) & BLOCKS_MASK) << BLOCKS_SHIFT
            | self.block << BLOCK_SHIFT
    }

    /// Decodes a 64-bit request word. Every word is a valid encoding.
    pub fn decode(word: u64) -> MonetaRequestWord {
        MonetaRequestWord {
            write: word & 1 == 1,
            tag: low_u8(word >> TAG_SHIFT & TAG_MASK),
            blocks: low_u32(word >> BLOCKS_SHIFT & BLOCKS_MASK),
            block: word >> BLOCK_SHIFT,
        }
    }
}

/// Register of the Moneta device that the host writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// Register for a request's first block, used only if a request takes three register writes.
    Block,
    /// Register for a request's DMA address, used only if a request takes two or three register writes.
    Buffer,
    /// Register for a request word, whose write submits the request.
    Request,
    /// Register with the DMA address for this tag, in the device's table of DMA addresses.
    BufferOf(u8),
}

/// Returns the register that a write to this address reaches; none if no writable register is there.
pub fn register(address: u64) -> Option<Register> {
    match address {
        BLOCK_REGISTER => Some(Register::Block),
        BUFFER_REGISTER => Some(Register::Buffer),
        REQUEST_REGISTER => Some(Register::Request),
        _ => index(address, BUFFER_TABLE).map(Register::BufferOf),
    }
}

/// Returns the address of the register that holds the DMA address of the tag's data buffer.
pub fn buffer_address_register(tag: u8) -> u64 {
    BUFFER_TABLE + u64::from(tag) * WORD_BYTES
}

/// Returns the address of the status register that belongs to an interrupt vector.
pub fn status_register(vector: u8) -> u64 {
    STATUS_REGISTERS + u64::from(vector) * WORD_BYTES
}

/// Returns the interrupt vector whose status register is at this address; none if no status register is there.
pub fn status_vector(address: u64) -> Option<u8> {
    index(address, STATUS_REGISTERS)
}

/// Returns the index of the register at `address` in a table of 64 registers that starts at `table`; none if the
/// address is outside the table or not aligned.
fn index(address: u64, table: u64) -> Option<u8> {
    let offset = address.checked_sub(table)?;
    (offset % WORD_BYTES == 0 && offset / WORD_BYTES < 64).then_some(low_u8(offset / WORD_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn moneta_request_word_reads_back() {
        let request = MonetaRequestWord { write: true, tag: 63, blocks: (1 << 17) - 1, block: (1 << 40) - 1 };
        assert_eq!(request.encode(), u64::MAX);
        assert_eq!(MonetaRequestWord::decode(request.encode()), request);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn all_moneta_words_decode_to_distinct_requests(word: u64) {
            prop_assert_eq!(MonetaRequestWord::decode(word).encode(), word);
        }
    }

    #[test]
    fn moneta_registers_have_distinct_addresses() {
        assert_eq!(register(REQUEST_REGISTER), Some(Register::Request));
        assert_eq!(register(buffer_address_register(63)), Some(Register::BufferOf(63)));
        assert_eq!(register(buffer_address_register(63) + 1), None);
        assert_eq!(register(buffer_address_register(64)), None);
        assert_eq!((status_vector(status_register(7)), status_vector(buffer_address_register(7))), (Some(7), None));
    }
}
