//! Table of I/O commands. A row says everything that is the same for all commands with its opcode; [`Action`] holds what
//! one submission queue entry adds. The simulated and the served controller, strict checks, the log page of command
//! effects, ONCS and fuzz targets read the rows.
//!
//! A new command is a row of the table below, a variant of [`Action`] if it has parameters of its own, and its execution
//! on real bytes in the served controller. The simulated controller acts on the fields of the row; a command that returns
//! another value than the listed ones is also a variant of [`CompletionValueKind`], which the kind of its namespace computes.

pub mod command;
mod row;
pub mod zones;

pub use command::{Command, ParameterListContent};
pub(in crate::protocol::nvme) use row::RANGE_BYTES;
pub use row::{
    COPY_SOURCES_MAX, ChangedState, CommandListKind, CommandRow, CommandSet, CompletionDurability, CompletionValueKind,
    DataPointerUse, Extent, MediaUse, rows_of,
};

use super::rules::Limits;
use super::rules::key_value::{KeyCommand, KeyValueOperation};
use super::rules::placement::{UnitReceive, UnitSend};
use super::rules::protection::CommandMetadataUse;
use super::rules::reservation::ReservationCommand;
use super::rules::zones::{ZoneReceive, ZoneSend};
use super::spec::fields::{blocks, cancel, key, ranges, reservation};
use super::spec::layout::{DwordField, all_but};
use super::spec::{Status, SubmissionEntry};
use crate::number::low_u16;
use crate::request::Op;

/// Fields of commands that name logical blocks.
const EXTENT: &[DwordField] = &[blocks::FIRST_LOW, blocks::FIRST_HIGH, blocks::COUNT];
/// Fields of commands that check or write protection information.
const CHECKED: &[DwordField] = &[
    blocks::STORAGE_TAG_CHECK,
    blocks::PROTECTION,
    blocks::REFERENCE_TAG,
    blocks::APPLICATION_TAG,
    blocks::APPLICATION_MASK,
];
/// Fields of commands that read or write the media with a retry limit, and durably if the host asks for that.
const FORCED: &[DwordField] = &[blocks::FORCE_UNIT_ACCESS, blocks::LIMITED_RETRY];
/// Fields of commands that name a key, apart from dwords 2 and 3.
const KEY: &[DwordField] = &[key::KEY_BYTES, key::KEY_THIRD, key::KEY_LAST];

/// Values of the action code of Cancel (ACODE).
const SINGLE_COMMAND: u32 = 0b00;
const ALL_COMMANDS: u32 = 0b01;
/// Invalid Command ID (command specific, 84h): a Cancel names itself.
pub const INVALID_COMMAND_ID: Status = Status(0x0184);

/// Operation of a valid command, with the parameters that are specific to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Makes all data written before durable (Flush).
    Flush,
    /// Transfers data from the device to the host (Read).
    Read,
    /// Transfers data from the host to the device (Write).
    Write,
    /// Compares data from the host with the data on the device (Compare).
    Compare,
    /// Reads data from the media without a transfer and reports whether that succeeded (Verify).
    Verify,
    /// Fills logical blocks with zeros (Write Zeroes).
    Zero {
        /// True if the zeroed blocks stay allocated (DEAC is 0).
        keep_space: bool,
    },
    /// Marks logical blocks as unreadable until they are written (Write Uncorrectable).
    WriteUncorrectable,
    /// Deallocates the ranges in the command's list, or only accepts them as a hint if AD is 0 (Dataset Management).
    Deallocate {
        /// True if the command does not ask for deallocation (AD is 0); its other attributes are accepted and change
        /// nothing.
        is_hint: bool,
    },
    /// Writes at the write pointer of a zone (Zone Append); the command's place is the start of the zone.
    Append,
    /// Changes the state of a zone, or of all zones (Zone Management Send).
    SendZones(ZoneSend),
    /// Reports zones (Zone Management Receive); the command's data is the report.
    ReceiveZones(ZoneReceive),
    /// Reports reclaim unit handles (I/O Management Receive); the command's data is the report.
    ReceiveUnits(UnitReceive),
    /// Points placement handles to new reclaim units (I/O Management Send); the command's data is their list.
    SendUnits(UnitSend),
    /// Copies source ranges, in order, to one contiguous destination (Copy); the command's data is the list of source
    /// ranges.
    Copy,
    /// Aborts one or all other commands of the submission queue (Cancel).
    Cancel(CancelTarget),
    /// Registers a host, acquires, releases or reports a reservation (reservation commands).
    Reserve(ReservationCommand),
    /// Stores, retrieves, lists, deletes or looks for a key (Key Value command set); the command has no place on the
    /// drive.
    Key(KeyCommand),
}

