//! End-to-end data protection: metadata of 8 bytes for each logical block, and the protection information in it.
//!
//! Sections and figures are those of the NVM Command Set Specification 1.0. Metadata is in a buffer of its own, to
//! which the metadata pointer (MPTR) of a command points. Metadata after each block's data (extended logical blocks)
//! is not supported.

use crate::number::{index, low_u8, low_u16, low_u32};
use crate::protocol::nvme::config::{self, DriveProtection, Nvme};
use crate::protocol::nvme::spec::fields::{blocks, copy};
use crate::protocol::nvme::spec::layout::{Layout, LayoutBytes};
use crate::protocol::nvme::spec::lists::SourceEntry;
use crate::protocol::nvme::spec::{Status, SubmissionEntry};

/// Size of the metadata of a logical block in bytes.
pub const METADATA_BYTES: usize = index(config::METADATA_BYTES);
/// Field MC of Identify Namespace: metadata is transferred in a buffer of its own.
pub const METADATA_CAPABILITIES: u8 = 1 << 1;
/// Field DPC of Identify Namespace: protection types 1, 2 and 3 are supported, in the first or the last bytes of the
/// metadata.
pub const PROTECTION_CAPABILITIES: u8 = 0b1_1111;
/// Bit of SGLS in Identify Controller: a metadata buffer may begin at any byte.
pub const BYTE_ALIGNED_METADATA: u32 = 1 << 17;
/// Bit of DPS in Identify Namespace: protection information is in the first bytes of the metadata.
const FIRST_BYTES: u8 = 1 << 3;

/// Bit PRACT of PRINFO: the controller inserts or strips protection information.
const ACTION: u32 = 1 << 3;
/// Bit of PRCHK in PRINFO: the controller checks the guard.
const GUARD_CHECK: u32 = 1 << 2;
/// Bit of PRCHK in PRINFO: the controller checks the application tag.
const APPLICATION_TAG_CHECK: u32 = 1 << 1;
/// Bit of PRCHK in PRINFO: the controller checks the reference tag.
const REFERENCE_TAG_CHECK: u32 = 1;
/// All bits of PRCHK in PRINFO: the controller checks guard, application tag and reference tag.
const CHECKS: u32 = GUARD_CHECK | APPLICATION_TAG_CHECK | REFERENCE_TAG_CHECK;

/// Protection type of a namespace, with its number in DPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceProtectionType {
    /// Type 1: the reference tag is the lowest four bytes of the logical block's number.
    Type1 = 1,
    /// Type 2: the reference tag counts up from a value in the command, by one for each logical block.
    Type2 = 2,
    /// Type 3: the reference tag belongs to the host and is not checked.
    Type3 = 3,
}

/// Format of the metadata of logical blocks in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMetadataFormat {
    /// Protection type of the namespace; none if the metadata is the host's and has no protection information.
    pub protection: Option<NamespaceProtectionType>,
    /// True if protection information is in the first bytes of the metadata (PIL). Without effect, since protection
    /// information fills the metadata.
    pub is_first: bool,
}

impl BlockMetadataFormat {
    /// Returns the metadata format of a drive's logical blocks; none if they have no metadata.
    pub(super) fn of_drive(nvme: &Nvme) -> Option<BlockMetadataFormat> {
        let protection = match nvme.protection {
            DriveProtection::None => return None,
            DriveProtection::Type1 => NamespaceProtectionType::Type1,
            DriveProtection::Type2 => NamespaceProtectionType::Type2,
            DriveProtection::Type3 => NamespaceProtectionType::Type3,
        };
        Some(BlockMetadataFormat { protection: Some(protection), is_first: false })
    }

