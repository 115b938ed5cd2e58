//! How long each request keeps each resource busy, and the throughput at which the resource is busy all the time.

use crate::time::Span;

/// A resource and what the mean request asks of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// In the words of the reader: `wire to host`, `media banks`, `cores`.
    pub resource: String,
    /// How many of it there are, in all drives.
    pub servers: f64,
    /// Time for which a request keeps one of them busy, over all its uses.
    pub busy_ns: f64,
    /// Squares of the times of its uses, summed up, and how many uses of equal times would have these sums.
    squares_ns2: f64,
    uses: f64,
    owner: Owner,
}

/// Whose a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// There are as many again in each drive of a host.
    Drive,
    Host,
}

/// Resources of a link, and what they are called where the link is the uplink of a switch.
const UPLINK: [(&str, &str); 3] = [
    ("wire to host", "uplinks to host"),
    ("wire to device", "uplinks to drives"),
    ("root complex", "root ports of uplinks"),
];

/// The same where it is that of a peer.
const PEER: [(&str, &str); 2] = [("wire to host", "wire to peer"), ("wire to device", "wire from peer")];

/// Demands on several resources, each named once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Demands(Vec<Demand>);

impl Demand {
    /// Requests per second that keep the resource always busy: no more can pass it (utilisation law).
    pub fn bound_iops(&self) -> f64 {
        self.servers / self.busy_ns * 1e9
    }

    /// How much longer than for uses of mean length a request waits for those that it finds under way, if it always finds
    /// one: a long use is met more often than a short one (Kleinrock, Queueing Systems, volume 1, 1975, section 5.2).
    pub(crate) fn uneven_ns(&self) -> f64 {
        let (found, mean) = (self.use_ns() / 2.0, self.busy_ns / self.uses);
        (found - mean).max(0.0)
    }

    /// How long a use is under way at an instant at which one is.
    pub(crate) fn use_ns(&self) -> f64 {
        self.squares_ns2 / self.busy_ns
    }
}

impl Demands {
    /// Add `times` uses of one of `servers` equal resources of a drive for `busy`.
    pub fn add(&mut self, resource: &str, servers: f64, busy: Span, times: f64) {
        self.add_uses(resource, servers, busy, times, Owner::Drive);
    }

    /// The same of the host's resources, which all its drives share.
    pub fn add_of_host(&mut self, resource: &str, servers: f64, busy: Span, times: f64) {
        self.add_uses(resource, servers, busy, times, Owner::Host);
    }

    /// Add a whole request's demands, as so large a share of the requests.
    pub fn add_share(&mut self, other: &Demands, share: f64) {
        for demand in other.0.iter().filter(|demand| demand.busy_ns * share > 0.0) {
            let (busy_ns, squares_ns2) = (demand.busy_ns * share, demand.squares_ns2 * share);
            let found = self.entry(Demand { busy_ns: 0.0, squares_ns2: 0.0, uses: 0.0, ..demand.clone() });
            found.busy_ns += busy_ns;
            found.squares_ns2 += squares_ns2;
            found.uses += demand.uses * share;
        }
    }

    /// What a request takes of an uplink that some drives share, of which there are so many: the demands on its wires and
    /// its root port, of all that are made of a link.
    pub fn of_uplinks(self, uplinks: f64) -> Demands {
        self.of_shared(&UPLINK, uplinks)
    }

    /// The same of the link of a peer, which all drives share.
    pub fn of_peer(self) -> Demands {
        self.of_shared(&PEER, 1.0)
    }

    fn of_shared(self, names: &[(&str, &str)], servers: f64) -> Demands {
        let shared = self.0.into_iter().filter_map(|demand| {
            let (_, resource) = names.iter().find(|(of_link, _)| *of_link == demand.resource)?;
            Some(Demand { resource: String::from(*resource), servers, owner: Owner::Host, ..demand })
        });
        Demands(shared.collect())
    }

    /// The demands on so many drives together, to which requests go in turn.
    pub fn over(mut self, drives: u32) -> Demands {
        let of_drives = self.0.iter_mut().filter(|demand| demand.owner == Owner::Drive);
        of_drives.for_each(|demand| demand.servers *= f64::from(drives));
        self
    }

    /// The demands on everything but this resource.
    pub fn without(mut self, resource: &str) -> Demands {
        self.0.retain(|demand| demand.resource != resource);
        self
    }

    fn add_uses(&mut self, resource: &str, servers: f64, busy: Span, times: f64, owner: Owner) {
        let ns = busy.as_ns();
        if ns * times <= 0.0 {
            return;
        }
        let resource = String::from(resource);
        let found = self.entry(Demand { resource, servers, busy_ns: 0.0, squares_ns2: 0.0, uses: 0.0, owner });
        found.busy_ns += ns * times;
        found.squares_ns2 += ns * ns * times;
        found.uses = found.busy_ns * found.busy_ns / found.squares_ns2;
    }

    /// The demand on the resource of `empty`, which is that itself if there is none yet.
    fn entry(&mut self, empty: Demand) -> &mut Demand {
        let found = self.0.iter().position(|demand| demand.resource == empty.resource);
        let place = found.unwrap_or_else(|| {
            self.0.push(empty);
            self.0.len() - 1
        });
        &mut self.0[place]
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Demand> {
        self.0.iter()
    }

    /// The demands, the one that limits throughput most first.
    pub fn by_bound(&self) -> Vec<Demand> {
        let mut demands = self.0.clone();
        demands.sort_by(|left, right| left.bound_iops().total_cmp(&right.bound_iops()));
        demands
    }
}
