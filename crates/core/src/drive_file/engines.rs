//! Conditions on software stacks: on those whose costs depend on the I/O engine, and on all others.

use super::needs;
use crate::config::engine::{IoEngine, WORDS};
use crate::config::section::Section;
use crate::config::{Application, CoreIdleState, Filesystem, IdleStateTimes, IoScheduler, StackStage};
use crate::drive::{Drive, Interface};
use crate::problem::BrokenCondition;

/// Returns the words that a stage's condition `when` names, each without its `!`.
fn condition_words(stage: &StackStage) -> impl Iterator<Item = &str> {
    stage.when.split_whitespace().map(|word| word.strip_prefix('!').unwrap_or(word))
}

/// Checks that the key `stack.engines` names only known I/O engines.
pub(super) fn words(drive: &Drive) -> Option<BrokenCondition> {
    let unknown = drive.stack.supported_engines().err()?;
    let known: Vec<&str> = IoEngine::ALL.iter().map(|engine| engine.name()).collect();
    let found = format!("stack.engines names `{unknown}`");
    BrokenCondition::when(true, &["stack.engines"], found, format!("words of {}", known.join(", ")))
}

/// Checks that the interface of a stack with I/O engines has a driver that accepts batches.
pub(super) fn interface(drive: &Drive) -> Option<BrokenCondition> {
    BrokenCondition::when(
        drive.stack.has_engines() && !drive.protocol().takes_engines(),
        &["stack.engines", "interface"],
        format!("the stack has stack.engines, with interface \"{}\"", drive.interface.name()),
        format!(
            "{}, or a stack without engines, such as stack.preset = \"user-space\"",
            interfaces_with_engines(drive)
        ),
    )
}

/// Returns the interfaces whose drivers accept batches of requests, as allowed values of the key `interface`.
fn interfaces_with_engines(drive: &Drive) -> String {
    let takes = |interface: &&Interface| Drive { interface: **interface, ..drive.clone() }.protocol().takes_engines();
    let names = Interface::ALL.iter().filter(takes).map(|interface| format!("\"{}\"", interface.name()));
    format!("interface = {}", names.collect::<Vec<_>>().join(", "))
}

/// Checks that the conditions `when` of stages name only known words.
pub(super) fn conditions(drive: &Drive) -> Option<BrokenCondition> {
    let mut conditions =
        drive.stack.stages.iter().flat_map(|stage| condition_words(stage).map(move |word| (stage, word)));
    let (stage, word) = conditions.find(|(_, word)| !WORDS.contains(word))?;
    let found = format!("stack.stages \"{}\" has the unknown word `{word}` in when", stage.name);
    BrokenCondition::when(
        true,
        &["stack.stages"],
        found,
        format!("words of {}, each also with ! before it", WORDS.join(", ")),
    )
}

/// Checks that a chosen file system, I/O scheduler, application, IOMMU mode or lack of mitigations changes at least one
/// stage of the software stack.
pub(super) fn choices(drive: &Drive) -> Option<BrokenCondition> {
    let stack = &drive.stack;
    let choices = [
        ("stack.filesystem", stack.filesystem.name(), stack.filesystem != Filesystem::Raw),
        ("stack.scheduler", stack.scheduler.name(), stack.scheduler != IoScheduler::None),
        ("stack.application", stack.application.name(), stack.application != Application::Loop),
        ("stack.mitigations", "mitigations", !stack.mitigations),
        ("stack.iommu", stack.iommu.word().unwrap_or_default(), stack.iommu.word().is_some()),
        ("stack.shared_file", "shared-file", stack.shared_file),
        ("stack.statistics", "no-statistics", !stack.statistics),
        ("stack.cgroups", "cgroups", stack.cgroups),
    ];
    let knows = |word: &str| {
        stack.has_engines() && stack.stages.iter().any(|stage| condition_words(stage).any(|known| known == word))
    };
    let (key, word, _) = choices.into_iter().find(|(_, word, is_chosen)| *is_chosen && !knows(word))?;
    let value = match word {
        "mitigations" | "no-statistics" => String::from("false"),
        "shared-file" | "cgroups" => String::from("true"),
        _ => format!("\"{}\"", word.strip_prefix("iommu-").unwrap_or(word)),
    };
    BrokenCondition::when(
        true,
        &[
            "stack.filesystem",
            "stack.scheduler",
            "stack.application",
            "stack.mitigations",
            "stack.iommu",
            "stack.shared_file",
            "stack.statistics",
            "stack.cgroups",
            "stack.stages",
        ],
        format!("{key} is {value}, but no stage of the stack depends on it"),
        format!("a stack with a stage when = \"{word}\", such as stack.preset = \"linux-6\""),
    )
}