    /// Returns the metadata format with this protection type (PI) and location (PIL), coded as in Format NVM and DPS.
    ///
    /// # Errors
    /// Invalid Format if the protection type does not exist.
    pub fn of(protection: u8, is_first: bool) -> Result<BlockMetadataFormat, Status> {
        let protection = match protection {
            0 => None,
            1 => Some(NamespaceProtectionType::Type1),
            2 => Some(NamespaceProtectionType::Type2),
            3 => Some(NamespaceProtectionType::Type3),
            _ => return Err(Status::INVALID_FORMAT),
        };
        Ok(BlockMetadataFormat { protection, is_first })
    }

    /// Returns the metadata format that a DPS value of Identify Namespace encodes.
    ///
    /// # Errors
    /// Invalid Format if the protection type does not exist.
    pub fn of_dps_value(settings: u8) -> Result<BlockMetadataFormat, Status> {
        BlockMetadataFormat::of(settings & !FIRST_BYTES, settings & FIRST_BYTES != 0)
    }

    /// Returns the DPS value of Identify Namespace that encodes this metadata format.
    pub fn settings(self) -> u8 {
        self.protection.map_or(0, |protection| protection as u8 | if self.is_first { FIRST_BYTES } else { 0 })
    }

    /// Returns the value of every metadata byte of a logical block that is unwritten or deallocated. With protection
    /// information the value disables all checks (section 3.2.3.2.1).
    pub fn unwritten_metadata_byte(self) -> u8 {
        if self.protection.is_some() { 0xff } else { 0 }
    }
}

/// Protection information of one logical block (16b Guard Protection Information); its fields are big-endian in the
/// metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockProtectionTags {
    guard: u16,
    application_tag: u16,
    reference_tag: u32,
}

impl BlockProtectionTags {
    fn encode(self) -> [u8; METADATA_BYTES] {
        let tags = u64::from(self.application_tag) << 32 | u64::from(self.reference_tag);
        (u64::from(self.guard) << 48 | tags).to_be_bytes()
    }

    fn decode(bytes: &[u8; METADATA_BYTES]) -> BlockProtectionTags {
        let word = u64::from_be_bytes(*bytes);
        let (guard, application_tag) = (low_u16(word >> 48), low_u16(word >> 32));
        BlockProtectionTags { guard, application_tag, reference_tag: low_u32(word) }
    }

    /// True if the tags of a logical block disable all checks of its protection information (section 5.2.3).
    fn disables_checks(self, kind: NamespaceProtectionType) -> bool {
        let is_reference_set = kind != NamespaceProtectionType::Type3 || self.reference_tag == u32::MAX;
        self.application_tag == u16::MAX && is_reference_set
    }
}

/// Protection information fields of a command for consecutive logical blocks, or of one source range of a Copy: action,
/// checks and expected tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandProtection {
    kind: NamespaceProtectionType,
    /// Value of PRINFO: the action and the checks, 4 bits.
    information: u32,
    /// Expected reference tag of the first logical block (ILBRT, EILBRT).
    reference_tag: u32,
    /// Expected application tag (LBAT, ELBAT).
    application_tag: u16,
    /// Mask of the application tag bits that are checked (LBATM, ELBATM).
    application_mask: u16,
}

impl CommandProtection {
    /// Returns the protection information fields of a command.
    fn of(kind: NamespaceProtectionType, entry: &SubmissionEntry) -> CommandProtection {
        CommandProtection {
            kind,
            information: entry.get(blocks::PROTECTION),
            reference_tag: entry.get(blocks::REFERENCE_TAG),
            application_tag: low_u16(entry.get(blocks::APPLICATION_TAG)),
            application_mask: low_u16(entry.get(blocks::APPLICATION_MASK)),
        }
    }

    /// Returns the protection information fields of a source range of a Copy, with the value of PRINFOR.
    fn of_copy_source(
        kind: NamespaceProtectionType,
        information: u32,
        source: &LayoutBytes<SourceEntry, &[u8]>,
    ) -> CommandProtection {
        CommandProtection {
            kind,
            information,
            reference_tag: source.get(SourceEntry::REFERENCE_TAG),
            application_tag: source.get(SourceEntry::APPLICATION_TAG),
            application_mask: source.get(SourceEntry::APPLICATION_MASK),
        }
    }

