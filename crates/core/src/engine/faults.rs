//! Effects of injected faults on requests, interrupts and the whole device. Faults of banks and of packets are applied
//! by memory and link; those of power are in [`power`].
//!
//! A run without faults only checks, at each place, that there are none. The fault of a request is decided when the
//! request is submitted to the driver. Its effect is an event, or is applied when the request completes.

mod damage;
mod network;
mod power;
#[cfg(test)]
pub(crate) mod test_bugs;
#[cfg(test)]
mod tests;
mod write_pointers;

pub(super) use power::update_durable_programs;

use std::collections::BTreeMap;

use crate::config::{self, Fault, FaultAction, FaultDirection, FaultSubject};
use crate::data::Data;
use crate::data::check::BLOCK_BYTES;
use crate::drive::Drive;
use crate::engine::Engine;
use crate::engine::device::AttachedDevice;
use crate::faults::Rule;
use crate::ledger::{FaultEffectSummary, Stage};
use crate::media::volume::VolumeLimits;
use crate::media::zones::ZonesLeft;
use crate::number::low_u32;
use crate::protocol::dispatch::connect;
use crate::protocol::halves::Controller;
use crate::protocol::ports::Settled;
use crate::protocol::splitting;
use crate::request::{DataDirection, Io, Op, Request, RequestId};
use crate::scheduler::Event;
use crate::shared::Shared;
use crate::time::{Span, Time};
use crate::tlp::{Direction, Packet};
use damage::SectorFaultDamage;
use network::NetworkFaults;
use write_pointers::WritePointers;

/// Linux error numbers of failed requests, as fio reports them.
pub(crate) const EIO: u32 = 5;
pub(crate) const ETIMEDOUT: u32 = 110;
pub(crate) const ENODEV: u32 = 19;

/// Name of the counter of reads that failed because they met more damage than the error-correcting code corrects.
pub const UNCORRECTABLE: &str = "fault_uncorrectable_reads";
/// Name of the counter of requests that failed because the controller refused a command.
const REFUSED: &str = "refused_requests";

/// Fault rules of a run, the requests that they affect, and their pending effects.
#[derive(Clone, Debug)]
pub(super) struct Faults {
    /// Fault actions that the rules have, each once.
    actions: Vec<FaultAction>,
    /// Configuration of the link as it is trained now.
    link: config::Link,
    requests: Vec<Rule>,
    /// Rate limits of the rules that throttle requests.
    throttles: Vec<(Fault, VolumeLimits)>,
    /// Description of the drive, for a device that restarts; `seed` is the seed of the run.
    drive: Box<Drive>,
    seed: u64,
    interrupts: Vec<Rule>,
    instants: Vec<Rule>,
    /// Rules of power cuts that are triggered by the number of an event.
    events: Vec<Rule>,
    /// Faults of requests in flight, by request number, since a driver may continue a request under another index.
    met: BTreeMap<u64, InFlightFault>,
    /// True if a rule resets or removes the device or cuts its power, so that the requests that it has are kept in
    /// `requests_in_device`.
    keeps_flying: bool,
    uncorrectable: u64,
    /// Number of requests that failed because the controller refused a command.
    refused: u64,
    /// Copies of the requests in flight in the device, as they were submitted, by request number.
    requests_in_device: BTreeMap<u64, Request>,
    away: DeviceAvailability,
    /// Connections of a drive behind a network; `None` if no rule is about them.
    network: Option<Box<NetworkFaults>>,
    /// Write pointers of the zones since the device was restarted; `None` if it has no zones, or was not restarted.
    pointers: Option<WritePointers>,
    /// Pending effects of faults, by the numbers of their events.
    due: BTreeMap<u32, PendingFaultEffect>,
    next_due: u32,
}

/// Fault of a request in flight, with its effects on the request.
#[derive(Clone, Copy, Debug, Default)]
struct InFlightFault {
    /// Linux error number that the application is told, if the request fails.
    error: Option<u32>,
    /// True if the request's completion does not reach the host.
    is_lost: bool,
    /// Index of the request, once the device has completed it.
    completed: Option<RequestId>,
    /// True if the host has given up the request after its time-out.
    is_given_up: bool,
    /// Offset on the device from which on the data of the write does not reach the memory.
    torn_at: Option<u64>,
    /// Time after which the request's completion arrives a second time.
    repeats_after: Option<Span>,
    /// Time after which the request's completion is valid, so that the host can take it.
    whole_after: Option<Span>,
    /// Instant at which the request was submitted, and the factor by which it takes longer.
    slowed: Option<(Time, f64)>,
    /// True if the request's completion has reached the host.
    is_heard: bool,
    /// Damage that the request finds in the memory, if it is a read that a fault has met.
    damage: Option<SectorFaultDamage>,
}

