//! Executes commands of a namespace that stores values by their keys. The core's
//! [rules](phaselink_core::protocol::nvme::rules::key_value) decide on each, as they do for the simulated controller.

use phaselink_core::media::keys::{Key, KeySpace, KeySpaceRefusal, StoreConditions, StoredKeyValue};
use phaselink_core::number::{index, short_length};
use phaselink_core::protocol::nvme::commands::{self, Action};
use phaselink_core::protocol::nvme::rules::completion::refusal;
use phaselink_core::protocol::nvme::rules::key_value::{delete, status};
use phaselink_core::protocol::nvme::rules::{Data, KeyCommand, KeyValueOperation};
use phaselink_core::protocol::nvme::spec::Status;

use super::super::command::{Command, copy_from_host, copy_to_host, status_of_write_error, write};
use super::super::host::Host;
use super::super::journal::CommandJournal;
use crate::device::store::{ReservedRoom, Store, StoreKeys};

/// Most attempts of a Store to reserve space, with a flush after each. A flush frees space that replaced or deleted
/// values still occupy.
const FLUSHES_MAX: u32 = 3;

/// Executes a command of the Key Value command set, without posting a completion. Returns dword 0 of the completion:
/// the length of the value that a Retrieve or an Exist has found. `reports_missing` is true if deleting a key that does
/// not exist is an error. `space` is a buffer for the longest transfer.
///
/// # Errors
///
/// The status of a command that is refused or fails. One that the key rules refuse has Do Not Retry set, and has
/// changed nothing.
pub(crate) fn execute(
    command: &Command,
    keys: &StoreKeys,
    reports_missing: bool,
    host: &mut impl Host,
    store: &Store,
    space: &mut [u8],
    journal: &mut CommandJournal,
) -> Result<u64, Status> {
    let commands::Command { row, action, data, .. } = command.checked.as_ref().map_err(|status| *status)?;
    let Action::Key(key_command) = *action else {
        return command.execute(host, store, space, journal).map(|()| 0);
    };
    let KeyCommand { operation, key } = key_command;
    match operation {
        KeyValueOperation::Store { bytes, options } => {
            let room = reserve(key, bytes, options, keys, store)?;
            let written = store_value_data(&room.value, data, host, store, space);
            written.inspect_err(|_| keys.give_back(&room))?;
            keys.commit(key, room, options).map_err(|found| refusal(status(found)))?;
            journal.count(row, bytes);
            Ok(0)
        }
        KeyValueOperation::Retrieve { buffer_bytes } => {
            // Copy the value first and send it after the lock is released, because writing to host memory may take
            // long.
            let value_bytes = keys.with(|found| copy_value_prefix(found, key, buffer_bytes, store, space))?;
            let bytes = value_bytes.min(buffer_bytes);
            copy_to_host(&data_pointer_prefix(data, bytes), &space[..index(bytes)], host)?;
            journal.count(row, bytes);
            Ok(value_bytes.into())
        }
        KeyValueOperation::Exist => keys.with(|found| found_value(found, key).map(|value| value.bytes.into())),
        KeyValueOperation::List { .. } => {
            let list = keys.with(|found| key_command.list(found));
            copy_to_host(&data_pointer_prefix(data, short_length(list.len())), &list, host).map(|()| 0)
        }
        KeyValueOperation::Delete => {
            keys.change(key, |found| delete(found, key, reports_missing)).map(|_| 0).map_err(refusal)
        }
    }
}

/// Reserves space on the drive for a value. Flushes the store if only space of values replaced or deleted since the
/// last flush is left.
fn reserve(
    key: Key,
    bytes: u32,
    options: StoreConditions,
    keys: &StoreKeys,
    store: &Store,
) -> Result<ReservedRoom, Status> {
    for _ in 0..FLUSHES_MAX {
        match keys.reserve(key, bytes, options) {
            Err(KeySpaceRefusal::Held) => store.flush().map_err(|error| status_of_write_error(&error))?,
            Err(found) => return Err(refusal(status(found))),
            Ok(room) => return Ok(room),
        }
    }
    Err(refusal(status(KeySpaceRefusal::Full)))
}

/// Copies the host's data to the space that is reserved for a value.
fn store_value_data(
    value: &StoredKeyValue,
    data: &Data,
    host: &mut impl Host,
    store: &Store,
    space: &mut [u8],
) -> Result<(), Status> {
    let space = &mut space[..index(value.bytes)];
    let granule = store.geometry().block_bytes;
    let mut parts = value.parts(value.bytes, granule);
    match (parts.next(), parts.next()) {
        (None, _) => Ok(()),
        (Some((offset, _)), None) => write(offset, data, store, space, host),
        _ => {
            copy_from_host(data, space, host)?;
            let mut rest = &*space;
            for (offset, bytes) in value.parts(value.bytes, granule) {
                let (part, others) = rest.split_at(index(bytes));
                store.write(offset, part).map_err(|error| status_of_write_error(&error))?;
                rest = others;
            }
            Ok(())
        }
    }
}

/// Copies as much of a value into `space` as the host's buffer holds. Returns the length of the whole value.
fn copy_value_prefix(
    found: &KeySpace,
    key: Key,
    buffer_bytes: u32,
    store: &Store,
    space: &mut [u8],
) -> Result<u32, Status> {
    let value = found_value(found, key)?;
    let bytes = value.bytes.min(buffer_bytes);
    let mut rest = &mut space[..index(bytes)];
    for (offset, bytes) in value.parts(bytes, found.layout().granule_bytes) {
        let (part, others) = rest.split_at_mut(index(bytes));
        store.read(offset, part).map_err(|_| Status::UNRECOVERED_READ_ERROR)?;
        rest = others;
    }
    Ok(value.bytes)
}

fn found_value(found: &KeySpace, key: Key) -> Result<&StoredKeyValue, Status> {
    found.find(key).ok_or_else(|| refusal(status(KeySpaceRefusal::Missing)))
}

/// Returns a data pointer for the first `bytes` bytes of a command's data.
fn data_pointer_prefix(data: &Data, bytes: u32) -> Data {
    let mut data = data.clone();
    data.truncate(bytes);
    data
}
