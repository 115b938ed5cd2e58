//! Machines with several devices or switches: dispatch of events and requests to the devices.
//!
//! Devices are numbered from 0. The scheduler names the device that an event is of, and is told which device schedules
//! events when the host calls one. Interrupt vectors of one device follow those of the device before.

use super::Engine;
use crate::protocol::halves::{Controller as _, Driver as _};
use crate::protocol::splitting;
use crate::request::RequestId;
use crate::scheduler::{Event, SWITCHES};
use crate::time::Time;

impl Engine {
    /// Hands an event of the host, of one of several devices, or of the switches to the part that handles it.
    #[inline(never)]
    pub(super) fn dispatch_to_device(&mut self, now: Time, event: Event) {
        let source = self.shared.scheduler.source();
        if source == SWITCHES {
            return self.on_switch_event(now, event);
        }
        let device = match event {
            // The source of a handler's event is the host, so find the device by the interrupt vector.
            Event::Handled { vector } => usize::from(vector / self.vectors),
            _ => usize::from(source),
        };
        self.set_event_source(device);
        self.route(now, event, device);
        self.pass_on(now);
    }

    /// Makes `device` the source of the events that are scheduled from now on.
    pub(super) fn set_event_source(&mut self, device: usize) {
        self.shared.scheduler.set_source(device as u8);
        self.note_device_call(device);
    }

    /// Submits requests of one thread to the drivers of their devices. Requests for one device are submitted together.
    #[inline(never)]
    pub(super) fn submit_to_devices(&mut self, now: Time, requests: &[RequestId]) {
        if let [request] = requests {
            let device = self.device_of_request(*request);
            return self.submit_to_device(now, device, std::iter::once(*request));
        }
        let mut left: Vec<(usize, RequestId)> =
            requests.iter().map(|request| (self.device_of_request(*request), *request)).collect();
        left.sort_by_key(|(device, _)| *device);
        for of_device in left.chunk_by(|(one, _), (other, _)| one == other) {
            self.submit_to_device(now, of_device[0].0, of_device.iter().map(|(_, request)| *request));
        }
    }

    /// Returns the number of the device that a request goes to: its drive, or, where hosts share a device, the host of
    /// its thread.
    fn device_of_request(&self, request: RequestId) -> usize {
        let request = &self.shared.requests[request];
        match self.devices.is_shared() {
            true => usize::from(request.thread) % self.devices.count(),
            false => usize::from(request.drive),
        }
    }

    fn submit_to_device(&mut self, now: Time, device: usize, requests: impl Iterator<Item = RequestId>) {
        self.set_event_source(device);
        let (driver, mut ports) = self.devices.driver_side(device, &mut self.memory, &mut self.shared);
        splitting::submit_together(now, requests, driver, &mut ports);
    }

    /// Tells every device how far `thread` has consumed its completion queue (for example by a head doorbell).
    pub(super) fn acknowledge(&mut self, thread: u16) {
        for device in 0..self.devices.count() {
            if !self.is_alone {
                self.set_event_source(device);
            }
            let (driver, mut ports) = self.devices.driver_side(device, &mut self.memory, &mut self.shared);
            driver.acknowledge(thread, &mut ports);
        }
    }

    /// Turns interrupts off for the queue of `thread` in all devices, if the thread's I/O engine polls for completions.
    pub(super) fn disable_interrupts_for_polling(&mut self, thread: u16) {
        if self.fabric.is_none() && self.host.thread_polls_for_completions(thread) {
            for device in self.devices.iter_mut() {
                let queue = device.driver.begin_polling(thread);
                device.controller.spare_interrupts(queue);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::drive::Drive;
    use crate::drive_file::KeyOverride;
    use crate::engine::simulation::Simulation;
    use crate::ledger::Outcome;
    use crate::workload::fio;

    fn run(drives: u16, settings: &[&str], job: &[(&str, &str)]) -> Outcome {
        let overrides: Vec<KeyOverride> = settings.iter().map(|text| KeyOverride::parse(text).unwrap()).collect();
        let one = Drive::from_toml("test.toml", "preset = \"dram-card\"\n", &overrides).unwrap();
        let drive = Drive { drives, ..one };
        let jobs = fio::job_from_flags(job).unwrap().resolve(&drive.limits(), &Default::default()).unwrap();
        let mut simulation = Simulation::with_data(&drive, &jobs, 1).unwrap();
        while simulation.step(1 << 20) {}
        assert_eq!(simulation.data_problems(), [""; 0]);
        simulation.outcome()
    }

    #[test]
    fn lone_request_time_is_equal_on_each_of_several_drives() {
        let stacks = [&["host.variation=0"][..], &["host.variation=0", "stack.preset=linux-6", "nvme.interrupts=true"]];
        for settings in stacks {
            let job = [("rw", "randread"), ("bs", "4k"), ("number_ios", "200")];
            let [one, four] = [1, 4].map(|drives| run(drives, settings, &job));
            assert_eq!(one.elapsed, four.elapsed, "{settings:?}");
            assert_eq!(one.cpu.interrupts, four.cpu.interrupts, "{settings:?}");
        }
    }

    #[test]
    fn drive_limits_multiply_and_each_drive_has_its_own_data() {
        let job = [
            ("rw", "randrw"),
            ("bs", "4k"),
            ("size", "1m"),
            ("iodepth", "128"),
            ("numjobs", "4"),
            ("number_ios", "2000"),
        ];
        let settings =
            ["host.variation=0", "media.channels=1", "controller.read_core_ns=2000", "controller.write_core_ns=2000"];
        let [one, three] = [1, 3].map(|drives| run(drives, &settings, &job));
        let ratio = three.iops() / one.iops();
        assert!((2.7..3.1).contains(&ratio), "{ratio}");
    }

    /// At a switch that many drives share, the data of one drive is cut for that of others, and its completion takes
    /// another link.
    #[test]
    fn completion_arrives_after_its_data_across_a_switch() {
        let settings = [
            "drives=16",
            "switch.drives=16",
            "peer.holds=data",
            "peer.link_generation=4",
            "peer.payload_bytes=64",
            "peer.memory_write_ns=100",
            "root_complex.write_ns=0",
        ];
        let job = [("rw", "randread"), ("bs", "4k"), ("numjobs", "16"), ("number_ios", "60")];
        assert_eq!(run(16, &settings, &job).ios(), 16 * 60);
    }
}