/// Checks that a queue of posted register writes in a core drains at intervals only if issuing the writes takes time, and
/// if requests go in batches.
pub(super) fn check_posted_register_writes(drive: &Drive) -> Option<BrokenCondition> {
    let host = &drive.host;
    let keys: &[&str] = &["host.mmio_drain_ns", "host.mmio_write_ns", "stack.engines"];
    let drain = host.mmio_drain.as_ns();
    if host.mmio_drain.is_zero() {
        return None;
    }
    if host.mmio_write.is_zero() {
        let found = format!("host.mmio_drain_ns is {drain} with host.mmio_write_ns 0");
        return BrokenCondition::when(true, keys, found, String::from("host.mmio_write_ns above 0"));
    }
    let found = format!("host.mmio_drain_ns is {drain}, and the stack has no stack.engines");
    let allowed = String::from("0, or a stack with engines, such as stack.preset = \"spdk\"");
    BrokenCondition::when(!drive.stack.has_engines(), keys, found, allowed)
}

/// Checks that no stage of the software stack has a key that needs a part which the drive lacks. Presets give stages as
/// a whole, so that it does not matter who gives them.
pub(super) fn stages(drive: &Drive) -> Option<BrokenCondition> {
    let default = StackStage::default();
    let lack = |stage: &StackStage| {
        let changed = stage.values().into_iter().zip(default.values()).map(|(value, default)| value != default);
        let mut keys = stage.needs().iter().zip(changed).filter(|(_, is_changed)| *is_changed);
        let (key, row) = keys.find_map(|(key, _)| Some((key.key, needs::missing_part(drive, key)?)))?;
        let key = key.rsplit('.').next().unwrap_or(key);
        let found = format!("stack.stages \"{}\" has {key} {}", stage.name, row.without);
        Some((found, format!("{}, or no such key", row.allowed)))
    };
    let (found, allowed) = drive.stack.stages.iter().find_map(lack)?;
    BrokenCondition::when(true, &["stack.stages", "stack.engines"], found, allowed)
}

/// Checks that a stack with I/O engines copies no data between buffers.
pub(super) fn copies(drive: &Drive) -> Option<BrokenCondition> {
    BrokenCondition::when(
        drive.stack.has_engines() && drive.stack.copy_bytes_per_ns > 0.0,
        &["stack.copy_bytes_per_ns", "stack.engines"],
        String::from("stack.copy_bytes_per_ns is above 0 in a stack with stack.engines"),
        String::from(
            "0: direct I/O does not copy; time for data goes into submit_page_ns or complete_page_ns of a stage",
        ),
    )
}

/// Checks that deeper idle states of the host have longer exit and residency times, and that `idle_exit_ns` is not
/// given with idle states.
pub(super) fn idle_states(drive: &Drive) -> Option<BrokenCondition> {
    let host = &drive.host;
    if host.idle_states == CoreIdleState::None {
        return None;
    }
    let keys: &[&str] = &["host.idle_states", "host.idle_exit_ns", "host.c1_exit_ns", "host.c1e_residency_ns"];
    let states = host.idle_states();
    let deeper = |pair: &[IdleStateTimes]| pair[0].exit <= pair[1].exit && pair[0].residency <= pair[1].residency;
    if !host.idle_exit.is_zero() {
        let found = String::from("host.idle_exit_ns is above 0 together with host.idle_states");
        return BrokenCondition::when(
            true,
            keys,
            found,
            String::from("only one of them: each idle state has an exit time of its own"),
        );
    }
    BrokenCondition::when(
        !states.windows(2).all(deeper),
        keys,
        String::from("an idle state of the host has a longer exit or residency than a deeper one"),
        String::from("exit and residency times that rise from C1 over C1E to C6"),
    )
}
