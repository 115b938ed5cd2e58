//! Use of dies, channels and command buses of a flash drive, for utilisation.

use super::Flash;
use crate::ledger::PartUse;
use crate::media::timing::Bus;
use crate::time::{Span, Time};

impl Flash {
    /// Returns the use of dies, channels and command buses up to `now`. Work that is handed to them but comes later is not counted. A
    /// read of some planes of a die at rest counts with the share of these planes, as other reads may use the rest.
    pub fn uses(&self, now: Time) -> Vec<PartUse> {
        let planes = u64::from(self.layout.planes);
        let work = self.dies.iter().map(|die| die.work_done(now));
        let dies_busy = work.map(|work| work.whole + work.planes / planes).sum();
        let later = |buses: &[Bus]| -> Span { buses.iter().map(|bus| bus.promised_after(now)).sum() };
        let buses_busy = self.activity.buses_busy.saturating_sub(later(&self.buses));
        let channels = self.layout.channels;
        let commands = (!self.command_buses.is_empty()).then(|| PartUse {
            resource: "flash command buses",
            servers: channels,
            busy: self.command_buses_busy.saturating_sub(later(&self.command_buses)),
        });
        let both = [
            PartUse { resource: "flash dies", servers: channels * self.layout.dies_per_channel, busy: dies_busy },
            PartUse { resource: "flash channels", servers: channels, busy: buses_busy },
        ];
        both.into_iter().chain(commands).collect()
    }
}
