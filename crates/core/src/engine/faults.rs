//! What injected faults do to requests, interrupts and the whole device. Those of banks and packets are their parts' own;
//! those of its power are in [`power`].
//!
//! A run without faults asks at each place only whether there are any. Every request that a rule meets is decided when it
//! goes down to the driver; what comes of that is an event, or happens on its way back.

mod damage;
#[cfg(test)]
pub(crate) mod planted;
mod power;
#[cfg(test)]
mod tests;

pub(super) use power::keep_up_with_power;

use std::collections::BTreeMap;

use crate::config::{self, Fault, FaultAction, FaultDirection, FaultSubject};
use crate::data::check::BLOCK_BYTES;
use crate::drive::Drive;
use crate::engine::Engine;
use crate::faults::Rule;
use crate::ledger::Stage;
use crate::protocol::dispatch::connect;
use crate::protocol::halves::Controller;
use crate::protocol::ports::Settled;
use crate::protocol::splitting;
use crate::request::{Io, Request, RequestId};
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Packet};
use damage::Damage;

/// Errors as fio reports them: the numbers of Linux.
pub(crate) const EIO: u32 = 5;
pub(crate) const ETIMEDOUT: u32 = 110;
pub(crate) const ENODEV: u32 = 19;

/// Under which name reads are counted that have met more damage than the code corrects, and so have failed.
pub(crate) const UNCORRECTABLE: &str = "fault_uncorrectable_reads";

/// The faults of a run.
#[derive(Clone, Debug)]
pub(super) struct Faults {
    /// Those that the description has, each once.
    actions: Vec<FaultAction>,
    /// The link as it is trained.
    link: config::Link,
    requests: Vec<Rule>,
    /// The drive, for a device that begins anew, and the seed of the run.
    drive: Box<Drive>,
    seed: u64,
    interrupts: Vec<Rule>,
    instants: Vec<Rule>,
    /// Power cuts after events.
    events: Vec<Rule>,
    /// Requests that a rule has met, until they are over, by their numbers: a driver may go on with one in another place.
    met: BTreeMap<u64, Met>,
    /// Whether the device goes away at some time, so that what it has is kept here as well.
    keeps_flying: bool,
    uncorrectable: u64,
    /// Requests that the device has, as they were when they were handed to it, by their numbers.
    flying: BTreeMap<u64, Request>,
    away: Away,
    /// What comes of it, by the number of its event.
    due: BTreeMap<u32, Due>,
    next_due: u32,
}

/// A request that a rule has met.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    /// What its application is told, if it fails.
    error: Option<u32>,
    /// The host does not hear of its completion.
    is_lost: bool,
    /// Its place, once the device is done with it.
    completed: Option<RequestId>,
    /// The host has given it up.
    is_given_up: bool,
    /// Its data from this byte of the device on does not reach the memory.
    torn_at: Option<u64>,
    /// So long after it was heard of, its completion comes again.
    repeats_after: Option<Span>,
    is_heard: bool,
    /// What its read finds.
    damage: Option<Damage>,
}

/// Whether the device is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Away {
    #[default]
    No,
    /// It is being reset until then, and looks for commands already, of which none comes.
    Until(Time),
    /// It has no power, or begins after that, until then.
    Off(Time),
    ForGood,
}

/// What happens at an instant.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// A request reaches the device late.
    Submit(RequestId),
    /// The host gives the request of this number up.
    GiveUp(u64),
    /// The host looks for completions, or is told once more to do so.
    Look { vector: u16 },
    /// The completion of the request of this number, at this place, comes again.
    Repeat(RequestId, u64),
    /// The rule of this number happens.
    Instant(usize),
    /// The device's power fails for so long.
    PowerCut(Span),
    /// The device takes commands again.
    PowerOn,
}

/// What becomes of a request on its way down.
enum Down {
    Submit,
    Keep,
}

impl Faults {
    /// The faults of a drive, if it has any.
    pub(super) fn of(drive: &Drive, seed: u64) -> Option<Box<Faults>> {
        (!drive.faults.is_empty()).then(|| Box::new(Faults::new(drive, seed)))
    }