    /// True if the controller inserts and strips the protection information (PRACT).
    pub fn inserts_information(self) -> bool {
        self.information & ACTION != 0
    }

    fn has_check_flag(self, check: u32) -> bool {
        self.information & check != 0
    }

    /// Checks, for protection type 1 with reference tag checks, that the command's reference tag is the lowest four
    /// bytes of the first logical block's number (section 5.2.3).
    fn check_first_reference_tag(self, slba: u64) -> Result<(), Status> {
        let is_wrong = self.kind == NamespaceProtectionType::Type1 && self.reference_tag != low_u32(slba);
        if is_wrong && self.has_check_flag(REFERENCE_TAG_CHECK) {
            return Err(Status::INVALID_PROTECTION_INFORMATION);
        }
        Ok(())
    }

    /// Returns the fields for the logical blocks that begin `blocks` blocks later: the reference tag grows by `blocks`,
    /// except with type 3.
    #[must_use]
    pub fn advanced_by_blocks(self, blocks: u32) -> CommandProtection {
        let step = if self.kind == NamespaceProtectionType::Type3 { 0 } else { blocks };
        CommandProtection { reference_tag: self.reference_tag.wrapping_add(step), ..self }
    }

    /// Checks the protection information of consecutive logical blocks: their data against the metadata, and the tags
    /// against these fields.
    ///
    /// # Errors
    /// The status of the first wrong field: in each block the guard first, then the application tag, then the reference
    /// tag.
    pub fn check(self, data: &[u8], block_bytes: usize, metadata: &[u8]) -> Result<(), Status> {
        let blocks = data.chunks_exact(block_bytes).zip(metadata.as_chunks().0);
        let mut wanted = self;
        for (block, metadata) in blocks {
            wanted.check_block_information(block, BlockProtectionTags::decode(metadata))?;
            wanted = wanted.advanced_by_blocks(1);
        }
        Ok(())
    }

    fn check_block_information(self, block: &[u8], found: BlockProtectionTags) -> Result<(), Status> {
        if found.disables_checks(self.kind) {
            return Ok(());
        }
        if self.has_check_flag(GUARD_CHECK) && found.guard != guard(block) {
            return Err(Status::GUARD_CHECK_ERROR);
        }
        let differing = (found.application_tag ^ self.application_tag) & self.application_mask;
        if self.has_check_flag(APPLICATION_TAG_CHECK) && differing != 0 {
            return Err(Status::APPLICATION_TAG_CHECK_ERROR);
        }
        let has_reference = self.kind != NamespaceProtectionType::Type3 && self.has_check_flag(REFERENCE_TAG_CHECK);
        if has_reference && found.reference_tag != self.reference_tag {
            return Err(Status::REFERENCE_TAG_CHECK_ERROR);
        }
        Ok(())
    }

    /// Returns the protection information that the controller inserts as metadata of the logical blocks in `data`.
    pub fn insert(self, data: &[u8], block_bytes: usize) -> Vec<u8> {
        self.encoded_information(data.chunks_exact(block_bytes).map(guard))
    }

    /// Returns the metadata of `blocks` logical blocks of zeros: zeros, or protection information if the controller
    /// inserts it (section 3.2.8).
    pub fn metadata_of_zeros(self, blocks: usize) -> Vec<u8> {
        match self.inserts_information() {
            true => self.encoded_information(std::iter::repeat_n(0, blocks)),
            false => vec![0; blocks * METADATA_BYTES],
        }
    }

    fn encoded_information(self, guards: impl Iterator<Item = u16>) -> Vec<u8> {
        let mut next = self;
        let of_block = |guard| {
            let (application_tag, reference_tag) = (next.application_tag, next.reference_tag);
            next = next.advanced_by_blocks(1);
            BlockProtectionTags { guard, application_tag, reference_tag }.encode()
        };
        guards.flat_map(of_block).collect()
    }
}