/// Cancel: abort of one command of the submission queue, or of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelTarget {
    /// Identifier of the submission queue, which must be that of the Cancel itself (SQID).
    pub queue: u16,
    /// Identifier of the command to be aborted (CID); none for all commands.
    pub command_id: Option<u16>,
}

impl CancelTarget {
    /// Returns the abort that dwords 10 and 11 of a Cancel encode.
    ///
    /// # Errors
    /// Invalid Command ID if the Cancel names itself. Invalid Field for a reserved action code, or all commands with
    /// another identifier than FFFFh.
    fn of(entry: &SubmissionEntry) -> Result<CancelTarget, Status> {
        let [queue, command_id] = [cancel::QUEUE, cancel::COMMAND_ID].map(|field| low_u16(entry.get(field)));
        match entry.get(cancel::ACTION) {
            SINGLE_COMMAND if command_id == entry.command_id => Err(INVALID_COMMAND_ID),
            SINGLE_COMMAND => Ok(CancelTarget { queue, command_id: Some(command_id) }),
            ALL_COMMANDS if command_id == u16::MAX => Ok(CancelTarget { queue, command_id: None }),
            _ => Err(Status::INVALID_FIELD),
        }
    }
}

impl Action {
    /// Returns the abort of other commands that the command asks for; none for all commands but Cancel.
    #[inline]
    pub fn cancellation(self) -> Option<CancelTarget> {
        if let Action::Cancel(cancellation) = self { Some(cancellation) } else { None }
    }

    /// Returns the reservation command; none for all other commands.
    #[inline]
    pub fn reservation(self) -> Option<ReservationCommand> {
        if let Action::Reserve(command) = self { Some(command) } else { None }
    }

    /// Returns the length in bytes of a report, a value, a host's buffer or a list of placement identifiers that the
    /// parameters give; 0 if other fields give the length.
    #[inline]
    pub(in crate::protocol::nvme) fn named_bytes(self) -> u32 {
        match self {
            Action::ReceiveZones(receive) => receive.bytes,
            Action::ReceiveUnits(receive) => receive.bytes,
            Action::SendUnits(send) => send.bytes(),
            Action::Reserve(command) => command.data_bytes(),
            Action::Key(command) => command.data_bytes(),
            _ => 0,
        }
    }
}

