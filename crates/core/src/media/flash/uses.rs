//! Busy time of dies, channels and command buses of a flash drive, from which utilisation is computed.

use super::Flash;
use crate::ledger::PartBusyTime;
use crate::media::timing::ChannelBus;
use crate::time::{Span, Time};

impl Flash {
    /// Returns the number and the busy time up to `now` of dies, channels and, if there are any, command buses and
    /// servers of write commands. Work that is queued for later does not count. A read of some planes of an otherwise idle die counts with the share of
    /// these planes, because other reads may use the other planes.
    pub fn uses(&self, now: Time) -> Vec<PartBusyTime> {
        let planes = u64::from(self.layout.planes);
        let work = self.dies.iter().map(|die| die.busy_time_until(now));
        let dies_busy = work.map(|work| work.whole + work.planes / planes).sum();
        let later = |buses: &[ChannelBus]| -> Span { buses.iter().map(|bus| bus.reserved_time_after(now)).sum() };
        let buses_busy = self.activity.buses_busy.saturating_sub(later(&self.buses));
        let channels = self.layout.channels;
        let commands = (!self.command_buses.is_empty()).then(|| PartBusyTime {
            resource: "flash command buses",
            servers: channels,
            busy: self.command_buses_busy.saturating_sub(later(&self.command_buses)),
        });
        let both = [
            PartBusyTime { resource: "flash dies", servers: channels * self.layout.dies_per_channel, busy: dies_busy },
            PartBusyTime { resource: "flash channels", servers: channels, busy: buses_busy },
        ];
        let admission = self.admission.used(now).map(|(servers, busy)| PartBusyTime {
            resource: "write buffer commands",
            servers,
            busy,
        });
        both.into_iter().chain(commands).chain(admission).collect()
    }
}
