//! Use of dies and channels of a flash drive, for utilisation.

use super::Flash;
use crate::ledger::PartUse;
use crate::time::{Span, Time};

impl Flash {
    /// Returns the use of dies and channels up to `now`. Work that is handed to them but comes later is not counted. A
    /// read of some planes of a die at rest counts with the share of these planes, as other reads may use the rest.
    pub fn uses(&self, now: Time) -> [PartUse; 2] {
        let planes = u64::from(self.layout.planes);
        let work = self.dies.iter().map(|die| die.work_done(now));
        let dies_busy = work.map(|work| work.whole + work.planes / planes).sum();
        let later: Span = self.buses.iter().map(|bus| bus.promised_after(now)).sum();
        let buses_busy = self.activity.buses_busy.saturating_sub(later);
        [
            PartUse {
                resource: "flash dies",
                servers: self.layout.channels * self.layout.dies_per_channel,
                busy: dies_busy,
            },
            PartUse { resource: "flash channels", servers: self.layout.channels, busy: buses_busy },
        ]
    }
}
