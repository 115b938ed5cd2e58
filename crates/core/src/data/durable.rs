//! Contents of a device whose power fails: the bytes known to be in its cells, and of units being programmed some old
//! and some new.
//!
//! Data arrives in packets. A unit that a power cut leaves whole is passed on only when all of it has arrived, so that
//! the data of commands in flight together does not mix. The memory then reports its progress as [`DurabilityStep`]s.

use std::collections::{BTreeMap, VecDeque};

use super::persistence::DurabilityStep;
use crate::memory::sparse::SparseBytes;
use crate::number::{index, length, wide_index};
use crate::random::Random;
use crate::time::Time;
use crate::tlp::Token;

/// Number of pieces into which an atomic unit is divided to follow its arrival, one bit each.
const PIECES: u32 = u64::BITS;

/// Bytes of one atomic unit of the device.
type Unit = Box<[u8]>;

/// Contents of a device's cells, and the writes in flight to them, for runs with power cuts.
#[derive(Clone, Debug)]
pub struct DurableCells {
    /// Size in bytes of the unit that a power cut leaves entirely old or entirely new.
    unit_bytes: u32,
    cells: SparseBytes,
    /// Atomic units of which parts have arrived, by the role and context of their command's token and the number of the
    /// unit.
    arriving: BTreeMap<(u8, u32, u64), ArrivingAtomicUnit>,
    /// Atomic units that have arrived completely and that the memory has not accepted yet, by number.
    arrived: BTreeMap<u64, Unit>,
    /// Atomic units that the memory has accepted and is to program into the cells, in the order of acceptance.
    handed: VecDeque<ProgrammingAtomicUnit>,
    random: Random,
    /// Number of atomic units whose newest bytes were lost in power cuts.
    pub lost_units: u64,
}

/// Atomic unit of which a part has arrived.
#[derive(Clone, Debug)]
struct ArrivingAtomicUnit {
    bytes: Unit,
    pieces: u64,
}

/// Atomic unit that is programmed into the cells between two instants.
#[derive(Clone, Debug)]
struct ProgrammingAtomicUnit {
    unit: u64,
    bytes: Unit,
    from: Time,
    until: Time,
}

impl DurableCells {
    /// Creates a fresh device of zeros, where a power cut leaves units of `unit_bytes` whole. `seed` decides which of
    /// the units being programmed a power cut has changed.
    pub fn new(unit_bytes: u32, seed: u64) -> DurableCells {
        DurableCells {
            unit_bytes,
            cells: SparseBytes::default(),
            arriving: BTreeMap::new(),
            arrived: BTreeMap::new(),
            handed: VecDeque::new(),
            random: Random::stream(seed, "interrupted programs"),
            lost_units: 0,
        }
    }

    /// Takes in write data for `offset`, which a packet of the command with this token has brought.
    pub fn on_arrival(&mut self, token: Token, offset: u64, bytes: &[u8]) {
        let unit_bytes = u64::from(self.unit_bytes);
        let mut at = 0;
        while at < bytes.len() {
            let offset = offset + length(at);
            let within = wide_index(offset % unit_bytes);
            let part = bytes.len().min(at + index(self.unit_bytes) - within) - at;
            self.on_unit_part_arrived(token, offset / unit_bytes, within, &bytes[at..at + part]);
            at += part;
        }
    }

    fn on_unit_part_arrived(&mut self, token: Token, unit: u64, within: usize, bytes: &[u8]) {
        let unit_bytes = index(self.unit_bytes);
        let pieces = pieces(unit_bytes, within, bytes.len());
        let key = (token.role, token.context, unit);
        let blank = || ArrivingAtomicUnit { bytes: vec![0; unit_bytes].into(), pieces: 0 };
        let arriving = self.arriving.entry(key).or_insert_with(blank);
        if arriving.pieces & pieces != 0 {
            // The piece has arrived before, so this is a new command with a reused identifier. The rest of the old
            // command was lost.
            arriving.pieces = 0;
        }
        arriving.pieces |= pieces;
        arriving.bytes[within..within + bytes.len()].copy_from_slice(bytes);
        if arriving.pieces == self::pieces(unit_bytes, 0, unit_bytes)
            && let Some(whole) = self.arriving.remove(&key)
        {
            self.arrived.insert(unit, whole.bytes);
        }
    }