/// Absence of the device: it is there, being reset, without power, or removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DeviceAvailability {
    /// The device is there and takes commands.
    #[default]
    No,
    /// The device is being reset until this instant. It polls for commands already, but gets none.
    Until(Time),
    /// The device has no power, or is starting up after that, until this instant.
    Off(Time),
    /// The device has been removed, and never returns.
    ForGood,
}

/// Pending effect of a fault, which takes place at an instant.
#[derive(Clone, Copy, Debug)]
enum PendingFaultEffect {
    /// A request that was held back reaches the device.
    Submit(RequestId),
    /// The host gives up the request of this number after its time-out.
    GiveUp(u64),
    /// The host looks for completions after a late or lost interrupt message, or is interrupted once more.
    Look { vector: u16 },
    /// The completion of the request of this index and number arrives a second time.
    Repeat(RequestId, u64),
    /// The completion of the request of this index and number becomes valid, so that the host takes it.
    Whole(RequestId, u64),
    /// The rule of this index, which has an instant of its own, takes effect.
    Instant(usize),
    /// The link gets back the described width and rate, at the end of the rule of this index.
    Restore(usize),
    /// The device's power fails now, and stays off for this time.
    PowerCut(Span),
    /// The device has power again and takes commands.
    PowerOn,
    /// An initiator gives up its connections after a time-out, and has connected again after this time.
    Disconnect { initiator: usize, reconnect: Span },
    /// The host submits the request of this index again.
    Retry(RequestId),
}

/// Effect of a fault rule on a request that is about to be submitted.
enum RuleEffectOnRequest {
    /// The request is held back until this instant.
    Hold(Time),
    /// The device's power fails at this instant, and stays off for this time.
    PowerCut(Time, Span),
    /// The request or its completion is changed.
    Change(InFlightFault),
}

/// Decision of the fault rules on a request that is about to be submitted.
enum SubmissionDecision {
    /// The request is submitted to the device now.
    Submit,
    /// The request stays with the host: it is held back, or fails.
    Keep,
}

impl Faults {
    /// Returns the faults of a drive's description; `None` if it has none.
    pub(super) fn of(drive: &Drive, seed: u64) -> Option<Box<Faults>> {
        (!drive.faults.is_empty()).then(|| Box::new(Faults::new(drive, seed)))
    }

    fn new(drive: &Drive, seed: u64) -> Faults {
        let rules = |subject| Rule::about(subject, &drive.faults, seed);
        let is_there = |action: &FaultAction| drive.faults.iter().any(|fault| fault.action == *action);
        let actions: Vec<FaultAction> = FaultAction::ALL.into_iter().filter(is_there).collect();
        Faults {
            keeps_flying: [FaultAction::Reset, FaultAction::Remove, FaultAction::PowerCut].iter().any(is_there),
            network: NetworkFaults::of(drive, &actions),
            actions,
            link: drive.link.clone(),
            drive: Box::new(drive.clone()),
            seed,
            requests: rules(FaultSubject::Request),
            throttles: Vec::new(),
            interrupts: rules(FaultSubject::Interrupt),
            instants: rules(FaultSubject::Instant),
            events: rules(FaultSubject::Event),
            uncorrectable: 0,
            refused: 0,
            met: BTreeMap::new(),
            requests_in_device: BTreeMap::new(),
            away: DeviceAvailability::No,
            pointers: None,
            due: BTreeMap::new(),
            next_due: 0,
        }
    }

    /// Schedules the effects of the rules that have an instant of their own.
    pub(super) fn begin(&mut self, shared: &mut Shared) {
        for place in 0..self.instants.len() {
            let at = Time::ZERO + self.instants[place].fault.from;
            self.schedule(at, PendingFaultEffect::Instant(place), shared);
        }
    }

    fn schedule(&mut self, at: Time, due: PendingFaultEffect, shared: &mut Shared) {
        let number = self.next_due;
        self.next_due = self.next_due.wrapping_add(1);
        self.due.insert(number, due);
        shared.scheduler.at(at, Event::Fault(number));
    }

    /// True if a request that is being submitted reaches its driver now: no fault keeps it back or fails it.
    pub(super) fn passes_to_driver(
        &mut self,
        now: Time,
        id: RequestId,
        data: &mut Option<Box<Data>>,
        shared: &mut Shared,
    ) -> bool {
        matches!(self.on_submit(now, id, data, shared), SubmissionDecision::Submit)
    }

