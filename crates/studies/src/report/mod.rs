//! Formats an [`Outcome`](phaselink_core::ledger::Outcome) or a [`Trace`](phaselink_core::ledger::Trace) for people and programs: tables,
//! fio's JSON, ladders, timelines, pages with plots.

mod answer;
pub mod csv;
mod fio;
mod hgrm;
pub mod html;
pub mod json;
pub mod ladder;
pub mod perfetto;
mod prose;
pub mod summary;
pub mod table;
mod tails;
pub use crate::results::units;

pub use answer::{Answer, block_sizes, outside, parse_block_bytes, question_from_keys, read_question};
pub use hgrm::hgrm;
pub use html::html;
pub use json::{headed, json, served_benchmark_json, stage_mean_list};
pub use ladder::ladder;
pub use perfetto::perfetto;
pub use prose::Prose;
pub use summary::{requests, summary, summary_for_width};
pub use table::Table;
pub use tails::tail_table;
