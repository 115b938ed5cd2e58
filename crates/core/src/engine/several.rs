//! Several drives in one host.
//!
//! The engine has the host and the first drive. Every other drive is an engine too, with a link, root port, controller and
//! memory of its own, whose host runs nothing: it relays what its driver hears of. A request for such a drive is kept twice,
//! by the host and, while it is under way there, by the drive, with whose account of that time the host's then goes on.
//! There is one clock: of all that is to come anywhere, the earliest happens next. Where drives stand behind switches, packets
//! go through those between the links and the root complexes (switched.rs); one drive behind a switch counts as several.

use super::{Engine, Goal};
use crate::drive::Drive;
use crate::ledger::WireUse;
use crate::link::switch::Switches;
use crate::protocol::halves::{Controller as _, Driver as _};
use crate::protocol::splitting;
use crate::random::mix;
use crate::request::{Next, Request, RequestId};
use crate::time::Time;
use crate::tlp::Direction;

/// What a drive's driver has heard of, for the host that runs it.
#[derive(Clone, Debug, Default)]
pub(super) struct Relay {
    /// Vectors of interrupt messages.
    pub messages: Vec<u16>,
    /// Requests that are complete.
    pub completed: Vec<RequestId>,
}

/// The drives beside the first, and the switches of all.
#[derive(Clone, Debug)]
pub(super) struct Others {
    pub drives: Vec<Engine>,
    pub switches: Option<Switches>,
    /// Interrupt vectors of each drive; those of one follow those of the other.
    vectors: u16,
}

impl Others {
    /// Those of a description with several drives, or with switches; each drive has chances of its own.
    pub(super) fn of(drive: &Drive, seed: u64) -> Option<Box<Others>> {
        let one = drive.alone();
        let other = |number: u16| {
            let engine = Engine::new(&one, mix(seed.wrapping_add(number.into())));
            Engine { relay: Some(Box::default()), others: None, ..engine }
        };
        let vectors = drive.limits().queue_pairs as u16;
        let Drive { switch, peer, link, root_complex, drives, .. } = drive;
        let switches = Switches::of(switch, peer, link, root_complex.write_accept, *drives);
        let is_needed = drive.drives > 1 || switches.is_some();
        is_needed.then(|| Box::new(Others { drives: (1..drive.drives).map(other).collect(), switches, vectors }))
    }

    /// The one with the earliest event, and when that is.
    pub(super) fn next(&self) -> Option<(Time, usize)> {
        let places = self.drives.iter().enumerate();
        places.filter_map(|(place, other)| Some((other.next_at()?, place))).min()
    }
}

impl Engine {
    /// As [`Engine::handle`], of all drives.
    #[cold]
    pub(super) fn handle_several(&mut self, events: u64, until: Time, goal: Goal) -> bool {
        for _ in 0..events {
            if self.is_reached(goal) {
                return false;
            }
            let own = self.shared.scheduler.next_at();
            let other = self.others.as_ref().and_then(|others| others.next());
            let passing = self.next_at_switches();
            let first = own.into_iter().chain(other.map(|(at, _)| at)).min();
            match (own, other) {
                _ if passing.is_some_and(|at| at <= until && first.is_none_or(|first| at < first)) => {
                    self.handle_switches()
                }
                (own, Some((at, place))) if own.is_none_or(|own| at < own) && at <= until => {
                    self.handle_other(at, place)
                }
                (Some(own), _) if own <= until => {
                    self.handle_next();
                    self.pass_all_on(own);
                }
                _ => return false,
            }
        }
        !self.is_over()
    }

    /// The next event of this drive.
    fn handle_next(&mut self) {
        self.handle_up_to(self.shared.scheduler.events + 1, Time::NEVER, Goal::Time);
    }

    /// The next event of another drive, at `now`.
    fn handle_other(&mut self, now: Time, place: usize) {
        if let Some(others) = &mut self.others {
            others.drives[place].handle_next();
            self.pass_on(now, place + 1);
            self.hear(now, place);
        }
    }

