//! Conditions on software stacks: on those whose costs depend on the I/O engine, and on all others.

use crate::config::engine::{IoEngine, WORDS};
use crate::config::{Application, Filesystem, Host, IdleState, IoScheduler, LockHeld, Stack, StackStage};
use crate::drive::{Drive, Interface};
use crate::problem::BrokenCondition;

/// Returns the words that a stage's condition `when` names, each without its `!`.
fn words_of_when(stage: &StackStage) -> impl Iterator<Item = &str> {
    stage.when.split_whitespace().map(|word| word.strip_prefix('!').unwrap_or(word))
}

/// Checks that the key `stack.engines` names only known I/O engines.
pub(super) fn words(drive: &Drive) -> Option<BrokenCondition> {
    let unknown = drive.stack.known_engines().err()?;
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
        drive.stack.stages.iter().flat_map(|stage| words_of_when(stage).map(move |word| (stage, word)));
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
    ];
    let knows = |word: &str| {
        stack.has_engines() && stack.stages.iter().any(|stage| words_of_when(stage).any(|known| known == word))
    };
    let (key, word, _) = choices.into_iter().find(|(_, word, is_chosen)| *is_chosen && !knows(word))?;
    let value = match word {
        "mitigations" => String::from("false"),
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
            "stack.stages",
        ],
        format!("{key} is {value}, but no stage of the stack depends on it"),
        format!("a stack with a stage when = \"{word}\", such as stack.preset = \"linux-6\""),
    )
}

/// Checks that a software stack gives its instructions per clock only together with its clock.
pub(super) fn ipc(drive: &Drive) -> Option<BrokenCondition> {
    let stack = &drive.stack;
    BrokenCondition::when(
        stack.ipc > 0.0 && stack.clock_ghz == 0.0,
        &["stack.ipc", "stack.clock_ghz"],
        format!("stack.ipc is {} without stack.clock_ghz", stack.ipc),
        String::from("stack.ipc with stack.clock_ghz: without it the times were measured on the host's own core"),
    )
}

/// Checks that a stack without I/O engines has no keys that depend on engines or batches.
pub(super) fn without_engines(drive: &Drive) -> Option<BrokenCondition> {
    if drive.stack.has_engines() {
        return None;
    }
    let (stack, blank) = (&drive.stack, Stack::default());
    if (stack.poller_idle, stack.poller_wake) != (blank.poller_idle, blank.poller_wake) {
        let found = String::from("stack.poller_idle_us or stack.poller_wake_ns in a stack without stack.engines");
        let keys = &["stack.poller_idle_us", "stack.poller_wake_ns", "stack.engines"];
        return BrokenCondition::when(
            true,
            keys,
            found,
            String::from("neither of these keys: only io_uring has poll threads"),
        );
    }
    let plain = StackStage::default();
    let beyond = |stage: &StackStage| -> Option<&'static str> {
        let keys = [
            ("when", stage.when != plain.when),
            ("user", stage.user),
            ("submit_batch_ns", !stage.submit_batch.is_zero()),
            ("submit_depth_ns", !stage.submit_depth.is_zero()),
            ("wait_batch_ns", !stage.wait_batch.is_zero()),
            ("complete_batch_ns", !stage.complete_batch.is_zero()),
            ("if_waited", stage.if_waited),
            ("submit_page_ns", !stage.submit_page.is_zero()),
            ("complete_page_ns", !stage.complete_page.is_zero()),
            ("submit_list_ns", !stage.submit_list.is_zero()),
            ("complete_list_ns", !stage.complete_list.is_zero()),
        ];
        keys.into_iter().find(|(_, is_given)| *is_given).map(|(key, _)| key)
    };
    let (stage, key) = drive.stack.stages.iter().find_map(|stage| Some((stage, beyond(stage)?)))?;
    let found = format!("stack.stages \"{}\" has {key} in a stack without stack.engines", stage.name);
    BrokenCondition::when(
        true,
        &["stack.stages", "stack.engines"],
        found,
        String::from("a stack with stack.engines, as in docs/hosts.md, or no such key"),
    )
}

/// Checks that a queue of posted register writes in a core is given only if issuing and draining them take time, and if
/// requests go in batches.
pub(super) fn posted_register_writes(drive: &Drive) -> Option<BrokenCondition> {
    let (host, usual) = (&drive.host, Host::default());
    let keys: &[&str] = &["host.mmio_drain_ns", "host.mmio_room", "host.mmio_write_ns", "stack.engines"];
    let drain = host.mmio_drain.as_ns();
    if host.mmio_drain.is_zero() {
        let found = format!("host.mmio_room is {} with host.mmio_drain_ns 0", host.mmio_room);
        return BrokenCondition::when(
            host.mmio_room != usual.mmio_room,
            keys,
            found,
            String::from("host.mmio_drain_ns above 0"),
        );
    }
    if host.mmio_write.is_zero() {
        let found = format!("host.mmio_drain_ns is {drain} with host.mmio_write_ns 0");
        return BrokenCondition::when(true, keys, found, String::from("host.mmio_write_ns above 0"));
    }
    let found = format!("host.mmio_drain_ns is {drain}, and the stack has no stack.engines");
    let allowed = String::from("0, or a stack with engines, such as stack.preset = \"spdk\"");
    BrokenCondition::when(!drive.stack.has_engines(), keys, found, allowed)
}

/// Checks that a stack with I/O engines has no keys of other stacks: hand-over to other threads, locks held for each
/// request, shared cache lines, or copies of data.
pub(super) fn with_engines(drive: &Drive) -> Option<BrokenCondition> {
    if !drive.stack.has_engines() {
        return None;
    }
    let beyond = |stage: &StackStage| -> Option<&'static str> {
        let keys = [
            ("hand_over", stage.hand_over),
            ("lock_held = \"request\"", stage.lock_held == LockHeld::Request),
            ("submit_lines", stage.submit_lines > 0),
            ("complete_lines", stage.complete_lines > 0),
        ];
        keys.into_iter().find(|(_, is_given)| *is_given).map(|(key, _)| key)
    };
    let stage = drive.stack.stages.iter().find_map(|stage| Some((stage, beyond(stage)?)));
    if let Some((stage, key)) = stage {
        let found = format!("stack.stages \"{}\" has {key} in a stack with stack.engines", stage.name);
        return BrokenCondition::when(
            true,
            &["stack.stages", "stack.engines"],
            found,
            String::from("a stage without this key, or a stack without stack.engines"),
        );
    }
    BrokenCondition::when(
        drive.stack.copy_bytes_per_ns > 0.0,
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
    if host.idle_states == IdleState::None {
        return None;
    }
    let keys: &[&str] = &["host.idle_states", "host.idle_exit_ns", "host.c1_exit_ns", "host.c1e_residency_ns"];
    let states = host.idle_states();
    let deeper = |pair: &[(crate::time::Span, crate::time::Span)]| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1;
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
