//! Processors of the drive: each command occupies one of them for a while, and then passes a pipeline that works on
//! many commands at a time.

use super::spread::around;
use crate::config;
use crate::random::Random;
use crate::request::DataDirection;
use crate::time::{Span, Time};

/// Processors of a drive, with the time at which each is free and the time that a read or write command takes.
#[derive(Clone, Debug)]
pub struct DriveProcessors {
    free_at: Vec<Time>,
    read: ProcessorCommandCost,
    write: ProcessorCommandCost,
    /// Random part of the time in the pipeline; `None` if all commands take the same time.
    spread: Option<PipelineSpread>,
}

/// Random part of a command's time in the pipeline, with the random numbers that draw it.
#[derive(Clone, Debug)]
struct PipelineSpread {
    /// Largest deviation, as a share of the mean.
    share: f64,
    /// Mean of the exponentially distributed time on top.
    tail: Span,
    random: Random,
}

impl PipelineSpread {
    fn draw(&mut self, mean: Span) -> Span {
        let time = around(mean, self.share, &mut self.random);
        if self.tail.is_zero() { time } else { time + self.tail.scale(self.random.exponential()) }
    }
}

/// Times of one command in the drive's processors.
#[derive(Clone, Copy, Debug)]
pub struct DriveProcessorTimes {
    /// Time at which a processor starts on the command, which has waited until then if all were busy.
    pub dispatched: Time,
    /// Time at which the command has passed processor and pipeline.
    pub admitted: Time,
}

/// Time that a command costs in the drive's processors.
#[derive(Clone, Copy, Debug)]
struct ProcessorCommandCost {
    /// Time for which a command occupies a processor, which limits throughput.
    core: Span,
    /// Time of a command in the pipeline behind the processor, which adds latency but does not limit throughput.
    pipeline: Span,
}

impl DriveProcessors {
    /// Creates the processors of a controller configuration; `None` if commands take no time in them.
    pub fn of(controller: &config::Controller) -> Option<DriveProcessors> {
        let read = ProcessorCommandCost { core: controller.read_core, pipeline: controller.read_pipeline };
        let write = ProcessorCommandCost { core: controller.write_core, pipeline: controller.write_pipeline };
        let takes_time =
            [read, write].iter().any(|cost| !(cost.core + cost.pipeline + controller.pipeline_tail).is_zero());
        takes_time.then(|| DriveProcessors {
            free_at: vec![Time::ZERO; controller.cores.into()],
            read,
            write,
            spread: None,
        })
    }

    /// Returns these processors with random pipeline times, as the controller configuration says; `seed` determines the
    /// random numbers.
    pub fn with_random_pipeline(self, controller: &config::Controller, seed: u64) -> DriveProcessors {
        let (share, tail) = (controller.pipeline_spread, controller.pipeline_tail);
        let random = || Random::stream(seed, "spread of a drive's pipeline");
        let spread = controller.has_spread().then(|| PipelineSpread { share, tail, random: random() });
        DriveProcessors { spread, ..self }
    }

    /// Makes all processors idle, as after a loss of power: the commands in them are lost.
    pub fn cut_power(&mut self) {
        self.free_at.fill(Time::ZERO);
    }

    /// Occupies the processor that is free first for a command that comes at `now`. Returns the times at which that
    /// processor starts, and at which the command has passed processor and pipeline.
    pub fn admit(&mut self, now: Time, direction: DataDirection) -> DriveProcessorTimes {
        let ProcessorCommandCost { core, pipeline } =
            if direction == DataDirection::Read { self.read } else { self.write };
        let pipeline = self.spread.as_mut().map_or(pipeline, |spread| spread.draw(pipeline));
        if core.is_zero() {
            return DriveProcessorTimes { dispatched: now, admitted: now + pipeline };
        }
        let first = self.free_at.iter_mut().min().expect("a drive has at least one processor");
        let dispatched = now.max(*first);
        *first = dispatched + core;
        DriveProcessorTimes { dispatched, admitted: *first + pipeline }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_pipeline_keeps_its_mean() {
        let controller = config::Controller {
            read_pipeline: Span::from_us(4),
            pipeline_spread: 0.25,
            ..config::Controller::default()
        };
        let mut firmware = DriveProcessors::of(&controller).expect("takes time").with_random_pipeline(&controller, 1);
        let mut admit = || firmware.admit(Time::ZERO, DataDirection::Read).admitted.since(Time::ZERO).as_us();
        let times: Vec<f64> = (0..100_000).map(|_| admit()).collect();
        assert!(times.iter().all(|time| (3.0..=5.0).contains(time)));
        assert!((times.iter().sum::<f64>() / 1e5 - 4.0).abs() < 0.01);
    }

    #[test]
    fn pipeline_tail_is_exponential() {
        let controller = config::Controller {
            write_pipeline: Span::from_us(4),
            pipeline_tail: Span::from_us(2),
            ..config::Controller::default()
        };
        let mut firmware = DriveProcessors::of(&controller).expect("takes time").with_random_pipeline(&controller, 1);
        let mut admit = || firmware.admit(Time::ZERO, DataDirection::Write).admitted.since(Time::ZERO).as_us();
        let mut times: Vec<f64> = (0..100_000).map(|_| admit() - 4.0).collect();
        times.sort_by(f64::total_cmp);
        assert!((times.iter().sum::<f64>() / 1e5 - 2.0).abs() < 0.03);
        // The quantile of an exponential distribution is its mean times -ln(1 - quantile).
        for (quantile, place) in [(0.5, 50_000), (0.99, 99_000)] {
            let expected = -2.0 * f64::ln(1.0 - quantile);
            assert!((times[place] / expected - 1.0).abs() < 0.04, "{quantile}: {} us, not {expected} us", times[place]);
        }
    }

    #[test]
    fn commands_queue_for_processors_but_not_for_the_pipeline() {
        let controller = config::Controller {
            cores: 2,
            read_core: Span::from_us(2),
            read_pipeline: Span::from_us(20),
            ..config::Controller::default()
        };
        let mut firmware = DriveProcessors::of(&controller).expect("takes time");
        let mut admit = |us, direction| {
            let times = firmware.admit(Time::ZERO + Span::from_us(us), direction);
            [times.dispatched, times.admitted].map(|time| time.since(Time::ZERO).as_us())
        };
        assert_eq!(admit(0, DataDirection::Read), [0.0, 22.0]);
        assert_eq!(admit(0, DataDirection::Read), [0.0, 22.0]);
        assert_eq!(admit(1, DataDirection::Read), [2.0, 24.0]);
        assert_eq!(admit(1, DataDirection::Write), [1.0, 1.0]);
        assert_eq!(admit(4, DataDirection::Read), [4.0, 26.0]);
        assert!(DriveProcessors::of(&config::Controller::default()).is_none());
    }
}
