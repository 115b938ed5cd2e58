//! Commands of a namespace that stores values under keys: fields, statuses and data structures (Key Value Command Set
//! Specification 1.0). The statuses are generic ones of the Base Specification 2.0.
//!
//! A key is in dwords 2, 3, 14 and 15 of a command, its length in the lowest byte of dword 11, and options in the next
//! byte. Dword 10 is the length of the value or of the host's buffer in bytes. A Retrieve returns only as much of a
//! value as the buffer holds.

use crate::drive::Drive;
use crate::media::keys::{KEY_BYTES_MAX, Key, KeyLayout, KeySpace, KeySpaceRefusal, StoreConditions, StoredKeyValue};
use crate::number::{index, low_u32};
use crate::protocol::nvme::spec::fields::key as fields;
use crate::protocol::nvme::spec::identify::{IdentifyKeyedNamespace, KeyedFormat};
use crate::protocol::nvme::spec::layout::Layout;
use crate::protocol::nvme::spec::lists::{KeyEntry, KeyList};
use crate::protocol::nvme::spec::{Status, SubmissionEntry};

/// Command Set Identifier (CSI) of the Key Value Command Set.
pub const COMMAND_SET: u8 = 1;
/// Alignment in bytes of the entries of a key list; each entry is padded to a multiple.
const LIST_ALIGNMENT: usize = 4;

/// Limits against which a controller checks commands for keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyValueLimits {
    /// Capacity for values in bytes, its granule, and maximum number of keys.
    pub layout: KeyLayout,
    /// Maximum length of a key in bytes (KV Key Max Length).
    pub key_bytes_max: u8,
    /// Maximum length of a value in bytes (KV Value Max Length).
    pub value_bytes_max: u32,
    /// True if Delete of a key that does not exist is an error (EDNEK; assumed as the value of a new drive).
    pub reports_missing: bool,
}

impl KeyValueLimits {
    /// Returns the key and value limits of a drive; none if the drive has logical blocks.
    pub fn of(drive: &Drive) -> Option<KeyValueLimits> {
        drive.key_layout().map(|layout| KeyValueLimits {
            layout,
            key_bytes_max: drive.key_value.key_max_bytes,
            value_bytes_max: drive.key_value.value_max_bytes(),
            reports_missing: true,
        })
    }

    /// Fills the Identify Namespace page of the Key Value command set with one format; `used_bytes` are the bytes of
    /// all keys and values together. The namespace size is the capacity for values plus the maximum number of keys of
    /// maximum length.
    pub fn identify_namespace(&self, used_bytes: u64, page: &mut [u8]) {
        let KeyLayout { capacity_bytes, granule_bytes, keys_max } = self.layout;
        let size_bytes = capacity_bytes + u64::from(keys_max) * u64::from(self.key_bytes_max);
        let mut page = IdentifyKeyedNamespace::over(page);
        page.set(IdentifyKeyedNamespace::LENGTH, size_bytes);
        page.set(IdentifyKeyedNamespace::USED, used_bytes);
        page.set(IdentifyKeyedNamespace::GRANULE, granule_bytes);
        let mut format = page.field_structure_mut(IdentifyKeyedNamespace::FORMATS.element(0));
        format.set(KeyedFormat::KEY_BYTES, self.key_bytes_max.into());
        format.set(KeyedFormat::VALUE_BYTES, self.value_bytes_max);
        format.set(KeyedFormat::KEYS, keys_max);
    }
}

/// Operation of a Key Value command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyValueOperation {
    /// Stores a value of this length (Store).
    Store {
        /// Length of the value in bytes.
        bytes: u32,
        /// Conditions for the Store: the key must exist, or must not exist.
        options: StoreConditions,
    },
    /// Retrieves the value, as much of it as fits the host's buffer (Retrieve).
    Retrieve {
        /// Length of the host's buffer in bytes.
        buffer_bytes: u32,
    },
    /// Lists keys in byte order, beginning with the command's key, as many as fit the host's buffer (List).
    List {
        /// Length of the host's buffer in bytes.
        buffer_bytes: u32,
    },
    /// Deletes the key and its value (Delete).
    Delete,
    /// Reports whether the key exists (Exist).
    Exist,
}