    fn new(drive: &Drive, seed: u64) -> Faults {
        let rules = |subject| Rule::about(subject, &drive.faults, seed);
        let is_there = |action: &FaultAction| drive.faults.iter().any(|fault| fault.action == *action);
        Faults {
            keeps_flying: [FaultAction::Reset, FaultAction::Remove, FaultAction::PowerCut].iter().any(is_there),
            actions: FaultAction::ALL.into_iter().filter(is_there).collect(),
            link: drive.link.clone(),
            drive: Box::new(drive.clone()),
            seed,
            requests: rules(FaultSubject::Request),
            interrupts: rules(FaultSubject::Interrupt),
            instants: rules(FaultSubject::Instant),
            events: rules(FaultSubject::Event),
            uncorrectable: 0,
            met: BTreeMap::new(),
            flying: BTreeMap::new(),
            away: Away::No,
            due: BTreeMap::new(),
            next_due: 0,
        }
    }

    /// Let everything happen that has an instant of its own.
    pub(super) fn begin(&mut self, shared: &mut Shared) {
        for place in 0..self.instants.len() {
            let at = Time::ZERO + self.instants[place].fault.from;
            self.at(at, Due::Instant(place), shared);
        }
    }

    fn at(&mut self, at: Time, due: Due, shared: &mut Shared) {
        let number = self.next_due;
        self.next_due = self.next_due.wrapping_add(1);
        self.due.insert(number, due);
        shared.scheduler.at(at, Event::Fault(number));
    }

    /// A request is handed to the device: the first rule that happens decides.
    fn on_submit(&mut self, now: Time, id: RequestId, shared: &mut Shared) -> Down {
        let request = &shared.requests[id];
        let (io, thread, number) = (request.io, request.thread, request.number);
        if self.away == Away::ForGood {
            self.lose(now, id, number, shared);
            return Down::Keep;
        }
        let happens = self.requests.iter_mut().position(|rule| rule.meets_request(now, &io, thread));
        let Some(place) = happens else { return self.hand_down(now, id, shared) };
        let Fault { action, delay, timeout, outage, .. } = self.requests[place].fault;
        let mut met = Met::default();
        match action {
            FaultAction::RepeatCompletion => met.repeats_after = Some(delay),
            FaultAction::FlipBits | FaultAction::FailChip => {
                let damage = Damage::of(&self.requests[place].fault, number);
                met.error = damage.is_fatal().then_some(EIO);
                self.uncorrectable += u64::from(met.error.is_some());
                met.damage = Some(damage);
            }
            FaultAction::Delay => {
                self.at(now + delay, Due::Submit(id), shared);
                return Down::Keep;
            }
            FaultAction::PowerCut => {
                self.at(now + delay, Due::PowerCut(outage), shared);
                return self.hand_down(now, id, shared);
            }
            FaultAction::Error => met.error = Some(EIO),
            FaultAction::TornWrite => (met.error, met.torn_at) = (Some(EIO), Some(torn_at(&io, &self.drive))),
            _ => {
                met.error = Some(ETIMEDOUT);
                met.is_lost = true;
                // A device that hangs is done with it, as far as anybody will ever know.
                met.completed = Some(id).filter(|_| action == FaultAction::Hang);
                self.at(now + timeout, Due::GiveUp(number), shared);
            }
        }
        self.met.insert(number, met);
        let is_in_doubt = met.torn_at.is_some() || met.damage.is_some() && met.error.is_some();
        if let Some(data) = shared.data.as_mut().filter(|_| is_in_doubt) {
            data.doubt(number);
        }
        if met.completed.is_some() { Down::Keep } else { self.hand_down(now, id, shared) }
    }

