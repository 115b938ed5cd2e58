//! Conditions between the keys of a fault rule, and between them and the drive's keys. A key without a meaning for the
//! rule's action is refused, and so is a fault that no run could survive.

use crate::config::section::Section;
use crate::config::value::readable;
use crate::config::{Fault, FaultAction, FaultSubject};
use crate::drive::Drive;
use crate::fabric::pdu::TransportFraming;
use crate::problem::BrokenCondition;

/// Largest probability of corruption without another limit; above it, replays of a packet would hardly ever end.
const CORRUPTED_MAX: f64 = 0.9;

/// Returns the first broken condition of each fault rule of the drive that breaks any.
pub(super) fn broken(drive: &Drive) -> Vec<BrokenCondition> {
    let numbered = drive.faults.iter().enumerate();
    numbered.filter_map(|(place, fault)| broken_by(drive, place + 1, fault)).collect()
}

/// Returns the first condition that a fault rule breaks; `number` is the rule's number, from 1, in the message.
pub(super) fn broken_by(drive: &Drive, number: usize, fault: &Fault) -> Option<BrokenCondition> {
    let checks = [
        unused_fault_key,
        empty_fault_window,
        missing_fault_value,
        bank,
        link,
        endless_packet_corruption,
        unlimited_power_cuts,
        fault_behind_network,
        digest,
    ];
    let (found, allowed) = checks.iter().find_map(|check| check(drive, fault))?;
    let found = format!("fault {number}, \"{}\": {found}", fault.action.name());
    BrokenCondition::when(true, &["faults"], found, allowed)
}

/// Problem of a fault rule, as a pair of what was found and what is allowed; none if the rule is right.
type FaultRuleProblem = Option<(String, String)>;

/// Checks that every key that a fault rule gives has a meaning for the rule's action.
fn unused_fault_key(_: &Drive, fault: &Fault) -> FaultRuleProblem {
    let usual = Fault::default().values();
    let changed = fault.values().into_iter().zip(usual).filter(|(value, usual)| value != usual);
    let key = changed.map(|((key, _), _)| key).find(|key| !fault.takes(key))?;
    let keys = fault.keys().into_iter().map(|key| key.name).filter(|key| fault.takes(key));
    Some((format!("{key} has no meaning for this action"), keys.collect::<Vec<_>>().join(", ")))
}

/// Checks that a fault behind a network does not take the drive away from its target, nor its interrupts: how a target
/// tells its initiators is not modelled.
fn fault_behind_network(drive: &Drive, fault: &Fault) -> FaultRuleProblem {
    let is_unknown = fault.action.does_restart_controller()
        || matches!(fault.action, FaultAction::Remove | FaultAction::LoseInterrupt | FaultAction::RepeatInterrupt);
    let found = || String::from("the drive is behind a network, whose target does not recover from it");
    (drive.fabric.is_there() && is_unknown)
        .then(|| (found(), String::from("another action, or fabric.transport = \"none\"")))
}

/// Checks that the packets of a simulated network have the digest that a fault makes wrong.
fn digest(drive: &Drive, fault: &Fault) -> FaultRuleProblem {
    let has_digest = || TransportFraming::new(&drive.fabric).has_digest(fault.digest);
    let is_missing = fault.action == FaultAction::DigestError && drive.fabric.is_there() && !has_digest();
    let key = || format!("fabric.{}_digest", fault.digest.name());
    is_missing.then(|| (format!("{} is false, so that no digest can be wrong", key()), format!("{} = true", key())))
}

/// Checks that the time in which a fault rule matches is not empty.
fn empty_fault_window(_: &Drive, fault: &Fault) -> FaultRuleProblem {
    fault.check_fault_window()
}

/// Checks that a fault rule gives a duration, factor, rate or link width, if its action needs one.
fn missing_fault_value(_: &Drive, fault: &Fault) -> FaultRuleProblem {
    let needs = fault.action.row().needs;
    let values = fault.values().into_iter().zip(Fault::default().values());
    let needed: Vec<_> = values.filter(|((key, _), _)| needs.contains(key)).collect();
    let (_, (_, usual)) = needed.first().filter(|_| needed.iter().all(|(value, usual)| value == usual))?;
    let usual = readable(usual);
    let found: Vec<String> = needs.iter().map(|key| format!("{key} is {usual}")).collect();
    Some((found.join(" and "), format!("{} above {usual}", needs.join(" or "))))
}

/// Checks that the bank of a bank fault exists, and that addresses have fixed banks.
fn bank(drive: &Drive, fault: &Fault) -> FaultRuleProblem {
    if fault.subject() != FaultSubject::Bank {
        return None;
    }
    if drive.is_flash() {
        let found = String::from("addresses have no fixed bank with translation.mapping \"page\"");
        return Some((found, String::from("translation.mapping = \"none\"")));
    }
    let banks = drive.media.banks();
    (fault.bank >= banks).then(|| (format!("bank is {}", fault.bank), format!("0 to {}", banks - 1)))
}

/// Checks that a link which a fault retrains is neither wider nor faster than the drive's link.
fn link(drive: &Drive, fault: &Fault) -> FaultRuleProblem {
    let link = &drive.link;
    if fault.lanes > link.lanes {
        return Some((
            format!("lanes is {} with link.lanes {}", fault.lanes, link.lanes),
            format!("lanes up to {}", link.lanes),
        ));
    }
    if fault.generation > link.generation {
        let found = format!("generation is {} with link.generation {}", fault.generation, link.generation);
        return Some((found, format!("generation up to {}", link.generation)));
    }
    let is_fixed = fault.generation > 0 && link.lane_bytes_per_ns > 0.0;
    let found = || String::from("link.lane_bytes_per_ns gives the rate of a lane, whatever the generation");
    is_fixed.then(|| (found(), String::from("lanes without generation")))
}

/// Checks that a fault rule does not corrupt nearly every packet for ever, because the run would not end.
fn endless_packet_corruption(_: &Drive, fault: &Fault) -> FaultRuleProblem {
    let Fault { action, every, times, probability, until, .. } = *fault;
    let is_endless = action == FaultAction::CorruptPacket
        && every == 1
        && times == 0
        && until.is_zero()
        && probability > CORRUPTED_MAX;
    is_endless.then(|| {
        let allowed =
            format!("every above 1, times above 0, an end of the rule's time, or probability up to {CORRUPTED_MAX}");
        (String::from("no packet would ever arrive"), allowed)
    })
}

/// Checks that a fault rule which cuts the power at events does so only a limited number of times.
fn unlimited_power_cuts(_: &Drive, fault: &Fault) -> FaultRuleProblem {
    let is_endless = fault.subject() == FaultSubject::Event && fault.times == 0;
    is_endless.then(|| (String::from("power would fail for ever"), String::from("times above 0")))
}