/// Makes opcodes, rows, and the way from an entry to its [`Action`] and from that to its row.
macro_rules! commands {
    ($(
        $(#[doc = $doc:literal])+
        $opcode:ident = $code:literal, $name:literal, $set:ident, $pattern:pat,
            |$entry:pat_param, $limits:pat_param| $action:expr => { $($field:ident: $value:expr),* $(,)? }
    )*) => {
        /// Opcodes of I/O commands (NVM Command Set Specification 1.0 and the other command sets).
        pub mod opcode {
            $(
                $(#[doc = $doc])+
                pub const $opcode: u8 = $code;
            )*
        }

        impl Action {
            /// Rows of all I/O commands.
            pub const ROWS: &[&CommandRow] = &[$({
                static ROW: CommandRow = CommandRow {
                    name: $name,
                    opcode: $code,
                    set: CommandSet::$set,
                    $($field: $value,)*
                    ..CommandRow::PLAIN
                };
                &ROW
            }),*];

            /// Returns the row of the command in the table.
            #[inline]
            pub const fn row(self) -> &'static CommandRow {
                match self {
                    $($pattern => const { find(CommandSet::$set, $code) },)*
                }
            }

        }

        /// Returns the command that the opcode of a submission queue entry names, if the namespace has its command set,
        /// with its parameters and everything that its row says checked. Each row is a constant here, so that the
        /// compiler leaves out of the common transfers what their rows do not need.
        ///
        /// # Errors
        /// Invalid Command Opcode if no command of the namespace has the opcode. Otherwise the status of the first
        /// field that is invalid.
        #[inline(always)]
        fn check_by_row(entry: &SubmissionEntry, limits: &Limits) -> Result<Command, Status> {
            match entry.opcode {
                $($code if limits.kind.offers(CommandSet::$set) => {
                    const ROW: &CommandRow = find(CommandSet::$set, $code);
                    let ($entry, $limits) = (entry, limits);
                    let action: Result<Action, Status> = $action;
                    let action = action?;
                    match const { ROW.is_transfer() } {
                        true => Command::of_operation(entry, limits, action, ROW),
                        false => Command::of_rare_operation(entry, limits, action, ROW),
                    }
                })*
                _ => Err(Status::INVALID_OPCODE),
            }
        }
    };
}

/// Returns the row of a command set with this opcode.
const fn find(set: CommandSet, opcode: u8) -> &'static CommandRow {
    let mut place = 0;
    while Action::ROWS[place].opcode != opcode || Action::ROWS[place].set as u8 != set as u8 {
        place += 1;
    }
    Action::ROWS[place]
}

