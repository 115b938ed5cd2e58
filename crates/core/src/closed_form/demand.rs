//! Demands of requests on resources, and the throughput at which a resource is busy all the time.

use crate::time::Span;

/// A resource, and the time for which the mean request occupies it.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Name for the reader: `wire to host`, `media banks`, `cores`.
    pub resource: String,
    /// Number of equal servers of the resource, in all drives together.
    pub servers: f64,
    /// Time for which a request occupies one server, over all its uses.
    pub busy_ns: f64,
    /// Sum of the squares of the times of a request's uses, and the number of uses of equal length that would have
    /// these sums.
    squares_ns2: f64,
    uses: f64,
    owner: Owner,
}

/// Owner of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// A drive of the host: every drive has as many servers.
    Drive,
    Host,
}

/// Resources of a link, with their names if the link is the uplink of a switch.
const UPLINK: [(&str, &str); 3] = [
    ("wire to host", "uplinks to host"),
    ("wire to device", "uplinks to drives"),
    ("root complex", "root ports of uplinks"),
];

/// Resources of a link, with their names if the link is that of a peer.
const PEER: [(&str, &str); 2] = [("wire to host", "wire to peer"), ("wire to device", "wire from peer")];

/// Demands of a request on several resources, each named once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Demands(Vec<Demand>);

impl Demand {
    /// Requests per second at which the resource is busy all the time, which bounds the throughput (utilisation law).
    pub fn bound_iops(&self) -> f64 {
        self.servers / self.busy_ns * 1e9
    }

    /// Extra time that a request waits for the use in service because uses have different lengths, if it always finds
    /// one in service: a long use is met more often than a short one (Kleinrock, Queueing Systems, volume 1, 1975,
    /// section 5.2).
    pub(crate) fn uneven_ns(&self) -> f64 {
        let (found, mean) = (self.use_ns() / 2.0, self.busy_ns / self.uses);
        (found - mean).max(0.0)
    }

    /// Mean length of the use in service at an instant at which the resource is busy.
    pub(crate) fn use_ns(&self) -> f64 {
        self.squares_ns2 / self.busy_ns
    }
}

impl Demands {
    /// Adds `times` uses, each of length `busy`, of one of `servers` equal servers of a drive.
    pub fn add(&mut self, resource: &str, servers: f64, busy: Span, times: f64) {
        self.add_uses(resource, servers, busy, times, Owner::Drive);
    }

    /// Adds `times` uses, each of length `busy`, of one of `servers` equal servers of the host, which all drives share.
    pub fn add_of_host(&mut self, resource: &str, servers: f64, busy: Span, times: f64) {
        self.add_uses(resource, servers, busy, times, Owner::Host);
    }

    /// Adds all demands of another request, weighted by its share of the requests.
    pub fn add_share(&mut self, other: &Demands, share: f64) {
        for demand in other.0.iter().filter(|demand| demand.busy_ns * share > 0.0) {
            let (busy_ns, squares_ns2) = (demand.busy_ns * share, demand.squares_ns2 * share);
            let found = self.entry(Demand { busy_ns: 0.0, squares_ns2: 0.0, uses: 0.0, ..demand.clone() });
            found.busy_ns += busy_ns;
            found.squares_ns2 += squares_ns2;
            found.uses += demand.uses * share;
        }
    }

    /// Demands on the uplinks that drives share, of which there are `uplinks`: those on wires and root ports, out of
    /// all demands on a link.
    pub fn of_uplinks(self, uplinks: f64) -> Demands {
        self.of_shared(&UPLINK, uplinks)
    }

    /// Demands on the link of a peer, which all drives share, out of all demands on a link.
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

    /// Demands on `drives` drives together, to which requests go in turn.
    pub fn over(mut self, drives: u32) -> Demands {
        let of_drives = self.0.iter_mut().filter(|demand| demand.owner == Owner::Drive);
        of_drives.for_each(|demand| demand.servers *= f64::from(drives));
        self
    }

    /// Demands on all resources but this one.
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

    /// Finds the demand on the resource of `empty`, or adds `empty` if there is none.
    fn entry(&mut self, empty: Demand) -> &mut Demand {
        let found = self.0.iter().position(|demand| demand.resource == empty.resource);
        let place = found.unwrap_or_else(|| {
            self.0.push(empty);
            self.0.len() - 1
        });
        &mut self.0[place]
    }

    /// Iterates over all demands.
    pub fn iter(&self) -> impl Iterator<Item = &Demand> {
        self.0.iter()
    }

    /// Demands sorted by the throughput at which they saturate, lowest first.
    pub fn by_bound(&self) -> Vec<Demand> {
        let mut demands = self.0.clone();
        demands.sort_by(|left, right| left.bound_iops().total_cmp(&right.bound_iops()));
        demands
    }
}
