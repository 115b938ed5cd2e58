//! Drive files: the schema of every key, presets, reading with all problems at once, and explanation.
//!
//! A [`Drive`] that [`Drive::from_toml`] returns keeps every bound of [`schema`], so the models trust it.

mod checks;
pub(crate) mod document;
mod drive;
mod explain;
mod origin;
mod overrides;
pub mod presets;
pub mod problem;
mod reader;
pub mod schema;
mod section;
pub mod shipped;
pub(crate) mod suggest;
mod value;

#[cfg(test)]
mod tests;

pub use drive::{Drive, Fitted};
pub use overrides::Override;
pub use problem::{Problem, Problems};
pub use schema::{
    Acknowledge, Capi, Cxl, DataPattern, DataPointer, DcExpress, Duplex, Granularity, Host, Interface, Link,
    LinkAcknowledge, LockHeld, Media, Moneta, Nvme, Placement, Power, Pss, ReadMode, RootComplex, Stack, Stage,
    TagChoice, TagPool, Technology, Wait, WearLevelling,
};
