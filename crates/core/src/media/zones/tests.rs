//! Comparison of zones with a model that is written differently: states are letters, transitions are rows of a table,
//! and every count is taken by a pass over all zones.

use super::*;
use crate::random::Random;

const LAYOUT: ZoneLayout = ZoneLayout { zones: 12, zone_blocks: 16, capacity_blocks: 11, active_max: 0, open_max: 0 };

/// Letters that stand for zone states: empty, implicitly open, explicitly open, closed, full, read-only, offline.
const LETTERS: &str = "EIXCFRO";

/// New zone state for each old state, in the order of [`LETTERS`], for each action; `!` if the action is refused.
const TRANSITIONS: [(ZoneAction, &str); 5] = [
    (ZoneAction::Close, "!CCC!!!"),
    (ZoneAction::Finish, "FFFFF!!"),
    (ZoneAction::Open, "XXXX!!!"),
    (ZoneAction::Reset, "EEEEE!!"),
    (ZoneAction::TakeOffline, "!!!!!OO"),
];
/// Letters of the zone states that an action on all zones selects, for each action in the order of `TRANSITIONS`.
const SELECTED: [&str; 5] = ["IX", "IXC", "C", "IXCF", "R"];

#[derive(Clone, Debug)]
struct Model {
    layout: ZoneLayout,
    letters: Vec<char>,
    /// Lengths of the writes to each zone since its last reset, in blocks.
    writes: Vec<Vec<u64>>,
    /// Number of the request by which each zone entered its state.
    since: Vec<u64>,
    requests: u64,
}

impl Model {
    fn new(layout: ZoneLayout) -> Model {
        let zones = layout.zones as usize;
        Model { layout, letters: vec!['E'; zones], writes: vec![Vec::new(); zones], since: vec![0; zones], requests: 0 }
    }

    fn count(&self, letters: &str) -> u32 {
        self.letters.iter().filter(|letter| letters.contains(**letter)).count() as u32
    }

    fn pointer(&self, zone: usize) -> u64 {
        self.writes[zone].iter().sum()
    }

    fn set(&mut self, zone: usize, letter: char) {
        self.requests += 1;
        if self.letters[zone] != letter {
            self.since[zone] = self.requests;
        }
        self.letters[zone] = letter;
        if letter == 'E' {
            self.writes[zone].clear();
        }
    }

    fn open(&mut self, zone: usize, letter: char) -> Result<(), ZoneRequestRefusal> {
        let ZoneLayout { active_max, open_max, .. } = self.layout;
        if self.letters[zone] == 'E' && active_max > 0 && self.count("IXC") == active_max {
            return Err(ZoneRequestRefusal::TooManyActive);
        }
        if "EC".contains(self.letters[zone]) && open_max > 0 && self.count("IX") == open_max {
            let implicit = (0..self.letters.len()).filter(|other| self.letters[*other] == 'I');
            let oldest = implicit.min_by_key(|other| self.since[*other]).ok_or(ZoneRequestRefusal::TooManyOpen)?;
            self.set(oldest, 'C');
        }
        self.set(zone, letter);
        Ok(())
    }

    /// Writes blocks at position `within` of a zone, or at its write pointer. Returns the position of the write in the
    /// zone.
    fn write(&mut self, zone: usize, within: Option<u64>, blocks: u64) -> Result<u64, ZoneRequestRefusal> {
        let pointer = self.pointer(zone);
        match self.letters[zone] {
            'F' => return Err(ZoneRequestRefusal::Full),
            'R' => return Err(ZoneRequestRefusal::ReadOnly),
            'O' => return Err(ZoneRequestRefusal::Offline),
            _ if within.is_some_and(|within| within != pointer) => return Err(ZoneRequestRefusal::InvalidWrite),
            _ if pointer + blocks > self.layout.capacity_blocks => return Err(ZoneRequestRefusal::Boundary),
            'X' => {}
            _ => self.open(zone, 'I')?,
        }
        self.writes[zone].push(blocks);
        if self.pointer(zone) == self.layout.capacity_blocks {
            self.set(zone, 'F');
        }
        Ok(pointer)
    }

