//! Host of NVMe/TCP: finds a subsystem by discovery, connects to a controller, identifies the drive, and opens queues.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use phaselink_core::number::{index, low_u16, low_u32, short_length};
use phaselink_core::protocol::nvme::spec::fields::{feature, identify, log};
use phaselink_core::protocol::nvme::spec::identify::{
    IdentifyController, IdentifyNamespace, LbaFormatEntry, NamespaceList,
};
use phaselink_core::protocol::nvme::spec::layout::Layout;
use phaselink_core::protocol::nvme::spec::logs::{DiscoveryEntry, DiscoveryHeader};
use phaselink_core::protocol::nvme::spec::{SUBMISSION_ENTRY_BYTES, SubmissionEntry, admin};

use super::address::TargetAddress;
use super::client::{Client, ClientCommandData, HostNameAndIdentifier, PATIENCE, broken, fine};
use super::fabrics::{ANY_CONTROLLER, Connect, ConnectData, ConnectQueueAttributes, DISCOVERY_NQN, FabricsCommand};
use super::wire::Digests;
use crate::nvme::discovery::{self, DiscoveredSubsystemType, DiscoveryLogRecord};
use crate::nvme::identify::IDENTIFY_BYTES;
use crate::nvme::log_pages;

/// Number of entries of the client's admin queue.
const ADMIN_ENTRIES: u16 = 32;
/// Identifier of the feature Number of Queues, and the number of queues of each kind, less 1, that a client asks for.
const NUMBER_OF_QUEUES: u32 = 0x07;
const QUEUES_FIELD: u32 = 0xfe;

/// Connected controller: its admin queue, and what a host has to know of it.
#[derive(Debug)]
pub struct Initiator {
    /// Connection of the admin queue.
    pub admin: Client,
    target: TargetAddress,
    host: HostNameAndIdentifier,
    /// Name of the subsystem.
    pub subsystem: String,
    /// Identifier of the controller.
    pub controller_id: u16,
    /// Maximum number of entries of an I/O queue.
    pub queue_entries: u16,
    /// Number of I/O queues that the controller has granted.
    pub queues: u16,
    /// Maximum number of bytes of a transfer; none without a limit.
    pub transfer_bytes_max: Option<u32>,
    /// True if the drive has a volatile write cache.
    pub is_volatile: bool,
    capsule_data_max: u32,
}

/// Returns the records of the discovery controller at a port.
///
/// # Errors
/// If there is no discovery controller, or it breaks the protocol.
pub fn read_discovery_records(
    port: SocketAddr,
    digests: Digests,
    host: &HostNameAndIdentifier,
) -> io::Result<(u64, Vec<DiscoveryLogRecord>)> {
    let target = TargetAddress { subsystem: Some(String::from(DISCOVERY_NQN)), digests, ..TargetAddress::of(port) };
    let mut initiator = Initiator::connect(&target, host, 0)?;
    initiator.enable()?;
    initiator.read_discovery_log()
}

