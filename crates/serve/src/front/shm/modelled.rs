//! Timing on, and one device thread: it has the model, and tells each client when it has its answer.
//!
//! The way of a command through real memory is not the model's, and would come on top. So that it does not, a command
//! says when it was asked, and enters the model as of then; and its status says how much later it is over. Data moves when
//! the command is found, and is near its client when the status comes; the client waits for what is left of the latency.
//! So nothing that a machine takes for all this shows in the latency, as long as it takes less than the model. What it
//! takes longer is the lag.
//!
//! For a command to be found in the model's future, an idle engine stays behind the clock by what that usually takes. For
//! the status to be there in time, the engine runs ahead of the clock by what the command's way has taken, as the
//! status's is like it: while requests are under way, and no further than the next completion; for a request that is
//! alone, by [`LONE_LEAD`] more. A request that arrives meanwhile enters the model where the engine is.
//!
//! Other front-ends can ask the same model, from threads of their own, through an [`Exchange`].
//!
//! [`LONE_LEAD`]: crate::model::wall::LONE_LEAD

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phaselink_core::engine::{Completed, Input};
use phaselink_core::request::{Io, Op};
use phaselink_core::table::Table;
use phaselink_core::time::{Span, Time};
use phaselink_ring::command::Operation;
use phaselink_ring::layout::TRANSFER_BYTES_MAX;
use phaselink_ring::status::Status;

use super::ShareSocket;
use super::client::{CheckedCommand, Client, Taken, action};
use super::clients::Clients;
use super::serve::{self, Execution};
use crate::device::Device;
use crate::device::faults::{DelayQueue, FaultEffect, FaultOutcome};
use crate::device::tally::{Tally, locked};
use crate::model::remote::{Callers, Exchange};
use crate::model::wall::{Clock, Wait, Wall};

/// What the engine runs ahead for at most. (Assumed; the limits of two threads are 0.6 us for there and back with a
/// sector, and 1.4 us with a page.)
const WAY_AHEAD_MAX: Span = Span::from_us(5);
/// A command that says it was asked longer ago than this, or later than now, has another clock, and had no way.
const WAY_MAX: Span = Span::from_ms(10);

/// When a command that is found now was asked, as far as its client, which says so, is to be believed.
pub(super) fn asked(asked_ns: u64, clock: &Clock, now: Time) -> Time {
    let asked = clock.at_ns(asked_ns).filter(|asked| now.since(*asked) < WAY_MAX);
    asked.unwrap_or(now).min(now)
}

/// A command in the model.
#[derive(Clone, Copy)]
struct UnderWay {
    client: u64,
    command: CheckedCommand,
    /// What has become of its data.
    status: Status,
    /// On the clock.
    asked: Time,
    /// When it entered the model: then, or where the engine was ahead.
    arrived: Time,
    /// From the client's asking to being found.
    way: Span,
    /// For how long a fault has held it before.
    held: Span,
    /// Its client is not to hear of its end.
    drops_completion: bool,
}

/// What the device thread needs to execute commands.
struct Modelled<'a> {
    device: &'a Device,
    wall: &'a mut Wall,
    /// Those who ask for others than the clients.
    callers: Callers<'a>,
    exchange: &'a Exchange,
    threads: Vec<u16>,
    /// By token.
    under_way: Table<UnderWay>,
    /// Commands that a fault delays, with the numbers of their clients and when they were found.
    held: DelayQueue<(u64, CheckedCommand, Time)>,
    space: Vec<u8>,
    /// Mean of the latest ways.
    usual_way: Span,
    tally: Arc<Mutex<Tally>>,
}

