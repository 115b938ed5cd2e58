//! Goals of `--precision`: figures of a run, and the relative precision to which they have to be known.

use crate::results::{Figure, tail_by_name};

/// Figures of a run that have to be known, and their relative precision: half width of the 95 % interval over the value.
#[derive(Clone, Copy, Debug)]
pub struct PrecisionGoal {
    /// Relative precision at which a figure counts as known.
    pub share: f64,
    /// Percentile that has to be known; `None` stands for mean and p99.
    pub tail: Option<&'static Figure>,
}

impl From<f64> for PrecisionGoal {
    fn from(share: f64) -> PrecisionGoal {
        PrecisionGoal { share, tail: None }
    }
}

impl PrecisionGoal {
    /// Reads a goal: a percentage for mean and p99 (`1%`), or a percentile with one (`p99.99=10%`, `read_p99_9_ns=5%`).
    ///
    /// # Errors
    /// A description of the allowed values.
    pub fn parse(text: &str) -> Result<PrecisionGoal, String> {
        let (name, percent) = text.split_once('=').map_or((None, text), |(name, percent)| (Some(name), percent));
        let percent: Option<f64> = percent.strip_suffix('%').and_then(|number| number.trim().parse().ok());
        let share = percent.filter(|percent| (0.01..=100.0).contains(percent)).map(|percent| percent / 100.0);
        let tail = name.map(|name| tail_by_name(name.trim()));
        match (share, tail) {
            (Some(share), None) => Ok(share.into()),
            (Some(share), Some(Some(figure))) => Ok(PrecisionGoal { share, tail: Some(figure) }),
            _ => Err(String::from(ALLOWED)),
        }
    }

    /// Returns the figures of the goal in words: `mean and p99`, or the percentile.
    pub fn figures(&self) -> &'static str {
        self.tail.map_or("mean and p99", |figure| figure.heading)
    }
}

/// Values of `--precision`.
const ALLOWED: &str = "per cent from 0.01% to 100%, as in 1%, or a percentile from p99 on with one, as in p99.99=10% or \
                       read_p99_9=5%";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_a_percentage_alone_or_with_a_percentile_by_any_of_its_names() {
        let read = |text: &str| PrecisionGoal::parse(text).map(|goal| (goal.share, goal.tail.map(|it| it.name)));
        assert_eq!(read("0.5%"), Ok((0.005, None)));
        for name in ["read p99.99", "read_p99_99", "read_p99_99_ns", "read-p99.99"] {
            assert_eq!(read(&format!("{name}=10%")), Ok((0.1, Some("read_p99_99_ns"))));
        }
        assert_eq!(read("p99.9=5%"), Ok((0.05, Some("p99_9_ns"))));
        for wrong in ["5", "0%", "p50=5%", "p99=5", "mean=1%", "=5%"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