commands! {
    /// Opcode of the Flush command, which makes all data written before durable.
    FLUSH = 0x00, "Flush", Every, Action::Flush, |_, _| Ok(Action::Flush) => {
        takes_all_namespaces: true,
        media: MediaUse::Flush,
        durability: CompletionDurability::Always,
        changes: ChangedState::Flushed,
        reserved: all_but(&[]),
    }
    /// Opcode of the Write command.
    WRITE = 0x01, "Write", Blocks, Action::Write, |_, _| Ok(Action::Write) => {
        extent: Extent::Blocks,
        data: DataPointerUse::FromHost,
        media: MediaUse::Write,
        metadata: CommandMetadataUse::Transferred,
        durability: CompletionDurability::ForcedOrUncached,
        counts: Op::Write,
        changes: ChangedState::Written,
        reserved: all_but(&[EXTENT, CHECKED, FORCED, &[blocks::DIRECTIVE, blocks::HINTS, blocks::PLACEMENT]]),
    }
    /// Opcode of the Read command.
    READ = 0x02, "Read", Blocks, Action::Read, |_, _| Ok(Action::Read) => {
        extent: Extent::Blocks,
        data: DataPointerUse::ToHost,
        media: MediaUse::Read,
        metadata: CommandMetadataUse::Transferred,
        counts: Op::Read,
        reserved: all_but(&[EXTENT, CHECKED, FORCED, &[blocks::HINTS]]),
    }
    /// Opcode of the Write Uncorrectable command, which marks logical blocks as unreadable.
    WRITE_UNCORRECTABLE = 0x04, "Write Uncorrectable", Blocks, Action::WriteUncorrectable, |_, _| Ok(Action::WriteUncorrectable) => {
        extent: Extent::Blocks,
        media: MediaUse::Write,
        counts: Op::WriteZeroes,
        changes: ChangedState::MadeUnreadable,
        optional_bit: Some(1),
        reserved: all_but(&[EXTENT]),
    }
    /// Opcode of the Compare command.
    COMPARE = 0x05, "Compare", Blocks, Action::Compare, |_, _| Ok(Action::Compare) => {
        extent: Extent::Blocks,
        data: DataPointerUse::FromHost,
        media: MediaUse::Read,
        metadata: CommandMetadataUse::Compared,
        counts: Op::Read,
        optional_bit: Some(0),
        reserved: all_but(&[EXTENT, CHECKED, FORCED]),
    }
    /// Opcode of the Write Zeroes command.
    WRITE_ZEROES = 0x08, "Write Zeroes", Blocks, Action::Zero { .. },
        |entry, _| Ok(Action::Zero { keep_space: !entry.has(blocks::DEALLOCATE) }) => {
        extent: Extent::Blocks,
        media: MediaUse::Write,
        metadata: CommandMetadataUse::Zeroed,
        durability: CompletionDurability::ForcedOrUncached,
        counts: Op::WriteZeroes,
        changes: ChangedState::Zeroed,
        optional_bit: Some(3),
        reserved: all_but(&[EXTENT, CHECKED, FORCED, &[blocks::DEALLOCATE]]),
    }
    /// Opcode of the Dataset Management command, which deallocates ranges of logical blocks.
    DATASET_MANAGEMENT = 0x09, "Dataset Management", Blocks, Action::Deallocate { .. },
        |entry, _| Ok(Action::Deallocate { is_hint: !entry.has(ranges::DEALLOCATE) }) => {
        data: DataPointerUse::List(CommandListKind::Ranges),
        media: MediaUse::Discard,
        counts: Op::Discard,
        changes: ChangedState::Deallocated,
        optional_bit: Some(2),
        reserved: all_but(&[&[ranges::COUNT, ranges::ATTRIBUTES]]),
    }
    /// Opcode of the Verify command, which reads logical blocks without a transfer of data.
    VERIFY = 0x0c, "Verify", Blocks, Action::Verify, |_, _| Ok(Action::Verify) => {
        extent: Extent::Blocks,
        media: MediaUse::Read,
        metadata: CommandMetadataUse::Verified,
        counts: Op::Read,
        optional_bit: Some(7),
        reserved: all_but(&[EXTENT, CHECKED, FORCED]),
    }
    /// Opcode of the Reservation Register command, which registers a host with a key, or unregisters it (Base
    /// Specification 2.0, section 7.3).
    RESERVATION_REGISTER = 0x0d, "Reservation Register", Every, Action::Reserve(ReservationCommand::Register { .. }),
        |entry, _| ReservationCommand::register(entry).map(Action::Reserve) => {
        data: DataPointerUse::List(CommandListKind::ReservationKeys),
        optional_bit: Some(5),
        reserved: all_but(&[&[reservation::ACTION, reservation::IGNORES_KEY, reservation::PERSISTENCE]]),
    }
    /// Opcode of the Reservation Report command, which reports registrants and reservation (section 7.5).
    RESERVATION_REPORT = 0x0e, "Reservation Report", Every, Action::Reserve(ReservationCommand::Report { .. }),
        |entry, _| ReservationCommand::report(entry).map(Action::Reserve) => {
        data: DataPointerUse::ToHost,
        optional_bit: Some(5),
        reserved: all_but(&[&[reservation::DWORDS, reservation::IS_LONG]]),
    }
    /// Opcode of the Reservation Acquire command, which acquires a reservation or takes it from another host (section
    /// 7.2).
    RESERVATION_ACQUIRE = 0x11, "Reservation Acquire", Every, Action::Reserve(ReservationCommand::Acquire { .. }),
        |entry, _| ReservationCommand::acquire(entry).map(Action::Reserve) => {
        data: DataPointerUse::List(CommandListKind::ReservationKeys),
        optional_bit: Some(5),
        reserved: all_but(&[&[reservation::ACTION, reservation::IGNORES_KEY, reservation::TYPE]]),
    }
    /// Opcode of the Reservation Release command, which releases a reservation, or unregisters all hosts (section 7.4).
    RESERVATION_RELEASE = 0x15, "Reservation Release", Every,
        Action::Reserve(ReservationCommand::Release(_) | ReservationCommand::Clear),
        |entry, _| ReservationCommand::release(entry).map(Action::Reserve) => {
        data: DataPointerUse::List(CommandListKind::ReservationKeys),
        optional_bit: Some(5),
        reserved: all_but(&[&[reservation::ACTION, reservation::IGNORES_KEY, reservation::TYPE]]),
    }
    /// Opcode of the Cancel command, which aborts other commands of its submission queue (Base Specification 2.1, section
    /// 7.1).
    CANCEL = 0x18, "Cancel", Every, Action::Cancel(_), |entry, _| CancelTarget::of(entry).map(Action::Cancel) => {
        takes_all_namespaces: true,
        reserved: all_but(&[&[cancel::QUEUE, cancel::COMMAND_ID, cancel::ACTION]]),
    }
    /// Opcode of the Copy command, which copies ranges of logical blocks within a namespace.
    COPY = 0x19, "Copy", Blocks, Action::Copy, |_, _| Ok(Action::Copy) => {
        extent: Extent::FirstBlock,
        data: DataPointerUse::List(CommandListKind::Sources),
        media: MediaUse::Write,
        metadata: CommandMetadataUse::Copied,
        durability: CompletionDurability::ForcedOrUncached,
        counts: Op::Write,
        changes: ChangedState::Written,
        optional_bit: Some(8),
    }
    /// Opcode of the Zone Management Send command, which changes the states of zones (Zoned Namespace Command Set
    /// Specification 1.1).
    ZONE_MANAGEMENT_SEND = 0x79, "Zone Management Send", Zones, Action::SendZones(_),
        |entry, _| ZoneSend::of(entry).map(Action::SendZones) => {
        extent: Extent::FirstBlock,
        durability: CompletionDurability::ByZoneAction,
        changes: ChangedState::Zones,
    }
    /// Opcode of the Zone Management Receive command, which reports zones.
    ZONE_MANAGEMENT_RECEIVE = 0x7a, "Zone Management Receive", Zones, Action::ReceiveZones(_),
        |entry, _| ZoneReceive::of(entry).map(Action::ReceiveZones) => {
        extent: Extent::FirstBlock,
        data: DataPointerUse::ToHost,
        counts: Op::Read,
    }
    /// Opcode of the Zone Append command, which writes at the write pointer of a zone.
    ZONE_APPEND = 0x7d, "Zone Append", Zones, Action::Append, |_, _| Ok(Action::Append) => {
        extent: Extent::Blocks,
        data: DataPointerUse::FromHost,
        media: MediaUse::Write,
        durability: CompletionDurability::ForcedOrUncached,
        counts: Op::Write,
        returns: CompletionValueKind::FirstBlock,
        changes: ChangedState::Written,
    }
    /// Opcode of the I/O Management Receive command, which reports reclaim unit handles (Base Specification 2.1,
    /// section 7.3).
    IO_MANAGEMENT_RECEIVE = 0x12, "I/O Management Receive", Placement, Action::ReceiveUnits(_),
        |entry, limits| UnitReceive::of(entry, limits.kind.placement()?).map(Action::ReceiveUnits) => {
        extent: Extent::Namespace,
        data: DataPointerUse::ToHost,
        counts: Op::Read,
    }
    /// Opcode of the I/O Management Send command, which lets placement handles refer to new reclaim units (Base
    /// Specification 2.1, section 7.4).
    IO_MANAGEMENT_SEND = 0x1d, "I/O Management Send", Placement, Action::SendUnits(_),
        |entry, limits| UnitSend::of(entry, limits.kind.placement()?).map(Action::SendUnits) => {
        extent: Extent::Namespace,
        data: DataPointerUse::List(CommandListKind::Identifiers),
    }
    /// Opcode of the Store command, which stores a value by its key (Key Value Command Set Specification 1.0, figure
    /// 5).
    STORE = 0x01, "Store", Keys, Action::Key(KeyCommand { operation: KeyValueOperation::Store { .. }, .. }),
        |entry, limits| key_command_of_entry(entry, KeyValueOperation::store(entry), limits) => {
        data: DataPointerUse::FromHost,
        media: MediaUse::Write,
        durability: CompletionDurability::Uncached,
        counts: Op::Write,
        changes: ChangedState::Keys,
        reserved: all_but(&[KEY, &[key::BYTES, key::STORE_OPTIONS]]),
    }
    /// Opcode of the Retrieve command, which retrieves the value of a key.
    RETRIEVE = 0x02, "Retrieve", Keys, Action::Key(KeyCommand { operation: KeyValueOperation::Retrieve { .. }, .. }),
        |entry, limits| key_command_of_entry(entry, KeyValueOperation::Retrieve { buffer_bytes: entry.get(key::BYTES) }, limits) => {
        data: DataPointerUse::ToHost,
        media: MediaUse::Read,
        counts: Op::Read,
        returns: CompletionValueKind::ValueBytes,
        reserved: all_but(&[KEY, &[key::BYTES, key::RAW]]),
    }
    /// Opcode of the List command, which lists keys.
    LIST = 0x06, "List", Keys, Action::Key(KeyCommand { operation: KeyValueOperation::List { .. }, .. }),
        |entry, limits| key_command_of_entry(entry, KeyValueOperation::List { buffer_bytes: entry.get(key::BYTES) }, limits) => {
        data: DataPointerUse::ToHost,
        counts: Op::Read,
        reserved: all_but(&[KEY, &[key::BYTES]]),
    }
    /// Opcode of the Delete command, which deletes a key and its value.
    DELETE = 0x10, "Delete", Keys, Action::Key(KeyCommand { operation: KeyValueOperation::Delete, .. }),
        |entry, limits| key_command_of_entry(entry, KeyValueOperation::Delete, limits) => {
        durability: CompletionDurability::Uncached,
        counts: Op::Discard,
        changes: ChangedState::Keys,
        reserved: all_but(&[KEY]),
    }
    /// Opcode of the Exist command, which tells whether a key exists.
    EXIST = 0x14, "Exist", Keys, Action::Key(KeyCommand { operation: KeyValueOperation::Exist, .. }),
        |entry, limits| key_command_of_entry(entry, KeyValueOperation::Exist, limits) => {
        counts: Op::Read,
        returns: CompletionValueKind::ValueBytes,
        reserved: all_but(&[KEY]),
    }
}

/// Returns a Key Value command with the limits of a namespace with keys and values.
#[cold]
fn key_command_of_entry(
    entry: &SubmissionEntry,
    operation: KeyValueOperation,
    limits: &Limits,
) -> Result<Action, Status> {
    KeyCommand::of(entry, operation, limits.kind.keys()?).map(Action::Key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_have_one_row_per_command_set() {
        let names: Vec<_> = Action::ROWS.iter().map(|row| (row.set as u8, row.opcode)).collect();
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn command_rows_are_consistent() {
        for row in Action::ROWS {
            let name = row.name;
            assert!(!name.is_empty());
            assert!(row.set == CommandSet::Keys || !row.writes_media() || row.extent != Extent::None, "{name}");
            let is_read_back = row.transfers_only_to_host() && row.changes_logical_content();
            assert!(!is_read_back, "{name} returns data and changes the drive");
            let is_forced = row.durability == CompletionDurability::ForcedOrUncached;
            assert!(!is_forced || row.writes_media(), "{name} has FUA without a write");
            assert!(row.metadata == CommandMetadataUse::None || row.set == CommandSet::Blocks, "{name}");
        }
    }
}
