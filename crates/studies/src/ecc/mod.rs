//! Error rates of the code of a sector in nine chips, measured by decoding damaged sectors, and the endurance of memory
//! cells that they allow.

mod answer;
mod question;
mod words;

pub use answer::{CellSpread, EccAnswer, ErrorRates, InjectedDamage, SampledProbability};
pub use question::{EccQuestion, EccTask, EccTaskResult};