    /// Decides what happens to a request that is about to be submitted. The first rule that the request triggers
    /// counts.
    fn on_submit(
        &mut self,
        now: Time,
        id: RequestId,
        data: &mut Option<Box<Data>>,
        shared: &mut Shared,
    ) -> SubmissionDecision {
        let request = &shared.requests[id];
        let (io, thread, number) = (request.io, request.thread, request.number);
        if self.away == DeviceAvailability::ForGood {
            self.fail_for_removed_device(now, id, number, shared);
            return SubmissionDecision::Keep;
        }
        let happens = self.requests.iter_mut().position(|rule| rule.count_request_match(now, &io, thread));
        let Some(place) = happens else { return self.pass_to_device(now, id, shared) };
        if self.requests[place].fault.action.is_network_connection_effect() {
            self.disturb_thread_connection(now, place, id, shared);
            return self.pass_to_device(now, id, shared);
        }
        let met = match self.effect_of_rule(now, place, id, &io, number) {
            RuleEffectOnRequest::Hold(until) => {
                self.schedule(until, PendingFaultEffect::Submit(id), shared);
                return SubmissionDecision::Keep;
            }
            RuleEffectOnRequest::PowerCut(at, outage) => {
                self.schedule(at, PendingFaultEffect::PowerCut(outage), shared);
                return self.pass_to_device(now, id, shared);
            }
            RuleEffectOnRequest::Change(met) => met,
        };
        if met.is_lost {
            self.schedule(now + self.requests[place].fault.timeout, PendingFaultEffect::GiveUp(number), shared);
        }
        self.met.insert(number, met);
        let is_in_doubt = met.torn_at.is_some() || met.damage.is_some() && met.error.is_some();
        data.as_mut().filter(|_| is_in_doubt).into_iter().for_each(|data| data.expect_failure(number));
        if met.completed.is_some() { SubmissionDecision::Keep } else { self.pass_to_device(now, id, shared) }
    }

    /// Returns the effect of the fault rule at `place` on a request that has triggered it.
    fn effect_of_rule(&mut self, now: Time, place: usize, id: RequestId, io: &Io, number: u64) -> RuleEffectOnRequest {
        let rule = &self.requests[place];
        let (fault, mut met) = (&rule.fault, InFlightFault::default());
        match fault.action {
            FaultAction::Stall => return RuleEffectOnRequest::Hold(rule.ends_at()),
            FaultAction::Delay | FaultAction::LateDoorbellRead => return RuleEffectOnRequest::Hold(now + fault.delay),
            FaultAction::Throttle => return RuleEffectOnRequest::Hold(self.throttle_release_time(now, place, io)),
            FaultAction::PowerCut => return RuleEffectOnRequest::PowerCut(now + fault.delay, fault.outage),
            FaultAction::RepeatCompletion => met.repeats_after = Some(fault.delay),
            FaultAction::FlipBits | FaultAction::FailChip => {
                let damage = SectorFaultDamage::of(fault, number);
                met.error = damage.is_fatal().then_some(EIO);
                self.uncorrectable += u64::from(met.error.is_some());
                met.damage = Some(damage);
            }
            FaultAction::TornCompletion | FaultAction::StalePhase => met.whole_after = Some(fault.delay),
            FaultAction::SlowDown => met.slowed = Some((now, fault.factor)),
            FaultAction::Error => met.error = Some(EIO),
            FaultAction::TornWrite => (met.error, met.torn_at) = (Some(EIO), Some(torn_at(io, &self.drive))),
            _ => {
                met.error = Some(ETIMEDOUT);
                met.is_lost = true;
                // A device that hangs never accesses the request again, so count it as completed by the device now.
                met.completed = Some(id).filter(|_| fault.action == FaultAction::Hang);
            }
        }
        RuleEffectOnRequest::Change(met)
    }

    /// Returns the instant until which the rule at `place`, which throttles requests, holds back a request.
    fn throttle_release_time(&mut self, now: Time, place: usize, io: &Io) -> Time {
        let fault = &self.requests[place].fault;
        let known = self.throttles.iter().position(|(other, _)| other == fault);
        let place = known.unwrap_or_else(|| {
            self.throttles.push((fault.clone(), VolumeLimits::throttle(fault)));
            self.throttles.len() - 1
        });
        let direction = if io.op == Op::Read { DataDirection::Read } else { DataDirection::Write };
        self.throttles[place].1.pass(now, direction, io.offset, io.bytes)
    }