/// Serve until the device is told to stop: those who come to the sockets, and those who ask through `exchange`, whose
/// clock is the wall's.
///
/// # Errors
/// If the system gives no thread, or cannot wait for sockets.
pub fn serve(
    device: &Device,
    sockets: &[ShareSocket],
    wall: &mut Wall,
    exchange: &Exchange,
    wait: Wait,
) -> io::Result<()> {
    let threads = wall.add_threads(&device.drive);
    let tally = device.tallies.open();
    let counts = Arc::clone(&tally);
    let modelled = move || Modelled {
        device,
        wall,
        callers: Callers::new(exchange),
        exchange,
        threads,
        under_way: Table::default(),
        held: DelayQueue::default(),
        space: vec![0; TRANSFER_BYTES_MAX as usize],
        usual_way: Span::ZERO,
        tally: counts,
    };
    let ended = serve::serve(device, sockets, wait, vec![(exchange.engine(), modelled)]);
    device.tallies.close(&tally);
    ended
}

impl Execution for Modelled<'_> {
    const IS_MODELLED: bool = true;

    /// Queues of new clients get threads of the model in turn.
    fn greet(&mut self, client: &mut Client) {
        for queue in 0..client.queues() {
            client.set_thread(queue, self.threads[self.exchange.next_turn() % self.threads.len()]);
        }
    }

    fn round(&mut self, clients: &mut Clients<'_>) -> bool {
        let asked = self.listen(clients);
        let now = self.wall.clock().now();
        asked | self.begin_late(clients, now) | self.look(clients, now) | self.complete(clients, now)
    }

    fn flushed(&mut self, status: Status) {
        locked(&self.tally).count_flush(status == Status::Success);
    }

    fn is_asked(&mut self) -> bool {
        self.callers.listen(self.wall, &self.threads)
    }

    fn idle_for(&self, wait: Wait) -> Duration {
        self.held.no_longer_than(self.wall.rest_for(wait))
    }

    fn rested(&mut self) {}
}

