//! Random commands of conversations: nearly right, or not.

use phaselink_core::protocol::nvme::commands::{ChangedState, CommandSet, opcode, rows_of};
use phaselink_core::protocol::nvme::rules::{BlockMetadataFormat, NamespaceProtectionType};
use phaselink_core::protocol::nvme::spec::{self, SubmissionEntry};

use super::{Conversation, NOWHERE, PAGE, ZONED_MIB};

/// Returns the opcodes of all commands for blocks, those of reads and writes more often. The simulated drive has no
/// unreadable blocks.
fn weighted_block_opcodes() -> Vec<u8> {
    let rows = rows_of(&[CommandSet::Every, CommandSet::Blocks]).into_iter();
    let simulated = rows.filter(|row| row.changes != ChangedState::MadeUnreadable).map(|row| row.opcode);
    simulated.chain([opcode::READ, opcode::READ, opcode::WRITE]).collect()
}

impl Conversation {
    /// A command that is nearly right, or not.
    pub(super) fn command(&mut self) -> [u8; 64] {
        let dice = &mut self.dice;
        self.next_id = self.next_id.wrapping_add(1);
        if dice.one_in(40) {
            return self.random_entry_bytes();
        }
        if self.limits.kind.offers(CommandSet::Keys) {
            return self.draw_key_command();
        }
        let opcode = if dice.one_in(30) { dice.below(256) as u8 } else { dice.of(&weighted_block_opcodes()) };
        let (slba, blocks) = self.place();
        let (opcode, slba) =
            if self.has(CommandSet::Zones) { self.draw_zone_command(opcode, slba) } else { (opcode, slba) };
        let manages_units = self.has(CommandSet::Placement) && self.dice.one_in(3);
        let units = [opcode::IO_MANAGEMENT_RECEIVE, opcode::IO_MANAGEMENT_SEND];
        let opcode = if manages_units { self.dice.of(&units) } else { opcode };
        let (prp1, prp2) = self.pointer();
        let dice = &mut self.dice;
        let entry = SubmissionEntry {
            opcode,
            flags: if dice.one_in(30) { dice.below(256) as u8 } else { 0 },
            command_id: self.next_id,
            namespace_id: match (dice.one_in(20), self.limits.namespaces) {
                (true, namespaces) => dice.of(&[0, namespaces + 1, u32::MAX]),
                (false, namespaces) => 1 + dice.below(namespaces.into()) as u32,
            },
            dwords_2_3: 0,
            metadata: 0,
            prp1,
            prp2,
            dwords: [0, 0, if dice.one_in(8) { 1 << 30 | 1 << 25 } else { 0 }, 0, 0, 0],
        };
        if self.has(CommandSet::Zones) {
            self.with_zones(entry, slba, blocks)
        } else if let Some(BlockMetadataFormat { protection: Some(kind), .. }) = self.limits.kind.metadata() {
            let entry = self.draw_protected_command(entry, slba, kind);
            self.with_blocks_and_lists(entry, slba, blocks)
        } else if self.has(CommandSet::Placement) {
            self.draw_placement_command(entry, slba, blocks)
        } else {
            self.with_blocks_and_lists(entry, slba, blocks)
        }
    }