impl KeyValueOperation {
    /// Returns the Store that a submission queue entry encodes, with its length and conditions.
    pub(in crate::protocol::nvme) fn store(entry: &SubmissionEntry) -> KeyValueOperation {
        let (must_exist, must_be_new) = (entry.has(fields::MUST_EXIST), entry.has(fields::MUST_BE_NEW));
        KeyValueOperation::Store {
            bytes: entry.get(fields::BYTES),
            options: StoreConditions { must_exist, must_be_new },
        }
    }
}

/// Key Value command: an operation and its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyCommand {
    /// Operation of the command, with its lengths and options.
    pub operation: KeyValueOperation,
    /// Key of the command; for a List, the key at which the list begins.
    pub key: Key,
}

impl KeyCommand {
    /// Returns the Key Value command with this operation and the key of a submission queue entry.
    ///
    /// # Errors
    /// - Invalid Field for a key length of more than 16 bytes, or a List buffer too small for the number of keys.
    /// - Invalid Key Size for a key longer than the namespace allows, or without bytes. SPDK and FEMU return it for
    ///   Delete and Exist, too; the specification lists the status for the other commands alone. A List may have a key
    ///   without bytes: it begins with the first key.
    /// - Invalid Value Size for a value longer than the namespace allows.
    pub(in crate::protocol::nvme) fn of(
        entry: &SubmissionEntry,
        operation: KeyValueOperation,
        limits: &KeyValueLimits,
    ) -> Result<KeyCommand, Status> {
        let key = key_of_entry(entry, entry.get(fields::KEY_BYTES))?;
        let is_list = matches!(operation, KeyValueOperation::List { .. });
        if key.length() > limits.key_bytes_max || key.length() == 0 && !is_list {
            return Err(Status::INVALID_KEY_SIZE);
        }
        match operation {
            KeyValueOperation::Store { bytes, .. } if bytes > limits.value_bytes_max => Err(Status::INVALID_VALUE_SIZE),
            KeyValueOperation::List { buffer_bytes } if index(buffer_bytes) < KeyList::BYTES => {
                Err(Status::INVALID_FIELD)
            }
            _ => Ok(KeyCommand { operation, key }),
        }
    }

    /// Returns the length in bytes of the value or the host's buffer that the command transfers; 0 for Delete and
    /// Exist.
    pub fn data_bytes(&self) -> u32 {
        match self.operation {
            KeyValueOperation::Store { bytes, .. } => bytes,
            KeyValueOperation::Retrieve { buffer_bytes } | KeyValueOperation::List { buffer_bytes } => buffer_bytes,
            KeyValueOperation::Delete | KeyValueOperation::Exist => 0,
        }
    }

    /// Returns the data of a List: the number of keys, then each key with its length in front, in byte order from the
    /// command's key on. Ends with the last whole key that fits the buffer.
    pub fn list(&self, space: &KeySpace) -> Vec<u8> {
        let room = index(self.data_bytes());
        let (mut list, mut count) = (vec![0; KeyList::BYTES], 0_u32);
        for (key, _) in space.iter_from_key(self.key) {
            let length = usize::from(key.length());
            let end = (list.len() + KeyEntry::BYTES + length).next_multiple_of(LIST_ALIGNMENT);
            if end > room {
                break;
            }
            list.extend(KeyEntry::zeros().with(KeyEntry::BYTES_OF_KEY, key.length().into()).into_bytes());
            list.extend(&key.padded()[..length]);
            list.resize(end, 0);
            count += 1;
        }
        KeyList::over(&mut list[..]).set(KeyList::KEYS, count);
        list
    }
}

/// Returns the key that a submission queue entry holds: `length` bytes of the key fields, whose other bytes are
/// ignored.
fn key_of_entry(entry: &SubmissionEntry, length: u32) -> Result<Key, Status> {
    let high = entry.joined_u64([fields::KEY_THIRD, fields::KEY_LAST]);
    let bytes: Vec<u8> = [entry.dwords_2_3, high].into_iter().flat_map(u64::to_le_bytes).collect();
    let bytes = bytes.get(..index(length)).ok_or(Status::INVALID_FIELD)?;
    Key::new(bytes).ok_or(Status::INVALID_FIELD)
}