    /// Lets a request go to the device. If the device is away, the request is submitted when it is back, or fails.
    fn pass_to_device(&mut self, now: Time, id: RequestId, shared: &mut Shared) -> SubmissionDecision {
        match self.away {
            // Events of the device's return may come after this one at the same instant, so submit the request through
            // the event queue.
            DeviceAvailability::Off(until) => {
                self.schedule(until, PendingFaultEffect::Submit(id), shared);
                return SubmissionDecision::Keep;
            }
            DeviceAvailability::Until(until) if until > now => {
                self.schedule(until, PendingFaultEffect::Submit(id), shared);
                return SubmissionDecision::Keep;
            }
            DeviceAvailability::ForGood => {
                self.fail_for_removed_device(now, id, shared.requests[id].number, shared);
                return SubmissionDecision::Keep;
            }
            DeviceAvailability::No | DeviceAvailability::Until(_) => {}
        }
        let (number, thread) = (shared.requests[id].number, shared.requests[id].thread);
        if let Some(network) = &mut self.network {
            if let Some(until) = network.connection_returns_at(now, thread) {
                self.schedule(until, PendingFaultEffect::Submit(id), shared);
                return SubmissionDecision::Keep;
            }
            network.send(number, thread);
        }
        if let Some(pointers) = &mut self.pointers {
            match pointers.place(&shared.requests[id].io) {
                Some(offset) => shared.requests[id].io.offset = offset,
                None => {
                    self.fail_for_full_zone(now, id, number, shared);
                    return SubmissionDecision::Keep;
                }
            }
        }
        if self.keeps_flying {
            let request = &shared.requests[id];
            self.requests_in_device.insert(request.number, request.clone());
        }
        SubmissionDecision::Submit
    }

    /// Fails a request with `ENODEV` because the device has been removed, which the host knows at once.
    fn fail_for_removed_device(&mut self, now: Time, id: RequestId, number: u64, shared: &mut Shared) {
        let met = self.met.entry(number).or_default();
        if met.error.is_none() {
            met.error = Some(ENODEV);
            let removal = self.instants.iter_mut().find(|rule| rule.fault.action == FaultAction::Remove);
            removal.into_iter().for_each(|rule| rule.count_effect_at(now));
        }
        self.schedule_host_failure(now, id, number, shared);
    }

    /// Fails a write whose zone, since a restart of the device, has no room for it.
    fn fail_for_full_zone(&mut self, now: Time, id: RequestId, number: u64, shared: &mut Shared) {
        self.met.entry(number).or_default().error.get_or_insert(EIO);
        self.refused += 1;
        self.schedule_host_failure(now, id, number, shared);
    }

    /// Schedules the end of a request that has failed and does not go to the device.
    fn schedule_host_failure(&mut self, now: Time, id: RequestId, number: u64, shared: &mut Shared) {
        let met = self.met.entry(number).or_default();
        met.completed = Some(id);
        // If the completion is to be lost, the host notices nothing before its timeout.
        if !met.is_lost || met.is_given_up {
            (met.is_lost, met.is_given_up) = (true, true);
            self.schedule(now, PendingFaultEffect::GiveUp(number), shared);
        }
    }

    /// Fails the requests that faults hold back from the device, because the device has been removed.
    fn fail_held_requests(&mut self, now: Time, shared: &mut Shared) {
        let kept = |due: &PendingFaultEffect| if let PendingFaultEffect::Submit(id) = due { Some(*id) } else { None };
        let lost: Vec<RequestId> = self.due.values().filter_map(kept).collect();
        self.due.retain(|_, due| kept(due).is_none());
        lost.into_iter().for_each(|id| self.fail_for_removed_device(now, id, shared.requests[id].number, shared));
    }

    /// Handles a request that the device has completed. Returns true if its completion reaches the host now.
    fn on_device_completion(&mut self, now: Time, id: RequestId, number: u64, shared: &mut Shared) -> bool {
        self.requests_in_device.remove(&number);
        let Some(met) = self.met.get_mut(&number) else { return true };
        if met.is_lost {
            met.completed = Some(id);
            return met.is_given_up;
        }
        let slowed_by = |(since, factor): (Time, f64)| now.since(since).scale(factor - 1.0);
        if let Some(after) = met.whole_after.or(met.slowed.map(slowed_by)).filter(|_| !met.is_heard) {
            self.schedule(now + after, PendingFaultEffect::Whole(id, number), shared);
            return false;
        }
        if let Some(after) = met.repeats_after.filter(|_| !met.is_heard) {
            self.schedule(now + after, PendingFaultEffect::Repeat(id, number), shared);
        }
        true
    }

