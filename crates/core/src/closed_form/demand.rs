//! Service demands of requests on resources, and the throughput at which each resource saturates.

use crate::time::Span;

/// Service demand of the mean request on one resource, such as a wire, the memory banks or the cores.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceDemand {
    /// Name of the resource in reports, such as `wire to host`, `media banks` or `cores`.
    pub resource: String,
    /// Number of identical servers of the resource, summed over all drives.
    pub servers: f64,
    /// Time in nanoseconds for which a request occupies one server of the resource, summed over all its uses of it.
    pub busy_ns: f64,
    /// Sum of the squared durations of a request's uses of the resource. The next field is the number of equally long
    /// uses that have the same sum and the same sum of squares.
    squares_ns2: f64,
    uses: f64,
    owner: ResourceOwner,
}

/// Owner of a resource, which decides whether more drives bring more of its servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResourceOwner {
    /// Each drive has this resource, so that the number of its servers grows with the number of drives.
    Drive,
    Host,
}

/// Names of a link's resources, each with the name that it gets on the uplink of a switch.
const UPLINK: [(&str, &str); 3] = [
    ("wire to host", "uplinks to host"),
    ("wire to device", "uplinks to drives"),
    ("root complex", "root ports of uplinks"),
];

/// Names of a link's resources, each with the name that it gets on the link of a peer device.
const PEER: [(&str, &str); 2] = [("wire to host", "wire to peer"), ("wire to device", "wire from peer")];

/// Service demands of one request on several resources. Each resource has one entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceDemands(Vec<ServiceDemand>);

impl ServiceDemand {
    /// Returns the throughput in requests per second at which the resource saturates, an upper bound (utilisation law).
    pub fn saturation_iops(&self) -> f64 {
        self.servers / self.busy_ns * 1e9
    }

    /// Returns the extra nanoseconds that a request waits for the use in service because uses differ in length. This
    /// holds if a request always finds one in service: a long use is met more often than a short one (Kleinrock,
    /// Queueing Systems, volume 1, 1975, section 5.2).
    pub fn residual_wait_ns(&self) -> f64 {
        let (found, mean) = (self.residual_use_ns() / 2.0, self.busy_ns / self.uses);
        (found - mean).max(0.0)
    }

    /// Returns the mean duration in nanoseconds of the use in service, seen at a random time at which the resource is
    /// busy.
    pub fn residual_use_ns(&self) -> f64 {
        self.squares_ns2 / self.busy_ns
    }
}

impl ServiceDemands {
    /// Adds `times` uses of length `busy` of a resource that each drive has, with `servers` identical servers.
    pub fn add(&mut self, resource: &str, servers: f64, busy: Span, times: f64) {
        self.add_resource_uses(resource, servers, busy, times, ResourceOwner::Drive);
    }

    /// Adds `times` uses of length `busy` of a host resource with `servers` identical servers, which all drives share.
    pub fn add_host_resource_uses(&mut self, resource: &str, servers: f64, busy: Span, times: f64) {
        self.add_resource_uses(resource, servers, busy, times, ResourceOwner::Host);
    }

    /// Adds the service demands of another kind of request, multiplied by its share of all requests (0 to 1).
    pub fn add_weighted_demands(&mut self, other: &ServiceDemands, share: f64) {
        for demand in other.0.iter().filter(|demand| demand.busy_ns * share > 0.0) {
            let (busy_ns, squares_ns2) = (demand.busy_ns * share, demand.squares_ns2 * share);
            let found = self.entry(ServiceDemand { busy_ns: 0.0, squares_ns2: 0.0, uses: 0.0, ..demand.clone() });
            found.busy_ns += busy_ns;
            found.squares_ns2 += squares_ns2;
            found.uses += demand.uses * share;
        }
    }

    /// Returns the service demands on the uplinks of a switch, made from those on a link: its wires and its root port.
    /// `uplinks` is the number of uplinks that the drives share.
    pub fn of_switch_uplinks(self, uplinks: f64) -> ServiceDemands {
        self.renamed_with_servers(&UPLINK, uplinks)
    }

    /// Returns the service demands on the link of a peer device, made from those on a link: its wires only. All drives
    /// share it.
    pub fn of_peer_link(self) -> ServiceDemands {
        self.renamed_with_servers(&PEER, 1.0)
    }

    fn renamed_with_servers(self, names: &[(&str, &str)], servers: f64) -> ServiceDemands {
        let shared = self.0.into_iter().filter_map(|demand| {
            let (_, resource) = names.iter().find(|(of_link, _)| *of_link == demand.resource)?;
            Some(ServiceDemand { resource: String::from(*resource), servers, owner: ResourceOwner::Host, ..demand })
        });
        ServiceDemands(shared.collect())
    }

    /// Multiplies the servers of every resource of the drive by `drives`, for requests that go to that many drives in
    /// turn.
    pub fn over(mut self, drives: u32) -> ServiceDemands {
        let of_drives = self.0.iter_mut().filter(|demand| demand.owner == ResourceOwner::Drive);
        of_drives.for_each(|demand| demand.servers *= f64::from(drives));
        self
    }

    /// Removes the demand on the resource of this name.
    pub fn without(mut self, resource: &str) -> ServiceDemands {
        self.0.retain(|demand| demand.resource != resource);
        self
    }

    fn add_resource_uses(&mut self, resource: &str, servers: f64, busy: Span, times: f64, owner: ResourceOwner) {
        let ns = busy.as_ns();
        if ns * times <= 0.0 {
            return;
        }
        let resource = String::from(resource);
        let found = self.entry(ServiceDemand { resource, servers, busy_ns: 0.0, squares_ns2: 0.0, uses: 0.0, owner });
        found.busy_ns += ns * times;
        found.squares_ns2 += ns * ns * times;
        found.uses = found.busy_ns * found.busy_ns / found.squares_ns2;
    }

    /// Returns the service demand on the resource that `empty` names. Adds `empty` if there is none.
    fn entry(&mut self, empty: ServiceDemand) -> &mut ServiceDemand {
        let found = self.0.iter().position(|demand| demand.resource == empty.resource);
        let place = found.unwrap_or_else(|| {
            self.0.push(empty);
            self.0.len() - 1
        });
        &mut self.0[place]
    }

    /// Returns an iterator over the demands on all resources.
    pub fn iter(&self) -> impl Iterator<Item = &ServiceDemand> {
        self.0.iter()
    }

    /// Returns the service demands sorted by the throughput at which their resource saturates: the bottleneck comes
    /// first.
    pub fn sorted_by_bottleneck(&self) -> Vec<ServiceDemand> {
        let mut demands = self.0.clone();
        demands.sort_by(|left, right| left.saturation_iops().total_cmp(&right.saturation_iops()));
        demands
    }
}