/// Checks that a record leads to the address of the discovery controller that has it, or that the user allows others. A
/// discovery controller that does not authenticate could send the host and its data anywhere.
fn check_discovery_record_address(target: &TargetAddress, found: SocketAddr) -> io::Result<()> {
    if target.follows_records || found.ip() == target.port.ip() {
        return Ok(());
    }
    let text = format!(
        "discovery at {} leads to {found}, another address: name it in place of {}, or add `follow-records` behind the address",
        target.port, target.port
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

impl Initiator {
    /// Connects to a controller and identifies it. `keep_alive_ms` is 0 for no keep-alive timeout.
    ///
    /// # Errors
    /// If the target cannot be reached, refuses the host, or breaks the protocol.
    pub fn open(target: &TargetAddress, host: &HostNameAndIdentifier, keep_alive_ms: u32) -> io::Result<Initiator> {
        let mut target = target.clone();
        if target.subsystem.is_none() {
            let (_, records) = read_discovery_records(target.port, target.digests, host)?;
            let drive = records.into_iter().find(|record| record.kind == DiscoveredSubsystemType::Drive);
            let drive = drive.ok_or_else(|| io::Error::other("the discovery controller lists no NVM subsystem"))?;
            check_discovery_record_address(&target, drive.address)?;
            (target.port, target.subsystem) = (drive.address, Some(drive.subsystem));
        }
        let mut initiator = Initiator::connect(&target, host, keep_alive_ms)?;
        initiator.enable()?;
        initiator.identify()?;
        Ok(initiator)
    }

    /// Connects the admin queue of a new controller, and leaves the controller disabled.
    ///
    /// # Errors
    /// As [`Initiator::open`].
    pub fn connect(target: &TargetAddress, host: &HostNameAndIdentifier, keep_alive_ms: u32) -> io::Result<Initiator> {
        let subsystem = target.subsystem.clone().unwrap_or_else(|| String::from(DISCOVERY_NQN));
        let mut admin = Client::connect_host_with_keys(target, host, &subsystem)?;
        let connect = Connect {
            entries_field: ADMIN_ENTRIES - 1,
            attributes: ConnectQueueAttributes::without_sq_flow_control(),
            keep_alive_ms,
            ..Connect::default()
        };
        let data = ConnectData {
            host_id: host.id,
            controller: ANY_CONTROLLER,
            subsystem: subsystem.clone(),
            host: host.name.clone(),
        };
        let controller_id = admin.connect_queue(connect, &data)?;
        admin.authenticate(host, &subsystem)?;
        Ok(Initiator {
            admin,
            target: target.clone(),
            host: host.clone(),
            subsystem,
            controller_id,
            queue_entries: 0,
            queues: 0,
            transfer_bytes_max: None,
            is_volatile: false,
            capsule_data_max: 0,
        })
    }

    /// Returns the value of a property.
    ///
    /// # Errors
    /// If the connection breaks, or the property does not exist.
    pub fn property(&mut self, offset: u32, is_wide: bool) -> io::Result<u64> {
        let entry = FabricsCommand::PropertyGet { offset, is_wide }.entry(0);
        fine(&self.admin.execute(&entry, ClientCommandData::None)?, "Property Get")
    }

    /// Sets a property of 4 bytes.
    ///
    /// # Errors
    /// As [`Initiator::property`].
    pub fn set_property(&mut self, offset: u32, value: u32) -> io::Result<()> {
        let entry = FabricsCommand::PropertySet { offset, value: value.into(), is_wide: false }.entry(0);
        fine(&self.admin.execute(&entry, ClientCommandData::None)?, "Property Set").map(drop)
    }

    /// Enables the controller, and waits until it is ready.
    ///
    /// # Errors
    /// If the connection breaks, or the controller does not become ready.
    pub fn enable(&mut self) -> io::Result<()> {
        let capabilities = self.property(0, true)?;
        self.queue_entries = low_u16(capabilities).saturating_add(1);
        // Entry sizes of 64 and 16 bytes. Select all command sets if the controller supports more than the NVM set.
        let sets = if capabilities >> 43 & 1 == 1 { 0b110 << 4 } else { 0 };
        self.set_property(0x14, 6 << 16 | 4 << 20 | sets | 1)?;
        let until = Instant::now() + PATIENCE;
        while self.property(0x1c, false)? & 1 == 0 {
            if Instant::now() > until {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the controller does not become ready"));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Executes an admin command that returns `bytes` bytes.
    ///
    /// # Errors
    /// If the connection breaks, or the command fails.
    pub fn execute_admin_read(&mut self, entry: &SubmissionEntry, bytes: u32) -> io::Result<Vec<u8>> {
        let completion = self.admin.execute(entry, ClientCommandData::Receive { bytes, is_kept: true })?;
        fine(&completion, "an admin command").map(|_| completion.data)
    }

    /// Returns the data structure of Identify that CNS selects.
    ///
    /// # Errors
    /// As [`Initiator::execute_admin_read`].
    pub fn read_identify_structure(&mut self, selector: u8, namespace_id: u32) -> io::Result<Vec<u8>> {
        let entry = SubmissionEntry { opcode: admin::IDENTIFY, namespace_id, ..SubmissionEntry::default() };
        self.execute_admin_read(&entry.with(identify::STRUCTURE, selector.into()), short_length(IDENTIFY_BYTES))
    }

    fn identify(&mut self) -> io::Result<()> {
        use IdentifyController as Field;
        let page = IdentifyController::over(self.read_identify_structure(1, 0)?);
        let capsule_bytes = page.get(Field::COMMAND_CAPSULE).saturating_mul(16);
        self.capsule_data_max = capsule_bytes.saturating_sub(short_length(SUBMISSION_ENTRY_BYTES));
        let pages = page.get(Field::TRANSFER_MAX);
        self.transfer_bytes_max = (pages > 0).then(|| 4096_u32.checked_shl(pages.into()).unwrap_or(u32::MAX));
        self.is_volatile = page.get(Field::WRITE_CACHE);
        let entry = SubmissionEntry { opcode: admin::SET_FEATURES, ..SubmissionEntry::default() }
            .with(feature::ID, NUMBER_OF_QUEUES)
            .with(feature::SUBMISSION_QUEUES, QUEUES_FIELD)
            .with(feature::COMPLETION_QUEUES, QUEUES_FIELD);
        let granted = low_u32(fine(&self.admin.execute(&entry, ClientCommandData::None)?, "Set Features")?);
        let [submission, completion] =
            [feature::SUBMISSION_QUEUES, feature::COMPLETION_QUEUES].map(|field| low_u16(field.of_dword(granted)));
        self.queues = submission.min(completion).saturating_add(1);
        Ok(())
    }

    /// Returns generation and records of the discovery log page.
    ///
    /// # Errors
    /// As [`Initiator::execute_admin_read`], or if the page is invalid.
    pub fn read_discovery_log(&mut self) -> io::Result<(u64, Vec<DiscoveryLogRecord>)> {
        let part = |bytes: usize| {
            let words = short_length(bytes / 4) - 1;
            let entry = SubmissionEntry { opcode: admin::GET_LOG_PAGE, ..SubmissionEntry::default() }
                .with(log::ID, log_pages::DISCOVERY.into())
                .with(log::DWORDS_LOW, words)
                .with(log::DWORDS_HIGH, words >> 16);
            (entry, short_length(bytes))
        };
        let (entry, bytes) = part(DiscoveryHeader::BYTES);
        let header = DiscoveryHeader::over(self.execute_admin_read(&entry, bytes)?);
        let records = header.get(DiscoveryHeader::RECORDS).min(64);
        let (entry, bytes) = part(DiscoveryHeader::BYTES + DiscoveryEntry::BYTES * index(low_u32(records)));
        let page = self.execute_admin_read(&entry, bytes)?;
        discovery::decode(&page).ok_or_else(|| broken("an invalid discovery log page"))
    }

    /// Returns the first active namespace: its identifier, its number of blocks, and the binary logarithm of their size
    /// in bytes.
    ///
    /// # Errors
    /// If there is no namespace of blocks without metadata, or as [`Initiator::execute_admin_read`].
    pub fn namespace(&mut self) -> io::Result<(u32, u64, u32)> {
        let list = NamespaceList::over(self.read_identify_structure(2, 0)?);
        let id = list.get(NamespaceList::IDS.element(0));
        if id == 0 {
            return Err(io::Error::other("the drive has no namespace of blocks"));
        }
        let page = IdentifyNamespace::over(self.read_identify_structure(0, id)?);
        let settings = page.get(IdentifyNamespace::FORMAT);
        let format = usize::from(settings & 15) | usize::from(settings >> 5 & 3) << 4;
        let format = page.part(IdentifyNamespace::LBA_FORMATS.element(format));
        Ok((id, page.get(IdentifyNamespace::BLOCKS), format.get(LbaFormatEntry::BLOCK_SHIFT).into()))
    }

    /// Connects an I/O queue with this identifier and number of entries.
    ///
    /// # Errors
    /// If the target cannot be reached or refuses the queue.
    pub fn queue(&self, queue: u16, entries: u16) -> io::Result<Client> {
        let mut client = Client::connect_host_with_keys(&self.target, &self.host, &self.subsystem)?;
        client.capsule_data_max = self.capsule_data_max;
        let attributes = ConnectQueueAttributes::without_sq_flow_control();
        let connect = Connect { queue, entries_field: entries - 1, attributes, ..Connect::default() };
        let data = ConnectData {
            host_id: self.host.id,
            controller: self.controller_id,
            subsystem: self.subsystem.clone(),
            host: self.host.name.clone(),
        };
        client.connect_queue(connect, &data)?;
        client.authenticate(&self.host, &self.subsystem)?;
        Ok(client)
    }

    /// Shuts the controller down, and ends the connection.
    ///
    /// # Errors
    /// If the connection is broken already.
    pub fn close(mut self) -> io::Result<()> {
        let configuration = self.property(0x14, false)?;
        self.set_property(0x14, low_u32(configuration) & !(3 << 14) | 1 << 14)?;
        let until = Instant::now() + PATIENCE;
        while self.property(0x1c, false)? >> 2 & 3 != 2 && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}
