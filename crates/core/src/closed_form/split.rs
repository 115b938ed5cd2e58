//! Requests larger than the maximum transfer size, which drivers split into several commands.

use crate::time::Span;

/// Commands into which a driver splits one request; all but the last are equally large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandSplit {
    /// Number of commands into which the request is split.
    pub commands: u32,
    /// Bytes of each command of a split request, except for the last one.
    pub each_bytes: u32,
    /// Bytes of the last command of a split request.
    pub last_bytes: u32,
}

/// Reason in reports why only a lower bound of a split request's latency is known.
pub(crate) const OVERLAP: &str = "the commands of a large request overlap";

impl CommandSplit {
    /// Splits a request of `bytes` into commands of at most `max_transfer_kib` KiB.
    pub(crate) fn new(bytes: u32, max_transfer_kib: u32) -> CommandSplit {
        let each_bytes = bytes.min(max_transfer_kib * 1024);
        let commands = bytes.div_ceil(each_bytes);
        CommandSplit { commands, each_bytes, last_bytes: bytes - each_bytes * (commands - 1) }
    }

    /// True if the request needs more than one command.
    pub(crate) fn needs_several_commands(&self) -> bool {
        self.commands > 1
    }

    /// Returns the sizes in bytes of all commands of the request, in order.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = u32> + use<> {
        let (each_bytes, last_bytes) = (self.each_bytes, self.last_bytes);
        (1..self.commands).map(move |_| each_bytes).chain([last_bytes])
    }
}

impl CommandSplit {
    /// Returns the least time that the memory adds to the wire time of a split request's data. `media` and `on_wire`
    /// give the times of a command by its bytes; `in_all` is the time of all data on the memory's buses. The last
    /// command's data may be ready first. A full command overlaps with the wire time of the others, and the buses with
    /// that of all.
    pub(crate) fn least_media_time(
        &self,
        in_all: Span,
        media: impl Fn(u32) -> Span,
        on_wire: impl Fn(u32) -> Span,
    ) -> Span {
        let all: Span = self.sizes().map(&on_wire).sum();
        let others = all - on_wire(self.each_bytes);
        let of_full = media(self.each_bytes).saturating_sub(others);
        media(self.last_bytes).max(of_full).max(in_all.saturating_sub(all))
    }
}

#[cfg(test)]
mod tests {
    use super::CommandSplit;
    use crate::time::Span;

    #[test]
    fn all_split_commands_but_the_last_are_full() {
        let split = CommandSplit::new(300 << 10, 128);
        assert_eq!(split, CommandSplit { commands: 3, each_bytes: 128 << 10, last_bytes: 44 << 10 });
        assert_eq!(split.sizes().sum::<u32>(), 300 << 10);
        assert!(split.needs_several_commands() && !CommandSplit::new(128 << 10, 128).needs_several_commands());
    }

    #[test]
    fn split_command_memory_time_overlaps_with_data() {
        let (split, wire) = (CommandSplit::new(9 << 10, 4), |bytes| Span::from_ns(u64::from(bytes)));
        let least = |in_all_ns, each_ns| {
            let media = |bytes| Span::from_ns(if bytes == 4096 { each_ns } else { 500 });
            split.least_media_time(Span::from_ns(in_all_ns), media, wire).as_ns()
        };
        assert_eq!(least(100, 1000), 500.0);
        assert_eq!(least(100, 8000), 8000.0 - 5120.0);
        assert_eq!(least(20_000, 8000), 20_000.0 - 9216.0);
        let whole = CommandSplit::new(4096, 4);
        assert_eq!(whole.least_media_time(Span::ZERO, |_| Span::from_ns(70), wire), Span::from_ns(70));
    }
}
