//! Weighted round robin arbitration with an urgent priority class (Base Specification 2.0, section 3.4.4.2).
//!
//! Commands of urgent queues are fetched first, as long as there are any. The other classes share the rest in rounds:
//! in each, the weight of a class limits the number of its commands. Queues of a class take turns, each with at most a
//! burst of commands. Each set of queues that one thread owns is arbitrated by itself.

use phaselink_core::number::index;

/// Priority class of a submission queue (QPRIO), from the first one served to the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueuePriorityClass {
    /// Class Urgent, which is served before all others.
    #[default]
    Urgent = 0,
    /// Class High, with weight HPW.
    High = 1,
    /// Class Medium, with weight MPW.
    Medium = 2,
    /// Class Low, with weight LPW.
    Low = 3,
}

impl QueuePriorityClass {
    /// Priority classes in the order in which they are served.
    pub const ALL: [QueuePriorityClass; 4] =
        [QueuePriorityClass::Urgent, QueuePriorityClass::High, QueuePriorityClass::Medium, QueuePriorityClass::Low];

    /// Returns the priority class with this value of QPRIO in Create I/O Submission Queue (section 5.5).
    ///
    /// # Panics
    /// If the value has more than two bits.
    pub fn of(priority: u32) -> QueuePriorityClass {
        QueuePriorityClass::ALL[index(priority)]
    }
}

/// Value of the arbitration burst (AB) that means no limit.
const NO_LIMIT: u32 = 0b111;

/// State of weighted round robin arbitration: weights, burst, and the queue of each class that was served last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightedRoundRobin {
    /// Value of the feature Arbitration (section 5.27.1.1): burst, and weights of the classes low, medium and high.
    feature: u32,
    /// Identifier of the queue that was served last, for each priority class; 0 if none was.
    last: [u16; 4],
}

impl WeightedRoundRobin {
    /// Returns an arbitration with this value of the feature Arbitration, before any queue was served.
    pub fn new(feature: u32) -> WeightedRoundRobin {
        WeightedRoundRobin { feature, last: [0; 4] }
    }

    /// Sets the value of the feature Arbitration: weights and burst.
    pub fn set(&mut self, feature: u32) {
        self.feature = feature;
    }

    /// Returns the most commands of a priority class that one arbitration round fetches. The urgent class has no limit.
    pub fn round(&self, class: QueuePriorityClass) -> u32 {
        let weight = |shift: u32| (self.feature >> shift & 0xff) + 1;
        match class {
            QueuePriorityClass::Urgent => u32::MAX,
            QueuePriorityClass::High => weight(24),
            QueuePriorityClass::Medium => weight(16),
            QueuePriorityClass::Low => weight(8),
        }
    }

    /// Returns the most commands that are fetched from one queue before the next queue has its turn (AB).
    pub fn burst(&self) -> u32 {
        match self.feature & NO_LIMIT {
            NO_LIMIT => u32::MAX,
            shift => 1 << shift,
        }
    }

    /// Returns the next submission queue of a class to be served, or none, and records it as served last. Candidates
    /// are the identifiers from 1 to `end` - 1 for which `is_ready` is true, in a circle from the one behind the last.
    pub fn take_turn(
        &mut self,
        class: QueuePriorityClass,
        end: u16,
        mut is_ready: impl FnMut(u16) -> bool,
    ) -> Option<u16> {
        let last = &mut self.last[class as usize];
        let behind = (*last + 1).max(1)..end;
        let queue = behind.chain(1..end.min(*last + 1)).find(|queue| is_ready(*queue))?;
        *last = queue;
        Some(queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arbitration_weights_come_from_the_feature() {
        let arbitration = WeightedRoundRobin::new(7 << 24 | 3 << 16 | 2);
        assert_eq!(QueuePriorityClass::ALL.map(|class| arbitration.round(class)), [u32::MAX, 8, 4, 1]);
        assert_eq!([0, 2, 6, 7].map(|value| WeightedRoundRobin::new(value).burst()), [1, 4, 64, u32::MAX]);
        assert_eq!([0, 1, 2, 3].map(QueuePriorityClass::of), QueuePriorityClass::ALL);
    }

    #[test]
    fn queues_of_a_class_rotate_and_idle_ones_are_skipped() {
        let mut arbitration = WeightedRoundRobin::new(0);
        let mut turns = |ready: &[u16]| -> Vec<Option<u16>> {
            (0..4).map(|_| arbitration.take_turn(QueuePriorityClass::High, 6, |queue| ready.contains(&queue))).collect()
        };
        assert_eq!(turns(&[1, 3, 5]), [Some(1), Some(3), Some(5), Some(1)]);
        assert_eq!(turns(&[1]), [Some(1); 4]);
        assert_eq!(turns(&[]), [None; 4]);
        assert_eq!(turns(&[2, 5]), [Some(2), Some(5), Some(2), Some(5)]);
    }
}