    fn act(&mut self, action: ZoneAction, zone: usize) -> Result<(), ZoneRequestRefusal> {
        let (_, row) = TRANSITIONS.into_iter().find(|(of, _)| *of == action).unwrap();
        let place = LETTERS.find(self.letters[zone]).unwrap();
        match row.as_bytes()[place] as char {
            '!' => Err(ZoneRequestRefusal::InvalidTransition),
            'X' => self.open(zone, 'X'),
            letter => {
                self.set(zone, letter);
                Ok(())
            }
        }
    }

    fn act_on_all(&mut self, action: ZoneAction) -> Result<Vec<u32>, ZoneRequestRefusal> {
        let row = TRANSITIONS.iter().position(|(of, _)| *of == action).unwrap();
        let selected: Vec<usize> =
            (0..self.letters.len()).filter(|zone| SELECTED[row].contains(self.letters[*zone])).collect();
        let before = self.clone();
        for zone in &selected {
            if action == ZoneAction::Open && self.layout.open_max > 0 && self.count("IX") == self.layout.open_max {
                *self = before;
                return Err(ZoneRequestRefusal::TooManyOpen);
            }
            self.act(action, *zone)?;
        }
        Ok(selected.into_iter().map(|zone| zone as u32).collect())
    }

    fn lose_power(&mut self) {
        for zone in 0..self.letters.len() {
            if "IXC".contains(self.letters[zone]) {
                let letter = if self.writes[zone].is_empty() { 'E' } else { 'C' };
                self.set(zone, letter);
            }
        }
    }

    fn assert_equals_zones(&self, zones: &Zones) {
        let described = zones.report(0).unwrap();
        assert_eq!(described.clone().count(), self.letters.len());
        for (zone, found) in described.enumerate() {
            let letter = self.letters[zone];
            let state = ZoneState::ALL[LETTERS.find(letter).unwrap()];
            let start = zone as u64 * 16;
            let write_pointer = "EIXC".contains(letter).then(|| start + self.pointer(zone));
            let expected = ZoneReportEntry { state, start, capacity_blocks: 11, write_pointer };
            assert_eq!((found, zones.written_blocks(start, 16)), (expected, self.pointer(zone)), "zone {zone}");
        }
        assert_eq!((zones.active(), zones.open()), (self.count("IXC"), self.count("IX")));
    }
}

/// Draws a random request, applies it to the zones and to the model, and asserts equal results.
fn request(random: &mut Random, zones: &mut Zones, model: &mut Model) {
    let mut draw = |below: u64| random.bits() % below;
    let (zone, blocks) = (draw(12), 1 + draw(5));
    let (place, start, action) = (zone as usize, zone * 16, TRANSITIONS[draw(5) as usize].0);
    match draw(1000) {
        0..=399 => {
            let within = if draw(4) > 0 { model.pointer(place).min(15) } else { draw(16) };
            let expected = model.write(place, Some(within), blocks).map(|_| ());
            assert_eq!(zones.write(start + within, blocks), expected, "write of {blocks} to {within} in {zone}");
        }
        400..=549 => {
            let expected = model.write(place, None, blocks).map(|within| start + within);
            assert_eq!(zones.append(start, blocks), expected, "append of {blocks} to {zone}");
            assert_eq!(zones.append(start + 1 + draw(15), blocks), Err(ZoneRequestRefusal::NoZoneStart));
        }
        550..=899 => {
            let before = model.letters[place];
            let expected = model.act(action, place).map(|()| model.letters[place] != before);
            assert_eq!(zones.act(action, start), expected, "{action:?} of {zone}");
            assert_eq!(zones.act(action, start + 1 + draw(15)), Err(ZoneRequestRefusal::NoZoneStart));
        }
        900..=939 => assert_eq!(zones.act_on_all(action), model.act_on_all(action), "{action:?} of all"),
        940..=989 => {
            let within = draw(16);
            let is_offline = model.letters[place] == 'O';
            let expected = match within + blocks > 16 {
                _ if is_offline => Err(ZoneRequestRefusal::Offline),
                true => Err(ZoneRequestRefusal::Boundary),
                false => Ok(()),
            };
            assert_eq!(zones.check_read(start + within, blocks), expected);
            let beyond = 12 * 16 + draw(1 << 40);
            assert_eq!(zones.check_read(beyond, 1), Err(ZoneRequestRefusal::OutOfRange));
            assert_eq!(
                (zones.write(beyond, 1), zones.append(beyond, 1)),
                (Err(ZoneRequestRefusal::OutOfRange), Err(ZoneRequestRefusal::OutOfRange))
            );
        }
        990..=994 => {
            zones.lose_power();
            model.lose_power();
        }
        _ => {
            zones.make_read_only(zone as u32);
            if model.letters[place] != 'O' {
                model.set(place, 'R');
            }
        }
    }
}