    /// A request goes to the device, if that is there.
    fn hand_down(&mut self, now: Time, id: RequestId, shared: &mut Shared) -> Down {
        match self.away {
            // At the very instant of its return, the device may still come behind this request.
            Away::Off(until) => {
                self.at(until, Due::Submit(id), shared);
                return Down::Keep;
            }
            Away::Until(until) if until > now => {
                self.at(until, Due::Submit(id), shared);
                return Down::Keep;
            }
            Away::ForGood => {
                self.lose(now, id, shared.requests[id].number, shared);
                return Down::Keep;
            }
            Away::No | Away::Until(_) => {}
        }
        if self.keeps_flying {
            let request = &shared.requests[id];
            self.flying.insert(request.number, request.clone());
        }
        Down::Submit
    }

    /// The device has gone for good, and this request with it: its host knows that at once.
    fn lose(&mut self, now: Time, id: RequestId, number: u64, shared: &mut Shared) {
        let met = self.met.entry(number).or_default();
        if met.error.is_none() {
            met.error = Some(ENODEV);
            let removal = self.instants.iter_mut().find(|rule| rule.fault.action == FaultAction::Remove);
            removal.into_iter().for_each(Rule::happens);
        }
        met.completed = Some(id);
        // One whose completion was to get lost is waited for as long as ever.
        if !met.is_lost || met.is_given_up {
            (met.is_lost, met.is_given_up) = (true, true);
            self.at(now, Due::GiveUp(number), shared);
        }
    }

    /// The same for those that were to be handed to it later.
    fn lose_kept(&mut self, now: Time, shared: &mut Shared) {
        let kept = |due: &Due| if let Due::Submit(id) = due { Some(*id) } else { None };
        let lost: Vec<RequestId> = self.due.values().filter_map(kept).collect();
        self.due.retain(|_, due| kept(due).is_none());
        lost.into_iter().for_each(|id| self.lose(now, id, shared.requests[id].number, shared));
    }

    /// The device has completed a request: whether the host hears of it.
    fn on_completed(&mut self, now: Time, id: RequestId, number: u64, shared: &mut Shared) -> bool {
        self.flying.remove(&number);
        let Some(met) = self.met.get_mut(&number) else { return true };
        if met.is_lost {
            met.completed = Some(id);
            return met.is_given_up;
        }
        if let Some(after) = met.repeats_after.filter(|_| !met.is_heard) {
            self.at(now + after, Due::Repeat(id, number), shared);
        }
        true
    }

    /// A completion comes for the request of this number, at this place: whether that is one that the host waits for. It
    /// tells by a number that each use of a place has for itself, as nvme_find_rq of Linux does.
    fn is_awaited(&self, id: RequestId, number: u64, shared: &Shared) -> bool {
        let is_heard = self.met.get(&number).is_none_or(|met| met.is_heard);
        shared.requests[id].number == number && !is_heard
    }

    /// Bytes of a packet with data of a write that reach the memory. Where a command's data comes in several packets, some
    /// protocols name its request with the last alone, and then that is what is torn off.
    fn stored_bytes(&self, packet: &Packet, shared: &Shared) -> u32 {
        let met = packet.request.and_then(|id| self.met.get(&shared.requests[id].number));
        let left = |torn_at: u64| torn_at.saturating_sub(packet.device_offset).min(packet.bytes.into()) as u32;
        met.and_then(|met| met.torn_at).map_or(packet.bytes, left)
    }

    /// An interrupt message has arrived: whether the host hears of it.
    fn on_message(&mut self, now: Time, vector: u16, shared: &mut Shared) -> bool {
        let Some(place) = self.interrupts.iter_mut().position(|rule| rule.meets(now)) else { return true };
        let Fault { action, delay, timeout, .. } = self.interrupts[place].fault;
        let is_lost = action == FaultAction::LoseInterrupt;
        self.at(now + if is_lost { timeout } else { delay }, Due::Look { vector }, shared);
        !is_lost
    }

    /// Packets of a read's data are in host memory: what they bring is what the memory's code makes of the damage there.
    fn damage(&self, settled: &Settled, shared: &mut Shared) {
        let Some(id) = settled.packet.request else { return };
        let Some(damage) = self.met.get(&shared.requests[id].number).and_then(|met| met.damage) else { return };
        if let Some(data) = &shared.data {
            damage.befall(settled, &data.contents, &mut shared.memory);
        }
    }