    /// The host hears what another drive's driver has.
    pub(super) fn hear(&mut self, now: Time, place: usize) {
        let Engine { others, host, driver, shared, .. } = self;
        let Some(others) = others else { return };
        let vectors = others.vectors;
        let other = &mut others.drives[place];
        let Some(relay) = &mut other.relay else { return };
        shared.scheduler.advance(now);
        for vector in relay.messages.drain(..) {
            host.on_message(now, vector + (place as u16 + 1) * vectors, shared);
        }
        for twin in relay.completed.drain(..) {
            let done = &other.shared.requests[twin];
            let request = done.token.expect("whoever hands a request over gives its name");
            shared.requests[request].ledger.go_on(&done.ledger);
            other.shared.requests.vacate(twin);
            host.on_completed(now, request, driver, shared);
        }
    }

    /// Requests of one thread go down to the drivers of their drives, each of which is told of its own together.
    #[cold]
    pub(super) fn submit_to_drives(&mut self, now: Time, requests: &[RequestId]) {
        let Engine { driver, link, shared, .. } = self;
        let of_first = requests.iter().copied().filter(|request| shared.requests[*request].drive == 0);
        let own: Vec<RequestId> = of_first.collect();
        splitting::submit_together(now, own.into_iter(), driver, link, shared);
        let Some(others) = &mut self.others else { return };
        for (place, other) in others.drives.iter_mut().enumerate() {
            let drive = place as u16 + 1;
            let own = requests.iter().copied().filter(|request| self.shared.requests[*request].drive == drive);
            let twins: Vec<RequestId> =
                own.map(|request| other.take_over(now, request, &self.shared.requests[request])).collect();
            let Engine { driver, link, shared, .. } = other;
            splitting::submit_together(now, twins.into_iter(), driver, link, shared);
        }
    }

    /// Keep a request of the host while it is under way here.
    fn take_over(&mut self, now: Time, name: RequestId, request: &Request) -> RequestId {
        let requests = &mut self.shared.requests;
        self.shared.scheduler.advance(now);
        requests.issued += 1;
        let (id, number) = (requests.occupy(), requests.issued);
        let next = Next { io: request.io, due: now, drive: request.drive };
        requests[id].open(number, next, now, request.thread, Some(name));
        id
    }

    /// The handler of an interrupt has run: whether it was another drive's, whose driver looks for completions.
    pub(super) fn on_other_handled(&mut self, now: Time, vector: u16) -> bool {
        let Some(others) = &mut self.others else { return false };
        let Some(place) = usize::from(vector / others.vectors).checked_sub(1) else { return false };
        let vector_of_drive = vector % others.vectors;
        let other = &mut others.drives[place];
        other.shared.scheduler.advance(now);
        let Engine { driver, link, shared, .. } = &mut *other;
        if let Some(until) = driver.on_handled(now, vector_of_drive, link, shared) {
            self.host.stall(now, vector, until, &mut self.shared);
        }
        other.on_completed(now);
        self.hear(now, place);
        self.host.leave_handler();
        true
    }

    /// A thread looks for the completions of its queue of every other drive.
    pub(super) fn let_look_at_others(&mut self, thread: u16) {
        for other in self.others.iter_mut().flat_map(|others| &mut others.drives) {
            let queue = other.driver.look_for(thread);
            other.controller.spare_interrupts(queue);
        }
    }

    /// A thread has collected completions, and tells the other drives.
    pub(super) fn acknowledge_to_others(&mut self, now: Time, thread: u16) {
        for other in self.others.iter_mut().flat_map(|others| &mut others.drives) {
            other.shared.scheduler.advance(now);
            let Engine { driver, link, shared, .. } = other;
            driver.acknowledge(thread, link, shared);
        }
    }