/// Returns the submission queue entry with this key and its length filled in.
pub(in crate::protocol::nvme) fn with_key_fields(entry: SubmissionEntry, key: Key) -> SubmissionEntry {
    let bytes = key.padded();
    let [low, high] = [0, 1].map(|word| u64::from_le_bytes(bytes.as_chunks::<{ KEY_BYTES_MAX / 2 }>().0[word]));
    let entry = entry.with(fields::KEY_BYTES, key.length().into());
    let entry = entry.with(fields::KEY_THIRD, low_u32(high)).with(fields::KEY_LAST, low_u32(high >> 32));
    SubmissionEntry { dwords_2_3: low, ..entry }
}

/// Returns the status of a command that is refused because of its key or the room for its value.
#[cold]
pub fn status(refusal: KeySpaceRefusal) -> Status {
    match refusal {
        KeySpaceRefusal::Missing => Status::KEY_DOES_NOT_EXIST,
        KeySpaceRefusal::Exists => Status::KEY_EXISTS,
        KeySpaceRefusal::Full | KeySpaceRefusal::Held => Status::CAPACITY_EXCEEDED,
    }
}

/// Deletes a key. Returns the value that was stored under it, or none if the key did not exist.
///
/// # Errors
/// KV Key Does Not Exist if the key does not exist and `reports_missing` is set (EDNEK).
pub fn delete(space: &mut KeySpace, key: Key, reports_missing: bool) -> Result<Option<StoredKeyValue>, Status> {
    match space.delete(key) {
        Ok(value) => Ok(Some(value)),
        Err(_) if !reports_missing => Ok(None),
        Err(refusal) => Err(status(refusal)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, NamespaceKind};
    use super::*;
    use crate::protocol::nvme::commands::{Action, Command, opcode};

    const LAYOUT: KeyLayout = KeyLayout { capacity_bytes: 1 << 20, granule_bytes: 512, keys_max: 100 };
    const KEYS: KeyValueLimits =
        KeyValueLimits { layout: LAYOUT, key_bytes_max: 12, value_bytes_max: 4096, reports_missing: true };
    const LIMITS: Limits = Limits { kind: NamespaceKind::Keyed(KEYS), ..Limits::SMALL };

    /// Returns a submission queue entry with this opcode, dwords 10 and 11, and key.
    fn entry(opcode: u8, dwords: [u32; 2], key: &str) -> SubmissionEntry {
        let key = Key::new(key.as_bytes()).expect("it is short");
        let dwords = [dwords[0], dwords[1], 0, 0, 0, 0];
        with_key_fields(
            SubmissionEntry { opcode, namespace_id: 1, prp1: 0x1000, dwords, ..SubmissionEntry::default() },
            key,
        )
    }

    fn checked(entry: &SubmissionEntry) -> Result<KeyCommand, Status> {
        match Command::check(entry, &LIMITS)?.action {
            Action::Key(command) => Ok(command),
            other => panic!("{other:?} is not about a key"),
        }
    }

    /// Source: the command layouts of the Key Value Command Set Specification 1.0. Bytes 7 to 0 of a key are in dwords
    /// 3 and 2, the others in dwords 15 and 14.
    #[test]
    fn key_occupies_its_dwords_up_to_its_length() {
        let mut bytes = entry(opcode::EXIST, [0, 0], "abcdefghij").encode();
        assert_eq!((&bytes[8..16], &bytes[56..58], bytes[44]), (&b"abcdefgh"[..], &b"ij"[..], 10));
        bytes[58..64].fill(0xff);
        let found = checked(&SubmissionEntry::decode(&bytes)).expect("it is fine");
        assert_eq!((found.operation, found.key), (KeyValueOperation::Exist, Key::new(b"abcdefghij").unwrap()));
        bytes[44] = 3;
        assert_eq!(checked(&SubmissionEntry::decode(&bytes)).unwrap().key, Key::new(b"abc").unwrap());
    }

    #[test]
    fn wrong_key_command_fields_have_their_statuses() {
        let all = [opcode::STORE, opcode::RETRIEVE, opcode::LIST, opcode::DELETE, opcode::EXIST];
        for opcode in all {
            let mut long = entry(opcode, [64, 0], "k");
            long.dwords[1] = 17;
            assert_eq!(checked(&long), Err(Status::INVALID_FIELD), "{opcode:x}");
            assert_eq!(checked(&entry(opcode, [64, 0], "thirteenbytes")), Err(Status::INVALID_KEY_SIZE), "{opcode:x}");
            let empty = checked(&entry(opcode, [64, 0], "")).map(|_| ());
            let expected = if opcode == opcode::LIST { Ok(()) } else { Err(Status::INVALID_KEY_SIZE) };
            assert_eq!(empty, expected, "{opcode:x}");
            let elsewhere = SubmissionEntry { namespace_id: u32::MAX, ..entry(opcode, [64, 0], "k") };
            assert_eq!(checked(&elsewhere), Err(Status::INVALID_NAMESPACE), "{opcode:x}");
        }
        for (entry, expected) in [
            (entry(opcode::STORE, [4097, 0], "k"), Status::INVALID_VALUE_SIZE),
            (entry(opcode::RETRIEVE, [(64 << 10) + 1, 0], "k"), Status::INVALID_FIELD),
            (entry(opcode::LIST, [3, 0], "k"), Status::INVALID_FIELD),
            (entry(opcode::COMPARE, [0, 0], "k"), Status::INVALID_OPCODE),
            (entry(opcode::DATASET_MANAGEMENT, [0, 0], "k"), Status::INVALID_OPCODE),
            (SubmissionEntry { prp1: 2, ..entry(opcode::STORE, [1, 0], "k") }, Status::INVALID_PRP_OFFSET),
        ] {
            assert_eq!(checked(&entry), Err(expected), "{entry:?}");
        }
        let nothing = SubmissionEntry { prp1: 2, ..entry(opcode::STORE, [0, 0], "k") };
        assert!(checked(&nothing).is_ok(), "a value without bytes has no data pointer");
        let flush = SubmissionEntry { namespace_id: u32::MAX, ..entry(opcode::FLUSH, [0, 0], "") };
        assert_eq!(Command::check(&flush, &LIMITS).map(|command| command.action), Ok(Action::Flush));
    }

    #[test]
    fn store_options_are_in_byte_two_of_dword_11() {
        for (bits, must_exist, must_be_new) in [(0, false, false), (1, true, false), (2, false, true), (7, true, true)]
        {
            let found = checked(&entry(opcode::STORE, [9, bits << 8], "k")).expect("it is fine").operation;
            let options = StoreConditions { must_exist, must_be_new };
            assert_eq!(found, KeyValueOperation::Store { bytes: 9, options }, "{bits:b}");
        }
    }

    #[test]
    fn key_list_contains_as_many_whole_keys_as_fit() {
        let mut space = KeySpace::new(LAYOUT);
        for key in ["a", "abc", "b", "longer key"] {
            space.store(Key::new(key.as_bytes()).unwrap(), 10, StoreConditions::default()).unwrap();
        }
        let list = |bytes, from| checked(&entry(opcode::LIST, [bytes, 0], from)).unwrap().list(&space);
        let all = b"\x04\0\0\0\x01\0a\0\x03\0abc\0\0\0\x01\0b\0\x0a\0longer key";
        assert_eq!(list(64, ""), all);
        assert_eq!(list(32, "a"), all, "it just fits");
        assert_eq!(list(31, "a"), [&[3][..], &all[1..20]].concat());
        assert_eq!(list(64, "ab"), [&[3][..], &all[1..4], &all[8..]].concat(), "from the next one that there is");
        assert_eq!((list(4, ""), list(64, "z")), (vec![0; 4], vec![0; 4]));
    }

    #[test]
    fn key_namespace_identify_reports_its_format_and_usage() {
        let mut page = vec![0; 4096];
        KEYS.identify_namespace(777, &mut page);
        assert_eq!(page[..8], ((1_u64 << 20) + 1200).to_le_bytes());
        assert_eq!((&page[16..24], &page[24..26]), (&777_u64.to_le_bytes()[..], &[0, 0][..]));
        assert_eq!(page[32..36], 512_u32.to_le_bytes());
        assert_eq!(page[72..88], [12, 0, 0, 0, 0, 16, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn deleting_a_missing_key_fails_if_requested() {
        let mut space = KeySpace::new(LAYOUT);
        let key = Key::of_number(1);
        space.store(key, 10, StoreConditions::default()).unwrap();
        assert_eq!(delete(&mut space, key, true).map(|value| value.map(|value| value.bytes)), Ok(Some(10)));
        assert_eq!(delete(&mut space, key, true), Err(Status::KEY_DOES_NOT_EXIST));
        assert_eq!(delete(&mut space, key, false), Ok(None));
    }
}