/// Use of the metadata of logical blocks by a command, with what the command allows protection information to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandMetadataUse {
    /// No use.
    None,
    /// Transferred between host memory and drive (Read, Write).
    Transferred,
    /// Transferred from host memory and compared with the drive's; the controller cannot insert it (Compare).
    Compared,
    /// Read on the drive and checked; the controller cannot strip it (Verify).
    Verified,
    /// Written with zeroed blocks, without checks (Write Zeroes).
    Zeroed,
    /// Copied on the drive, with an action and checks for the source blocks, too (Copy).
    Copied,
}

impl CommandMetadataUse {
    /// True if metadata crosses the link with the data, unless the controller inserts and strips it.
    fn crosses_link(self) -> bool {
        matches!(self, CommandMetadataUse::Transferred | CommandMetadataUse::Compared)
    }
}

/// Metadata of the logical blocks of one command: its format, its buffer, and the protection information fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandBlockMetadata {
    /// Metadata format of the namespace.
    pub format: BlockMetadataFormat,
    /// Base-2 logarithm of the logical block size in bytes.
    pub block_shift: u32,
    /// Host address of the metadata buffer, contiguous with 8 bytes for each logical block; none if the command
    /// transfers no metadata.
    pub buffer: Option<u64>,
    /// Protection information fields of the command's logical blocks, for a Copy those of the destination; none without
    /// protection information.
    pub protection: Option<CommandProtection>,
    /// Value of PRINFOR of a Copy: action and checks for the source blocks.
    source_information: u32,
    /// Protection information fields of each source range of a Copy; empty until its list has been read.
    pub sources: Vec<CommandProtection>,
}

impl CommandBlockMetadata {
    /// Returns the metadata of a command's logical blocks; none if the row of the command says that it uses none.
    ///
    /// # Errors
    /// Invalid Protection Information for checks or tags that the command or the protection type does not allow.
    /// Invalid Field for an action that the command does not allow, or for a metadata pointer that is not aligned.
    #[cold]
    pub fn of(
        entry: &SubmissionEntry,
        metadata: CommandMetadataUse,
        format: BlockMetadataFormat,
        block_shift: u32,
    ) -> Result<Option<Box<CommandBlockMetadata>>, Status> {
        if metadata == CommandMetadataUse::None {
            return Ok(None);
        }
        let protection = format.protection.map(|kind| CommandProtection::of(kind, entry));
        if let Some(protection) = protection {
            check_protection_action(protection, metadata, entry)?;
            protection.check_first_reference_tag(entry.slba())?;
        }
        let is_buffered = metadata.crosses_link() && !protection.is_some_and(CommandProtection::inserts_information);
        // Addresses of pages are aligned to double words, those of segments need not be (Base Specification 2.0, figure
        // 86).
        if is_buffered && !entry.has_sgl_pointer() && !entry.metadata.is_multiple_of(4) {
            return Err(Status::INVALID_FIELD);
        }
        let buffer = is_buffered.then_some(entry.metadata);
        let source_information = entry.get(copy::SOURCE_PROTECTION);
        let sources = Vec::new();
        Ok(Some(Box::new(CommandBlockMetadata {
            format,
            block_shift,
            buffer,
            protection,
            source_information,
            sources,
        })))
    }

    /// Returns the size of a logical block in bytes.
    pub fn block_bytes(&self) -> usize {
        1 << self.block_shift
    }

    /// Returns the number of bytes of metadata that belong to `data_bytes` bytes of data; an incomplete block at the
    /// end has none.
    pub fn bytes_of(&self, data_bytes: usize) -> usize {
        (data_bytes >> self.block_shift) * METADATA_BYTES
    }

    /// Returns host address and length of the metadata that is transferred with `data_bytes` bytes of data; none if the
    /// command transfers no metadata.
    pub(in crate::protocol::nvme) fn transfer(&self, data_bytes: u32) -> Option<(u64, u32)> {
        self.buffer.map(|address| (address, self.bytes_of(data_bytes as usize) as u32))
    }