    /// A request is over: what its application is told, if it has failed.
    fn on_done(&mut self, number: u64) -> Option<u32> {
        self.met.remove(&number)?.error
    }

    fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        [&self.requests, &self.interrupts, &self.instants, &self.events].into_iter().flatten().map(Rule::count)
    }
}

#[cfg(test)]
impl Default for Faults {
    /// Those of a drive that has none, to be planted into.
    fn default() -> Faults {
        Faults::new(&Drive::blank(), 0)
    }
}

impl Engine {
    /// A fault may happen from now on, from where its time counts: one of a bank, of packets, of interrupts or of the link,
    /// as those of requests are for whoever injects these. The rule as it is kept, by which it is
    /// [removed](Engine::remove_fault).
    pub fn add_fault(&mut self, drive: &Drive, fault: &Fault, seed: u64) -> Fault {
        let fault = fault.from_now(self.now());
        let rule = Rule::new(fault.clone(), seed);
        let faults = self.faults.get_or_insert_with(|| Box::new(Faults::new(&drive.without_faults(), seed)));
        if !faults.actions.contains(&fault.action) {
            faults.actions.push(fault.action);
        }
        match fault.subject() {
            FaultSubject::Event => faults.events.push(rule),
            FaultSubject::Request => faults.requests.push(rule),
            FaultSubject::Bank => self.media.add_faults(vec![rule]),
            FaultSubject::Packet => self.link.add_faults(&[rule]),
            FaultSubject::Interrupt => faults.interrupts.push(rule),
            FaultSubject::Instant => {
                faults.instants.push(rule);
                let place = faults.instants.len() - 1;
                faults.at(Time::ZERO + fault.from, Due::Instant(place), &mut self.shared);
            }
        }
        fault
    }

    /// A fault that was added happens no more. What happens at an instant has happened, or does so still.
    pub fn remove_fault(&mut self, fault: &Fault) {
        self.media.remove_fault(fault);
        self.link.remove_fault(fault);
        let Some(faults) = &mut self.faults else { return };
        for rules in [&mut faults.requests, &mut faults.interrupts] {
            if let Some(place) = rules.iter().position(|rule| rule.is(fault)) {
                rules.remove(place);
            }
        }
    }

    /// Hand a request to the device, unless a fault keeps it.
    #[cold]
    #[inline(never)]
    pub(super) fn submit_faulty(&mut self, now: Time, id: RequestId) {
        let Some(faults) = &mut self.faults else { return };
        if let Down::Submit = faults.on_submit(now, id, &mut self.shared) {
            splitting::submit(now, id, &mut self.driver, &mut self.link, &mut self.shared);
        }
    }

    /// The same for several requests that go together.
    #[cold]
    #[inline(never)]
    pub(super) fn submit_faulty_together(&mut self, now: Time, requests: &[RequestId]) {
        let Some(faults) = &mut self.faults else { return };
        let shared = &mut self.shared;
        let left: Vec<RequestId> =
            requests.iter().copied().filter(|id| matches!(faults.on_submit(now, *id, shared), Down::Submit)).collect();
        splitting::submit_together(now, left.into_iter(), &mut self.driver, &mut self.link, shared);
    }

    /// Whether the host hears of a request that the device has completed.
    #[cold]
    #[inline(never)]
    pub(super) fn hears_completion(&mut self, now: Time, id: RequestId) -> bool {
        let Some(faults) = &mut self.faults else { return true };
        let number = self.shared.requests[id].number;
        let is_heard = faults.on_completed(now, id, number, &mut self.shared);
        if let Some(met) = faults.met.get_mut(&number) {
            met.is_heard |= is_heard;
        }
        if is_heard && faults.met.get(&number).is_some_and(|met| met.is_given_up) {
            self.shared.requests.charge_late(Some(id), Stage::Timeout, now);
        }
        is_heard
    }

