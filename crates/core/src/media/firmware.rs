//! The drive's own processors: each command takes one of them for a while, and then passes logic that works on many
//! commands at a time.

use crate::config;
use crate::request::DataDirection;
use crate::time::{Span, Time};

/// The processors, each free from some instant on.
#[derive(Clone, Debug)]
pub struct Firmware {
    free_at: Vec<Time>,
    read: Cost,
    write: Cost,
}

#[derive(Clone, Copy, Debug)]
struct Cost {
    core: Span,
    pipeline: Span,
}

impl Firmware {
    /// The processors of a description; none if they take no time.
    pub fn of(controller: &config::Controller) -> Option<Firmware> {
        let read = Cost { core: controller.read_core, pipeline: controller.read_pipeline };
        let write = Cost { core: controller.write_core, pipeline: controller.write_pipeline };
        let takes_time = [read, write].iter().any(|cost| !(cost.core + cost.pipeline).is_zero());
        takes_time.then(|| Firmware { free_at: vec![Time::ZERO; controller.cores.into()], read, write })
    }

    /// No processor has anything to do any more.
    pub fn cut_power(&mut self) {
        self.free_at.fill(Time::ZERO);
    }

    /// When a command that comes now has passed.
    pub fn admit(&mut self, now: Time, direction: DataDirection) -> Time {
        let Cost { core, pipeline } = if direction == DataDirection::Read { self.read } else { self.write };
        if core.is_zero() {
            return now + pipeline;
        }
        let first = self.free_at.iter_mut().min().expect("a drive has a processor");
        *first = now.max(*first) + core;
        *first + pipeline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_wait_for_a_processor_but_not_for_the_pipeline() {
        let controller = config::Controller {
            cores: 2,
            read_core: Span::from_us(2),
            read_pipeline: Span::from_us(20),
            ..config::Controller::default()
        };
        let mut firmware = Firmware::of(&controller).expect("takes time");
        let mut admit =
            |us, direction| firmware.admit(Time::ZERO + Span::from_us(us), direction).since(Time::ZERO).as_us();
        assert_eq!(admit(0, DataDirection::Read), 22.0);
        assert_eq!(admit(0, DataDirection::Read), 22.0);
        assert_eq!(admit(1, DataDirection::Read), 24.0);
        assert_eq!(admit(1, DataDirection::Write), 1.0);
        assert_eq!(admit(4, DataDirection::Read), 26.0);
        assert!(Firmware::of(&config::Controller::default()).is_none());
    }
}
