//! How the queues of controllers are divided among device threads.
//!
//! A controller's socket and admin queue are one thread's; its sets of queues are one for each thread, and begin there. So
//! controllers of one queue are divided as a whole, and those of many have their queues on all threads.

use std::io;

use super::crew::Crew;
use super::front::{ControllerSocket, Front, Posts, Seat};
use crate::device::wakeup::Wakeup;
use crate::model::wall::Wait;

/// Threads, of which each has a wakeup, and the controllers that they serve.
#[derive(Debug)]
pub(super) struct Division<'a> {
    served: &'a [ControllerSocket],
    wakeups: Vec<Wakeup>,
}

impl<'a> Division<'a> {
    /// Among so many threads, or as many as there are queues for.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub(super) fn new(served: &'a [ControllerSocket], threads: usize) -> io::Result<Division<'a>> {
        let queues: usize = served.iter().map(|served| served.limits().queue_pairs as usize).sum();
        let wakeups = (0..threads.min(queues).max(1)).map(|_| Wakeup::new()).collect::<io::Result<_>>()?;
        Ok(Division { served, wakeups })
    }

    /// How many threads there are.
    pub(super) fn threads(&self) -> usize {
        self.wakeups.len()
    }

    /// The thread that has a set of a controller's queues.
    fn thread(&self, controller: usize, set: usize) -> usize {
        (controller + set) % self.wakeups.len()
    }

    /// Those who serve each controller.
    pub(super) fn crews(&self) -> Vec<Crew<'_>> {
        let crew = |(controller, served): (usize, &ControllerSocket)| {
            let sets = self.threads().min(served.limits().queue_pairs as usize);
            let wakeup = |set| &self.wakeups[self.thread(controller, set)];
            Crew::new(wakeup(0), (1..sets).map(wakeup))
        };
        self.served.iter().enumerate().map(crew).collect()
    }

    /// What each thread looks after.
    pub(super) fn posts<'c>(&'c self, crews: &'c [Crew<'c>], wait: Wait) -> Vec<Posts<'c>> {
        let mut posts: Vec<Posts> =
            self.wakeups.iter().map(|wakeup| Posts { fronts: Vec::new(), seats: Vec::new(), wakeup }).collect();
        for (controller, (served, crew)) in self.served.iter().zip(crews).enumerate() {
            posts[self.thread(controller, 0)].fronts.push(Front::new(served, controller, wait, crew));
            for set in 1..crew.sets() {
                posts[self.thread(controller, set)].seats.push(Seat { crew, slot: crew.slot(set - 1), controller });
            }
        }
        posts
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::Range;
    use std::os::unix::net::UnixStream;

    use super::super::connection::Connection;
    use super::super::crew::Lane;
    use super::super::front::tests::sockets;
    use super::*;

    #[test]
    fn every_set_has_one_thread_and_controllers_of_one_queue_take_turns() {
        for (controllers, queue_pairs, threads) in [(1, 6, 2), (1, 2, 16), (3, 1, 2), (4, 4, 3)] {
            let served = sockets("sets", controllers, queue_pairs);
            let division = Division::new(&served, threads).unwrap();
            let crews = division.crews();
            let posts = division.posts(&crews, Wait::Adaptive);
            let sets = crews.iter().map(Crew::sets).sum::<usize>();
            let held = posts.iter().map(|posts| posts.fronts.len() + posts.seats.len());
            assert_eq!(held.sum::<usize>(), sets);
            assert!(posts.iter().all(|posts| !posts.fronts.is_empty() || !posts.seats.is_empty()));
            assert_eq!(crews[0].sets(), threads.min(queue_pairs as usize));
        }
        let served = sockets("turns", 3, 1);
        let division = Division::new(&served, 2).unwrap();
        assert_eq!([0, 1, 2].map(|controller| division.thread(controller, 0)), [0, 1, 0]);
    }

    /// What threads write for requests: the lock of a slot, and what is in it; of the thread with the socket, its own set.
    #[test]
    fn no_line_is_written_by_two_device_threads() {
        let served = sockets("lines", 4, 3);
        let division = Division::new(&served, 3).unwrap();
        let crews = division.crews();
        let mut posts = division.posts(&crews, Wait::Adaptive);
        let mut lines: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); division.threads()];
        let of = |range: Range<usize>| range.start / 64..range.end.div_ceil(64);
        for (controller, (served, crew)) in served.iter().zip(&crews).enumerate() {
            let socket = UnixStream::pair().unwrap().0;
            let mut client = Connection::new(socket, true, served.limits(), &Default::default()).unwrap();
            let own = &mut posts[division.thread(controller, 0)].fronts;
            let front = own.iter_mut().find(|front| front.number == controller).unwrap();
            lines[division.thread(controller, 0)].extend(of(bytes_of(&*front.controller.queue_sets()[0])));
            for set in 1..crew.sets() {
                let lane = Lane {
                    client: 1,
                    set: front.controller.empty_queue_set(),
                    host: client.share(),
                    rings_unheard: false,
                    is_told: false,
                };
                crew.lend(set, lane);
                let entered = crew.slot(set - 1).enter().unwrap();
                let lane = entered.as_ref().unwrap();
                let own = &mut lines[division.thread(controller, set)];
                own.extend(of(bytes_of(&*entered)).chain(of(bytes_of(&**lane))).chain(of(bytes_of(&*lane.set))));
            }
        }
        let all: BTreeSet<&usize> = lines.iter().flatten().collect();
        assert!(all.len() > 100);
        assert_eq!(all.len(), lines.iter().map(BTreeSet::len).sum::<usize>(), "a line is written by two threads");
    }

    fn bytes_of<T>(value: &T) -> Range<usize> {
        let start = std::ptr::from_ref(value) as usize;
        start..start + size_of::<T>()
    }
}