    /// Applies the memory's persistence steps, and puts units that are programmed by `now` into the cells.
    pub fn follow(&mut self, now: Time, steps: Vec<DurabilityStep>) {
        for step in steps {
            match step {
                DurabilityStep::Handed { offset, bytes, from, until } => {
                    self.on_handed_to_cells(offset, bytes, from, until)
                }
                DurabilityStep::Programmed { offset, bytes, from, until } => {
                    self.on_cells_programmed(offset, bytes, from, until)
                }
            }
        }
        while self.handed.front().is_some_and(|handed| handed.until <= now)
            && let Some(handed) = self.handed.pop_front()
        {
            self.program_atomic_unit(handed.unit, &handed.bytes);
        }
    }

    fn on_handed_to_cells(&mut self, offset: u64, bytes: u32, from: Time, until: Time) {
        let unit_bytes = u64::from(self.unit_bytes);
        let last = (offset + u64::from(bytes)).div_ceil(unit_bytes);
        for unit in offset / unit_bytes..last {
            let arrived = self.arrived.remove(&unit);
            self.handed.extend(arrived.map(|bytes| ProgrammingAtomicUnit { unit, bytes, from, until }));
        }
    }

    fn on_cells_programmed(&mut self, offset: u64, bytes: u64, from: Time, until: Time) {
        let unit_bytes = u64::from(self.unit_bytes);
        let units = offset / unit_bytes..offset.saturating_add(bytes).div_ceil(unit_bytes);
        let is_later = |handed: &&mut ProgrammingAtomicUnit| units.contains(&handed.unit) && handed.until > until;
        for handed in self.handed.iter_mut().filter(is_later) {
            (handed.from, handed.until) = (from, until);
        }
    }

    fn program_atomic_unit(&mut self, unit: u64, bytes: &[u8]) {
        self.cells.write(unit * u64::from(self.unit_bytes), bytes);
    }

    /// Cuts power at `now`, and sets `contents` to what is in the cells. Each interrupted program has changed its unit
    /// with a probability of one half.
    pub fn cut_power(&mut self, now: Time, contents: &mut SparseBytes) {
        self.lost_units += length(self.arrived.len());
        for ProgrammingAtomicUnit { unit, bytes, from, until } in std::mem::take(&mut self.handed) {
            let is_programmed = until <= now || (from < now && self.random.unit() < 0.5);
            match is_programmed {
                true => self.program_atomic_unit(unit, &bytes),
                false => self.lost_units += 1,
            }
        }
        self.arriving.clear();
        self.arrived.clear();
        contents.clone_from(&self.cells);
    }
}