    /// Reads the protection information fields of the source ranges of a Copy from its list and stores them.
    ///
    /// # Errors
    /// Invalid Protection Information if a source's reference tag does not suit its first logical block.
    pub fn take_sources(&mut self, list: &[u8]) -> Result<(), Status> {
        let Some(kind) = self.format.protection else { return Ok(()) };
        let source = |source: LayoutBytes<SourceEntry, &[u8]>| {
            let protection = CommandProtection::of_copy_source(kind, self.source_information, &source);
            protection.check_first_reference_tag(source.get(SourceEntry::FIRST)).map(|()| protection)
        };
        self.sources = SourceEntry::iter_structures(list).map(source).collect::<Result<_, _>>()?;
        Ok(())
    }
}

/// Checks that the command allows its protection information action (PRACT) and checks (PRCHK).
fn check_protection_action(
    protection: CommandProtection,
    metadata: CommandMetadataUse,
    entry: &SubmissionEntry,
) -> Result<(), Status> {
    match metadata {
        // Both halves of a copy insert and strip, or none does (section 5.2.2.5).
        CommandMetadataUse::Copied if (entry.get(copy::SOURCE_PROTECTION) ^ protection.information) & ACTION != 0 => {
            Err(Status::INVALID_FIELD)
        }
        // A Verify has no data to insert protection information into.
        CommandMetadataUse::Verified if protection.inserts_information() => Err(Status::INVALID_FIELD),
        // A Compare cannot compare protection information that the controller inserts.
        CommandMetadataUse::Compared if protection.inserts_information() => Err(Status::INVALID_PROTECTION_INFORMATION),
        // A Write Zeroes has no protection information to check.
        CommandMetadataUse::Zeroed if protection.has_check_flag(CHECKS) => Err(Status::INVALID_PROTECTION_INFORMATION),
        _ => Ok(()),
    }
}

/// Returns a command with protection information fields set: metadata is in `buffer`, or the controller inserts and
/// strips it if there is no buffer. All checks are on if `is_checked`; a Write Zeroes allows none.
#[cold]
pub(in crate::protocol::nvme) fn protected(
    entry: SubmissionEntry,
    buffer: Option<u64>,
    is_checked: bool,
) -> SubmissionEntry {
    let action = if buffer.is_some() { 0 } else { ACTION };
    let entry = entry
        .with(blocks::PROTECTION, action | if is_checked { CHECKS } else { 0 })
        .with(blocks::REFERENCE_TAG, low_u32(entry.slba()));
    SubmissionEntry { metadata: buffer.unwrap_or(0), ..entry }
}

/// Generator polynomial of the guard's CRC-16, without its highest term (section 5.2.1.1: the CRC of T10's data
/// integrity field).
const POLYNOMIAL: u16 = 0x8bb7;
/// Number of bytes that the CRC of the guard processes in one step.
const SLICE_BYTES: usize = 8;
/// Tables of CRC remainders: for each byte value, followed by 0 to 7 bytes of zeros.
static REMAINDERS: [[u16; 256]; SLICE_BYTES] = remainders();

const fn remainders() -> [[u16; 256]; SLICE_BYTES] {
    let mut table = [[0; 256]; SLICE_BYTES];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = (byte as u16) << 8;
        let mut slice = 0;
        while slice < SLICE_BYTES {
            let mut bit = 0;
            while bit < 8 {
                remainder = remainder << 1 ^ if remainder >> 15 == 1 { POLYNOMIAL } else { 0 };
                bit += 1;
            }
            table[slice][byte] = remainder;
            slice += 1;
        }
        byte += 1;
    }
    table
}