    /// True if the host waits for a completion of request number `number` at index `id`. The host tells by a number
    /// that each use of an index has for itself, as nvme_find_rq of Linux does.
    fn is_still_awaited(&self, id: RequestId, number: u64, shared: &Shared) -> bool {
        let is_heard = self.met.get(&number).is_none_or(|met| met.is_heard);
        shared.requests[id].number == number && !is_heard
    }

    /// Returns how many bytes of a packet with data of a write reach the memory. Where a command's data comes in
    /// several packets, some protocols name its request with the last packet alone; then only that one is torn off.
    fn write_bytes_reaching_memory(&self, packet: &Packet, shared: &Shared) -> u32 {
        let met = packet.request.and_then(|id| self.met.get(&shared.requests[id].number));
        let left = |torn_at: u64| low_u32(torn_at.saturating_sub(packet.device_offset).min(packet.bytes.into()));
        met.and_then(|met| met.torn_at).map_or(packet.bytes, left)
    }

    /// Applies the first matching rule to an interrupt message. Returns true if the message reaches the host now.
    fn on_message(&mut self, now: Time, vector: u16, shared: &mut Shared) -> bool {
        let Some(place) = self.interrupts.iter_mut().position(|rule| rule.count_trigger_match(now)) else {
            return true;
        };
        let Fault { action, delay, timeout, .. } = self.interrupts[place].fault;
        let is_lost = action == FaultAction::LoseInterrupt;
        self.schedule(now + if is_lost { timeout } else { delay }, PendingFaultEffect::Look { vector }, shared);
        !is_lost
    }

    /// Returns the damage that a fault has done to the read whose packets have settled; `None` without such a fault.
    fn damage_of_read(&self, settled: &Settled, shared: &Shared) -> Option<SectorFaultDamage> {
        self.met.get(&shared.requests[settled.packet.request?].number)?.damage
    }

    /// Removes the fault of a completed request. Returns the Linux error number that the application is told; `None` if
    /// the request has not failed.
    fn on_done(&mut self, number: u64) -> Option<u32> {
        self.met.remove(&number)?.error
    }

    /// Forgets the faults and pending effects of all requests, since nobody waits for them any more.
    pub(super) fn forget_requests(&mut self, now: Time) {
        self.throttles.iter_mut().for_each(|(_, limits)| limits.cut_power(now));
        self.met.clear();
        self.requests_in_device.clear();
        self.network.iter_mut().for_each(|network| network.forget_requests());
        self.due.retain(|_, due| {
            use PendingFaultEffect::*;
            !matches!(due, Submit(_) | GiveUp(_) | Repeat(..) | Whole(..) | Retry(_))
        });
    }

    fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        [&self.requests, &self.interrupts, &self.instants, &self.events].into_iter().flatten().map(Rule::count)
    }
}

impl Default for Faults {
    /// Returns the faults of a drive whose description has no fault rules.
    fn default() -> Faults {
        Faults::new(&Drive::blank(), 0)
    }
}

impl Engine {
    /// Adds a fault rule to a running machine; its times count from now on. Returns the rule as it is kept, by which it
    /// is [removed](Engine::remove_fault).
    pub fn add_fault(&mut self, drive: &Drive, fault: &Fault, seed: u64) -> Fault {
        let fault = fault.relative_to_start(self.now());
        let rule = Rule::new(fault.clone(), seed);
        let faults = self.faults.get_or_insert_with(|| Box::new(Faults::new(&drive.without_faults(), seed)));
        if !faults.actions.contains(&fault.action) {
            faults.actions.push(fault.action);
        }
        match fault.subject() {
            FaultSubject::Event => faults.events.push(rule),
            FaultSubject::Request => faults.requests.push(rule),
            FaultSubject::Bank => self.devices[0].media.add_faults(vec![rule]),
            FaultSubject::Packet => self.devices[0].link.add_faults(&[rule]),
            FaultSubject::Interrupt => faults.interrupts.push(rule),
            FaultSubject::Instant => {
                faults.instants.push(rule);
                let place = faults.instants.len() - 1;
                faults.schedule(Time::ZERO + fault.from, PendingFaultEffect::Instant(place), &mut self.shared);
            }
        }
        fault
    }

