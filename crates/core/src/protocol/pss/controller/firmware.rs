//! Processor cores of the card, whose firmware takes a fixed time for each command.

use crate::time::{Span, Time};

/// Processor cores of the card. Each takes the next command, in order, as soon as it is free.
#[derive(Clone, Debug)]
pub(super) struct Firmware {
    free_at: Vec<Time>,
    command: Span,
}

impl Firmware {
    /// Returns `cores` idle cores, at least one, which take the time `command` for each command.
    pub(super) fn new(cores: u16, command: Span) -> Firmware {
        Firmware { free_at: vec![Time::ZERO; usize::from(cores.max(1))], command }
    }

    /// Queues a command for the core that is free first. Returns the times at which that core starts on the command, and
    /// at which the firmware has processed it.
    pub(super) fn work(&mut self, now: Time) -> [Time; 2] {
        let first = self.free_at.iter_mut().min().expect("a card has a core");
        let dispatched = now.max(*first);
        *first = dispatched + self.command;
        [dispatched, *first]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_firmware_cores_process_two_commands_at_once() {
        let mut firmware = Firmware::new(2, Span::from_us(10));
        let mut work = || firmware.work(Time::ZERO).map(|time| time.since(Time::ZERO).as_us());
        assert_eq!([work(), work(), work(), work()], [[0.0, 10.0], [0.0, 10.0], [10.0, 20.0], [10.0, 20.0]]);
    }
}
