//! Conditions between the keys of a fault, and between them and the drive's: a key that says nothing of what happens is
//! refused, and so is a fault that nothing could survive.

use crate::config::section::Section;
use crate::config::{Fault, FaultAction, FaultSubject, Mapping};
use crate::drive::Drive;
use crate::problem::Broken;

/// Chance from which on the replays of a packet would hardly ever end.
const CORRUPTED_MAX: f64 = 0.9;

/// The first condition that each fault breaks.
pub(super) fn broken(drive: &Drive) -> Vec<Broken> {
    let numbered = drive.faults.iter().enumerate();
    numbered.filter_map(|(place, fault)| broken_by(drive, place + 1, fault)).collect()
}

/// The first condition that the fault of this number breaks.
pub(super) fn broken_by(drive: &Drive, number: usize, fault: &Fault) -> Option<Broken> {
    let checks = [idle_key, what_it_takes, bank, link, endless, powerless];
    let (found, allowed) = checks.iter().find_map(|check| check(drive, fault))?;
    let found = format!("fault {number}, \"{}\": {found}", fault.action.name());
    Broken::when(true, &["faults"], found, allowed)
}

type Found = Option<(String, String)>;

/// A key that says nothing of what happens.
fn idle_key(_: &Drive, fault: &Fault) -> Found {
    let usual = Fault::default().values();
    let changed = fault.values().into_iter().zip(usual).filter(|(value, usual)| value != usual);
    let key = changed.map(|((key, _), _)| key).find(|key| !fault.takes(key))?;
    let keys = fault.keys().into_iter().map(|key| key.name).filter(|key| fault.takes(key));
    Some((format!("{key} says nothing of it"), keys.collect::<Vec<_>>().join(", ")))
}

fn what_it_takes(_: &Drive, fault: &Fault) -> Found {
    let Fault { action, from, until, delay, factor, lanes, generation, .. } = *fault;
    let says =
        |is_wrong: bool, found: &str, allowed: &str| is_wrong.then(|| (String::from(found), String::from(allowed)));
    let window =
        says(!until.is_zero() && until <= from, "until_us is not after from_us", "until_us above from_us, or 0");
    window.or_else(|| match action {
        FaultAction::Delay => says(delay.is_zero(), "delay_us is 0", "delay_us above 0"),
        FaultAction::SlowBank => says(factor <= 1.0, "factor is 1", "factor above 1"),
        FaultAction::StuckBank => says(until.is_zero(), "it would never end", "until_us above from_us"),
        FaultAction::Retrain => says(lanes == 0 && generation == 0, "nothing changes", "lanes or generation above 0"),
        _ => None,
    })
}

fn bank(drive: &Drive, fault: &Fault) -> Found {
    if fault.subject() != FaultSubject::Bank {
        return None;
    }
    if drive.translation.mapping == Mapping::Page {
        let found = String::from("no address has a bank of its own with translation.mapping \"page\"");
        return Some((found, String::from("translation.mapping = \"none\"")));
    }
    let banks = u32::from(drive.media.channels) * u32::from(drive.media.banks_per_channel);
    (fault.bank >= banks).then(|| (format!("bank is {}", fault.bank), format!("0 to {}", banks - 1)))
}

fn link(drive: &Drive, fault: &Fault) -> Found {
    let link = &drive.link;
    if fault.lanes > link.lanes {
        return Some((
            format!("lanes is {} with link.lanes {}", fault.lanes, link.lanes),
            String::from("no more lanes"),
        ));
    }
    if fault.generation > link.generation {
        let found = format!("generation is {} with link.generation {}", fault.generation, link.generation);
        return Some((found, String::from("no later generation")));
    }
    let is_fixed = fault.generation > 0 && link.lane_bytes_per_ns > 0.0;
    let found = || String::from("link.lane_bytes_per_ns gives the rate of a lane, whatever the generation");
    is_fixed.then(|| (found(), String::from("lanes alone")))
}

/// A packet that is corrupted each time never arrives.
fn endless(_: &Drive, fault: &Fault) -> Found {
    let Fault { action, every, times, probability, until, .. } = *fault;
    let is_endless = action == FaultAction::CorruptPacket
        && every == 1
        && times == 0
        && until.is_zero()
        && probability > CORRUPTED_MAX;
    is_endless.then(|| {
        let allowed = format!("every above 1, times or until_us above 0, or probability up to {CORRUPTED_MAX}");
        (String::from("no packet would ever arrive"), allowed)
    })
}

/// A drive whose power fails again and again gets nothing done.
fn powerless(_: &Drive, fault: &Fault) -> Found {
    let is_endless = fault.subject() == FaultSubject::Event && fault.times == 0;
    is_endless.then(|| (String::from("power would fail for ever"), String::from("times above 0")))
}