    /// How many drives there are.
    pub(super) fn drives(&self) -> u16 {
        self.others.as_ref().map_or(1, |others| others.drives.len() as u16 + 1)
    }

    /// This drive and the others.
    pub(super) fn all_drives(&self) -> impl Iterator<Item = &Engine> {
        std::iter::once(self).chain(self.others.iter().flat_map(|others| &others.drives))
    }

    /// Use of one direction of all links: rates and bytes of all, and the mean of the times for which they were busy.
    pub(super) fn used(&self, direction: Direction) -> WireUse {
        let mut used = WireUse::default();
        self.all_drives().for_each(|drive| used.add(&drive.link.usage(direction)));
        WireUse { busy: used.busy / u64::from(self.drives()), ..used }
    }

    /// What all drives have counted: sums, and means of what is in per cent.
    pub(super) fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters = self.own_counters();
        for (place, (name, count)) in
            self.all_drives().skip(1).flat_map(|drive| drive.own_counters().into_iter().enumerate())
        {
            match counters.get_mut(place).filter(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += count,
                None => counters.push((name, count)),
            }
        }
        let drives = u64::from(self.drives());
        counters.iter_mut().filter(|(name, _)| name.ends_with("_percent")).for_each(|(_, sum)| *sum /= drives);
        counters.extend(self.switch_counters());
        counters
    }

    /// Share of the time up to `now` for which the reads of some drive kept the package awake, at least: that of the drive
    /// which did so for longest.
    pub(super) fn awake_share(&self, now: Time) -> f64 {
        self.all_drives().map(|drive| drive.root_complex.awake_share(now)).fold(0.0, f64::max)
    }

    /// Joules of all memories, if they are known.
    pub(super) fn memory_joules(&self, drive: &Drive) -> Option<f64> {
        self.all_drives().map(|one| one.media.joules(&drive.media)).sum()
    }

    /// An event of this engine, for those who look at what is to come.
    pub(super) fn earliest(&self) -> Option<Time> {
        let other = self.others.as_ref().and_then(|others| others.next()).map(|(at, _)| at);
        [self.shared.scheduler.next_at(), other, self.next_at_switches()].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive_file::Override;
    use crate::engine::simulation::Simulation;
    use crate::ledger::Outcome;
    use crate::workload::fio;

    fn run(drives: u16, settings: &[&str], job: &[(&str, &str)]) -> Outcome {
        let overrides: Vec<Override> = settings.iter().map(|text| Override::parse(text).unwrap()).collect();
        let one = Drive::from_toml("test.toml", "preset = \"dram-card\"\n", &overrides).unwrap();
        let drive = Drive { drives, ..one };
        let jobs = fio::from_flags(job).unwrap().resolve(&drive.limits(), &Default::default()).unwrap();
        let mut simulation = Simulation::with_data(&drive, &jobs, 1).unwrap();
        while simulation.step(1 << 20) {}
        assert_eq!(simulation.data_problems(), [""; 0]);
        simulation.outcome()
    }

    #[test]
    fn a_lone_request_takes_as_long_on_any_of_several_drives_whether_its_thread_sleeps_or_looks() {
        let stacks = [&["host.variation=0"][..], &["host.variation=0", "stack.preset=linux-6", "nvme.interrupts=true"]];
        for settings in stacks {
            let job = [("rw", "randread"), ("bs", "4k"), ("number_ios", "200")];
            let [one, four] = [1, 4].map(|drives| run(drives, settings, &job));
            assert_eq!(one.elapsed, four.elapsed, "{settings:?}");
            assert_eq!(one.cpu.interrupts, four.cpu.interrupts, "{settings:?}");
        }
    }

    #[test]
    fn drives_that_limit_give_as_many_times_as_much_and_each_holds_its_own_data() {
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

    /// At a switch that many drives share, data is cut for that of others, and its completion goes another way.
    #[test]
    fn a_completion_does_not_come_before_its_data_where_they_part_at_a_switch() {
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