impl Modelled<'_> {
    /// Let those in who ask from elsewhere; whether there was anything. They come first, as they have asked before now.
    #[inline]
    fn listen(&mut self, clients: &mut Clients<'_>) -> bool {
        let any = self.callers.listen(self.wall, &self.threads);
        if any {
            clients.has_others = self.callers.are_there();
        }
        any
    }

    /// Answer what the model has done; whether there was anything.
    fn complete(&mut self, clients: &mut Clients<'_>, now: Time) -> bool {
        let now = self.wall.model_time(now);
        let mut any = false;
        while let Some(done) = self.wall.run_ahead(now) {
            if !self.callers.answer(&done, self.wall) {
                self.answer(clients, done);
            }
            any = true;
        }
        if !any {
            self.wall.idle_until(Time::ZERO + now.since(Time::ZERO + self.usual_way + self.usual_way / 4));
        }
        any
    }

    fn answer(&mut self, clients: &mut Clients<'_>, completed: Completed) {
        let UnderWay { client, command, status, asked, arrived, way, held, drops_completion } =
            self.under_way.take(completed.token);
        let latency = completed.at.since(arrived);
        let Some(client) = clients.find(client) else { return self.wall.hand_over(asked, asked) };
        match drops_completion {
            true => client.forget(&command),
            false => client.finish(&command, status, (held + latency).as_ps() / 1000),
        }
        // The status takes what the command has taken, unless that was out of the ordinary.
        self.wall.hand_over(asked + latency, self.wall.clock().now() + way);
        let mut tally = locked(&self.tally);
        let op = if command.operation == Operation::Write { Op::Write } else { Op::Read };
        tally.direction(op).count(command.bytes, latency);
        tally.errors += u64::from(status != Status::Success);
        tally.lag.record(self.wall.last_lag());
    }

    /// Look at every queue; whether anything was there.
    fn look(&mut self, clients: &mut Clients<'_>, now: Time) -> bool {
        clients.round(|clients, place, queue| {
            match clients.clients[place].take(queue) {
                Taken::Nothing => return false,
                Taken::Refused => locked(&self.tally).errors += 1,
                Taken::Command(command) => self.accept(clients, place, command, now),
            }
            true
        })
    }

    /// A command has been found: it goes into the model, and its data moves; but for a flush, which takes what it takes.
    fn accept(&mut self, clients: &mut Clients<'_>, place: usize, command: CheckedCommand, now: Time) {
        if let Some(record) = &self.device.record {
            record.note(action(command.operation), command.offset, command.bytes.into());
        }
        let Some(io) = command.io() else { return clients.flush(place, command) };
        let fate = self.device.faults.match_request(command.queue.into(), || Some(io));
        let client = &mut clients.clients[place];
        match fate {
            None => self.enter(client, command, io, now),
            Some(FaultOutcome::Executed(effect)) => self.suffer(client, command, io, effect, now),
            Some(FaultOutcome::Delayed(time)) => self.held.keep(time, (client.number, command, now)),
            Some(FaultOutcome::Hangs) => client.forget(&command),
        }
    }

    /// Begin what a fault has delayed, now; whether there was anything.
    #[inline]
    fn begin_late(&mut self, clients: &mut Clients<'_>, now: Time) -> bool {
        let mut any = false;
        while let Some((number, command, found)) = self.held.take_due() {
            // The command of a client that has gone is nobody's.
            if let Some((client, io)) = clients.find(number).zip(command.io()) {
                // It has no way any more, and is as much later as it has been held.
                let token = self.enter_model(client, command.without_way(), io, now);
                self.under_way[token as usize].held = now.since(found);
                self.transfer(client, &command, token);
            }
            any = true;
        }
        any
    }

    /// A command enters the model, and something goes wrong with it.
    #[cold]
    fn suffer(&mut self, client: &mut Client, command: CheckedCommand, io: Io, effect: FaultEffect, now: Time) {
        let token = self.enter_model(client, command, io, now);
        let status = client.suffer(&command, effect, &self.device.store, &mut self.space);
        let kept = &mut self.under_way[token as usize];
        (kept.status, kept.drops_completion) = (status, effect.drops_completion);
    }

    /// A command goes into the model, and its data moves.
    #[inline]
    fn enter(&mut self, client: &mut Client, command: CheckedCommand, io: Io, now: Time) {
        // While lines of store and client are under way, the model begins.
        client.prefetch(&command, &self.device.store);
        let token = self.enter_model(client, command, io, now);
        self.transfer(client, &command, token);
    }

    #[inline]
    fn transfer(&mut self, client: &mut Client, command: &CheckedCommand, token: u32) {
        let status = client.transfer(command, &self.device.store, &mut self.space);
        // Nothing is copied here that has just been written: it would wait until the client's lines are.
        self.under_way[token as usize].status = status;
    }

    /// Its token there.
    #[inline]
    fn enter_model(&mut self, client: &Client, command: CheckedCommand, io: Io, now: Time) -> u32 {
        let asked = asked(command.asked_ns, self.wall.clock(), now);
        let way = now.since(asked).min(WAY_AHEAD_MAX);
        self.usual_way = self.usual_way - self.usual_way / 8 + way / 8;
        let (status, held, drops_completion) = (Status::Success, Span::ZERO, false);
        let under_way =
            UnderWay { client: client.number, command, status, asked, arrived: asked, way, held, drops_completion };
        let token = self.under_way.insert(under_way);
        self.wall.lead_by(way);
        let input = Input::Request { thread: client.thread(command.queue), io, token };
        self.under_way[token as usize].arrived = self.wall.arrive_at(asked, input);
        token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_believed_that_says_it_asked_a_moment_ago_and_no_other() {
        let (clock, now) = (Clock::Steady { start_ns: 5_000 }, Time::ZERO + Span::from_ms(50));
        let found = |asked_ns| now.since(asked(asked_ns, &clock, now));
        let (now_ns, most_ns) = (50_005_000, WAY_MAX.as_ps() / 1000);
        assert_eq!([now_ns - 700, now_ns].map(found), [Span::from_ns(700), Span::ZERO]);
        assert_eq!(found(now_ns - most_ns + 1), WAY_MAX - Span::from_ns(1));
        // Too long ago, before there was a clock, never, and in the future.
        assert_eq!([now_ns - most_ns, 4_999, 0, now_ns + 700].map(found), [Span::ZERO; 4]);
    }
}