#[test]
fn zones_equal_their_model_on_random_requests() {
    let mut random = Random::stream(1, "zones");
    for (active_max, open_max) in [(0, 0), (3, 2), (4, 4), (6, 1)] {
        for _ in 0..25 {
            let layout = ZoneLayout { active_max, open_max, ..LAYOUT };
            let (mut zones, mut model) = (Zones::new(layout), Model::new(layout));
            for _ in 0..1000 {
                request(&mut random, &mut zones, &mut model);
                model.assert_equals_zones(&zones);
            }
        }
    }
}

#[test]
fn oldest_implicitly_open_zone_is_closed_first() {
    let mut zones = Zones::new(ZoneLayout { open_max: 2, ..LAYOUT });
    zones.act(ZoneAction::Open, 0).unwrap();
    for start in [16, 32] {
        zones.write(start, 1).unwrap();
    }
    let states = |zones: &Zones| [0, 1, 2].map(|zone| zones.zone(zone).0);
    assert_eq!(states(&zones), [ZoneState::ExplicitlyOpen, ZoneState::Closed, ZoneState::ImplicitlyOpen]);
    zones.act(ZoneAction::Open, 32).unwrap();
    assert_eq!(zones.write(17, 1), Err(ZoneRequestRefusal::TooManyOpen));
    assert_eq!((zones.open(), zones.active(), zones.counts().implicit_closes), (2, 3, 1));
}

#[test]
fn write_without_data_is_undone_unless_followed_by_another() {
    let mut zones = Zones::new(ZoneLayout { open_max: 1, ..LAYOUT });
    zones.write(0, 4).unwrap();
    zones.write(4, 7).unwrap();
    assert_eq!(zones.zone(0), (ZoneState::Full, 11));
    assert!(zones.undo_write(4, 7));
    assert_eq!((zones.zone(0), zones.active()), ((ZoneState::Closed, 4), 1));
    assert_eq!(zones.append(0, 2), Ok(4));
    assert!(!zones.undo_write(0, 4), "the first write is not the latest");
    assert_eq!(zones.zone(0), (ZoneState::ImplicitlyOpen, 6));
    zones.act(ZoneAction::Finish, 0).unwrap();
    assert!(!zones.undo_write(4, 2), "the host has finished the zone");
    assert_eq!(zones.zone(0), (ZoneState::Full, 6));
}

#[test]
fn stored_zone_states_are_restored_and_invalid_ones_refused() {
    let mut zones = Zones::new(ZoneLayout { active_max: 2, ..LAYOUT });
    assert!(zones.restore(0, ZoneState::Closed, 10) && zones.restore(1, ZoneState::Full, 3));
    assert!(zones.restore(0, ZoneState::Closed, 9), "it was active before");
    assert!(zones.restore(2, ZoneState::Closed, 1));
    for (zone, state, written) in [
        (3, ZoneState::Closed, 1),
        (3, ZoneState::Empty, 1),
        (2, ZoneState::Closed, 11),
        (3, ZoneState::Full, 12),
        (12, ZoneState::Empty, 0),
    ] {
        assert!(!zones.restore(zone, state, written), "{zone} {state:?} {written}");
    }
    assert_eq!((zones.zone(0), zones.zone(1)), ((ZoneState::Closed, 9), (ZoneState::Full, 3)));
    assert_eq!((zones.write(48, 1), zones.active()), (Err(ZoneRequestRefusal::TooManyActive), 2));
}
