//! Weighted round robin arbitration with an urgent priority class (Base Specification 2.0, section 3.4.4.2).
//!
//! Commands of urgent queues come first, as long as there are any. The other classes share what is left: in each round, up to so many
//! commands of each class are fetched as its weight says, and at one time no more of a queue than the arbitration burst. Queues of a class
//! take turns. Each set of queues, which one thread owns, is arbitrated by itself.

/// Priority class of a submission queue (QPRIO), in the order in which classes are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueuePriority {
    /// Served before all others.
    #[default]
    Urgent = 0,
    /// Weight HPW.
    High = 1,
    /// Weight MPW.
    Medium = 2,
    /// Weight LPW.
    Low = 3,
}

impl QueuePriority {
    /// Classes in the order in which they are served.
    pub const ALL: [QueuePriority; 4] =
        [QueuePriority::Urgent, QueuePriority::High, QueuePriority::Medium, QueuePriority::Low];

    /// Returns the class that dword 11 of Create I/O Submission Queue names (section 5.5).
    pub fn of(dword11: u32) -> QueuePriority {
        QueuePriority::ALL[(dword11 >> 1 & 3) as usize]
    }
}

/// Value of AB without a limit of commands.
const NO_LIMIT: u32 = 0b111;

/// Weights and burst of weighted round robin arbitration, with the turns of each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arbitration {
    /// Feature Arbitration (section 5.27.1.1): burst, and weights of the classes low, medium and high.
    feature: u32,
    /// Queue of each class that was served last.
    last: [u16; 4],
}

impl Arbitration {
    /// Returns the arbitration with the value of the feature Arbitration.
    pub fn new(feature: u32) -> Arbitration {
        Arbitration { feature, last: [0; 4] }
    }

    /// Takes over another value of the feature.
    pub fn set(&mut self, feature: u32) {
        self.feature = feature;
    }

    /// Returns the number of commands of a class that a round fetches; of the urgent class, without a limit.
    pub fn round(&self, class: QueuePriority) -> u32 {
        let weight = |shift: u32| (self.feature >> shift & 0xff) + 1;
        match class {
            QueuePriority::Urgent => u32::MAX,
            QueuePriority::High => weight(24),
            QueuePriority::Medium => weight(16),
            QueuePriority::Low => weight(8),
        }
    }

    /// Returns the most commands of one queue that are fetched at one time (AB).
    pub fn burst(&self) -> u32 {
        match self.feature & NO_LIMIT {
            NO_LIMIT => u32::MAX,
            shift => 1 << shift,
        }
    }

    /// Returns the queue of a class whose turn it is, of the identifiers from 1 to below `end`: the next one behind the one that was served
    /// last for which `is_ready` holds.
    pub fn take_turn(&mut self, class: QueuePriority, end: u16, mut is_ready: impl FnMut(u16) -> bool) -> Option<u16> {
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
    fn weights_and_burst_are_those_of_the_feature() {
        let arbitration = Arbitration::new(7 << 24 | 3 << 16 | 2);
        assert_eq!(QueuePriority::ALL.map(|class| arbitration.round(class)), [u32::MAX, 8, 4, 1]);
        assert_eq!([0, 2, 6, 7].map(|value| Arbitration::new(value).burst()), [1, 4, 64, u32::MAX]);
        assert_eq!([0, 1, 2, 3].map(|value| QueuePriority::of(value << 1 | 1)), QueuePriority::ALL);
    }

    #[test]
    fn queues_of_a_class_take_turns_and_idle_ones_are_passed_over() {
        let mut arbitration = Arbitration::new(0);
        let mut turns = |ready: &[u16]| -> Vec<Option<u16>> {
            (0..4).map(|_| arbitration.take_turn(QueuePriority::High, 6, |queue| ready.contains(&queue))).collect()
        };
        assert_eq!(turns(&[1, 3, 5]), [Some(1), Some(3), Some(5), Some(1)]);
        assert_eq!(turns(&[1]), [Some(1); 4]);
        assert_eq!(turns(&[]), [None; 4]);
        assert_eq!(turns(&[2, 5]), [Some(2), Some(5), Some(2), Some(5)]);
    }
}
