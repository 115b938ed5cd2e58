//! Log page of a discovery controller: the subsystems that a host can connect to, and where (Base Specification 2.0,
//! section 5.16.1.23).

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;

use phaselink_core::number::length;
use phaselink_core::protocol::nvme::spec::layout::{Layout, LayoutBytes};
use phaselink_core::protocol::nvme::spec::logs::{DiscoveryEntry, DiscoveryHeader};

use crate::device::tally::locked;

/// Name of the discovery subsystem, which every host knows (section 4.5).
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Value of CNTLID in a record: the subsystem makes a controller for each host.
const DYNAMIC: u16 = 0xffff;
/// Value of TRTYPE for TCP.
const TCP: u8 = 3;
/// Values of TREQ that say whether a secure channel is required.
const CHANNEL_REQUIRED: u8 = 1;
const CHANNEL_NOT_REQUIRED: u8 = 2;
/// Value of SECTYPE for TLS 1.3; 0 is no security.
const TLS_1_3: u8 = 2;

/// Type of the subsystem in a record (SUBTYPE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveredSubsystemType {
    /// Referral to another discovery service.
    Referral = 1,
    /// NVM subsystem.
    Drive = 2,
    /// Discovery subsystem that returns this log page.
    Current = 3,
}

/// Security of the connections to a subsystem, as a record states it (TREQ, and SECTYPE of TCP).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiscoveryChannelSecurity {
    /// No secure channel.
    #[default]
    None,
    /// TLS 1.3 is required.
    Required,
}

/// Record of the log page: a subsystem, and the address at which hosts connect to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryLogRecord {
    /// Type of the subsystem.
    pub kind: DiscoveredSubsystemType,
    /// Name of the subsystem (SUBNQN).
    pub subsystem: String,
    /// Address and port (TRADDR, TRSVCID, ADRFAM). The unspecified address stands for the one at which the host that reads
    /// the record has reached the server.
    pub address: SocketAddr,
    /// Number of the port of the NVM subsystem (PORTID).
    pub port_id: u16,
    /// Maximum number of entries of an admin submission queue (ASQSZ).
    pub admin_entries: u16,
    /// Security of the channel.
    pub security: DiscoveryChannelSecurity,
}

impl DiscoveryLogRecord {
    fn encode(&self) -> [u8; DiscoveryEntry::BYTES] {
        use DiscoveryEntry as Field;
        let is_secure = self.security == DiscoveryChannelSecurity::Required;
        let mut record = DiscoveryEntry::zeros();
        record.set(Field::TRANSPORT, TCP);
        record.set(Field::ADDRESS_FAMILY, if self.address.is_ipv4() { 1 } else { 2 });
        record.set(Field::SUBSYSTEM_TYPE, self.kind as u8);
        record.set(Field::SECURE_CHANNEL, if is_secure { CHANNEL_REQUIRED } else { CHANNEL_NOT_REQUIRED });
        record.set(Field::MAY_DISABLE_FLOW_CONTROL, true);
        record.set(Field::PORT, self.port_id);
        record.set(Field::CONTROLLER, DYNAMIC);
        record.set(Field::ADMIN_ENTRIES, self.admin_entries);
        record.set(Field::IS_PERSISTENT, self.kind != DiscoveredSubsystemType::Drive);
        record.set_padded_text(Field::SERVICE, &self.address.port().to_string());
        record.set_padded_text(Field::ADDRESS, &self.address.ip().to_string());
        let mut name = self.subsystem.bytes();
        record.set(Field::SUBSYSTEM_NAME, std::array::from_fn(|_| name.next().unwrap_or(0)));
        record.set(Field::SECURITY, if is_secure { TLS_1_3 } else { 0 });
        record.into_bytes()
    }

    /// Decodes a record of TCP; none for one of another transport, or with an address that is no IP address.
    fn decode(record: &LayoutBytes<DiscoveryEntry, &[u8]>) -> Option<DiscoveryLogRecord> {
        use DiscoveryEntry as Field;
        let number = record.get(Field::SUBSYSTEM_TYPE);
        let kind =
            [DiscoveredSubsystemType::Referral, DiscoveredSubsystemType::Drive, DiscoveredSubsystemType::Current];
        let kind =
            kind.into_iter().find(|kind| *kind as u8 == number).filter(|_| record.get(Field::TRANSPORT) == TCP)?;
        let text = |field: &[u8]| String::from_utf8_lossy(field).trim_end_matches([' ', '\0']).to_owned();
        let ip = text(&record.get(Field::ADDRESS)).parse().ok()?;
        let address = SocketAddr::new(ip, text(&record.get(Field::SERVICE)).parse().ok()?);
        let security = match record.get(Field::SECURE_CHANNEL) {
            CHANNEL_REQUIRED => DiscoveryChannelSecurity::Required,
            _ => DiscoveryChannelSecurity::None,
        };
        Some(DiscoveryLogRecord {
            kind,
            subsystem: text(&record.get(Field::SUBSYSTEM_NAME)),
            address,
            port_id: record.get(Field::PORT),
            admin_entries: record.get(Field::ADMIN_ENTRIES),
            security,
        })
    }
}

