//! Registers of the device and the layout of its request word. No behaviour.
//!
//! MON says that a request was compressed into 64 bits, without its DMA address, and that the device holds a table of
//! DMA addresses. The places of fields and registers are assumed.

/// Unit of addresses and lengths: "the smallest request is about 512 bytes" (MON).
pub const BLOCK_BYTES: u32 = 512;
/// Bytes of a register, and of a request word.
pub const WORD_BYTES: u64 = 8;

const REGISTERS: u64 = 0xe000_0000;
/// First block of a request whose words are not packed.
pub const BLOCK_REGISTER: u64 = REGISTERS;
/// DMA address of a request that brings its own.
pub const BUFFER_REGISTER: u64 = REGISTERS + 0x08;
/// Request word; writing it submits the request.
pub const REQUEST_REGISTER: u64 = REGISTERS + 0x10;
/// Table of DMA addresses, indexed by tag.
const BUFFER_TABLE: u64 = REGISTERS + 0x1000;
/// Status registers, one for each vector: bit `tag` is set once the request with that tag is done.
const STATUS_REGISTERS: u64 = REGISTERS + 0x2000;

/// Lowest bits of the fields of a request word: operation at 0, then tag, length and first block.
const TAG_SHIFT: u32 = 1;
const BLOCKS_SHIFT: u32 = 7;
const BLOCK_SHIFT: u32 = 24;
const TAG_MASK: u64 = (1 << (BLOCKS_SHIFT - TAG_SHIFT)) - 1;
const BLOCKS_MASK: u64 = (1 << (BLOCK_SHIFT - BLOCKS_SHIFT)) - 1;

/// Request as one 64-bit word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestWord {
    /// True for a write, false for a read.
    pub write: bool,
    /// Tag of the request: 6 bits.
    pub tag: u8,
    /// Length in blocks of [`BLOCK_BYTES`]: 17 bits.
    pub blocks: u32,
    /// First block: 40 bits.
    pub block: u64,
}

impl RequestWord {
    /// Returns the word as it is written to [`REQUEST_REGISTER`].
    pub fn encode(&self) -> u64 {
        u64::from(self.write)
            | (u64::from(self.tag) & TAG_MASK) << TAG_SHIFT
            | (u64::from(self.blocks) & BLOCKS_MASK) << BLOCKS_SHIFT
            | self.block << BLOCK_SHIFT
    }

    /// Returns the request that a word stands for; every word decodes to a request.
    pub fn decode(word: u64) -> RequestWord {
        RequestWord {
            write: word & 1 == 1,
            tag: (word >> TAG_SHIFT & TAG_MASK) as u8,
            blocks: (word >> BLOCKS_SHIFT & BLOCKS_MASK) as u32,
            block: word >> BLOCK_SHIFT,
        }
    }
}

/// Register that the host writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// First block of a request whose words are not packed.
    Block,
    /// DMA address of a request that brings its own.
    Buffer,
    /// Request word.
    Request,
    /// Entry of the table of DMA addresses, with its tag.
    BufferOf(u8),
}

/// Returns the register at an address, if there is one.
pub fn register(address: u64) -> Option<Register> {
    match address {
        BLOCK_REGISTER => Some(Register::Block),
        BUFFER_REGISTER => Some(Register::Buffer),
        REQUEST_REGISTER => Some(Register::Request),
        _ => index(address, BUFFER_TABLE).map(Register::BufferOf),
    }
}

/// Returns the address of the table entry for the DMA address of `tag`.
pub fn buffer_of(tag: u8) -> u64 {
    BUFFER_TABLE + u64::from(tag) * WORD_BYTES
}

/// Returns the address of the status register of `vector`.
pub fn status_register(vector: u8) -> u64 {
    STATUS_REGISTERS + u64::from(vector) * WORD_BYTES
}

/// Returns the vector whose status register is at an address.
pub fn status_vector(address: u64) -> Option<u8> {
    index(address, STATUS_REGISTERS)
}

/// Returns the place of an address in a table of 64 registers.
fn index(address: u64, table: u64) -> Option<u8> {
    let offset = address.checked_sub(table)?;
    (offset % WORD_BYTES == 0 && offset / WORD_BYTES < 64).then_some((offset / WORD_BYTES) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_fits_one_word_and_comes_out_of_it_again() {
        let request = RequestWord { write: true, tag: 63, blocks: (1 << 17) - 1, block: (1 << 40) - 1 };
        assert_eq!(request.encode(), u64::MAX);
        assert_eq!(RequestWord::decode(request.encode()), request);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_word_is_some_request_and_no_two_are_the_same(word: u64) {
            prop_assert_eq!(RequestWord::decode(word).encode(), word);
        }
    }

    #[test]
    fn every_register_has_an_address_of_its_own() {
        assert_eq!(register(REQUEST_REGISTER), Some(Register::Request));
        assert_eq!(register(buffer_of(63)), Some(Register::BufferOf(63)));
        assert_eq!(register(buffer_of(63) + 1), None);
        assert_eq!(register(buffer_of(64)), None);
        assert_eq!((status_vector(status_register(7)), status_vector(buffer_of(7))), (Some(7), None));
    }
}
