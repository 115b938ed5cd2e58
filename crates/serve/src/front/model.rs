//! Who says when requests are done: an engine on this thread, or that of another front-end, which serves the same device.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use phaselink_core::drive::Drive;
use phaselink_core::engine::{Completed, Input};
use phaselink_core::request::Io;
use phaselink_core::time::{Span, Time};

use crate::model::remote::Remote;
use crate::model::wall::Wall;

/// A model of the device.
#[derive(Debug)]
pub enum Model<'a> {
    Own(Own<'a>),
    Remote(Box<Remote<'a>>),
}

/// An engine on this thread, with one modelled thread for each queue pair of the drive.
#[derive(Debug)]
pub struct Own<'a> {
    wall: &'a mut Wall,
    threads: Vec<u16>,
    turns: usize,
}

impl Model<'_> {
    /// The engine of `wall`, which is that of `drive`.
    pub fn own<'a>(wall: &'a mut Wall, drive: &Drive) -> Model<'a> {
        let threads = wall.add_threads(drive);
        Model::Own(Own { wall, threads, turns: 0 })
    }

    /// The engine of another thread.
    pub fn remote(remote: Remote<'_>) -> Model<'_> {
        Model::Remote(Box::new(remote))
    }

    /// Whose turn it is among the modelled threads.
    pub fn next_turn(&mut self) -> usize {
        match self {
            Model::Own(own) => {
                own.turns += 1;
                own.turns - 1
            }
            Model::Remote(remote) => remote.next_turn(),
        }
    }

    /// Let everything happen that is due. `clients` says whether requests may come.
    pub fn advance(&mut self, clients: bool) {
        match self {
            Model::Own(own) => own.wall.advance(),
            Model::Remote(remote) => remote.expect(clients),
        }
    }

    /// A request is asked now, in the turn of its client; when that is.
    pub fn ask(&mut self, turn: usize, io: Io, token: u32) -> Time {
        match self {
            Model::Own(Own { wall, threads, .. }) => {
                wall.arrive(Input::Request { thread: threads[turn % threads.len()], io, token })
            }
            Model::Remote(remote) => remote.ask(turn, io, token),
        }
    }

    /// The next result, which is due and to be handed over at once; it has taken from its asking to its instant.
    pub fn take_completed(&mut self) -> Option<Completed> {
        match self {
            Model::Own(own) => own.wall.take_completed(),
            Model::Remote(remote) => remote.take_completed(),
        }
    }

    /// How much later than modelled the last result was taken.
    pub fn last_lag(&self) -> Span {
        match self {
            Model::Own(own) => own.wall.last_lag(),
            Model::Remote(remote) => remote.last_lag(),
        }
    }

    /// How long nothing happens, unless something is asked or the wakeup is rung.
    pub fn idle_for(&self) -> Duration {
        match self {
            Model::Own(own) => own.wall.idle_for(),
            Model::Remote(remote) => remote.idle_for(),
        }
    }

    /// What to poll for results of another thread, if that is needed; [`Model::silence`] is due when it is readable.
    pub fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Model::Own(_) => None,
            Model::Remote(remote) => remote.wakeup(),
        }
    }

    /// The wakeup has been heard.
    pub fn silence(&self) {
        if let Model::Remote(remote) = self {
            remote.silence();
        }
    }
}