/// Returns the guard of a logical block: the CRC-16/T10-DIF of its data.
fn guard(block: &[u8]) -> u16 {
    let (slices, rest) = block.as_chunks::<SLICE_BYTES>();
    let of_slice = |crc: u16, slice: &[u8; SLICE_BYTES]| {
        let [first, second] = crc.to_be_bytes();
        let [a, b, c, d, e, f, g, h] = *slice;
        [a ^ first, b ^ second, c, d, e, f, g, h]
            .into_iter()
            .zip(REMAINDERS.iter().rev())
            .fold(0, |crc, (byte, remainders)| crc ^ remainders[usize::from(byte)])
    };
    let crc = slices.iter().fold(0, of_slice);
    rest.iter().fold(crc, |crc, byte| crc << 8 ^ REMAINDERS[0][usize::from(low_u8(crc >> 8) ^ byte)])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{BlockNamespaceParts, Limits, NamespaceKind};
    use super::*;
    use crate::protocol::nvme::commands::{Command, opcode};

    const TYPES: [NamespaceProtectionType; 3] =
        [NamespaceProtectionType::Type1, NamespaceProtectionType::Type2, NamespaceProtectionType::Type3];

    fn protection(kind: NamespaceProtectionType, information: u32) -> CommandProtection {
        let dwords = [0, 0, 0, 0, 0x1122_3344, 0xffff_abcd];
        let entry = SubmissionEntry { dwords, ..SubmissionEntry::default() };
        CommandProtection::of(kind, &entry.with(blocks::PROTECTION, information))
    }

    fn blocks(count: usize) -> Vec<u8> {
        (0..count * 512).map(|place| (place * 7 + place / 512) as u8).collect()
    }

    /// Check value of CRC-16/T10-DIF, from the catalogue of parametrised CRC algorithms.
    #[test]
    fn guard_equals_the_catalogued_check_value() {
        assert_eq!((guard(b"123456789"), guard(&[0; 512])), (0xd0db, 0));
    }

    /// Returns the CRC-16/T10-DIF by its definition, one bit at a time, as a reference.
    fn bitwise_crc16(block: &[u8]) -> u16 {
        let bit = |crc: u16, bit: u16| {
            let is_set = crc >> 15 ^ bit == 1;
            crc << 1 ^ if is_set { POLYNOMIAL } else { 0 }
        };
        let byte = |crc, byte: &u8| (0..8).rev().fold(crc, |crc, place| bit(crc, u16::from(byte >> place & 1)));
        block.iter().fold(0, byte)
    }

    proptest! {
        #[test]
        fn sliced_guard_equals_the_bitwise_one(block in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert_eq!(guard(&block), bitwise_crc16(&block));
        }
    }

    #[test]
    fn protection_fields_are_big_endian_in_specified_order() {
        let found = BlockProtectionTags { guard: 0x0102, application_tag: 0x0304, reference_tag: 0x0506_0708 };
        assert_eq!(found.encode(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(BlockProtectionTags::decode(&found.encode()), found);
    }

    #[test]
    fn inserted_protection_passes_all_checks() {
        let data = blocks(3);
        for kind in TYPES {
            let fields = protection(kind, CHECKS);
            let metadata = fields.insert(&data, 512);
            assert_eq!(fields.check(&data, 512, &metadata), Ok(()), "{kind:?}");
            let last = u32::from_be_bytes(*metadata.last_chunk().unwrap());
            assert_eq!(last, 0x1122_3344 + if kind == NamespaceProtectionType::Type3 { 0 } else { 2 }, "{kind:?}");
        }
        assert_eq!(
            protection(NamespaceProtectionType::Type2, 0).advanced_by_blocks(u32::MAX - 0x1122_3344 + 1).reference_tag,
            0
        );
    }

    #[test]
    fn wrong_protection_fields_have_their_statuses() {
        let data = blocks(2);
        for kind in TYPES {
            let fine = protection(kind, 0).insert(&data, 512);
            for (place, check, expected) in [
                (8, GUARD_CHECK, Status::GUARD_CHECK_ERROR),
                (10, APPLICATION_TAG_CHECK, Status::APPLICATION_TAG_CHECK_ERROR),
                (15, REFERENCE_TAG_CHECK, Status::REFERENCE_TAG_CHECK_ERROR),
            ] {
                let mut broken = fine.clone();
                broken[place] ^= 1;
                let is_checked = (kind, check) != (NamespaceProtectionType::Type3, REFERENCE_TAG_CHECK);
                let expected = if is_checked { Err(expected) } else { Ok(()) };
                assert_eq!(protection(kind, check).check(&data, 512, &broken), expected, "{kind:?} {check}");
                assert_eq!(protection(kind, CHECKS & !check).check(&data, 512, &broken), Ok(()), "{kind:?} {check}");
            }
        }
    }

    #[test]
    fn masked_application_tag_bits_are_ignored() {
        let data = blocks(1);
        let metadata = protection(NamespaceProtectionType::Type1, 0).insert(&data, 512);
        let other = |application_mask| {
            let expected = protection(NamespaceProtectionType::Type1, CHECKS);
            CommandProtection { application_tag: 0xab00, application_mask, ..expected }
        };
        assert_eq!(other(0xff00).check(&data, 512, &metadata), Ok(()));
        assert_eq!(other(0xff01).check(&data, 512, &metadata), Err(Status::APPLICATION_TAG_CHECK_ERROR));
    }

    #[test]
    fn tags_of_all_ones_disable_checks_by_protection_type() {
        let data = blocks(1);
        for (kind, metadata, is_checked) in [
            (NamespaceProtectionType::Type1, [0, 0, 0xff, 0xff, 0, 0, 0, 0], false),
            (NamespaceProtectionType::Type2, [0, 0, 0xff, 0xff, 0, 0, 0, 0], false),
            (NamespaceProtectionType::Type3, [0, 0, 0xff, 0xff, 0, 0, 0, 0], true),
            (NamespaceProtectionType::Type3, [0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], false),
            (NamespaceProtectionType::Type3, [0, 0, 0xff, 0xfe, 0xff, 0xff, 0xff, 0xff], true),
        ] {
            let found = protection(kind, CHECKS).check(&data, 512, &metadata);
            assert_eq!(found.is_err(), is_checked, "{kind:?} {metadata:x?}");
        }
    }

    fn limits(protection: u8) -> Limits {
        Limits {
            kind: NamespaceKind::Blocks(BlockNamespaceParts {
                metadata: Some(BlockMetadataFormat::of(protection, false).unwrap()),
                placement: None,
            }),
            ..Limits::SMALL
        }
    }

    fn checked(opcode: u8, protection: u8, information: u32, reference_tag: u32) -> Result<bool, Status> {
        let entry = SubmissionEntry { opcode, namespace_id: 1, prp1: 0x1000, ..SubmissionEntry::default() };
        let mut entry = SubmissionEntry { metadata: 0x3000, ..entry.of_blocks(8, 1) };
        entry.dwords[2] |= information << 26;
        entry.dwords[4] = reference_tag;
        let command = Command::check(&entry, &limits(protection))?;
        Ok(command.metadata.expect("the blocks have metadata").buffer.is_some())
    }

    /// Sources: NVM Command Set Specification 1.0, protection information of Compare, Copy, Verify and Write Zeroes.
    #[test]
    fn unsupported_protection_actions_are_refused() {
        for (opcode, protection, information, reference_tag, expected) in [
            (opcode::READ, 0, ACTION | CHECKS, 0, Ok(true)),
            (opcode::READ, 1, ACTION, 0, Ok(false)),
            (opcode::WRITE, 1, CHECKS, 8, Ok(true)),
            (opcode::WRITE, 1, CHECKS, 9, Err(Status::INVALID_PROTECTION_INFORMATION)),
            (opcode::WRITE, 1, GUARD_CHECK, 9, Ok(true)),
            (opcode::WRITE, 2, CHECKS, 9, Ok(true)),
            (opcode::READ, 3, CHECKS, 9, Ok(true)),
            (opcode::COMPARE, 1, GUARD_CHECK, 0, Ok(true)),
            (opcode::COMPARE, 1, ACTION, 0, Err(Status::INVALID_PROTECTION_INFORMATION)),
            (opcode::VERIFY, 1, GUARD_CHECK, 0, Ok(false)),
            (opcode::VERIFY, 1, ACTION, 0, Err(Status::INVALID_FIELD)),
            (opcode::VERIFY, 0, ACTION, 0, Ok(false)),
            (opcode::WRITE_ZEROES, 1, ACTION, 0, Ok(false)),
            (opcode::WRITE_ZEROES, 1, GUARD_CHECK, 0, Err(Status::INVALID_PROTECTION_INFORMATION)),
            (opcode::COPY, 1, GUARD_CHECK, 0, Ok(false)),
            (opcode::COPY, 1, ACTION, 0, Err(Status::INVALID_FIELD)),
        ] {
            let found = checked(opcode, protection, information, reference_tag);
            assert_eq!(found, expected, "{opcode:x} {protection} {information:b} {reference_tag}");
        }
    }

    #[test]
    fn metadata_pointer_with_prps_is_dword_aligned() {
        let read = SubmissionEntry { opcode: opcode::READ, namespace_id: 1, metadata: 2, ..SubmissionEntry::default() };
        let of = |entry: SubmissionEntry| {
            CommandBlockMetadata::of(&entry, CommandMetadataUse::Transferred, limits(0).kind.metadata().unwrap(), 9)
        };
        assert_eq!(of(read), Err(Status::INVALID_FIELD));
        assert!(of(SubmissionEntry { flags: 0x40, ..read }).is_ok());
        assert!(of(SubmissionEntry { metadata: 4, ..read }).is_ok());
    }

    #[test]
    fn copy_sources_have_separate_tags() {
        let entry = SubmissionEntry { opcode: opcode::COPY, ..SubmissionEntry::default() };
        let entry = SubmissionEntry { dwords: [0, 0, CHECKS << 12, 0, 0, 0], ..entry };
        let source =
            |slba: u64, tag: u32| [0, slba, 0, 0xffff_0007 << 32 | u64::from(tag)].map(u64::to_le_bytes).concat();
        let of = |list: &[u8]| {
            let metadata =
                CommandBlockMetadata::of(&entry, CommandMetadataUse::Zeroed, limits(1).kind.metadata().unwrap(), 9);
            let mut metadata = metadata.unwrap().unwrap();
            metadata.take_sources(list).map(|()| metadata.sources)
        };
        let found = of(&[source(5, 5), source(1 << 32 | 9, 9)].concat()).unwrap();
        assert_eq!(found.iter().map(|source| source.reference_tag).collect::<Vec<_>>(), [5, 9]);
        assert_eq!((found[0].application_tag, found[0].application_mask), (7, 0xffff));
        assert_eq!(of(&source(5, 6)), Err(Status::INVALID_PROTECTION_INFORMATION));
    }

    #[test]
    fn namespace_settings_equal_its_metadata_format() {
        for settings in [0, 1, 2, 3, 9, 10, 11] {
            assert_eq!(BlockMetadataFormat::of_dps_value(settings).map(BlockMetadataFormat::settings), Ok(settings));
        }
        assert_eq!(BlockMetadataFormat::of_dps_value(4), Err(Status::INVALID_FORMAT));
    }

    #[test]
    fn driver_commands_check_all_blocks() {
        let read = SubmissionEntry { opcode: opcode::READ, ..SubmissionEntry::default() }.of_blocks(1 << 32 | 5, 2);
        let sent = protected(read, Some(0x4000), true);
        assert_eq!((sent.metadata, sent.dwords[2] >> 26, sent.dwords[4]), (0x4000, CHECKS, 5));
        let inserted = protected(read, None, true);
        assert_eq!((inserted.metadata, inserted.dwords[2] >> 26), (0, ACTION | CHECKS));
        assert_eq!(protected(read, None, false).dwords[2] >> 26, ACTION);
        assert_eq!((sent.slba(), sent.blocks()), (read.slba(), read.blocks()));
    }
}
