//! Description of a drive as plain values: one struct for each section of a drive file, with its keys, defaults and
//! bounds.
//!
//! A key is one line of a `section!`. The last word of a key's name is its unit; a struct field of type
//! [`Span`](crate::time::Span) omits that word (`one_way_ns` is read into `one_way`). [`crate::drive_file`] reads the
//! files and checks the conditions between keys. Every description that it returns keeps the bounds given here, so that
//! the models do not check them again.

mod data_placement;
mod dma;
pub mod document;
pub(crate) mod doubt;
pub mod engine;
mod fabric;
mod fault;
pub(crate) mod fault_action;
pub(crate) mod fault_timeline;
mod host;
mod inside;
mod key_values;
mod link;
pub(crate) mod list;
mod media;
pub mod origin;
pub mod part;
mod peer;
pub(crate) mod policies;
mod power;
pub(crate) mod refused;
mod root_complex;
pub mod section;
pub(crate) mod spans;
mod stack;
mod switch;
pub mod value;
mod volume;
mod zoning;

pub use data_placement::{DataPlacement, PlacementIsolation};
pub use dma::Dma;
pub use doubt::{UncertainConstant, UncertaintyCause};
pub use engine::{EngineOptions, IoEngine};
pub use fabric::{Fabric, Transport};
pub use fault::{Fault, FaultDigest, FaultDirection, FaultOperation, FaultSubject, PowerCutMoment};
pub use fault_action::FaultAction;
pub use fault_timeline::FaultTimeline;
pub use host::{CoreIdleState, Host, IdleStateTimes, IdleWakeTime, Wait};
pub use inside::{Buffer, CollectionReadPriority, Controller, Mapping, Precondition, Translation};
pub use key_values::KeyValues;
pub use link::{AcknowledgementTime, Duplex, Link, LinkEventGranularity};
pub use media::{Acknowledge, CommandBusSharing, Media, ReadablePages, Technology, WearLevelling, WrittenDataPattern};
pub use peer::{Peer, PeerMemoryContents};
pub use policies::TranslationPolicyName;
pub use power::Power;
pub use root_complex::{Placement, RootComplex};
pub use stack::{
    Application, Filesystem, IoScheduler, LockHoldPeriod, LockScope, Stack, StackStage, result_column_of_stage,
};
pub use switch::Switch;
pub use volume::{StartCredits, Volume, VolumeLimit};
pub use zoning::Zoning;