    /// Bytes of any kind, with data and lists anywhere but where nothing is.
    fn random_entry_bytes(&mut self) -> [u8; 64] {
        let (dice, mut bytes) = (&mut self.dice, [0; 64]);
        bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|word| *word = (dice.0.bits() >> 3).to_le_bytes());
        bytes[2..4].copy_from_slice(&self.next_id.to_le_bytes());
        bytes[31] &= 0x0f;
        bytes[39] &= 0x0f;
        bytes
    }

    /// The command with its blocks, and with the list that it needs.
    fn with_blocks_and_lists(&mut self, entry: SubmissionEntry, slba: u64, blocks: u32) -> [u8; 64] {
        match entry.opcode {
            opcode::DATASET_MANAGEMENT => self.put_deallocation_ranges(entry).encode(),
            opcode::COPY => self.put_copy_sources(entry.of_blocks(slba, 1)).encode(),
            opcode::READ | opcode::WRITE | opcode::COMPARE if self.dice.one_in(4) => {
                let bytes = u64::from(blocks) << self.limits.block_shift;
                self.scatter_command_data(entry.of_blocks(slba, blocks), bytes).encode()
            }
            _ => entry.of_blocks(slba, blocks).encode(),
        }
    }

    /// A command for one of a few keys: one more of them than there may be, and values that do not all fit.
    fn draw_key_command(&mut self) -> [u8; 64] {
        let keys = *self.limits.kind.keys().unwrap();
        let (prp1, prp2) = self.pointer();
        let dice = &mut self.dice;
        let known = [opcode::STORE, opcode::RETRIEVE, opcode::DELETE, opcode::EXIST, opcode::LIST];
        let opcode = match dice.below(16) {
            0 => dice.below(256) as u8,
            1 => opcode::FLUSH,
            2..8 => opcode::STORE,
            _ => dice.of(&known),
        };
        let most = if dice.one_in(20) { 1 << 18 } else { u64::from(keys.value_bytes_max) + 8 };
        // Most values have whole words, so that pages that are read as lists later contain what commands have written.
        let bytes = if dice.one_in(8) { dice.below(most) } else { dice.below(most / 8) * 8 };
        let key_bytes = match dice.below(20) {
            0 => dice.below(256),
            1 => 0,
            _ => 1 + dice.below(4),
        };
        let options = if dice.one_in(3) { dice.below(8) << 8 } else { 0 };
        let entry = SubmissionEntry {
            opcode,
            flags: if dice.one_in(30) { dice.below(256) as u8 } else { 0 },
            command_id: self.next_id,
            namespace_id: if dice.one_in(20) { dice.of(&[0, 2, u32::MAX]) } else { 1 },
            dwords_2_3: dice.below(12) << (8 * dice.below(2)),
            metadata: 0,
            prp1,
            prp2,
            dwords: [bytes as u32, (key_bytes | options) as u32, 0, 0, 0, 0],
        };
        let entry = if dice.one_in(4) { self.scatter_command_data(entry, bytes) } else { entry };
        entry.encode()
    }

    /// The command on a drive with data placement: with a directive, or with what is asked of reclaim units.
    fn draw_placement_command(&mut self, mut entry: SubmissionEntry, slba: u64, blocks: u32) -> [u8; 64] {
        let dice = &mut self.dice;
        match entry.opcode {
            opcode::IO_MANAGEMENT_RECEIVE => {
                let words = if dice.one_in(20) { dice.below(1 << 32) } else { dice.below(128) };
                entry.dwords[..2].copy_from_slice(&[self.draw_management_operation(), words as u32]);
                entry.encode()
            }
            opcode::IO_MANAGEMENT_SEND => {
                let most = if dice.one_in(10) { 300 } else { 4 };
                let count = dice.below(most);
                // A later command may read these bytes as a page list, so no entry may point at inaccessible memory.
                let fits = |at: u64, identifier: u16| if at % 8 < 6 { identifier } else { 0 };
                let places = (0..=count).map(|place| entry.prp1 + 2 * place);
                let list: Vec<u8> = places.flat_map(|at| fits(at, self.identifier()).to_le_bytes()).collect();
                self.machine.put(entry.prp1, &list);
                entry.dwords[0] = self.draw_management_operation() | (count as u32) << 16;
                entry.encode()
            }
            _ => {
                let kind = if dice.one_in(8) { dice.below(16) as u32 } else { 2 };
                entry.dwords[2] |= kind << 20;
                entry.dwords[3] = u32::from(self.identifier()) << 16;
                self.with_blocks_and_lists(entry, slba, blocks)
            }
        }
    }

    /// The command with metadata anywhere, and with actions and checks that it can have or not. Nothing is checked whose result would
    /// depend on the metadata itself: a reference tag that is checked is one that type 1 refuses, or that type 3 ignores.
    fn draw_protected_command(
        &mut self,
        mut entry: SubmissionEntry,
        slba: u64,
        kind: NamespaceProtectionType,
    ) -> SubmissionEntry {
        let dice = &mut self.dice;
        let action = if dice.one_in(3) { 8 } else { 0 };
        let checks = match entry.opcode {
            opcode::WRITE_ZEROES if dice.one_in(4) => dice.below(8) as u32,
            opcode::WRITE_ZEROES => 0,
            _ if kind != NamespaceProtectionType::Type2 && dice.one_in(6) => 0b011,
            _ => 0b010,
        };
        entry.dwords[2] |= (action | checks) << 26;
        entry.dwords[4] = (slba as u32).wrapping_add(1);
        entry.dwords[5] = dice.below(1 << 16) as u32;
        let metadata = dice.below(1 << 37) * 8 + if dice.one_in(40) { dice.below(4) } else { 0 };
        SubmissionEntry { metadata, ..entry }
    }

    /// The management operation that is about reclaim units, or another one.
    fn draw_management_operation(&mut self) -> u32 {
        if self.dice.one_in(10) { self.dice.below(256) as u32 } else { 1 }
    }

    /// A placement identifier, most of which there are.
    fn identifier(&mut self) -> u16 {
        let (dice, limits) = (&mut self.dice, *self.limits.kind.placement().unwrap());
        if dice.one_in(30) {
            return dice.below(1 << 16) as u16;
        }
        limits.identifier(dice.below(limits.groups.into()) as u8, dice.below(limits.handles.into()) as u8)
    }

    /// The command on a drive with zones.
    fn with_zones(&mut self, entry: SubmissionEntry, slba: u64, blocks: u32) -> [u8; 64] {
        match entry.opcode {
            opcode::WRITE | opcode::ZONE_APPEND => {
                // Use no SGLs here: with a wrong list, the timing controller would open the zone before it reads the
                // list.
                let entry = SubmissionEntry { flags: entry.flags & !spec::PSDT_SGL, ..entry };
                entry.of_blocks(slba, blocks.min(4096 >> self.limits.block_shift)).encode()
            }
            opcode::ZONE_MANAGEMENT_SEND | opcode::ZONE_MANAGEMENT_RECEIVE => {
                self.draw_zone_management(entry.of_blocks(slba, 1)).encode()
            }
            _ => self.with_blocks_and_lists(entry, slba, blocks),
        }
    }

    /// Draws the opcode and first block of a command for zones: `opcode` itself or one of a zone command, mostly at the start or the
    /// write pointer of a zone.
    fn draw_zone_command(&mut self, opcode: u8, slba: u64) -> (u8, u64) {
        let dice = &mut self.dice;
        let known =
            [opcode::ZONE_APPEND, opcode::ZONE_APPEND, opcode::ZONE_MANAGEMENT_SEND, opcode::ZONE_MANAGEMENT_RECEIVE];
        let opcode = if dice.one_in(2) { dice.of(&known) } else { opcode };
        // Use few zones, so that some become full.
        let zone = if dice.one_in(4) { dice.below(ZONED_MIB) } else { dice.below(3) } as u32;
        let (start, written) =
            self.store.zones().unwrap().with(|zones| (zones.layout().start(zone), zones.zone(zone).1));
        let begins = [opcode::ZONE_APPEND, opcode::ZONE_MANAGEMENT_SEND].contains(&opcode);
        match dice.below(10) {
            0 => (opcode, slba),
            1 => (opcode, start + dice.below(64)),
            // A zone has 1 MiB, and a few blocks cross its end.
            2 => (opcode, start + (1 << 20 >> self.limits.block_shift) - 1),
            _ if begins => (opcode, start),
            _ => (opcode, start + written),
        }
    }

    /// An action on zones or a report of them, or what looks like one.
    fn draw_zone_management(&mut self, entry: SubmissionEntry) -> SubmissionEntry {
        let dice = &mut self.dice;
        let most = u64::from(self.limits.transfer_bytes_max) / 4;
        let [low, high, ..] = entry.dwords;
        let [twelve, thirteen] = match entry.opcode {
            opcode::ZONE_MANAGEMENT_SEND => {
                let action = if dice.one_in(12) { dice.below(256) } else { 1 + dice.below(5) };
                [0, action as u32 | if dice.one_in(12) { 1 << 8 } else { 0 }]
            }
            _ => {
                let action = if dice.one_in(12) { dice.below(256) } else { 0 };
                let kind = dice.below(10) << 8;
                let words = if dice.one_in(20) { dice.below(1 << 32) } else { dice.below(most) };
                [words as u32, (action | kind | dice.below(2) << 16) as u32]
            }
        };
        SubmissionEntry { dwords: [low, high, twelve, thirteen, 0, 0], ..entry }
    }

    fn place(&mut self) -> (u64, u32) {
        let dice = &mut self.dice;
        let most = u64::from(self.limits.transfer_bytes_max >> self.limits.block_shift);
        let few = most.min((32 * 1024) >> self.limits.block_shift);
        let blocks = if dice.one_in(20) { dice.below(2 * most) } else { dice.below(few) } + 1;
        let slba = match dice.below(20) {
            0 => self.limits.blocks - dice.below(blocks + 1),
            1 => dice.of(&[u64::MAX, u64::MAX - blocks + 1, self.limits.blocks]),
            _ => dice.below(self.limits.blocks),
        };
        (slba, blocks as u32)
    }

    fn pointer(&mut self) -> (u64, u64) {
        let dice = &mut self.dice;
        let mut page = || dice.below(1 << 40) / PAGE * PAGE;
        let (first, second) = (page(), page());
        let into = if dice.one_in(2) { 0 } else { dice.below(PAGE / 4) * 4 };
        let first = first + into + if dice.one_in(40) { dice.below(4) } else { 0 };
        let second = match dice.below(20) {
            0 => second + dice.below(PAGE),
            1..8 => second + dice.below(PAGE / 8) * 8,
            8..12 => second + PAGE - 8 * (1 + dice.below(4)),
            // The timing controller does not know that data is inaccessible. It would move a write pointer, store a
            // value, or check metadata nevertheless.
            12 if !self.has(CommandSet::Zones)
                && !self.has(CommandSet::Keys)
                && self.limits.kind.metadata().is_none() =>
            {
                NOWHERE + second
            }
            _ => second,
        };
        (first, second)
    }

    /// The data in a few blocks anywhere, which are described in the command, in a segment, or in two; now and then wrongly.
    /// They are whole words, so that what is taken for a list of pages later holds what others have put there.
    fn scatter_command_data(&mut self, entry: SubmissionEntry, bytes: u64) -> SubmissionEntry {
        const SEGMENT: u64 = 2 << 60;
        const LAST_SEGMENT: u64 = 3 << 60;
        let dice = &mut self.dice;
        let (count, mut left) = (1 + dice.below(6), bytes);
        let mut blocks = Vec::new();
        for place in 1..=count {
            let bytes = if place == count { left } else { dice.below(left / 8 + 1) * 8 };
            left -= bytes;
            blocks.push([dice.below(1 << 37) * 8, bytes]);
        }
        if dice.one_in(12) {
            let place = dice.below(count) as usize;
            blocks[place][1] = dice.of(&[blocks[place][1] + 1, 7 << 60 | 1, SEGMENT | 32, LAST_SEGMENT | 16]);
        }
        let mut at = || dice.below(1 << 37) * 8;
        let (first, second) = (at(), at());
        let pointer = match dice.below(3) {
            0 if count == 1 => blocks[0],
            1 if count > 1 => {
                let rest = blocks.split_off(count as usize / 2);
                self.machine.put(second, &words(&rest));
                blocks.push([second, LAST_SEGMENT | (rest.len() as u64 * 16)]);
                [first, SEGMENT | (blocks.len() as u64 * 16)]
            }
            _ => [first, LAST_SEGMENT | (blocks.len() as u64 * 16)],
        };
        self.machine.put(first, &words(&blocks));
        SubmissionEntry { flags: spec::PSDT_SGL, prp1: pointer[0], prp2: pointer[1], ..entry }
    }

    /// Sources, most of them on the drive, where the command says.
    fn put_copy_sources(&mut self, entry: SubmissionEntry) -> SubmissionEntry {
        let count = 1 + if self.dice.one_in(8) { self.dice.below(256) } else { self.dice.below(6) };
        let mut list = Vec::new();
        for _ in 0..count {
            let (slba, blocks) = if self.dice.one_in(30) { self.place() } else { (self.dice.below(16), 2) };
            // For metadata, use a reference tag that does not match the source.
            let tag = if self.limits.kind.metadata().is_some() { (slba as u32).wrapping_add(1) } else { 0 };
            list.extend([0, slba, u64::from(blocks - 1), tag.into()].into_iter().flat_map(u64::to_le_bytes));
        }
        self.machine.put(entry.prp1, &list);
        let [low, high, flags, _, fourteen, fifteen] = entry.dwords;
        let format = if self.dice.one_in(20) { 1 << 8 } else { 0 };
        let sources = self.draw_source_information(flags) << 12;
        let twelve = flags & !0xffff | format | sources | (count as u32 - 1);
        SubmissionEntry { dwords: [low, high, twelve, 0, fourteen, fifteen], ..entry }
    }

    /// PRINFOR of a copy: mostly the action of what it writes, and now and then a check of its sources' reference tags.
    fn draw_source_information(&mut self, flags: u32) -> u32 {
        let Some(BlockMetadataFormat { protection: Some(kind), .. }) = self.limits.kind.metadata() else { return 0 };
        let action = if self.dice.one_in(6) { 8 } else { flags >> 26 & 8 };
        let is_checked = kind != NamespaceProtectionType::Type2 && self.dice.one_in(6);
        action | u32::from(is_checked)
    }

    /// Ranges, most of them on the drive, where the command says.
    fn put_deallocation_ranges(&mut self, entry: SubmissionEntry) -> SubmissionEntry {
        let count = 1 + if self.dice.one_in(8) { self.dice.below(256) } else { self.dice.below(6) };
        let mut list = Vec::new();
        for _ in 0..count {
            let (slba, blocks) = if self.dice.one_in(30) { self.place() } else { (self.dice.below(16), 1) };
            list.extend([0, blocks, slba as u32, (slba >> 32) as u32].into_iter().flat_map(u32::to_le_bytes));
        }
        self.machine.put(entry.prp1, &list);
        SubmissionEntry { dwords: [count as u32 - 1, self.dice.of(&[0, 4, 4]), 0, 0, 0, 0], ..entry }
    }
}

fn words(descriptors: &[[u64; 2]]) -> Vec<u8> {
    descriptors.iter().flatten().flat_map(|word| word.to_le_bytes()).collect()
}