    /// Removes a fault rule that was added. Rules that take effect at an instant of their own or after an event stay.
    pub fn remove_fault(&mut self, fault: &Fault) {
        self.devices[0].media.remove_fault(fault);
        self.devices[0].link.remove_fault(fault);
        let Some(faults) = &mut self.faults else { return };
        faults.throttles.retain(|(other, _)| other != fault);
        for rules in [&mut faults.requests, &mut faults.interrupts] {
            if let Some(place) = rules.iter().position(|rule| rule.is(fault)) {
                rules.remove(place);
            }
        }
    }

    /// True if the completion of a request reaches the host now.
    #[cold]
    #[inline(never)]
    pub(super) fn does_completion_reach_host(&mut self, now: Time, id: RequestId) -> bool {
        let Some(faults) = &mut self.faults else { return true };
        let number = self.shared.requests[id].number;
        let is_heard = faults.on_device_completion(now, id, number, &mut self.shared);
        if let Some(met) = faults.met.get_mut(&number) {
            met.is_heard |= is_heard;
        }
        if is_heard && faults.met.get(&number).is_some_and(|met| met.is_given_up) {
            self.shared.requests.charge_stage_until(Some(id), Stage::Timeout, now);
        }
        is_heard
    }

    /// Marks as failed the requests of which the controller has refused a command, such as an append to a zone whose
    /// reset failed.
    #[cold]
    #[inline(never)]
    pub(super) fn fail_refused_requests(&mut self) {
        let faults = self.faults.get_or_insert_default();
        for part in std::mem::take(&mut self.shared.requests.refused) {
            let number = self.shared.requests[part].number;
            let met = faults.met.entry(number).or_default();
            if met.error.is_none() {
                met.error = Some(EIO);
                faults.refused += 1;
            }
        }
    }

    /// True if an interrupt message reaches the host now.
    #[cold]
    #[inline(never)]
    pub(super) fn does_interrupt_reach_host(&mut self, now: Time, vector: u16) -> bool {
        self.faults.as_mut().is_none_or(|faults| faults.on_message(now, vector, &mut self.shared))
    }

    /// Replaces the read data that has just settled in host memory by what a fault makes of it, in a run with real
    /// bytes.
    #[cold]
    #[inline(never)]
    pub(super) fn damage(&mut self, settled: &Settled) {
        let Some(faults) = self.faults.as_ref().filter(|_| settled.packet.user_data) else { return };
        let damage = faults.damage_of_read(settled, &self.shared);
        if let Some((damage, data)) = damage.zip(self.devices[0].data.as_ref()) {
            damage.write_damaged_bytes(settled, &data.contents, &mut self.memory);
        }
    }

    /// Applies the pending effect of a fault with this number.
    #[cold]
    #[inline(never)]
    pub(super) fn apply_fault_effect(&mut self, now: Time, number: u32) {
        let Some(due) = self.faults.as_mut().and_then(|faults| faults.due.remove(&number)) else { return };
        match due {
            PendingFaultEffect::Submit(id) => self.submit_held_request(now, id),
            PendingFaultEffect::Repeat(id, number) => {
                if self.faults.as_ref().is_some_and(|faults| faults.is_still_awaited(id, number, &self.shared)) {
                    self.deliver_to_target_or_host(now, id);
                }
            }
            PendingFaultEffect::Whole(id, number) => self.complete_invalid_completion(now, id, number),
            PendingFaultEffect::GiveUp(number) => self.give_up_after_timeout(now, number),
            PendingFaultEffect::Look { vector } => self.host.on_message(now, vector, &mut self.shared),
            PendingFaultEffect::Instant(place) => self.apply_timed_rule(now, place),
            PendingFaultEffect::Restore(place) => self.restore_link_width_and_rate(now, place),
            PendingFaultEffect::PowerCut(outage) => self.cut_power(now, outage),
            PendingFaultEffect::PowerOn => self.on_power_restored(now),
            PendingFaultEffect::Disconnect { initiator, reconnect } => self.disconnect(now, initiator, reconnect),
            PendingFaultEffect::Retry(id) => self.retry(now, id),
        }
    }

    /// Completes a request whose completion was not valid before, unless the request has been given up meanwhile.
    fn complete_invalid_completion(&mut self, now: Time, id: RequestId, number: u64) {
        let Some(faults) = self.faults.as_mut().filter(|faults| faults.is_still_awaited(id, number, &self.shared))
        else {
            return;
        };
        faults.met.entry(number).or_default().is_heard = true;
        self.shared.requests.charge_stage_until(Some(id), Stage::RequestQueue, now);
        self.deliver_to_target_or_host(now, id);
    }

