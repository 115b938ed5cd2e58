//! Transfers of a storage tier: by modelled drives if `phaselink_dynamo` has some installed, by equal shares of a
//! bandwidth otherwise.

use crate::engine::offload_transfer::{Direction, FairTransfers, Job};
use phaselink_dynamo::{DriveTransfers, TransferJob, TransferKind, open_installed};

pub(crate) enum TierTransfers {
    Fair(FairTransfers),
    Drives(Box<DriveTransfers>),
}

impl Default for TierTransfers {
    fn default() -> Self {
        open_installed().map_or_else(|| TierTransfers::Fair(FairTransfers::default()), |drives| TierTransfers::Drives(Box::new(drives)))
    }
}

impl TierTransfers {
    pub(crate) fn now(&self) -> f64 {
        match self {
            TierTransfers::Fair(transfers) => transfers.now(),
            TierTransfers::Drives(drives) => drives.now_ms(),
        }
    }

    pub(crate) fn has_client_jobs(&self, client: u64) -> bool {
        match self {
            TierTransfers::Fair(transfers) => transfers.has_client_jobs(client),
            TierTransfers::Drives(drives) => drives.has_jobs_of(client),
        }
    }

    pub(crate) fn submit(&mut self, job: Job) {
        match self {
            TierTransfers::Fair(transfers) => transfers.submit(job),
            TierTransfers::Drives(drives) => {
                let kind = match job.direction {
                    Direction::Read => TransferKind::Read,
                    Direction::Write => TransferKind::Write,
                };
                let (id, worker, ready_ms, bytes) = (job.id, job.client, job.ready, job.bytes as u64);
                drives.submit(TransferJob { id, worker, kind, ready_ms, bytes });
            }
        }
    }

    #[cfg_attr(not(test), allow(dead_code))]
    pub(crate) fn cancel(&mut self, id: u64) -> bool {
        match self {
            TierTransfers::Fair(transfers) => transfers.cancel(id),
            TierTransfers::Drives(drives) => drives.cancel(id),
        }
    }

    pub(crate) fn next_event(&self) -> Option<f64> {
        match self {
            TierTransfers::Fair(transfers) => transfers.next_event(),
            TierTransfers::Drives(drives) => drives.next_event_ms(),
        }
    }

    pub(crate) fn advance(&mut self, target: f64) -> Vec<(u64, f64)> {
        match self {
            TierTransfers::Fair(transfers) => transfers.advance(target),
            TierTransfers::Drives(drives) => drives.advance(target).iter().map(|job| (job.id, job.at_ms)).collect(),
        }
    }
}
