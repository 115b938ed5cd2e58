//! Link in closed form: times of packet bursts on idle wires, and their demands on wires, credits and tags.

use super::Parts;
use super::demand::ServiceDemands;
use crate::config::Duplex;
use crate::link::credits::data_credits;
use crate::time::Span;
use crate::tlp::{Direction, Kind, Packet, Token};

/// Payload in bytes of the shortest packet with data: a register write.
const REGISTER_BYTES: u32 = 4;

/// Placeholder token of packets: closed forms do not depend on the token.
const NO_TOKEN: Token = Token { role: 0, context: 0 };

impl Parts<'_> {
    /// Returns the burst of posted writes that carries the data of a host read from device to host.
    pub fn data(&self, bytes: u32) -> Packet {
        Packet { chunk_bytes: self.drive.data_payload_bytes(), ..self.write(Direction::Up, bytes) }.user_data(0, None)
    }

    /// Returns the burst of memory read requests by which the device fetches `bytes` bytes of a write's data.
    pub fn write_data_read_requests(&self, bytes: u32) -> Packet {
        self.read(bytes).user_data(0, None)
    }

    /// Returns the burst of completions that carries `bytes` bytes of a write's data to the device.
    pub fn write_data_completions(&self, bytes: u32) -> Packet {
        self.completions(bytes).user_data(0, None)
    }

    /// Returns a burst of posted writes with `bytes` bytes, each packet with the largest payload.
    pub fn write(&self, direction: Direction, bytes: u32) -> Packet {
        Packet::write(direction, 0, bytes, self.drive.link.max_payload_bytes, NO_TOKEN)
    }

    /// Returns the burst of memory read requests by which the device reads `bytes` bytes of host memory.
    pub fn read(&self, bytes: u32) -> Packet {
        Packet::read(0, bytes, self.drive.link.max_read_request_bytes, NO_TOKEN)
    }

    /// Returns the burst of completions that carries `bytes` bytes of host memory to the device.
    pub fn completions(&self, bytes: u32) -> Packet {
        let chunk_bytes = self.drive.link.completion_bytes_max();
        Packet { kind: Kind::Completion, ..Packet::write(Direction::Down, 0, bytes, chunk_bytes, NO_TOKEN) }
    }

    /// Returns the wire time of one packet of a burst, except for the last, which may be shorter.
    fn each(&self, packet: &Packet) -> Span {
        self.link.burst_packet_times(packet).0
    }

    /// Returns the wire time of all packets of a burst.
    pub fn on_wire(&self, packet: &Packet) -> Span {
        let (each, last) = self.link.burst_packet_times(packet);
        each * u64::from(packet.count() - 1) + last
    }

    /// Returns the time from sending a burst until its last packet has arrived at the far end of an idle link.
    pub fn sent(&self, packet: &Packet) -> Span {
        self.on_wire(packet) + self.link.one_way()
    }

    /// Returns the time from the arrival of a read's last request at the host until the first completion leaves. Host
    /// memory is read from the arrival of the first request on.
    pub fn host_memory(&self, bytes: u32) -> Span {
        let requests = self.read(bytes);
        self.root_complex.queue_read_latency() - (self.on_wire(&requests) - self.each(&requests))
    }

    /// Returns the time from the arrival of the last read request for user data at the host until the first completion
    /// leaves.
    pub fn host_memory_read_time(&self, bytes: u32) -> Span {
        let requests = self.write_data_read_requests(bytes);
        self.root_complex.data_read_latency() - (self.on_wire(&requests) - self.each(&requests))
    }

    /// Returns the time from the start of a device read of `bytes` bytes of host memory until all of them have arrived.
    pub fn round_trip(&self, bytes: u32) -> Span {
        self.sent(&self.read(bytes)) + self.host_memory(bytes) + self.sent(&self.completions(bytes))
    }

    /// True if a burst never waits for flow-control credits, nor do `behind` short packets that follow it. All credits
    /// are free at its start, and they suffice or are returned in time.
    pub fn flows(&self, packet: &Packet, behind: u32) -> bool {
        let link = &self.drive.link;
        let (each, packets) = (self.each(packet), packet.count() + behind);
        let in_time = |credits: u32| {
            let accepted = self.link.receiver_accept_time(packet.direction) <= each;
            // The last packet reuses a credit that was spent `credits` packets earlier. Packets after the burst are
            // short, so assume the time of a short packet for them.
            let short = credits.min(behind.saturating_sub(1));
            let shortest = self.each(&self.write(packet.direction, REGISTER_BYTES));
            let since = each * u64::from(credits - short) + shortest * u64::from(short);
            packets <= credits || accepted && since >= self.link.posted_credit_round_trip(packet.direction, each)
        };
        let data = data_credits(packet.full_packet_payload_bytes());
        match packet.kind {
            Kind::MemoryWrite => {
                let in_data = u32::from(link.posted_data_credits).checked_div(data).unwrap_or(u32::MAX);
                in_time(u32::from(link.posted_header_credits).min(in_data))
            }
            Kind::MemoryRead => in_time(link.non_posted_header_credits.into()),
            Kind::Completion => true,
        }
    }

    /// Adds the service demands of `times` bursts: on their wire, on the opposite wire for acknowledgements, and on
    /// flow-control credits.
    pub fn add_burst_demands(&self, demands: &mut ServiceDemands, packet: &Packet, times: f64) {
        let (direction, packets) = (packet.direction, f64::from(packet.count()) * times);
        demands.add(self.wire_resource_name(direction), 1.0, self.on_wire(packet), times);
        let acknowledging = self.wire_resource_name(direction.opposite());
        demands.add(acknowledging, 1.0, self.link.acknowledgement_time(packet.kind), packets);
        self.add_credit_demands(demands, packet, packets);
    }

    fn add_credit_demands(&self, demands: &mut ServiceDemands, packet: &Packet, packets: f64) {
        let link = &self.drive.link;
        let away = self.link.posted_credit_round_trip(packet.direction, self.each(packet));
        let names = credit_resource_names(packet.direction);
        match packet.kind {
            Kind::MemoryWrite => {
                let data = f64::from(data_credits(packet.full_packet_payload_bytes()));
                demands.add(names[0], link.posted_header_credits.into(), away, packets);
                demands.add(names[1], link.posted_data_credits.into(), away, packets * data);
                demands.add(names[2], 1.0, self.link.receiver_accept_time(packet.direction), packets);
            }
            Kind::MemoryRead => demands.add(names[3], link.non_posted_header_credits.into(), away, packets),
            Kind::Completion => {}
        }
    }

    /// Adds the service demands of `times` device reads of host memory: on the wires for requests and completions, and
    /// on read tags.
    pub fn add_read_demands(&self, demands: &mut ServiceDemands, requests: &Packet, times: f64) {
        let answers = Packet { user_data: requests.user_data, ..self.completions(requests.bytes) };
        self.add_burst_demands(demands, requests, times);
        self.add_burst_demands(demands, &answers, times);
        let tags = requests.count().min(self.drive.link.read_tags.into());
        let memory = match requests.user_data {
            true => self.host_memory_read_time(requests.bytes),
            false => self.host_memory(requests.bytes),
        };
        let held = self.sent(requests) + memory + self.sent(&answers);
        demands.add("read tags", self.drive.link.read_tags.into(), held, times * f64::from(tags));
    }

    fn wire_resource_name(&self, direction: Direction) -> &'static str {
        match (self.drive.link.duplex, direction) {
            (Duplex::Shared, _) => "shared wire",
            (Duplex::Full, Direction::Up) => "wire to host",
            (Duplex::Full, Direction::Down) => "wire to device",
        }
    }
}

/// Returns the resource names of posted header credits, posted data credits, the receiver of posted packets, and
/// non-posted credits of one direction.
fn credit_resource_names(direction: Direction) -> [&'static str; 4] {
    match direction {
        Direction::Up => ["header credits to host", "data credits to host", "root complex", "read credits to host"],
        Direction::Down => {
            ["header credits to device", "data credits to device", "device ingress", "read credits to device"]
        }
    }
}
