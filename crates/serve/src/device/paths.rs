//! Paths on which hosts reach a served drive, and the state of each (asymmetric namespace access, Base Specification 2.0,
//! section 8.1). A path is an address of a front-end; the control socket changes its state.
//!
//! ```text
//!    host ── vfio-user:a.sock ──── optimized ──────> namespace 1, namespace 2
//!         └─ nvme-tcp://…:4420 ─── inaccessible ───> namespace 1
//!                              └── optimized ──────> namespace 2
//! ```
//!
//! Each namespace is a group of its own, with the namespace's number. A change raises the version of the subsystem, so
//! that controllers look at the state anew before the next command.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use phaselink_core::number::{index, short_length};

use crate::device::tally::locked;
use crate::planted::{PlantableBug, is_planted};

/// Longest time that a path stays in the state Change before it has its next one; hosts are told of it (ANATT). Assumed.
pub const TRANSITION_MAX: Duration = Duration::from_secs(10);

/// State of a path to a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathState {
    /// Hosts use this path if they can.
    #[default]
    Optimized,
    /// Hosts use this path if no optimized one is left.
    NonOptimized,
    /// Commands are refused; another path may work.
    Inaccessible,
    /// Commands are refused, and will be for good.
    Lost,
    /// Commands are refused until the path has its next state, for at most [`TRANSITION_MAX`].
    Changing,
}

impl PathState {
    /// All states with their names in the control protocol.
    pub const ALL: [(&'static str, PathState); 5] = [
        ("optimized", PathState::Optimized),
        ("non-optimized", PathState::NonOptimized),
        ("inaccessible", PathState::Inaccessible),
        ("lost", PathState::Lost),
        ("changing", PathState::Changing),
    ];

    /// Returns the state with a name; none if there is no such state.
    pub fn named(name: &str) -> Option<PathState> {
        PathState::ALL.into_iter().find(|(of, _)| *of == name).map(|(_, state)| state)
    }

    /// Returns the number of the state in the log page Asymmetric Namespace Access.
    pub fn number(self) -> u8 {
        match self {
            PathState::Optimized => 1,
            PathState::NonOptimized => 2,
            PathState::Inaccessible => 3,
            PathState::Lost => 4,
            PathState::Changing => 15,
        }
    }

    /// Returns the name of the state.
    pub fn name(self) -> &'static str {
        PathState::ALL.into_iter().find(|(_, state)| *state == self).map_or("", |(name, _)| name)
    }
}

/// Change of a path that waits for its time.
#[derive(Clone, Copy, Debug)]
struct PendingPathTransition {
    due: Instant,
    /// Namespace whose state changes; none for all of them.
    namespace: Option<u32>,
    state: PathState,
}

/// Path with the states of its namespaces.
#[derive(Debug)]
struct Path {
    address: String,
    /// State of a namespace that has none of its own.
    state: PathState,
    /// States of namespaces by their numbers.
    of_namespaces: BTreeMap<u32, PathState>,
    /// Number of changes so far, the number at the latest change of all namespaces, and those at the latest changes of one.
    changes: u64,
    all_changed: u64,
    changed: BTreeMap<u32, u64>,
    /// Changes that wait for their time.
    transitions: Vec<PendingPathTransition>,
    /// Number of changes of everything that commands are checked against, which a change of the path raises.
    version: Arc<AtomicU64>,
}

impl Path {
    /// Changes the state to one namespace, or to all of them, in place of the changes that wait for their time.
    fn change_namespace_path_state(&mut self, namespace: Option<u32>, state: PathState) {
        self.transitions.retain(|waiting| namespace.is_some() && waiting.namespace != namespace);
        self.changes += u64::from(!is_planted(PlantableBug::PathChangeUncounted));
        match namespace {
            Some(namespace) => {
                self.of_namespaces.insert(namespace, state);
                self.changed.insert(namespace, self.changes);
            }
            None => {
                self.of_namespaces.clear();
                self.changed.clear();
                (self.state, self.all_changed) = (state, self.changes);
            }
        }
        self.version.fetch_add(u64::from(!is_planted(PlantableBug::PathUnseen)), Ordering::Release);
    }

    /// Makes the changes whose time has come.
    fn complete_due(&mut self, now: Instant) {
        while let Some(PendingPathTransition { namespace, state, .. }) =
            self.transitions.iter().find(|it| it.due <= now).copied()
        {
            self.transitions.retain(|it| it.namespace != namespace);
            self.change_namespace_path_state(namespace, state);
        }
    }
}

/// State of one path to one namespace, as the control protocol lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPathState {
    /// Address of the path.
    pub address: String,
    /// State of namespaces that have none of their own.
    pub state: PathState,
    /// Namespaces with a state of their own.
    pub of_namespaces: Vec<(u32, PathState)>,
}

/// Paths of a served drive, by their numbers.
#[derive(Debug, Default)]
pub struct DrivePaths {
    paths: Mutex<Vec<Path>>,
}

impl DrivePaths {
    /// Adds a path with this address, and returns its number. `version` is raised by each change of its state.
    pub fn add(&self, address: String, version: &Arc<AtomicU64>) -> u32 {
        let mut paths = locked(&self.paths);
        paths.push(Path {
            address,
            state: PathState::default(),
            of_namespaces: BTreeMap::new(),
            changes: 0,
            all_changed: 0,
            changed: BTreeMap::new(),
            transitions: Vec::new(),
            version: Arc::clone(version),
        });
        short_length(paths.len()) - 1
    }