    /// Submits a request that a fault has held back.
    fn submit_held_request(&mut self, now: Time, id: RequestId) {
        self.shared.requests.charge_stage_until(Some(id), Stage::RequestQueue, now);
        let Some(faults) = &mut self.faults else { return };
        if let SubmissionDecision::Submit = faults.pass_to_device(now, id, &mut self.shared) {
            if let Some(fabric) = &mut self.fabric {
                return fabric.send_command(now, id, &mut self.shared);
            }
            let (driver, mut ports) = self.devices[0].driver_side(&mut self.memory, &mut self.shared);
            splitting::submit(now, id, driver, &mut ports);
        }
    }

    /// Gives up a request after its time-out. A request that the device still works on ends when the device completes
    /// it.
    fn give_up_after_timeout(&mut self, now: Time, number: u64) {
        let Some(met) = self.faults.as_mut().and_then(|faults| faults.met.get_mut(&number)) else { return };
        met.is_given_up = true;
        if let Some(id) = met.completed {
            self.shared.requests.charge_stage_until(Some(id), Stage::Timeout, now);
            self.deliver_to_target_or_host(now, id);
        }
    }

    /// Applies the fault rule of this index, which takes effect at an instant of its own.
    fn apply_timed_rule(&mut self, now: Time, place: usize) {
        let Some(faults) = &mut self.faults else { return };
        let rule = &mut faults.instants[place];
        // A removal counts as an effect once for each request that it fails, so do not count the removal itself.
        if rule.fault.action != FaultAction::Remove {
            rule.count_effect_at(now);
        }
        if !rule.fault.until.is_zero() {
            let until = Time::ZERO + rule.fault.until;
            faults.schedule(until, PendingFaultEffect::Restore(place), &mut self.shared);
        }
        let rule = &faults.instants[place];
        let Fault { action, lanes, generation, outage, direction, .. } = rule.fault;
        match action {
            FaultAction::PowerCut => self.cut_power(now, outage),
            FaultAction::Reset => self.reset(now, DeviceAvailability::Until(now + outage)),
            FaultAction::Remove => self.reset(now, DeviceAvailability::ForGood),
            FaultAction::StarveCredits => {
                let direction = match direction {
                    FaultDirection::ToHost => Direction::Up,
                    FaultDirection::ToDevice => Direction::Down,
                };
                self.devices[0].link.starve(now, direction, now + outage);
            }
            _ => self.devices[0].link.retrain(now, set_retrained_link(&mut faults.link, lanes, generation), outage),
        }
    }

    /// Retrains the link to the described width and rate, at the end of a rule's time.
    fn restore_link_width_and_rate(&mut self, now: Time, place: usize) {
        let Some(faults) = &mut self.faults else { return };
        let outage = faults.instants[place].fault.outage;
        faults.link = faults.drive.link.clone();
        self.devices[0].link.retrain(now, &faults.link, outage);
    }

    /// Returns the fault rules that have had effects, with their number and times, in the order of the first effects.
    pub(super) fn summarise_fault_effects(&self) -> Vec<FaultEffectSummary> {
        let Some(faults) = &self.faults else { return Vec::new() };
        let rules = [&faults.requests, &faults.interrupts, &faults.instants, &faults.events].into_iter().flatten();
        let met = |rule: &Rule| {
            let span = rule.span();
            FaultEffectSummary {
                line: rule.fault.line(),
                first: span.map(|it| it.0),
                last: span.map(|it| it.1),
                count: rule.counts().1,
            }
        };
        let mut summaries: Vec<FaultEffectSummary> = rules.map(met).filter(|met| met.count > 0).collect();
        summaries.sort_by_key(|met| met.first.unwrap_or(Time::NEVER));
        summaries
    }

