//! Conditions on stacks: those whose engines differ, and those that are alike for any engine.

use crate::config::engine::{Engine, WORDS};
use crate::config::{Application, Filesystem, Host, IdleState, IoScheduler, LockHeld, Stack, Stage};
use crate::drive::Drive;
use crate::problem::Broken;

/// The words that a stage's condition names.
fn named(stage: &Stage) -> impl Iterator<Item = &str> {
    stage.when.split_whitespace().map(|word| word.strip_prefix('!').unwrap_or(word))
}

pub(super) fn words(drive: &Drive) -> Option<Broken> {
    let unknown = drive.stack.known_engines().err()?;
    let known: Vec<&str> = Engine::ALL.iter().map(|engine| engine.name()).collect();
    let found = format!("stack.engines names `{unknown}`");
    Broken::when(true, &["stack.engines"], found, format!("words of {}", known.join(", ")))
}

pub(super) fn interface(drive: &Drive) -> Option<Broken> {
    Broken::when(
        drive.stack.has_engines() && !drive.protocol().takes_engines(),
        &["stack.engines", "interface"],
        format!("a stack with engines with interface \"{}\"", drive.interface.name()),
        String::from("an interface whose driver takes several requests together, or a stack without stack.engines"),
    )
}

/// Conditions use known words, on stacks that have engines.
pub(super) fn conditions(drive: &Drive) -> Option<Broken> {
    let mut conditions = drive.stack.stages.iter().flat_map(|stage| named(stage).map(move |word| (stage, word)));
    let (stage, word) = conditions.find(|(_, word)| !WORDS.contains(word))?;
    let found = format!("stack.stages \"{}\" is there when `{word}`", stage.name);
    Broken::when(true, &["stack.stages"], found, format!("words of {}, each also with ! before it", WORDS.join(", ")))
}

/// A file system, a scheduler, an application or the lack of mitigations changes something.
pub(super) fn choices(drive: &Drive) -> Option<Broken> {
    let stack = &drive.stack;
    let choices = [
        ("stack.filesystem", stack.filesystem.name(), stack.filesystem != Filesystem::Raw),
        ("stack.scheduler", stack.scheduler.name(), stack.scheduler != IoScheduler::None),
        ("stack.application", stack.application.name(), stack.application != Application::Loop),
        ("stack.mitigations", "mitigations", !stack.mitigations),
    ];
    let knows =
        |word: &str| stack.has_engines() && stack.stages.iter().any(|stage| named(stage).any(|known| known == word));
    let (key, word, _) = choices.into_iter().find(|(_, word, is_chosen)| *is_chosen && !knows(word))?;
    let value = if word == "mitigations" { String::from("false") } else { format!("\"{word}\"") };
    Broken::when(
        true,
        &["stack.filesystem", "stack.scheduler", "stack.application", "stack.mitigations", "stack.stages"],
        format!("{key} is {value}, but no stage of the stack depends on it"),
        format!("a stack with a stage when = \"{word}\", such as stack.preset = \"linux-6\""),
    )
}

/// What a core does in a clock is said beside the clock.
pub(super) fn ipc(drive: &Drive) -> Option<Broken> {
    let stack = &drive.stack;
    Broken::when(
        stack.ipc > 0.0 && stack.clock_ghz == 0.0,
        &["stack.ipc", "stack.clock_ghz"],
        format!("stack.ipc is {} without stack.clock_ghz", stack.ipc),
        String::from("stack.clock_ghz too: without it the costs hold on the host's own core"),
    )
}

/// What depends on engines and batches has no place in a stack that is alike for all of them.
pub(super) fn alike(drive: &Drive) -> Option<Broken> {
    if drive.stack.has_engines() {
        return None;
    }
    let (stack, blank) = (&drive.stack, Stack::default());
    if (stack.poller_idle, stack.poller_wake) != (blank.poller_idle, blank.poller_wake) {
        let found = String::from("stack.poller_idle_us or stack.poller_wake_ns in a stack without stack.engines");
        let keys = &["stack.poller_idle_us", "stack.poller_wake_ns", "stack.engines"];
        return Broken::when(true, keys, found, String::from("leave it out: only io_uring has poll threads"));
    }
    let plain = Stage::default();
    let beyond = |stage: &Stage| -> Option<&'static str> {
        let keys = [
            ("when", stage.when != plain.when),
            ("user", stage.user),
            ("submit_batch_ns", !stage.submit_batch.is_zero()),
            ("wait_batch_ns", !stage.wait_batch.is_zero()),
            ("complete_batch_ns", !stage.complete_batch.is_zero()),
            ("if_waited", stage.if_waited),
            ("submit_page_ns", !stage.submit_page.is_zero()),
            ("complete_page_ns", !stage.complete_page.is_zero()),
        ];
        keys.into_iter().find(|(_, is_given)| *is_given).map(|(key, _)| key)
    };
    let (stage, key) = drive.stack.stages.iter().find_map(|stage| Some((stage, beyond(stage)?)))?;
    let found = format!("stack.stages \"{}\" has {key} in a stack without stack.engines", stage.name);
    Broken::when(true, &["stack.stages", "stack.engines"], found, String::from("stack.engines, as in docs/hosts.md"))
}

