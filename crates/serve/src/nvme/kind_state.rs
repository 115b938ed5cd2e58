//! State of a drive's namespaces that all its controllers share, by their kind.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use phaselink_core::protocol::nvme::rules::{
    BlockMetadataFormat, BlockNamespaceParts, KeyValueLimits, Limits, NamespaceKind,
};
use phaselink_core::protocol::nvme::spec::Status;

use super::placement::Placement;
use crate::device::store::{StateRecordTag, Store, StoreKeys, StoredCommandSetState};

/// State of the namespaces that their kind adds.
#[derive(Debug)]
pub enum KindState {
    /// Logical blocks.
    Blocks,
    /// Logical blocks that hosts place.
    Placed(Box<Placement>),
    /// Logical blocks in zones, whose states are in the store.
    Zoned,
    /// Values under keys.
    Keyed(KeyNamespaceSettings),
}

/// Settings of a namespace that stores values by their keys.
#[derive(Debug)]
pub struct KeyNamespaceSettings {
    /// True if deleting a key that does not exist is an error (EDNEK).
    reports_missing: AtomicBool,
    /// Keys and values of the store, from the time when the store is loaded.
    keys: OnceLock<Arc<StoreKeys>>,
}

impl KeyNamespaceSettings {
    fn new(limits: &KeyValueLimits) -> KeyNamespaceSettings {
        KeyNamespaceSettings { reports_missing: AtomicBool::new(limits.reports_missing), keys: OnceLock::new() }
    }

    /// Returns true if deleting a key that does not exist is an error (EDNEK).
    #[inline]
    pub fn reports_missing(&self) -> bool {
        self.reports_missing.load(Ordering::Relaxed)
    }

    /// Sets if deleting a key that does not exist is an error (EDNEK).
    pub fn set_missing_key_is_error(&self, is_reported: bool) {
        self.reports_missing.store(is_reported, Ordering::Relaxed);
    }
}

impl KindState {
    /// Returns the state of a new drive with these limits.
    pub fn new(limits: &Limits) -> KindState {
        match &limits.kind {
            NamespaceKind::Blocks(BlockNamespaceParts { placement: Some(placement), .. }) => {
                KindState::Placed(Box::new(Placement::new(placement, limits.namespaces)))
            }
            NamespaceKind::Blocks(_) => KindState::Blocks,
            NamespaceKind::Zoned(_) => KindState::Zoned,
            NamespaceKind::Keyed(keys) => KindState::Keyed(KeyNamespaceSettings::new(keys)),
        }
    }

    /// Restores the state that the drive's store has saved.
    ///
    /// # Errors
    /// If the saved state does not fit this drive, because the store was made for another description or is damaged.
    pub fn load(&self, store: &Store) -> io::Result<()> {
        match self {
            KindState::Blocks | KindState::Zoned => {}
            KindState::Placed(placement) => {
                if store.record(StateRecordTag::Placement).is_some_and(|record| !placement.load(&record)) {
                    let found = "the store holds placement handles that this drive cannot have; serve it with the description that it \
                                 was made for, or make a new store";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, found));
                }
            }
            KindState::Keyed(settings) => {
                if let Some([reports_missing, ..]) = store.record(StateRecordTag::KeyValue).as_deref() {
                    settings.set_missing_key_is_error(*reports_missing != 0);
                }
                if let StoredCommandSetState::Keys(keys) = store.command_set_state() {
                    // If the store is loaded again, `set` fails, because the same keys are set already.
                    let _ = settings.keys.set(Arc::clone(keys));
                }
            }
        }
        Ok(())
    }

    /// Saves handles of data placement, or settings of keys, in the store.
    ///
    /// # Errors
    /// If the store does not take the record.
    pub fn save(&self, store: &Store) -> io::Result<()> {
        match self {
            KindState::Blocks | KindState::Zoned => Ok(()),
            KindState::Placed(placement) => store.save_state_record(StateRecordTag::Placement, placement.encode()),
            KindState::Keyed(settings) => {
                store.save_state_record(StateRecordTag::KeyValue, vec![settings.reports_missing().into()])
            }
        }
    }

    /// Returns the parts of a namespace with this metadata, and true if its placement handles are those of the drive
    /// description.
    pub fn parts_with_metadata(&self, id: u32, metadata: Option<BlockMetadataFormat>) -> (BlockNamespaceParts, bool) {
        match self {
            KindState::Placed(placement) => (
                BlockNamespaceParts { placement: Some(placement.placement_limits_of(id)), metadata },
                placement.is_plain(id),
            ),
            _ => (BlockNamespaceParts { placement: None, metadata }, true),
        }
    }

    /// Creates a namespace by `create`, which returns its identifier. With data placement, the namespace gets the
    /// reclaim unit handles of the host's list, or one that the drive chooses. `differs` is true for namespaces whose
    /// LBA format is not that of the new one.
    ///
    /// # Errors
    /// The status of handles that the namespace cannot have, or of `create`.
    pub fn create(
        &self,
        handles: &[u16],
        differs: impl Fn(u32) -> bool,
        create: impl FnOnce() -> Result<u32, Status>,
    ) -> Result<u32, Status> {
        match self {
            KindState::Placed(placement) => {
                let chosen = placement.choose(handles, differs)?;
                let id = create()?;
                placement.create(id, chosen, !handles.is_empty());
                Ok(id)
            }
            _ => create(),
        }
    }

    /// Removes the state of the namespaces for which `is_deleted` is true.
    pub fn delete(&self, is_deleted: impl Fn(u32) -> bool) {
        if let KindState::Placed(placement) = self {
            placement.delete(is_deleted);
        }
    }

    /// Notes that a range of the drive, in bytes, has been erased.
    pub fn note_erased_range(&self, offset: u64, bytes: u64) {
        if let KindState::Placed(placement) = self {
            placement.discard(offset, bytes);
        }
    }

    /// Returns the reclaim unit handles of a namespace's placement handles; none without data placement.
    pub fn unit_handles(&self, namespace: u32) -> Option<Vec<u8>> {
        if let KindState::Placed(placement) = self { Some(placement.unit_handles(namespace)) } else { None }
    }

    /// Returns the state of data placement.
    ///
    /// # Errors
    /// Invalid Command Opcode if the drive does not have it.
    #[inline]
    pub fn placement(&self) -> Result<&Placement, Status> {
        if let KindState::Placed(placement) = self { Ok(placement) } else { Err(Status::INVALID_OPCODE) }
    }

    /// Returns the settings of keys.
    ///
    /// # Errors
    /// Invalid Field if the drive has logical blocks.
    #[inline]
    pub fn key_settings(&self) -> Result<&KeyNamespaceSettings, Status> {
        if let KindState::Keyed(settings) = self { Ok(settings) } else { Err(Status::INVALID_FIELD) }
    }

    /// Returns the bytes that keys and values occupy; 0 if the store has no keys.
    pub fn used_key_bytes(&self) -> u64 {
        match self {
            KindState::Keyed(settings) => settings.keys.get().map_or(0, |keys| keys.used_bytes()),
            _ => 0,
        }
    }
}
