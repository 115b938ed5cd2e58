//! Transfers of logical blocks' metadata between host memory and device, in a buffer of its own. The content belongs to
//! the host and is not simulated.

use super::{Controller, ControllerCommand, PAYLOAD_READ_BYTES};
use crate::ledger::Stage;
use crate::number::index;
use crate::protocol::nvme::Role;
use crate::protocol::ports::Ports;
use crate::time::Time;
use crate::tlp::{Direction, Packet};

impl Controller {
    /// Requests the metadata of a command from host memory at this address, after the reads of its data, and adds it to the missing
    /// bytes.
    #[cold]
    pub(super) fn read_metadata(&mut self, id: u32, (address, bytes): (u64, u32), ports: &mut Ports) {
        self.commands[index(id)].bytes_missing += bytes;
        for start in (0..bytes).step_by(index(PAYLOAD_READ_BYTES)) {
            let (piece, token) = (PAYLOAD_READ_BYTES.min(bytes - start), Role::METADATA_READ.token(id));
            let packet = Packet::read(address + u64::from(start), piece, self.reads.request_bytes_max(), token);
            self.reads.request(packet, ports.link, ports.shared);
        }
    }

    /// Handles metadata that has arrived from the host. Charges the time to the request if these are the last missing
    /// bytes of the command.
    pub(super) fn on_metadata(&mut self, now: Time, packet: &Packet, ports: &mut Ports) {
        let ControllerCommand { request, bytes_missing, .. } = self.commands[index(packet.token.context)];
        if bytes_missing == packet.bytes {
            ports.shared.requests.charge_stage_until(request, Stage::HostRead, now);
        }
        self.on_payload_arrived(now, packet, ports);
    }

    /// Sends the metadata of a command to host memory, after its data.
    #[cold]
    pub(super) fn send_metadata(&mut self, id: u32, (address, bytes): (u64, u32), ports: &mut Ports) {
        let offset = self.commands[index(id)].command.as_ref().map_or(0, |command| command.offset);
        let packet = Packet::write(Direction::Up, address, bytes, self.max_payload_bytes, Role::METADATA.token(id));
        ports.link.send(packet.user_data(offset, None), ports.shared);
    }
}
