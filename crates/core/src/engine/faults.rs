//! What injected faults do to requests, interrupts and the whole device. Those of banks and packets are their parts' own.
//!
//! A run without faults asks at each place only whether there are any. Every request that a rule meets is decided when it
//! goes down to the driver; what comes of that is an event, or happens on its way back.

#[cfg(test)]
pub(crate) mod planted;

use std::collections::BTreeMap;

use crate::config::{self, Fault, FaultAction, FaultSubject};
use crate::drive::Drive;
use crate::engine::Engine;
use crate::faults::Rule;
use crate::ledger::Stage;
use crate::protocol::splitting;
use crate::request::{Request, RequestId};
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::time::Time;
use crate::tlp::Packet;

/// Errors as fio reports them: the numbers of Linux.
pub const EIO: u32 = 5;
pub const ETIMEDOUT: u32 = 110;

/// The faults of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    /// Those that the description has, each once.
    actions: Vec<FaultAction>,
    /// The link as it is trained.
    link: config::Link,
    requests: Vec<Rule>,
    interrupts: Vec<Rule>,
    instants: Vec<Rule>,
    /// Requests that a rule has met, until they are over, by their numbers: a driver may go on with one in another place.
    met: BTreeMap<u64, Met>,
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
    /// Its last data does not reach the memory.
    is_torn: bool,
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
    /// The rule of this number happens.
    Instant(usize),
}

/// What becomes of a request on its way down.
enum Down {
    Submit,
    Keep,
}

impl Faults {
    /// The faults of a drive, if it has any.
    pub fn of(drive: &Drive, seed: u64) -> Option<Box<Faults>> {
        let rules = |subject| Rule::about(subject, &drive.faults, seed);
        let is_there = |action: &FaultAction| drive.faults.iter().any(|fault| fault.action == *action);
        let faults = || Faults {
            actions: FaultAction::ALL.into_iter().filter(is_there).collect(),
            link: drive.link.clone(),
            requests: rules(FaultSubject::Request),
            interrupts: rules(FaultSubject::Interrupt),
            instants: rules(FaultSubject::Instant),
            ..Faults::default()
        };
        (!drive.faults.is_empty()).then(|| Box::new(faults()))
    }

    /// Let everything happen that has an instant of its own.
    pub fn begin(&mut self, shared: &mut Shared) {
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
        let happens = self.requests.iter_mut().position(|rule| rule.meets_request(now, &io, thread));
        let Some(place) = happens else { return Down::Submit };
        let Fault { action, delay, timeout, .. } = self.requests[place].fault;
        let mut met = Met::default();
        match action {
            FaultAction::Delay => {
                self.at(now + delay, Due::Submit(id), shared);
                return Down::Keep;
            }
            FaultAction::Error => met.error = Some(EIO),
            FaultAction::TornWrite => (met.error, met.is_torn) = (Some(EIO), true),
            _ => {
                met.error = Some(ETIMEDOUT);
                met.is_lost = true;
                // A device that hangs is done with it, as far as anybody will ever know.
                met.completed = Some(id).filter(|_| action == FaultAction::Hang);
                self.at(now + timeout, Due::GiveUp(number), shared);
            }
        }
        self.met.insert(number, met);
        if let Some(data) = shared.data.as_mut().filter(|_| met.is_torn) {
            data.doubt(number);
        }
        if met.completed.is_some() { Down::Keep } else { Down::Submit }
    }

    /// The device has completed a request: whether the host hears of it.
    fn on_completed(&mut self, id: RequestId, number: u64) -> bool {
        let Some(met) = self.met.get_mut(&number).filter(|met| met.is_lost) else { return true };
        met.completed = Some(id);
        met.is_given_up
    }

    /// Whether a packet with data of a write is lost before the memory.
    fn tears(&self, packet: &Packet, shared: &Shared) -> bool {
        let Some(id) = packet.request else { return false };
        self.met.get(&shared.requests[id].number).is_some_and(|met| met.is_torn)
    }

    /// An interrupt message has arrived: whether the host hears of it.
    fn on_message(&mut self, now: Time, vector: u16, shared: &mut Shared) -> bool {
        let Some(place) = self.interrupts.iter_mut().position(|rule| rule.meets(now)) else { return true };
        let Fault { action, delay, timeout, .. } = self.interrupts[place].fault;
        let is_lost = action == FaultAction::LoseInterrupt;
        self.at(now + if is_lost { timeout } else { delay }, Due::Look { vector }, shared);
        !is_lost
    }

    /// A request is over: what its application is told, if it has failed.
    fn on_done(&mut self, number: u64) -> Option<u32> {
        self.met.remove(&number)?.error
    }

    fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        [&self.requests, &self.interrupts, &self.instants].into_iter().flatten().map(Rule::count)
    }
}

impl Engine {
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
        let is_heard = faults.on_completed(id, number);
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
            Due::Submit(id) => {
                self.shared.requests.charge_late(Some(id), Stage::RequestQueue, now);
                splitting::submit(now, id, &mut self.driver, &mut self.link, &mut self.shared);
            }
            Due::GiveUp(number) => self.give_up(now, number),
            Due::Look { vector } => self.host.on_message(now, vector, &mut self.shared),
            Due::Instant(place) => self.on_instant(now, place),
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
        rule.happens();
        let Fault { lanes, generation, outage, .. } = rule.fault;
        self.link.retrain(now, retrained(&mut faults.link, lanes, generation), outage);
    }

    /// How often each fault has happened, by action and in the order of the actions.
    pub(super) fn fault_counts(&self) -> Vec<(&'static str, u64)> {
        let Some(faults) = &self.faults else { return Vec::new() };
        let parts = self.link.fault_counts().into_iter().chain(self.media.fault_counts());
        let counts: Vec<_> = faults.counts().chain(parts).collect();
        let sum = |name| counts.iter().filter(|(counted, _)| *counted == name).map(|(_, count)| count).sum();
        faults.actions.iter().map(|action| (action.counter(), sum(action.counter()))).collect()
    }
}

/// Whether data of a write gets lost before the memory.
#[cold]
#[inline(never)]
pub(super) fn tears(faults: &Option<Box<Faults>>, packet: &Packet, shared: &Shared) -> bool {
    faults.as_ref().is_some_and(|faults| faults.tears(packet, shared))
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