/// Register writes fill the room of a core where they take its time and their own to leave, and requests go together.
pub(super) fn posted(drive: &Drive) -> Option<Broken> {
    let (host, usual) = (&drive.host, Host::default());
    let keys: &[&str] = &["host.mmio_drain_ns", "host.mmio_room", "host.mmio_write_ns", "stack.engines"];
    let drain = host.mmio_drain.as_ns();
    if host.mmio_drain.is_zero() {
        let found = format!("host.mmio_room is {} with host.mmio_drain_ns 0", host.mmio_room);
        return Broken::when(
            host.mmio_room != usual.mmio_room,
            keys,
            found,
            String::from("host.mmio_drain_ns above 0"),
        );
    }
    if host.mmio_write.is_zero() {
        let found = format!("host.mmio_drain_ns is {drain} with host.mmio_write_ns 0");
        return Broken::when(true, keys, found, String::from("host.mmio_write_ns above 0"));
    }
    let found = format!("host.mmio_drain_ns is {drain} with a stack without stack.engines");
    let allowed = String::from("0, or a stack with engines, such as stack.preset = \"spdk\"");
    Broken::when(!drive.stack.has_engines(), keys, found, allowed)
}

/// What stages of engines do not have: requests that leave their thread, or stop one by one.
pub(super) fn apart(drive: &Drive) -> Option<Broken> {
    if !drive.stack.has_engines() {
        return None;
    }
    let beyond = |stage: &Stage| -> Option<&'static str> {
        let keys = [
            ("hand_over", stage.hand_over),
            ("lock_held = \"request\"", stage.lock_held == LockHeld::Request),
            ("lock_lines", stage.lock_lines > 0),
            ("submit_lines", stage.submit_lines > 0),
            ("complete_lines", stage.complete_lines > 0),
        ];
        keys.into_iter().find(|(_, is_given)| *is_given).map(|(key, _)| key)
    };
    let stage = drive.stack.stages.iter().find_map(|stage| Some((stage, beyond(stage)?)));
    if let Some((stage, key)) = stage {
        let found = format!("stack.stages \"{}\" has {key} in a stack with stack.engines", stage.name);
        return Broken::when(true, &["stack.stages", "stack.engines"], found, String::from("leave it out"));
    }
    Broken::when(
        drive.stack.copy_bytes_per_ns > 0.0,
        &["stack.copy_bytes_per_ns", "stack.engines"],
        String::from("stack.copy_bytes_per_ns in a stack with stack.engines"),
        String::from("0: direct I/O does not copy; a stage may have submit_page_ns or complete_page_ns"),
    )
}

/// Idle states are entered one deeper than the other, and are all that an interrupt meets.
pub(super) fn idle(drive: &Drive) -> Option<Broken> {
    let host = &drive.host;
    if host.idle_states == IdleState::None {
        return None;
    }
    let keys: &[&str] = &["host.idle_states", "host.idle_exit_ns", "host.c1_exit_ns", "host.c1e_residency_ns"];
    let states = host.idle_states();
    let deeper = |pair: &[(crate::time::Span, crate::time::Span)]| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1;
    if !host.idle_exit.is_zero() {
        let found = String::from("host.idle_exit_ns with host.idle_states");
        return Broken::when(true, keys, found, String::from("one of them: the states have exits of their own"));
    }
    Broken::when(
        !states.windows(2).all(deeper),
        keys,
        String::from("an idle state of the host takes longer to leave, or to be worth while, than a deeper one"),
        String::from("exits and residencies that rise from C1 over C1E to C6"),
    )
}
