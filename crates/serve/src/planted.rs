//! Bugs that tests of this crate plant in it, to show that the checks of `history_tests` find them.
//! Programs for users have none: [`is_planted`] is false outside of these tests.

/// Bug that a test can plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlantableBug {
    /// A command is executed as it was checked when it was fetched, although a reservation has changed since.
    CheckOutdated,
    /// Controllers do not learn that a reservation has changed.
    ReservationUnseen,
    /// Controllers do not learn that a path has changed its state.
    PathUnseen,
    /// A command of a queue that a reset has removed is executed nevertheless.
    ResetIgnored,
    /// A write that was checked again succeeds, but changes nothing.
    WriteLost,
    /// Compare succeeds with any data.
    CompareIgnored,
    /// Reservations that persist are gone after a restart of the server.
    ReservationsLost,
    /// A host is not told that it was preempted.
    NoticeLost,
    /// The change count of a path stays.
    PathChangeUncounted,
    /// A host whose commands were aborted has every access afterwards.
    AbortedAdmitted,
    /// Queues do not learn the identifier of their host.
    HostUnseen,
}

#[cfg(test)]
impl PlantableBug {
    /// All bugs.
    pub(crate) const ALL: [PlantableBug; 11] = {
        use PlantableBug::*;
        [
            CheckOutdated,
            ReservationUnseen,
            PathUnseen,
            ResetIgnored,
            WriteLost,
            CompareIgnored,
            ReservationsLost,
            NoticeLost,
            PathChangeUncounted,
            AbortedAdmitted,
            HostUnseen,
        ]
    };
}

#[cfg(test)]
thread_local! {
    /// Bug that is planted in this thread.
    static PLANTED: std::cell::Cell<Option<PlantableBug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug in the calling thread while it does some work.
#[cfg(test)]
pub(crate) fn run_with_planted_bug<T>(bug: PlantableBug, work: impl FnOnce() -> T) -> T {
    PLANTED.set(Some(bug));
    let done = work();
    PLANTED.set(None);
    done
}

/// Returns true if a test has planted the bug in the calling thread.
#[cfg(test)]
pub(crate) fn is_planted(bug: PlantableBug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Returns false: a program for users has no planted bug.
#[cfg(not(test))]
#[inline]
pub(crate) const fn is_planted(_: PlantableBug) -> bool {
    false
}
