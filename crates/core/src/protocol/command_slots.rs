//! Table of the commands in flight by slot. A slot is a tag, a command identifier, a descriptor or a fill buffer.
//!
//! Every protocol guarantees its host that a slot carries one command at a time and that each command completes once.
//! The table panics at a violation, in release builds too.

/// Table of a driver's command slots, each free or holding the one command in flight there.
#[derive(Clone, Debug)]
pub(super) struct CommandSlots<T> {
    slots: Vec<Option<T>>,
}

impl<T: Copy> CommandSlots<T> {
    /// Returns a table of `slots` command slots, all free.
    pub(super) fn new(slots: usize) -> CommandSlots<T> {
        CommandSlots { slots: vec![None; slots] }
    }

    /// Adds one free command slot at the end of the table.
    pub(super) fn grow(&mut self) {
        self.slots.push(None);
    }

    /// Returns the number of command slots in the table, free and occupied.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Stores a command in a free slot, where it is in flight from now on. Panics if the slot already holds a command
    /// in flight.
    #[inline(always)]
    pub(super) fn submit(&mut self, slot: usize, command: T) {
        let place = &mut self.slots[slot];
        if place.is_some() {
            panic_slot_occupied(slot);
        }
        *place = Some(command);
    }

    /// Frees a slot and returns the command that was in flight there. Panics if there was none.
    #[inline(always)]
    pub(super) fn complete(&mut self, slot: usize) -> T {
        match self.slots.get_mut(slot).and_then(Option::take) {
            Some(command) => command,
            None => panic_slot_empty(slot),
        }
    }

    /// Returns a copy of the command in flight in a slot; none if the slot is free or does not exist.
    pub(super) fn get(&self, slot: usize) -> Option<T> {
        self.slots.get(slot).copied().flatten()
    }

    /// Returns the command in flight in a slot, for modification. Panics if the slot is free.
    #[inline(always)]
    pub(super) fn get_mut(&mut self, slot: usize) -> &mut T {
        match self.slots.get_mut(slot) {
            Some(Some(command)) => command,
            _ => panic_slot_empty(slot),
        }
    }

    /// Returns all commands in flight, in the order of their slots.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// Returns the slots for direct modification, so that a test can corrupt the table.
    #[cfg(test)]
    pub(super) fn slots_for_tests(&mut self) -> &mut Vec<Option<T>> {
        &mut self.slots
    }
}

#[cold]
#[inline(never)]
fn panic_slot_occupied(slot: usize) -> ! {
    panic!("a command is submitted in slot {slot}, which carries another one in flight");
}

#[cold]
#[inline(never)]
fn panic_slot_empty(slot: usize) -> ! {
    panic!("slot {slot} is completed, which carries no command in flight");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_carries_one_command_after_another() {
        let mut commands = CommandSlots::new(2);
        for command in ['a', 'b'] {
            commands.submit(1, command);
            assert_eq!((commands.get(1), commands.get(0)), (Some(command), None));
            assert_eq!(commands.complete(1), command);
        }
    }

    #[test]
    #[should_panic(expected = "slot 1, which carries another one in flight")]
    fn occupied_slot_takes_no_other_command() {
        let mut commands = CommandSlots::new(2);
        commands.submit(1, 'a');
        commands.submit(1, 'b');
    }

    #[test]
    #[should_panic(expected = "slot 1 is completed, which carries no command in flight")]
    fn command_is_completed_only_once() {
        let mut commands = CommandSlots::new(2);
        commands.submit(1, 'a');
        commands.complete(1);
        commands.complete(1);
    }

    #[test]
    #[should_panic(expected = "slot 7 is completed")]
    fn slot_out_of_range_completes_nothing() {
        CommandSlots::<char>::new(2).complete(7);
    }
}