/// Returns the generation counter and the records of TCP of a whole log page; none if it is too short.
pub fn decode(page: &[u8]) -> Option<(u64, Vec<DiscoveryLogRecord>)> {
    let (header, records) = page.split_at_checked(DiscoveryHeader::BYTES)?;
    let generation = DiscoveryHeader::over(header).get(DiscoveryHeader::GENERATION);
    let records = DiscoveryEntry::iter_structures(records).filter_map(|record| DiscoveryLogRecord::decode(&record));
    Some((generation, records.collect()))
}

/// Log page of the discovery controllers of a server, and the number of its changes.
#[derive(Debug, Default)]
pub struct DiscoveryLogPage {
    state: Mutex<(u64, Vec<DiscoveryLogRecord>)>,
}

impl DiscoveryLogPage {
    /// Replaces the records. The generation grows if they differ from the present ones.
    pub fn replace(&self, records: Vec<DiscoveryLogRecord>) {
        let mut state = locked(&self.state);
        if state.1 != records {
            *state = (state.0 + 1, records);
        }
    }

    /// Returns the number of changes so far (GENCTR).
    pub fn generation(&self) -> u64 {
        locked(&self.state).0
    }

    /// Returns the bytes of the whole log page for a host that has reached the server at the address `reached`. Records of
    /// a port at all addresses of the server have this address, because no host can connect to the unspecified one.
    pub fn page(&self, reached: Option<IpAddr>) -> Vec<u8> {
        let state = locked(&self.state);
        let record = |record: &DiscoveryLogRecord| {
            let ip = Some(record.address.ip()).filter(|ip| !ip.is_unspecified()).or(reached)?.to_canonical();
            Some(DiscoveryLogRecord { address: SocketAddr::new(ip, record.address.port()), ..record.clone() }.encode())
        };
        let records: Vec<_> = state.1.iter().filter_map(record).collect();
        let header = DiscoveryHeader::zeros()
            .with(DiscoveryHeader::GENERATION, state.0)
            .with(DiscoveryHeader::RECORDS, length(records.len()));
        let mut page = header.into_bytes().to_vec();
        records.iter().for_each(|record| page.extend(record));
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discovery_records_read_back_and_changes_are_counted() {
        let drive = DiscoveryLogRecord {
            kind: DiscoveredSubsystemType::Drive,
            subsystem: String::from("nqn.2014-08.org.nvmexpress:uuid:1"),
            address: "127.0.0.1:4420".parse().unwrap(),
            port_id: 1,
            admin_entries: 128,
            security: DiscoveryChannelSecurity::None,
        };
        let referral = DiscoveryLogRecord {
            kind: DiscoveredSubsystemType::Referral,
            subsystem: String::from(DISCOVERY_NQN),
            address: "[::1]:8009".parse().unwrap(),
            security: DiscoveryChannelSecurity::Required,
            ..drive.clone()
        };
        let log = DiscoveryLogPage::default();
        log.replace(vec![drive.clone()]);
        log.replace(vec![drive.clone()]);
        assert_eq!(decode(&log.page(None)), Some((1, vec![drive.clone()])));
        log.replace(vec![drive.clone(), referral.clone()]);
        let page = log.page(None);
        assert_eq!(decode(&page), Some((2, vec![drive, referral])));
        assert_eq!((page.len(), page[8]), (3 * DiscoveryEntry::BYTES, 2));
        assert_eq!(page[DiscoveryEntry::BYTES..DiscoveryEntry::BYTES + 4], [3, 1, 2, 0b110]);
        assert_eq!(decode(&[0; 10]), None);
    }

    #[test]
    fn wildcard_record_names_the_address_its_reader_used() {
        let record = |address: &str| DiscoveryLogRecord {
            kind: DiscoveredSubsystemType::Drive,
            subsystem: String::from("nqn.drive"),
            address: address.parse().unwrap(),
            port_id: 1,
            admin_entries: 128,
            security: DiscoveryChannelSecurity::None,
        };
        let log = DiscoveryLogPage::default();
        log.replace(vec![record("0.0.0.0:4420"), record("[::]:4421"), record("192.0.2.1:4422")]);
        let read = |reached: Option<&str>| decode(&log.page(reached.map(|ip| ip.parse().unwrap()))).unwrap().1;
        let found = ["192.0.2.9:4420", "192.0.2.9:4421", "192.0.2.1:4422"].map(record);
        assert_eq!(read(Some("::ffff:192.0.2.9")), found);
        assert_eq!(read(None), [record("192.0.2.1:4422")]);
    }
}
