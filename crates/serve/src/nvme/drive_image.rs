//! State of a drive beside its bytes, which all its controllers share, on the way to another server: namespaces, the
//! latest sanitize operation, events, zones, placement handles, reservations and unreadable blocks.

use std::io;

use phaselink_core::protocol::nvme::rules::Limits;

use super::image::{ImageField, ImageReader, ImageRefusal};
use super::reservations::NamespaceReservations;
use super::subsystem::Subsystem;
use crate::device::store::{StateRecordTag, Store};

/// Records of the store that move, beside the unreadable ranges and the zones.
const RECORDS: [StateRecordTag; 4] =
    [StateRecordTag::Namespaces, StateRecordTag::Sanitize, StateRecordTag::Events, StateRecordTag::Placement];

/// State of a drive from another server, which has been checked and is not in force yet.
#[derive(Debug)]
pub struct MovedDrive {
    records: Vec<(StateRecordTag, Option<Vec<u8>>)>,
    unreadable: Option<Vec<u8>>,
    /// Record of the state of the namespaces' command set, such as zones.
    command_set: Option<Vec<u8>>,
    reservations: NamespaceReservations,
}

impl Subsystem {
    /// Appends the state of the drive to an image.
    ///
    /// # Errors
    /// If the store does not take the records of the present state.
    pub fn put_image(&self, store: &Store, image: &mut Vec<u8>) -> io::Result<()> {
        self.save(store)?;
        self.kind.save(store)?;
        self.save_event_log(store)?;
        RECORDS.into_iter().for_each(|tag| store.record(tag).put(image));
        store.record(StateRecordTag::Unreadable).put(image);
        store.command_set_state().record().put(image);
        self.reservations.put_image(image);
        Ok(())
    }
}

impl MovedDrive {
    /// Reads the state of a drive with these limits from an image, and checks that the drive with this store can have it.
    ///
    /// # Errors
    /// If a part is incomplete or invalid. Nothing has changed then.
    pub fn of_image(image: &mut ImageReader<'_>, limits: &Limits, store: &Store) -> Result<MovedDrive, ImageRefusal> {
        let mut records = Vec::new();
        for tag in RECORDS {
            records.push((tag, image.field::<Option<Vec<u8>>>()?));
        }
        let moved = MovedDrive {
            records,
            unreadable: image.field()?,
            command_set: image.field()?,
            reservations: NamespaceReservations::of_image(image)?,
        };
        moved.check(limits, store)?;
        Ok(moved)
    }

    /// Loads the records into a drive of the same limits that nobody uses.
    fn check(&self, limits: &Limits, store: &Store) -> Result<(), ImageRefusal> {
        let refusal = |error: io::Error| ImageRefusal(format!("the state of the drive is refused: {error}"));
        let trial =
            Store::in_memory(store.geometry()).map_err(|problem| refusal(io::Error::other(problem.to_string())))?;
        self.save(&trial).map_err(refusal)?;
        Subsystem::new(limits).load(&trial).map_err(refusal)?;
        if let Some(record) = self.unreadable.clone()
            && !trial.replace_unreadable(record).map_err(refusal)?
        {
            return Err(ImageRefusal::of_field("the list of unreadable blocks"));
        }
        let is_accepted = store.command_set_state().accepts(self.command_set.as_deref());
        is_accepted.then_some(()).ok_or_else(|| ImageRefusal::of_field("the record of zones"))
    }

    fn save(&self, store: &Store) -> io::Result<()> {
        let records = self.records.iter().filter_map(|(tag, record)| Some((*tag, record.clone()?)));
        records.into_iter().try_for_each(|(tag, record)| store.save_state_record(tag, record))
    }

    /// Puts the state in force for a drive and its store.
    ///
    /// # Errors
    /// If the disk refuses a record.
    pub fn put_in_force(self, subsystem: &Subsystem, store: &Store) -> io::Result<()> {
        self.save(store)?;
        if let Some(record) = self.unreadable {
            store.replace_unreadable(record)?;
        }
        store.command_set_state().replace(self.command_set.as_deref());
        subsystem.load(store)?;
        subsystem.reservations.replace_by(&self.reservations);
        // Reservations that persist must outlive this server, too.
        subsystem.reservations.save(store)?;
        subsystem.raise_version();
        Ok(())
    }
}