    /// Whether it hears of an interrupt.
    #[cold]
    #[inline(never)]
    pub(super) fn hears_interrupt(&mut self, now: Time, vector: u16) -> bool {
        self.faults.as_mut().is_none_or(|faults| faults.on_message(now, vector, &mut self.shared))
    }

    /// Something comes of a fault.
    #[cold]
    #[inline(never)]
    pub(super) fn on_fault(&mut self, now: Time, number: u32) {
        let Some(due) = self.faults.as_mut().and_then(|faults| faults.due.remove(&number)) else { return };
        match due {
            Due::Submit(id) => self.submit_late(now, id),
            Due::Repeat(id, number) => {
                if self.faults.as_ref().is_some_and(|faults| faults.is_awaited(id, number, &self.shared)) {
                    self.host.on_completed(now, id, &self.driver, &mut self.shared);
                }
            }
            Due::GiveUp(number) => self.give_up(now, number),
            Due::Look { vector } => self.host.on_message(now, vector, &mut self.shared),
            Due::Instant(place) => self.on_instant(now, place),
            Due::PowerCut(outage) => self.cut_power(now, outage),
            Due::PowerOn => self.on_power(now),
        }
    }

    /// A request that has been kept reaches the device.
    fn submit_late(&mut self, now: Time, id: RequestId) {
        self.shared.requests.charge_late(Some(id), Stage::RequestQueue, now);
        let Some(faults) = &mut self.faults else { return };
        if let Down::Submit = faults.hand_down(now, id, &mut self.shared) {
            splitting::submit(now, id, &mut self.driver, &mut self.link, &mut self.shared);
        }
    }

    /// The host aborts a request whose time is up. One that the device still works on ends when that is over.
    fn give_up(&mut self, now: Time, number: u64) {
        let Some(met) = self.faults.as_mut().and_then(|faults| faults.met.get_mut(&number)) else { return };
        met.is_given_up = true;
        if let Some(id) = met.completed {
            self.shared.requests.charge_late(Some(id), Stage::Timeout, now);
            self.host.on_completed(now, id, &self.driver, &mut self.shared);
        }
    }

    /// A fault that happens at an instant.
    fn on_instant(&mut self, now: Time, place: usize) {
        let Some(faults) = &mut self.faults else { return };
        let rule = &mut faults.instants[place];
        // What is counted of a removal is the requests that it makes fail.
        if rule.fault.action != FaultAction::Remove {
            rule.happens();
        }
        let Fault { action, lanes, generation, outage, direction, .. } = rule.fault;
        match action {
            FaultAction::PowerCut => self.cut_power(now, outage),
            FaultAction::Reset => self.reset(now, Away::Until(now + outage)),
            FaultAction::Remove => self.reset(now, Away::ForGood),
            FaultAction::StarveCredits => {
                let direction = match direction {
                    FaultDirection::ToHost => Direction::Up,
                    FaultDirection::ToDevice => Direction::Down,
                };
                self.link.starve(now, direction, now + outage);
            }
            _ => self.link.retrain(now, retrained(&mut faults.link, lanes, generation), outage),
        }
    }

    /// The device is reset, and its host forgets what it had told it: both begin anew, and what is between them is gone.
    /// Requests that it had are handed to it again when it is back, or have failed if it never is. The memory is what it was.
    fn reset(&mut self, now: Time, away: Away) {
        let Some(mut faults) = self.faults.take() else { return };
        // A device without power can be taken away, but has nothing to reset.
        if matches!((faults.away, away), (Away::ForGood, _) | (Away::Off(_), Away::Until(_))) {
            self.faults = Some(faults);
            return;
        }
        faults.away = away;
        self.shared.scheduler.retain(is_of_host);
        self.shared.requests.completed.clear();
        if let Some(data) = &mut self.shared.data {
            data.on_reset();
        }
        self.connect_again(now, &faults.drive, faults.seed);
        for request in std::mem::take(&mut faults.flying).into_values() {
            let number = request.number;
            let id = self.shared.requests.insert(request);
            self.shared.requests.charge_late(Some(id), Stage::Timeout, now);
            match faults.away {
                Away::ForGood => faults.lose(now, id, number, &mut self.shared),
                Away::Until(until) | Away::Off(until) => faults.at(until, Due::Submit(id), &mut self.shared),
                Away::No => {}
            }
        }
        if away == Away::ForGood {
            faults.lose_kept(now, &mut self.shared);
        }
        self.faults = Some(faults);
    }

