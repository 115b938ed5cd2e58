//! Requests that are larger than a command, which drivers split into several.

use crate::time::Span;

/// Commands into which one request is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandSplit {
    /// Number of commands.
    pub commands: u32,
    /// Bytes of each command but the last.
    pub each_bytes: u32,
    /// Bytes of the last command.
    pub last_bytes: u32,
}

/// Reason why only a lower bound is known of a split request.
pub(crate) const OVERLAP: &str = "the commands of a large request overlap";

impl CommandSplit {
    /// Splits a request into commands of at most `max_transfer_kib`.
    pub(crate) fn new(bytes: u32, max_transfer_kib: u32) -> CommandSplit {
        let each_bytes = bytes.min(max_transfer_kib * 1024);
        let commands = bytes.div_ceil(each_bytes);
        CommandSplit { commands, each_bytes, last_bytes: bytes - each_bytes * (commands - 1) }
    }

    /// True if there are several commands.
    pub(crate) fn is_split(&self) -> bool {
        self.commands > 1
    }

    /// Size in bytes of every command.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = u32> + use<> {
        let (each_bytes, last_bytes) = (self.each_bytes, self.last_bytes);
        (1..self.commands).map(move |_| each_bytes).chain([last_bytes])
    }
}

impl CommandSplit {
    /// Least time that the memory adds to the time for which the request's data is on a wire. `in_all` is the time for
    /// which the memory's buses carry all of it. The last command may be the first to have its data there; a full
    /// command takes its own time beside that of the others' data, and the buses take theirs beside that of all.
    pub(crate) fn media_least(&self, in_all: Span, media: impl Fn(u32) -> Span, on_wire: impl Fn(u32) -> Span) -> Span {
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
    fn all_commands_but_the_last_are_full() {
        let split = CommandSplit::new(300 << 10, 128);
        assert_eq!(split, CommandSplit { commands: 3, each_bytes: 128 << 10, last_bytes: 44 << 10 });
        assert_eq!(split.sizes().sum::<u32>(), 300 << 10);
        assert!(split.is_split() && !CommandSplit::new(128 << 10, 128).is_split());
    }

    #[test]
    fn memory_time_overlaps_with_the_data_of_other_commands() {
        let (split, wire) = (CommandSplit::new(9 << 10, 4), |bytes| Span::from_ns(u64::from(bytes)));
        let least = |in_all_ns, each_ns| {
            let media = |bytes| Span::from_ns(if bytes == 4096 { each_ns } else { 500 });
            split.media_least(Span::from_ns(in_all_ns), media, wire).as_ns()
        };
        assert_eq!(least(100, 1000), 500.0);
        assert_eq!(least(100, 8000), 8000.0 - 5120.0);
        assert_eq!(least(20_000, 8000), 20_000.0 - 9216.0);
        let whole = CommandSplit::new(4096, 4);
        assert_eq!(whole.media_least(Span::ZERO, |_| Span::from_ns(70), wire), Span::from_ns(70));
    }
}