    /// Sets the state of a path to one namespace, or to all of them. Returns false if no path has the address.
    pub fn set(&self, address: &str, namespace: Option<u32>, state: PathState) -> bool {
        let mut paths = locked(&self.paths);
        let Some(path) = paths.iter_mut().find(|path| path.address == address) else { return false };
        path.change_namespace_path_state(namespace, state);
        true
    }

    /// Sets the state of a path to one namespace, or to all of them, to Change, and to `state` at a later time, when
    /// [`DrivePaths::complete_due`] is called. Returns false if no path has the address.
    pub fn set_path_state_after_transition(
        &self,
        address: &str,
        namespace: Option<u32>,
        state: PathState,
        due: Instant,
    ) -> bool {
        let mut paths = locked(&self.paths);
        let Some(path) = paths.iter_mut().find(|path| path.address == address) else { return false };
        path.change_namespace_path_state(namespace, PathState::Changing);
        path.transitions.push(PendingPathTransition { due, namespace, state });
        true
    }

    /// Makes the changes whose time has come. Returns the time of the next one.
    pub fn complete_due(&self, now: Instant) -> Option<Instant> {
        let mut paths = locked(&self.paths);
        paths.iter_mut().for_each(|path| path.complete_due(now));
        paths.iter().flat_map(|path| &path.transitions).map(|waiting| waiting.due).min()
    }

    /// Returns the state of a path to a namespace.
    pub fn state(&self, path: u32, namespace: u32) -> PathState {
        let paths = locked(&self.paths);
        let Some(path) = paths.get(index(path)) else { return PathState::default() };
        path.of_namespaces.get(&namespace).copied().unwrap_or(path.state)
    }

    /// Returns the number of changes of a path so far, and how many of them had been when a namespace last changed.
    pub fn changes(&self, path: u32, namespace: u32) -> (u64, u64) {
        let paths = locked(&self.paths);
        let Some(path) = paths.get(index(path)) else { return (0, 0) };
        (path.changes, path.changed.get(&namespace).copied().unwrap_or(path.all_changed))
    }

    /// Returns all paths with their states.
    pub fn list(&self) -> Vec<ListedPathState> {
        let listed = |path: &Path| ListedPathState {
            address: path.address.clone(),
            state: path.state,
            of_namespaces: path.of_namespaces.iter().map(|(namespace, state)| (*namespace, *state)).collect(),
        };
        locked(&self.paths).iter().map(listed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_state_overrides_path_state_until_all_namespaces_are_set() {
        let (paths, version) = (DrivePaths::default(), Arc::new(AtomicU64::new(0)));
        let numbers = ["a", "b"].map(|address| paths.add(String::from(address), &version));
        assert_eq!(numbers, [0, 1]);
        assert!(paths.set("a", Some(2), PathState::Inaccessible) && paths.set("a", None, PathState::NonOptimized));
        assert!(paths.set("a", Some(1), PathState::Lost) && !paths.set("c", None, PathState::Lost));
        let states = [(0, 1), (0, 2), (1, 1), (7, 1)].map(|(path, namespace)| paths.state(path, namespace));
        let untouched = PathState::Optimized;
        assert_eq!(states, [PathState::Lost, PathState::NonOptimized, untouched, untouched]);
        assert_eq!((paths.changes(0, 1), paths.changes(0, 2), paths.changes(1, 1)), ((3, 3), (3, 2), (0, 0)));
        assert_eq!(version.load(Ordering::Relaxed), 3);
        assert_eq!(paths.list()[0].of_namespaces, [(1, PathState::Lost)]);
    }

    #[test]
    fn path_transition_completes_when_due_unless_replaced_by_another() {
        let (paths, version, start) = (DrivePaths::default(), Arc::new(AtomicU64::new(0)), Instant::now());
        paths.add(String::from("a"), &version);
        let at = |ms| start + Duration::from_millis(ms);
        assert!(paths.set_path_state_after_transition("a", None, PathState::Inaccessible, at(500)));
        assert!(paths.set_path_state_after_transition("a", Some(2), PathState::Lost, at(800)));
        assert!(!paths.set_path_state_after_transition("b", None, PathState::Lost, at(0)));
        let states = || (paths.state(0, 1), paths.state(0, 2), version.load(Ordering::Relaxed));
        assert_eq!(
            (paths.complete_due(at(499)), states()),
            (Some(at(500)), (PathState::Changing, PathState::Changing, 2))
        );
        assert_eq!(paths.complete_due(at(800)), None);
        assert_eq!(states(), (PathState::Inaccessible, PathState::Inaccessible, 3), "all replaces one");
        assert_eq!(paths.changes(0, 1), (3, 3));
        assert!(
            paths.set_path_state_after_transition("a", Some(2), PathState::Lost, at(900))
                && paths.set("a", Some(2), PathState::Optimized)
        );
        assert_eq!((paths.complete_due(at(2000)), paths.state(0, 2)), (None, PathState::Optimized), "replaced");
    }

    #[test]
    fn each_path_state_has_a_name_that_parses_back() {
        for (name, state) in PathState::ALL {
            assert_eq!((PathState::named(name), state.name()), (Some(state), name));
        }
        assert_eq!(PathState::named("gone"), None);
    }
}
