//! The driver's end of a machine: callers whose own software calls the driver, and records of the requests that pass
//! there.
//!
//! A program that embeds a drive is its host's software. Its requests reach the driver at the instant of its call, and
//! complete when their completion is in host memory, as for a driver that polls. No simulated thread, stack or core is
//! in between.

use crate::drive::Drive;
use crate::engine::Engine;
use crate::ledger::{Stage, StageTimes};
use crate::request::{Io, NamedWritePlace, NextRequest, RequestId};
use crate::scheduler::Event;
use crate::time::Time;

/// Record of a request at the driver: the instants of its submission and completion there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverRecord {
    /// Number of the request in the order of issue, from 1.
    pub number: u64,
    /// Thread that submitted the request.
    pub thread: u16,
    /// Number of the drive that the request was for, where there are several.
    pub drive: u16,
    /// Operation, offset and length of the request.
    pub io: Io,
    /// Instant at which the request was handed to the driver.
    pub submitted: Time,
    /// Instant at which the driver saw the completion; `Time::NEVER` for a request that was still in flight at the end.
    pub completed: Time,
}

/// Software above the drivers, which submits the requests.
#[derive(Clone, Debug)]
pub(super) enum DriverEnd {
    /// Threads of the simulated host submit the requests.
    Host,
    /// Threads of the simulated host, whose requests are recorded with their numbers, up to a limit.
    Recorded { records: Vec<(u64, DriverRecord)>, limit: usize },
    /// Callers from outside the simulation, whose own software takes the place of the host's.
    Callers,
}

impl Engine {
    /// Returns an idle machine whose requests come from callers at the driver, by
    /// [`Input::DriverRequest`](super::Input::DriverRequest), for threads made by [`Engine::add_driver_caller`].
    pub fn for_driver_callers(drive: &Drive, seed: u64) -> Engine {
        let mut engine = Engine::new(&drive.polled(), seed);
        engine.driver_end = DriverEnd::Callers;
        engine
    }

    /// Adds a caller of the driver from outside, and returns the number of its thread. Thread i uses queue pair i,
    /// modulo their number.
    pub fn add_driver_caller(&mut self, iodepth: u32) -> u16 {
        self.add_queue_client(iodepth)
    }

    /// Keeps the stages of each completed request from outside, until they are taken with
    /// [`Engine::take_completed_stages`].
    pub fn keep_completed_stages(&mut self) {
        self.completed_stages = Some(Default::default());
    }

    /// Removes and returns the stages of the completion that [`Engine::take_completed`] returned last; `None` if stages
    /// are not kept.
    pub fn take_completed_stages(&mut self) -> Option<StageTimes> {
        self.completed_stages.as_mut()?.pop_front()
    }

    /// Submits the request of a caller to the driver at `now`.
    pub(super) fn submit_at_driver(&mut self, now: Time, thread: u16, drive: u16, io: Io, token: u32) {
        let requests = &mut self.shared.requests;
        requests.issued += 1;
        let (id, number) = (requests.occupy(), requests.issued);
        let next = NextRequest { io, due: now, drive, ends_commit: false, target: NamedWritePlace::Any };
        requests[id].open(number, next, now, thread, Some(token));
        self.submit(now, id);
        self.pass_on(now);
    }

    /// Cuts the power of a machine with one device and callers at its driver. Requests in flight are lost and never
    /// complete; the memory keeps what is in its cells. The device takes no requests before [`Engine::restart`].
    pub fn lose_power(&mut self, now: Time) {
        self.run_until(now);
        self.shared.scheduler.advance(now);
        self.shared.scheduler.retain(Event::is_of_host);
        self.shared.requests.forget_requests_in_flight();
        self.client_completed.clear();
        self.completed_stages.iter_mut().for_each(|stages| stages.clear());
        self.faults.iter_mut().for_each(|faults| faults.forget_requests(now));
        self.fabric.iter_mut().for_each(|fabric| fabric.forget_requests());
        self.devices[0].media.cut_power(now);
    }

    /// Restarts a device whose power was [cut](Engine::lose_power): connects driver and controller anew by an empty
    /// link.
    pub fn restart(&mut self, now: Time, drive: &Drive, seed: u64) {
        self.run_until(now);
        self.shared.scheduler.advance(now);
        self.reconnect_device(now, drive, seed, true);
    }

    /// Records the first `limit` requests that pass the drivers, with the instants of their submission and completion
    /// there.
    pub fn record_driver(&mut self, limit: usize) {
        self.driver_end = DriverEnd::Recorded { records: Vec::new(), limit };
    }

    /// Returns the requests that were recorded at the drivers, in the order of their submission.
    pub fn driver_records(&self) -> impl Iterator<Item = &DriverRecord> {
        let records = match &self.driver_end {
            DriverEnd::Recorded { records, .. } => &records[..],
            DriverEnd::Host | DriverEnd::Callers => &[],
        };
        records.iter().map(|(_, record)| record)
    }

    /// Records the submission of a request to a driver, unless the limit of records is reached.
    #[cold]
    #[inline(never)]
    pub(super) fn note_submission(&mut self, now: Time, id: RequestId) {
        let DriverEnd::Recorded { records, limit } = &mut self.driver_end else { return };
        if records.len() < *limit {
            let request = &self.shared.requests[id];
            let (thread, drive, io) = (request.thread, request.drive, request.io);
            let number = request.number;
            records.push((number, DriverRecord { number, thread, drive, io, submitted: now, completed: Time::NEVER }));
        }
    }

    /// Handles a completion that a driver has seen: ends the request of a caller, or records the completion and hands
    /// it to the simulated host.
    #[cold]
    #[inline(never)]
    pub(super) fn on_driver_completion(&mut self, now: Time, id: RequestId) {
        match &mut self.driver_end {
            DriverEnd::Callers => {
                self.shared.requests.charge_stage_until(Some(id), Stage::CoreWait, now);
                let end = self.shared.requests[id].ledger.cursor();
                assert_eq!(end, now, "a driver sees a completion after everything that the request was charged for");
                self.on_done(now, id);
            }
            DriverEnd::Recorded { records, .. } => {
                let number = self.shared.requests[id].number;
                if let Ok(place) = records.binary_search_by_key(&number, |(number, _)| *number) {
                    records[place].1.completed = now;
                } else if let Some((_, record)) = records.iter_mut().find(|(other, _)| *other == number) {
                    record.completed = now;
                }
                self.host.on_completed(now, id, &self.devices[0].driver, &mut self.shared);
            }
            DriverEnd::Host => self.host.on_completed(now, id, &self.devices[0].driver, &mut self.shared),
        }
    }
}