    /// Resets the device: driver and controller start anew, and packets between them are gone. Requests that the device
    /// had are submitted again when it is back, or fail if it never is. Its memory keeps its contents.
    fn reset(&mut self, now: Time, away: DeviceAvailability) {
        let Some(mut faults) = self.faults.take() else { return };
        // A device without power can be removed, but a reset has no effect on it.
        if matches!(
            (faults.away, away),
            (DeviceAvailability::ForGood, _) | (DeviceAvailability::Off(_), DeviceAvailability::Until(_))
        ) {
            self.faults = Some(faults);
            return;
        }
        faults.away = away;
        self.shared.scheduler.retain(Event::is_of_host);
        self.shared.requests.completed.clear();
        if let Some(data) = &mut self.devices[0].data {
            data.on_reset();
        }
        let zones = self.reconnect_device(now, &faults.drive, faults.seed, matches!(away, DeviceAvailability::Off(_)));
        let zone_bytes = faults.drive.zones.zone_bytes();
        faults.pointers = zones.map(|left| WritePointers::of(&left.zones, zone_bytes));
        for request in std::mem::take(&mut faults.requests_in_device).into_values() {
            let number = request.number;
            let id = self.shared.requests.insert(request);
            self.shared.requests.charge_stage_until(Some(id), Stage::Timeout, now);
            match faults.away {
                DeviceAvailability::ForGood => faults.fail_for_removed_device(now, id, number, &mut self.shared),
                DeviceAvailability::Until(until) | DeviceAvailability::Off(until) => {
                    faults.schedule(until, PendingFaultEffect::Submit(id), &mut self.shared)
                }
                DeviceAvailability::No => {}
            }
        }
        if away == DeviceAvailability::ForGood {
            faults.fail_held_requests(now, &mut self.shared);
        }
        self.faults = Some(faults);
    }

    /// Connects a new driver and a new controller by an empty link, after a reset or a loss of power. Returns the zones
    /// in the state after that, if the device has zones.
    pub(super) fn reconnect_device(
        &mut self,
        now: Time,
        drive: &Drive,
        seed: u64,
        loses_power: bool,
    ) -> Option<ZonesLeft> {
        let zones = self.devices[0].controller.zones_left(loses_power);
        self.devices[0].link.clear(now, &drive.dma, &drive.link);
        self.memory.release_device_buffers();
        (self.devices[0].driver, self.devices[0].controller) = connect(drive, seed, &mut self.memory, &mut self.shared);
        let AttachedDevice { controller, data, .. } = &mut self.devices[0];
        if let Some(data) = data {
            controller.keep_data(drive, seed, &data.contents, &mut self.memory);
        }
        zones.iter().for_each(|zones| controller.take_over_zones(zones.clone()));
        (0..self.host.threads()).for_each(|thread| self.disable_interrupts_for_polling(thread));
        zones
    }

    /// Returns a pair for each fault action of the run: the name of its counter and the number of its effects so far.
    pub(super) fn fault_counts(&self) -> Vec<(&'static str, u64)> {
        let Some(faults) = &self.faults else { return Vec::new() };
        let parts = self.devices[0].link.fault_counts().into_iter().chain(self.devices[0].media.fault_counts());
        let counts: Vec<_> = faults.counts().chain(parts).collect();
        let sum = |name| counts.iter().filter(|(counted, _)| *counted == name).map(|(_, count)| count).sum();
        let mut named: Vec<_> = faults.actions.iter().map(|action| (action.counter(), sum(action.counter()))).collect();
        if faults.actions.contains(&FaultAction::FlipBits) {
            named.push((UNCORRECTABLE, faults.uncorrectable));
        }
        named.extend(faults.network.iter().flat_map(|network| network.counters()));
        if faults.refused > 0 {
            named.push((REFUSED, faults.refused));
        }
        named
    }
}

/// Returns a packet with data of a write, less the bytes that a fault keeps from the memory.
#[cold]
#[inline(never)]
pub(super) fn stored(faults: &Option<Box<Faults>>, packet: &Packet, shared: &Shared) -> Packet {
    let bytes = faults.as_ref().map_or(packet.bytes, |faults| faults.write_bytes_reaching_memory(packet, shared));
    Packet { bytes, ..*packet }
}

/// Returns the device offset at which a torn write ends: after its first half, in whole blocks, as on a served drive.
fn torn_at(io: &Io, drive: &Drive) -> u64 {
    let block_bytes = BLOCK_BYTES.max(drive.limits().write_block_bytes.into());
    io.offset + u64::from(io.bytes) / 2 / block_bytes * block_bytes
}

/// Returns the Linux error number that the application of a completed request is told; `None` if the request has not
/// failed.
#[cold]
#[inline(never)]
pub(super) fn failure(faults: &mut Option<Box<Faults>>, request: &Request) -> Option<u32> {
    faults.as_mut()?.on_done(request.number)
}

/// Sets the link's lanes and generation to those of a retraining, where 0 keeps the old value. Returns the link.
fn set_retrained_link(link: &mut config::Link, lanes: u8, generation: u8) -> &config::Link {
    link.lanes = if lanes == 0 { link.lanes } else { lanes };
    link.generation = if generation == 0 { link.generation } else { generation };
    link
}
