//! Executes commands on blocks with metadata. The core's [rules](phaselink_core::protocol::nvme::rules::protection)
//! decide what is inserted, stripped and checked. Commands on other blocks pass through.
//!
//! Host memory is read before the store is locked, and written after. Checks come before the first change: a command
//! that fails them leaves all blocks as they were.

use std::io;

use phaselink_core::number::{index, wide_index};
use phaselink_core::protocol::nvme::commands::{self, Action};
use phaselink_core::protocol::nvme::rules::{CommandBlockMetadata, CommandProtection};
use phaselink_core::protocol::nvme::spec::Status;

use super::super::command::{Command, copy_from_host, copy_to_host, status_of_write_error};
use super::super::host::Host;
use super::super::journal::CommandJournal;
use crate::device::store::Store;

/// Executes a command on blocks with or without metadata, without posting a completion. `space` is a buffer for the
/// longest transfer.
///
/// # Errors
///
/// The status of a command that is refused or fails.
#[inline]
pub(super) fn execute(
    command: &Command,
    host: &mut impl Host,
    store: &Store,
    space: &mut [u8],
    journal: &mut CommandJournal,
) -> Result<(), Status> {
    match &command.checked {
        Ok(commands::Command { metadata: Some(metadata), .. }) => {
            let blocks = ProtectedBlocks { metadata, store };
            blocks.execute(command, host, space, journal)
        }
        _ => command.execute(host, store, space, journal),
    }
}

/// Store of blocks with metadata, and the metadata settings of the command that accesses them.
struct ProtectedBlocks<'c> {
    metadata: &'c CommandBlockMetadata,
    store: &'c Store,
}