    /// Both halves of the protocol, and the link between them, as they are at the beginning.
    fn connect_again(&mut self, now: Time, drive: &Drive, seed: u64) {
        self.link.clear(now, &drive.dma, &drive.link);
        self.shared.memory.release_reserved();
        (self.driver, self.controller) = connect(drive, seed, &mut self.shared);
        if self.shared.data.is_some() {
            self.controller.keep_data(drive, seed, &mut self.shared);
        }
        (0..self.host.threads()).for_each(|thread| self.let_look(thread));
    }

    /// How often each fault has happened, by action and in the order of the actions.
    pub(super) fn fault_counts(&self) -> Vec<(&'static str, u64)> {
        let Some(faults) = &self.faults else { return Vec::new() };
        let parts = self.link.fault_counts().into_iter().chain(self.media.fault_counts());
        let counts: Vec<_> = faults.counts().chain(parts).collect();
        let sum = |name| counts.iter().filter(|(counted, _)| *counted == name).map(|(_, count)| count).sum();
        let mut named: Vec<_> = faults.actions.iter().map(|action| (action.counter(), sum(action.counter()))).collect();
        if faults.actions.contains(&FaultAction::FlipBits) {
            named.push((UNCORRECTABLE, faults.uncorrectable));
        }
        named
    }
}

/// What a fault makes of data that is in host memory now.
#[cold]
#[inline(never)]
pub(super) fn damage(faults: &Option<Box<Faults>>, settled: &Settled, shared: &mut Shared) {
    if let Some(faults) = faults.as_ref().filter(|_| settled.packet.user_data) {
        faults.damage(settled, shared);
    }
}

/// Whether an event is the host's own, so that it happens whatever becomes of the device.
fn is_of_host(event: &Event) -> bool {
    use Event::*;
    match event {
        Thread(_) | Path(_) | Release(_) | WorkDone(_) | Poller(_) | Interrupt { .. } | Handled { .. } | Fault(_) => {
            true
        }
        Driver | Wire(_) | Arrive(_) | Look(_) | Answer(_) | Settle(_) | SettleOne { .. } | Dma(_) => false,
        Controller { .. } => false,
    }
}

/// What of a packet with data of a write reaches the memory.
#[cold]
#[inline(never)]
pub(super) fn stored(faults: &Option<Box<Faults>>, packet: &Packet, shared: &Shared) -> Packet {
    let bytes = faults.as_ref().map_or(packet.bytes, |faults| faults.stored_bytes(packet, shared));
    Packet { bytes, ..*packet }
}

/// Where a torn write ends: behind its first half, in whole blocks, as on a served drive.
fn torn_at(io: &Io, drive: &Drive) -> u64 {
    let block_bytes = BLOCK_BYTES.max(drive.limits().write_block_bytes.into());
    io.offset + u64::from(io.bytes) / 2 / block_bytes * block_bytes
}

/// What the application of a request that is over is told, if it has failed.
#[cold]
#[inline(never)]
pub(super) fn failure(faults: &mut Option<Box<Faults>>, request: &Request) -> Option<u32> {
    faults.as_mut()?.on_done(request.number)
}

/// The link as it is after it has been trained anew.
fn retrained(link: &mut config::Link, lanes: u8, generation: u8) -> &config::Link {
    link.lanes = if lanes == 0 { link.lanes } else { lanes };
    link.generation = if generation == 0 { link.generation } else { generation };
    link
}