/// Returns the bit mask of the pieces of a unit that `bytes` bytes from `within` on cover.
fn pieces(unit_bytes: usize, within: usize, bytes: usize) -> u64 {
    let piece_bytes = unit_bytes.div_ceil(index(PIECES));
    let (first, end) = (within / piece_bytes, (within + bytes).div_ceil(piece_bytes));
    (first..end).fold(0, |pieces, piece| pieces | 1 << piece)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    impl DurableCells {
        /// Returns the atomic units whose newest bytes are not in the cells, with these bytes.
        pub(crate) fn volatile(&self) -> impl DoubleEndedIterator<Item = (u64, &[u8])> {
            let handed = self.handed.iter().map(|handed| (handed.unit, &handed.bytes[..]));
            handed.chain(self.arrived.iter().map(|(unit, bytes)| (*unit, &bytes[..])))
        }

        /// Returns the bytes of an atomic unit as they are in the cells.
        pub(crate) fn cells(&self, unit: u64) -> Unit {
            let mut bytes = vec![0; self.unit_bytes as usize];
            self.cells.read(unit * u64::from(self.unit_bytes), &mut bytes);
            bytes.into()
        }

        /// Plants a fault: puts other bytes into the cells of a unit, and returns the offset of its first byte.
        pub(crate) fn replace(&mut self, unit: u64, bytes: &[u8]) -> u64 {
            self.program_atomic_unit(unit, bytes);
            unit * u64::from(self.unit_bytes)
        }
    }

    const UNIT: u32 = 512;

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    /// Device under test: its durable bytes, and the bytes that it returns while its power is on.
    struct Bench {
        durable: DurableCells,
        contents: SparseBytes,
    }

    impl Bench {
        fn new() -> Bench {
            Bench { durable: DurableCells::new(UNIT, 1), contents: SparseBytes::default() }
        }

        /// Lets bytes of the command of this number arrive at the device.
        fn receive_bytes(&mut self, command: u32, offset: u64, bytes: &[u8]) {
            let token = Token { role: 0, context: command };
            self.durable.on_arrival(token, offset, bytes);
            self.contents.write(offset, bytes);
        }

        fn hand_to_cells(&mut self, offset: u64, bytes: u32, from: Time, until: Time) {
            self.durable.follow(Time::ZERO, vec![DurabilityStep::Handed { offset, bytes, from, until }]);
        }

        /// Cuts power, and returns the value that all bytes of the unit at `offset` have afterwards.
        fn unit_value_after_cut(&mut self, now: Time, offset: u64) -> u8 {
            self.durable.cut_power(now, &mut self.contents);
            let mut bytes = [0; UNIT as usize];
            self.contents.read(offset, &mut bytes);
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a unit is whole");
            bytes[0]
        }
    }

    #[test]
    fn unit_not_yet_programming_is_lost_in_a_cut() {
        let mut bench = Bench::new();
        bench.receive_bytes(1, 0, &[7; 512]);
        assert_eq!((bench.unit_value_after_cut(at(1), 0), bench.durable.lost_units), (0, 1));
        bench.receive_bytes(1, 0, &[8; 512]);
        bench.hand_to_cells(0, 512, at(5), at(9));
        assert_eq!(bench.unit_value_after_cut(at(5), 0), 0);
        bench.receive_bytes(1, 0, &[9; 512]);
        bench.hand_to_cells(0, 512, at(5), at(9));
        assert_eq!((bench.unit_value_after_cut(at(9), 0), bench.durable.lost_units), (9, 2));
    }

    #[test]
    fn interrupted_program_changes_some_units_only() {
        let mut bench = Bench::new();
        bench.receive_bytes(1, 0, &[7; 512 * 64]);
        bench.hand_to_cells(0, 512 * 64, at(5), at(9));
        bench.durable.cut_power(at(7), &mut bench.contents);
        let found: Vec<u8> = (0..64).map(|unit| bench.unit_value_after_cut(at(8), unit * 512)).collect();
        let changed = found.iter().filter(|byte| **byte == 7).count();
        assert!((16..48).contains(&changed), "{changed}");
        assert!(found.iter().all(|byte| [0, 7].contains(byte)));
    }

    #[test]
    fn concurrent_commands_do_not_mix_within_a_unit() {
        let mut bench = Bench::new();
        for part in 0..4 {
            bench.receive_bytes(1, part * 128, &[1; 128]);
            bench.hand_to_cells(0, 512, at(1), at(2));
            if part < 3 {
                bench.receive_bytes(2, part * 128, &[2; 128]);
            }
        }
        assert_eq!(bench.unit_value_after_cut(at(3), 0), 1);
    }

    #[test]
    fn uncompleted_command_leaves_no_data_to_the_next_of_its_token() {
        let mut bench = Bench::new();
        bench.receive_bytes(1, 0, &[1; 384]);
        bench.receive_bytes(1, 0, &[2; 384]);
        bench.hand_to_cells(0, 512, at(1), at(2));
        assert_eq!(bench.unit_value_after_cut(at(3), 0), 0);
        bench.receive_bytes(1, 0, &[3; 512]);
        bench.hand_to_cells(0, 512, at(4), at(5));
        assert_eq!(bench.unit_value_after_cut(at(6), 0), 3);
    }

    #[test]
    fn newest_cell_data_wins_whichever_program_ends_first() {
        let mut bench = Bench::new();
        for (value, until) in [(1, 20), (2, 10)] {
            bench.receive_bytes(value, 0, &[value as u8; 512]);
            bench.hand_to_cells(0, 512, at(5), at(until));
        }
        bench.durable.follow(at(12), Vec::new());
        assert_eq!(bench.unit_value_after_cut(at(15), 0), 2);
    }

    #[test]
    fn programmed_line_contains_all_its_data() {
        let mut bench = Bench::new();
        bench.receive_bytes(1, 0, &[1; 1024]);
        bench.hand_to_cells(0, 512, Time::NEVER, Time::NEVER);
        let all = DurabilityStep::Programmed { offset: 0, bytes: u64::MAX, from: at(2), until: at(4) };
        bench.durable.follow(at(1), vec![all]);
        bench.hand_to_cells(512, 512, Time::NEVER, Time::NEVER);
        assert_eq!((bench.unit_value_after_cut(at(4), 0), bench.unit_value_after_cut(at(4), 512)), (1, 0));
    }

    #[test]
    fn unit_of_any_length_arrives_in_pieces() {
        for unit_bytes in [64, 128, 512, 4096, 65_536] {
            let mut durable = DurableCells::new(unit_bytes, 1);
            let bytes = vec![5; unit_bytes as usize];
            for (place, part) in bytes.chunks(unit_bytes as usize / 4).enumerate() {
                assert!(durable.arrived.is_empty());
                durable.on_unit_part_arrived(Token::default(), 3, place * part.len(), part);
            }
            assert_eq!(durable.volatile().collect::<Vec<_>>(), [(3, &bytes[..])]);
        }
    }
}