impl ProtectedBlocks<'_> {
    /// Executes a command on blocks with metadata, and counts it in the journal if it succeeds.
    #[cold]
    fn execute(
        &self,
        command: &Command,
        host: &mut impl Host,
        space: &mut [u8],
        journal: &mut CommandJournal,
    ) -> Result<(), Status> {
        let checked @ commands::Command { row, action, offset, bytes, .. } =
            command.checked.as_ref().map_err(|it| *it)?;
        let (offset, bytes) = (*offset, *bytes);
        match action {
            Action::Read => self.execute_read(checked, host, &mut space[..index(bytes)])?,
            Action::Compare => self.execute_compare(checked, host, &mut space[..index(bytes)])?,
            Action::Verify => self.execute_verify(offset, bytes, space)?,
            Action::Write => self.execute_write(checked, host, &mut space[..index(bytes)])?,
            Action::Zero { keep_space } => self.execute_write_zeroes((offset, bytes.into()), *keep_space)?,
            Action::Copy => self.execute_copy(&command.ranges, offset)?,
            _ => return command.execute(host, self.store, space, journal),
        }
        journal.count(row, bytes);
        Ok(())
    }

    /// Executes Read: copies blocks to the host, and their metadata if the command has a buffer for it.
    fn execute_read(&self, command: &commands::Command, host: &mut impl Host, space: &mut [u8]) -> Result<(), Status> {
        let metadata = self.load_blocks(command.offset, space, self.metadata.protection)?;
        copy_to_host(&command.data, space, host)?;
        if let Some(address) = self.metadata.buffer {
            host.write(address, &metadata)?;
        }
        Ok(())
    }

    /// Executes Write: saves blocks with the host's metadata, or with inserted protection information (PRACT).
    fn execute_write(&self, command: &commands::Command, host: &mut impl Host, space: &mut [u8]) -> Result<(), Status> {
        copy_from_host(&command.data, space, host)?;
        let metadata = self.metadata_for_host_data(space, host)?;
        self.save_blocks(command.offset, space, &metadata)
    }

    /// Executes Compare: checks protection information of the host and of the store (section 5.2.2.4), then compares
    /// data. Metadata is compared only if it has no protection information (NVM Command Set Specification 1.0, section
    /// 3.2.1).
    fn execute_compare(
        &self,
        command: &commands::Command,
        host: &mut impl Host,
        space: &mut [u8],
    ) -> Result<(), Status> {
        copy_from_host(&command.data, space, host)?;
        let metadata = self.metadata_for_host_data(space, host)?;
        let mut stored = vec![0; space.len()];
        let stored_metadata = self.load_blocks(command.offset, &mut stored, self.metadata.protection)?;
        let is_same = self.metadata.protection.is_some() || metadata == stored_metadata;
        if stored == space && is_same { Ok(()) } else { Err(Status::COMPARE_FAILURE) }
    }

    /// Executes Verify: reads and checks blocks, as many at a time as `space` holds.
    fn execute_verify(&self, offset: u64, bytes: u32, space: &mut [u8]) -> Result<(), Status> {
        let (mut protection, mut done) = (self.metadata.protection, 0);
        let longest = (space.len() >> self.metadata.block_shift << self.metadata.block_shift) as u32;
        while done < bytes {
            let piece = (bytes - done).min(longest);
            self.load_blocks(offset + u64::from(done), &mut space[..index(piece)], protection)?;
            protection = protection.map(|it| it.advanced_by_blocks(piece >> self.metadata.block_shift));
            done += piece;
        }
        Ok(())
    }

    /// Executes Write Zeroes. Deallocated blocks get the metadata of unwritten blocks (section 3.2.8).
    fn execute_write_zeroes(&self, (offset, bytes): (u64, u64), keep_space: bool) -> Result<(), Status> {
        let blocks = wide_index(bytes >> self.metadata.block_shift);
        let zeroed = match self.metadata.protection {
            Some(protection) if keep_space => {
                let metadata = self.convert_unwritten_metadata(protection.metadata_of_zeros(blocks));
                self.store.zero_blocks_with_metadata((offset, bytes), self.block_bytes(), keep_space, &metadata)
            }
            _ => self.store.zero(offset, bytes, keep_space),
        };
        zeroed.map_err(|error| status_of_write_error(&error))
    }

    /// Executes Copy: copies ranges of the drive to its byte offset `to`. All sources are read first, since the
    /// destination may overlap them.
    fn execute_copy(&self, sources: &[(u64, u64)], to: u64) -> Result<(), Status> {
        let (mut data, mut metadata) = (Vec::new(), Vec::new());
        for (place, (offset, bytes)) in sources.iter().enumerate() {
            let mut source = vec![0; wide_index(*bytes)];
            metadata.extend(self.load_blocks(*offset, &mut source, self.metadata.sources.get(place).copied())?);
            data.extend(source);
        }
        let metadata = self.metadata_for_blocks(&data, metadata)?;
        self.save_blocks(to, &data, &metadata)
    }

    /// Returns the metadata to write with data from the host: the host's, after its check, or metadata that the
    /// controller inserts (PRACT).
    fn metadata_for_host_data(&self, data: &[u8], host: &mut impl Host) -> Result<Vec<u8>, Status> {
        let Some(address) = self.metadata.buffer else { return self.metadata_for_blocks(data, Vec::new()) };
        let mut metadata = vec![0; self.metadata.bytes_of(data.len())];
        host.read(address, &mut metadata)?;
        self.metadata_for_blocks(data, metadata)
    }

    /// Returns the metadata to write with blocks: inserted protection information (PRACT), or `metadata` itself if it
    /// passes the check.
    fn metadata_for_blocks(&self, data: &[u8], metadata: Vec<u8>) -> Result<Vec<u8>, Status> {
        match self.metadata.protection {
            None => Ok(metadata),
            Some(protection) if protection.inserts_information() => {
                Ok(protection.insert(data, self.metadata.block_bytes()))
            }
            Some(protection) => {
                protection.check(data, self.metadata.block_bytes(), &metadata)?;
                Ok(metadata)
            }
        }
    }

    /// Reads blocks into `into` and returns their metadata, after a check if `protection` is given.
    fn load_blocks(
        &self,
        offset: u64,
        into: &mut [u8],
        protection: Option<CommandProtection>,
    ) -> Result<Vec<u8>, Status> {
        let found = self.store.read_blocks_with_metadata(offset, self.block_bytes(), into);
        let metadata = self.convert_unwritten_metadata(found.map_err(|_| Status::UNRECOVERED_READ_ERROR)?);
        if let Some(protection) = protection {
            protection.check(into, self.metadata.block_bytes(), &metadata)?;
        }
        Ok(metadata)
    }

    /// Writes blocks with their metadata to the store.
    fn save_blocks(&self, offset: u64, data: &[u8], metadata: &[u8]) -> Result<(), Status> {
        let metadata = self.convert_unwritten_metadata(metadata.to_vec());
        let saved: io::Result<()> = self.store.write_blocks_with_metadata(offset, self.block_bytes(), data, &metadata);
        saved.map_err(|error| status_of_write_error(&error))
    }

    /// Converts metadata to the form in which the store keeps it, or back (an XOR). Metadata of an unwritten block is
    /// zero in the store.
    fn convert_unwritten_metadata(&self, mut metadata: Vec<u8>) -> Vec<u8> {
        let unwritten = self.metadata.format.unwritten_metadata_byte();
        metadata.iter_mut().for_each(|byte| *byte ^= unwritten);
        metadata
    }

    fn block_bytes(&self) -> u32 {
        1 << self.metadata.block_shift
    }
}
