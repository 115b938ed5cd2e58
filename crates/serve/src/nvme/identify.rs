//! Data structures of the Identify command (Base Specification 2.0, section 5.17; NVM Command Set Specification 1.0,
//! section 4.1.5).

use std::net::IpAddr;
use std::sync::Arc;

use phaselink_core::number::{index, low_u8, low_u16, short_length};
use phaselink_core::protocol::nvme::commands::command::ALL_NAMESPACES;
use phaselink_core::protocol::nvme::commands::{Action, COPY_SOURCES_MAX};
use phaselink_core::protocol::nvme::rules::protection::{
    BYTE_ALIGNED_METADATA, METADATA_CAPABILITIES, PROTECTION_CAPABILITIES,
};
use phaselink_core::protocol::nvme::rules::reservation::{CAPABILITIES, ReservingHost};
use phaselink_core::protocol::nvme::rules::{BlockMetadataFormat, Limits};
use phaselink_core::protocol::nvme::spec::identify::{
    CommandSets, IdList, IdentifyCommon, IdentifyController, IdentifyNamespace, LbaFormatEntry, NamespaceIds,
    NamespaceList,
};
use phaselink_core::protocol::nvme::spec::layout::{Layout, LayoutBytes};
use phaselink_core::protocol::nvme::spec::{COMPLETION_ENTRY_BYTES, SUBMISSION_ENTRY_BYTES, Status};

use super::access::{ACCESS_CAPABILITIES, TRANSITION_SECONDS};
use super::discovery::{DISCOVERY_NQN, DiscoveryLogPage};
use super::event_log;
use super::kinds::KindRow;
use super::limits::{ABORTS_MAX, ERROR_LOG_ENTRIES, EVENT_REQUESTS_MAX, KEEP_ALIVE_TENTHS, VERSION};
use super::subsystem::{AttachedNamespaceView, CONTROLLERS_MAX, LbaFormat, Namespace, NamespaceBlockFormat, Subsystem};

/// Length in bytes of every Identify data structure.
pub const IDENTIFY_BYTES: usize = IdentifyController::BYTES;
/// PCI vendor identifier, also in the PCI configuration space: "pl", which no vendor has (assumed).
pub const VENDOR: u16 = 0x706c;

/// Values of the CNS field.
mod cns {
    pub(super) const NAMESPACE: u8 = 0x00;
    pub(super) const CONTROLLER: u8 = 0x01;
    pub(super) const ACTIVE_NAMESPACES: u8 = 0x02;
    pub(super) const NAMESPACE_IDS: u8 = 0x03;
    pub(super) const SET_NAMESPACE: u8 = 0x05;
    pub(super) const SET_CONTROLLER: u8 = 0x06;
    pub(super) const SET_ACTIVE_NAMESPACES: u8 = 0x07;
    pub(super) const NAMESPACE_STATUS: u8 = 0x08;
    pub(super) const ALLOCATED_NAMESPACES: u8 = 0x10;
    pub(super) const ALLOCATED_NAMESPACE: u8 = 0x11;
    pub(super) const CONTROLLERS_OF_NAMESPACE: u8 = 0x12;
    pub(super) const CONTROLLERS: u8 = 0x13;
    pub(super) const ENDURANCE_GROUPS: u8 = 0x19;
    pub(super) const COMMAND_SETS: u8 = 0x1c;
}

/// A data structure that Identify returns.
type IdentifyPage = Box<[u8; IDENTIFY_BYTES]>;

/// Fields of an Identify command that select a data structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdentifySelection {
    /// Controller or Namespace Structure (CNS).
    pub cns: u8,
    /// Command Set Identifier (CSI).
    pub command_set: u8,
    /// Namespace identifier (NSID).
    pub namespace: u32,
    /// First controller of a list (CNTID).
    pub first_controller: u16,
    /// First endurance group of a list (CNSSID).
    pub first_group: u16,
}

/// Identifier of a controller in host memory (CNTLID). Hosts see it as the only controller of its NVM subsystem.
const CONTROLLER_ID: u16 = 0;
/// Highest identifier of a controller. Those in host memory that share a subsystem with others count down from here, and
/// those in a fabric count up from 1.
const LAST_CONTROLLER_ID: u16 = 0xffef;
/// Sanitize capabilities (SANICAP) of the controller. Sanitize supports Block Erase alone, and does not additionally
/// modify the media if the host sets No-Deallocate After Sanitize.
pub(super) const SANITIZE_CAPABILITIES: u32 = 1 << 1 | 1 << 30;

/// Value of CNTRLTYPE for an I/O controller.
const IO_CONTROLLER: u8 = 1;
/// Value of CNTRLTYPE for a discovery controller.
const DISCOVERY_CONTROLLER: u8 = 2;
/// Bit of CTRATT that announces host identifiers of 128 bits.
const LONG_HOST_IDENTIFIER: u32 = 1;
/// Value of SGLS in a fabric: data pointers name offsets in the capsule, or data of the transport.
const FABRIC_SEGMENTS: u32 = 1 | 1 << 20 | 1 << 21;
/// Value in VWC that says: Flush accepts the broadcast namespace identifier.
const FLUSH_ALL_SUPPORTED: u8 = 0b11;
/// Bit of ONCS that announces the feature Timestamp.
const ONCS_TIMESTAMP: u16 = 1 << 6;
/// Warning composite temperature (WCTEMP) in kelvin: 70 degrees Celsius (assumed).
const WARNING_KELVIN: u16 = 343;
/// Critical composite temperature (CCTEMP) in kelvin: 85 degrees Celsius (assumed).
const CRITICAL_KELVIN: u16 = 358;

/// Identity of a controller: model, serial number, limits and namespaces that it reports.
#[derive(Clone, Debug)]
pub struct Identity {
    model: String,
    serial: String,
    /// Limits of commands, queues and namespaces.
    pub limits: Limits,
    /// State that all controllers of the drive share: namespaces, sanitize state and event log.
    pub subsystem: Arc<Subsystem>,
    /// Index of the controller among those of the drive.
    pub(super) number: u32,
    /// Number of the path on which the controller's host reaches the drive.
    pub(super) path: u32,
    /// True if the drive's controllers are of one NVM subsystem.
    is_one_of_several: bool,
    /// Host of the controller, as reservations know it.
    pub(super) host: ReservingHost,
    /// Atomic write unit in bytes: a power cut leaves a write that crosses no multiple of it all old or all new.
    atomic_bytes: u32,
    /// Place of the controller in a fabric; none if its queues are in host memory.
    pub(super) fabric: Option<FabricIdentity>,
}

/// Identity of a controller that hosts reach over a fabric.
#[derive(Clone, Debug)]
pub struct FabricIdentity {
    /// Identifier of the controller, unique in its NVM subsystem (CNTLID).
    pub controller_id: u16,
    /// Identifier of the host that has connected (HOSTID).
    pub host_id: [u8; 16],
    /// Maximum number of data bytes in a command capsule.
    pub capsule_data_bytes: u32,
    /// Log page of a discovery controller; none for a controller of the drive.
    pub discovery: Option<Arc<DiscoveryLogPage>>,
    /// Address of the server at which the host has reached it, if it is known.
    pub reached: Option<IpAddr>,
}

impl Identity {
    /// Returns the identity of a drive's controller in front-end number `front`. The serial number depends on the
    /// arguments alone.
    pub fn new(name: &str, limits: Limits, front: usize) -> Identity {
        let capacity_bytes = limits.blocks << limits.block_shift;
        let hash = crc32fast::hash(format!("{name} {capacity_bytes}").as_bytes());
        let (model, serial) = (format!("phaselink {name}"), format!("{hash:08x}-{front}"));
        let subsystem = Arc::new(Subsystem::new(&limits));
        let (number, atomic_bytes) = (front as u32, 0);
        let host = ReservingHost::OfController(number);
        let (path, is_one_of_several, fabric) = (u32::MAX, false, None);
        Identity { model, serial, limits, subsystem, number, path, is_one_of_several, host, atomic_bytes, fabric }
    }

    /// Replaces the identity's namespaces by those of `subsystem`, which other controllers of the drive have too.
    pub fn sharing(self, subsystem: &Arc<Subsystem>) -> Identity {
        Identity { subsystem: Arc::clone(subsystem), ..self }
    }

    /// Returns a text that differs between controllers of which a host can notice that they are others.
    pub fn description(&self) -> String {
        format!("{} {} {} {} {:?}", self.model, self.serial, self.number, self.is_one_of_several, self.limits)
    }

    /// Places the controller on a path, whose number [`Subsystem::add_host_path`] has returned.
    pub fn on_path(self, path: u32) -> Identity {
        Identity { path, ..self }
    }

    /// Makes the controller one of several of the drive's NVM subsystem, which has the name of the first.
    pub fn in_one_subsystem(self) -> Identity {
        let (hash, _) = self.serial.rsplit_once('-').unwrap_or((&self.serial, ""));
        Identity { serial: format!("{hash}-0"), is_one_of_several: true, ..self }
    }

    /// True if hosts may reach the namespaces through further controllers of the NVM subsystem.
    fn has_several_controllers(&self) -> bool {
        self.is_one_of_several || self.fabric.is_some()
    }

    /// Places the controller in a fabric, with the host that has connected.
    pub fn in_fabric(self, fabric: FabricIdentity) -> Identity {
        let host = match fabric.host_id {
            // Controllers of different hosts may share a number, so distinguish hosts without an identifier by the
            // controller's identifier.
            [0, ..] if fabric.host_id == [0; 16] => ReservingHost::OfController(fabric.controller_id.into()),
            id => ReservingHost::Named(id),
        };
        // All fabric controllers see the namespaces that are attached to the last controller number.
        Identity { fabric: Some(fabric), number: CONTROLLERS_MAX - 1, host, ..self }
    }

    /// Returns the LBA formats that hosts can choose. In a fabric, metadata follows the data of each block, which the
    /// controller does not support, so that formats with metadata are left out there: they are the last.
    fn supported_lba_formats(&self) -> Vec<LbaFormat> {
        let mut formats = self.subsystem.formats();
        formats.retain(|format| self.fabric.is_none() || format.metadata_bytes == 0);
        formats
    }

    /// Returns the namespace format that a host has chosen; see [`Subsystem::choose`].
    pub(super) fn choose(
        &self,
        format: usize,
        metadata: BlockMetadataFormat,
        is_extended: bool,
    ) -> Result<NamespaceBlockFormat, Status> {
        let is_offered = format < self.supported_lba_formats().len();
        if is_offered { self.subsystem.choose(format, metadata, is_extended) } else { Err(Status::INVALID_FORMAT) }
    }

    /// Returns the identifier of the controller (CNTLID).
    pub(super) fn controller_id(&self) -> u16 {
        match &self.fabric {
            Some(fabric) => fabric.controller_id,
            None if self.is_one_of_several => LAST_CONTROLLER_ID - low_u16(self.number),
            None => CONTROLLER_ID,
        }
    }

    /// Returns the log page of a discovery controller; none if the controller is one of the drive.
    pub(super) fn discovery(&self) -> Option<&DiscoveryLogPage> {
        self.fabric.as_ref()?.discovery.as_deref()
    }

    /// Returns the address at which the host of a controller in a fabric has reached the server.
    pub(super) fn reached(&self) -> Option<IpAddr> {
        self.fabric.as_ref()?.reached
    }

    /// Returns the name of the NVM subsystem (SUBNQN).
    pub fn nvm_subsystem_name(&self) -> String {
        match self.discovery() {
            Some(_) => String::from(DISCOVERY_NQN),
            None => format!("nqn.2014-08.org.nvmexpress:uuid:{}", self.uuid_text()),
        }
    }

    /// Returns a view of the namespaces that are attached to this controller.
    pub(super) fn namespaces(&self) -> AttachedNamespaceView {
        AttachedNamespaceView::new(&self.subsystem, self.number, (self.path, self.host))
    }

    /// Returns the row of the kind of the drive's namespaces.
    pub(super) fn namespace_kind_row(&self) -> &'static KindRow {
        KindRow::of(&self.limits.kind)
    }

    /// Sets the atomic write unit that the controller reports, in bytes.
    pub fn with_atomic_bytes(self, atomic_bytes: u32) -> Identity {
        Identity { atomic_bytes, ..self }
    }

    /// Returns the atomic write unit in blocks of a size, less 1, as fields of Identify hold it.
    fn atomic_unit_field(&self, block_shift: u32) -> u16 {
        low_u16((self.atomic_bytes >> block_shift).saturating_sub(1))
    }

    /// Returns the data structure that an Identify command selects. `optional_admin_bits` is OACS.
    ///
    /// # Errors
    /// Invalid Field if the controller does not support the structure, Invalid Namespace if the namespace does not
    /// exist.
    pub fn structure(&self, selected: IdentifySelection, optional_admin_bits: u16) -> Result<IdentifyPage, Status> {
        let IdentifySelection { cns, command_set, namespace, first_controller, first_group } = selected;
        let (row, own_id, mut page) = (self.namespace_kind_row(), self.controller_id(), Box::new([0; IDENTIFY_BYTES]));
        if self.discovery().is_some() && cns != cns::CONTROLLER {
            return Err(Status::INVALID_FIELD);
        }
        check_command_set(row, cns, command_set)?;
        match cns {
            cns::CONTROLLER => self.fill_identify_controller(optional_admin_bits, &mut page),
            cns::COMMAND_SETS => list_command_sets(row, &mut page),
            // For all namespaces, Identify returns their common capabilities.
            cns::NAMESPACE if namespace == ALL_NAMESPACES => {
                let format = self.subsystem.described_block_format();
                self.fill_format_capabilities(format, &mut IdentifyNamespace::over(&mut page[..]));
            }
            cns::NAMESPACE => self.fill_identify_namespace(namespace, self.find_attached(namespace)?, &mut page),
            cns::ALLOCATED_NAMESPACE => {
                self.fill_identify_namespace(namespace, self.find_existing(namespace)?, &mut page)
            }
            cns::NAMESPACE_IDS => self.fill_namespace_ids(namespace, self.require_attached(namespace)?, &mut page),
            cns::NAMESPACE_STATUS => self.fill_namespace_status(namespace, &mut page)?,
            cns::SET_ACTIVE_NAMESPACES | cns::SET_CONTROLLER | cns::SET_NAMESPACE if command_set != 0 => {
                self.fill_command_set_structure(selected, &mut page)?;
            }
            cns::ACTIVE_NAMESPACES | cns::SET_ACTIVE_NAMESPACES => {
                // For the NVM command set both lists are equal. A drive with zones or keys has no namespaces of that
                // set, so its list is empty.
                let has_other_set = cns == cns::SET_ACTIVE_NAMESPACES && row.command_set() != 0;
                let is_listed = |it: &Namespace| it.is_attached(self.number) && !has_other_set;
                self.fill_namespace_list(namespace, is_listed, &mut page)?;
            }
            cns::ALLOCATED_NAMESPACES => self.fill_namespace_list(namespace, |_| true, &mut page)?,
            cns::CONTROLLERS_OF_NAMESPACE => {
                let is_attached = self.find_existing(namespace)?.is_some_and(|it| it.is_attached(self.number));
                fill_single_entry_list(own_id, is_attached && first_controller <= own_id, &mut page);
            }
            cns::CONTROLLERS => fill_single_entry_list(own_id, first_controller <= own_id, &mut page),
            cns::ENDURANCE_GROUPS if !row.endurance_groups.is_empty() => {
                // The only endurance group is listed if the list begins at or before it.
                fill_single_entry_list(row.endurance_group(), first_group <= row.endurance_group(), &mut page);
            }
            // There are no further limits, and protection information has only 16-bit guards.
            cns::SET_CONTROLLER => {}
            cns::SET_NAMESPACE => self.require_attached(namespace).map(drop)?,
            _ => return Err(Status::INVALID_FIELD),
        }
        Ok(page)
    }

    /// Fills a data structure of the command set of zones, or of keys and values. Invalid Field if the drive does not
    /// have that set.
    fn fill_command_set_structure(
        &self,
        selected: IdentifySelection,
        page: &mut [u8; IDENTIFY_BYTES],
    ) -> Result<(), Status> {
        let IdentifySelection { cns, command_set, namespace, .. } = selected;
        if command_set != self.namespace_kind_row().command_set() {
            return Err(Status::INVALID_FIELD);
        }
        match cns {
            cns::SET_ACTIVE_NAMESPACES => {
                self.fill_namespace_list(namespace, |it| it.is_attached(self.number), page)?;
            }
            cns::SET_CONTROLLER => {
                self.limits.kind.identify_controller(self.limits.transfer_bytes_max, &mut page[..]);
            }
            _ => {
                self.require_attached(namespace)?;
                self.limits.kind.identify_namespace(self.subsystem.kind.used_key_bytes(), &mut page[..]);
            }
        }
        Ok(())
    }

    /// Fills the data structure of Identify Controller.
    fn fill_identify_controller(&self, optional_admin_bits: u16, page: &mut [u8; IDENTIFY_BYTES]) {
        use IdentifyController as Field;
        let mut page = IdentifyController::over(&mut page[..]);
        page.set(Field::VENDOR, VENDOR);
        page.set(Field::SUBSYSTEM_VENDOR, VENDOR);
        page.set_padded_text(Field::SERIAL, &self.serial);
        page.set_padded_text(Field::MODEL, &self.model);
        page.set_padded_text(Field::FIRMWARE, env!("CARGO_PKG_VERSION"));
        page.set(Field::TRANSFER_MAX, self.limits.mdts_field().unwrap_or(0));
        page.set(Field::CONTROLLER, self.controller_id());
        page.set(Field::VERSION, VERSION);
        page.set(Field::NAMESPACE_NOTICES, true);
        page.set(Field::ATTRIBUTES, self.namespace_kind_row().attributes);
        page.set(Field::TYPE, IO_CONTROLLER);
        page.set(Field::OPTIONAL_ADMIN, optional_admin_bits);
        page.set(Field::ABORTS, ABORTS_MAX - 1);
        page.set(Field::EVENT_REQUESTS, EVENT_REQUESTS_MAX - 1);
        page.set(Field::FIRST_SLOT_READ_ONLY, true);
        page.set(Field::SLOTS, 1);
        for log in [Field::EFFECTS_LOG, Field::LOG_OFFSETS, Field::TELEMETRY_LOG, Field::PERSISTENT_LOG] {
            page.set(log, true);
        }
        page.set(Field::ERROR_ENTRIES, low_u8(short_length(ERROR_LOG_ENTRIES)) - 1);
        page.set(Field::WARNING_TEMPERATURE, WARNING_KELVIN);
        page.set(Field::CRITICAL_TEMPERATURE, CRITICAL_KELVIN);
        page.set(Field::CAPACITY, self.subsystem.capacity_bytes().into());
        page.set(Field::UNALLOCATED, self.subsystem.unallocated_capacity_bytes().into());
        page.set(Field::KEEP_ALIVE, KEEP_ALIVE_TENTHS);
        page.set(Field::SANITIZE, SANITIZE_CAPABILITIES);
        page.set(Field::ENDURANCE_GROUPS, self.namespace_kind_row().endurance_group());
        page.set(Field::PERSISTENT_LOG_UNITS, event_log::LOG_UNITS);
        if self.has_several_controllers() {
            page.set(Field::HAS_SEVERAL_CONTROLLERS, true);
            page.set(Field::REPORTS_ACCESS, true);
            page.set(Field::ACCESS_NOTICES, true);
            page.set(Field::TRANSITION_SECONDS, TRANSITION_SECONDS);
            page.set(Field::ACCESS_CAPABILITIES, ACCESS_CAPABILITIES);
            page.set(Field::ACCESS_GROUP_MAX, self.limits.namespaces);
            page.set(Field::ACCESS_GROUPS, self.limits.namespaces);
            page.set(Field::NAMESPACES_MAX, self.limits.namespaces);
        }
        self.fill_io_capabilities(&mut page);
        let name = self.nvm_subsystem_name();
        let mut bytes = name.bytes();
        page.set(Field::SUBSYSTEM_NAME, std::array::from_fn(|_| bytes.next().unwrap_or(0)));
        if let Some(fabric) = &self.fabric {
            self.fill_fabric_fields(fabric, &mut page);
        }
    }

    /// Fills the fields of Identify Controller that only controllers in a fabric have, or that differ there (figure
    /// 275).
    fn fill_fabric_fields(&self, fabric: &FabricIdentity, page: &mut LayoutBytes<IdentifyController, &mut [u8]>) {
        use IdentifyController as Field;
        page.set(Field::ATTRIBUTES, self.namespace_kind_row().attributes | LONG_HOST_IDENTIFIER);
        page.set(Field::COMMANDS_MAX, low_u16(self.limits.queue_entries));
        page.set(Field::SEGMENTS, FABRIC_SEGMENTS);
        page.set(Field::COMMAND_CAPSULE, (short_length(SUBMISSION_ENTRY_BYTES) + fabric.capsule_data_bytes) / 16);
        page.set(Field::RESPONSE_CAPSULE, short_length(COMPLETION_ENTRY_BYTES) / 16);
        page.set(Field::DESCRIPTORS_MAX, 1);
        page.set(Field::HAS_DISCONNECT, true);
        if fabric.discovery.is_some() {
            page.set(Field::TYPE, DISCOVERY_CONTROLLER);
            page.set(Field::NAMESPACE_NOTICES, false);
            page.set(Field::REPORTS_ACCESS, false);
            page.set(Field::ACCESS_NOTICES, false);
            page.set(Field::DISCOVERY_NOTICES, true);
            // A discovery controller has no namespaces and no optional commands.
            page.set(Field::NAMESPACES, 0);
            page.set(Field::OPTIONAL_IO, 0);
            page.set(Field::WRITE_CACHE, false);
            page.set(Field::FLUSH_ALL, 0);
        }
    }

    /// Fills the fields of Identify Controller about queues and I/O commands.
    fn fill_io_capabilities(&self, page: &mut LayoutBytes<IdentifyController, &mut [u8]>) {
        use IdentifyController as Field;
        // Each field holds the smallest and largest entry size as powers of two, which are equal: 2^6 and 2^4 bytes.
        page.set(Field::SUBMISSION_ENTRY, 0x66);
        page.set(Field::COMPLETION_ENTRY, 0x44);
        page.set(Field::NAMESPACES, self.limits.namespaces);
        page.set(Field::OPTIONAL_IO, self.oncs_bits() | ONCS_TIMESTAMP);
        page.set(Field::WRITE_CACHE, true);
        page.set(Field::FLUSH_ALL, FLUSH_ALL_SUPPORTED);
        // The atomic write units must hold for every format, so use the largest blocks, which give the fewest.
        let shifts = self.subsystem.formats().into_iter().map(|format| format.block_shift);
        let atomic = self.atomic_unit_field(shifts.max().unwrap_or(self.limits.block_shift));
        page.set(Field::ATOMIC_NORMAL, atomic);
        page.set(Field::ATOMIC_POWER_FAIL, atomic);
        page.set(Field::COPY_FORMATS, self.namespace_kind_row().copy_formats.into());
        page.set(Field::SEGMENTS, self.sgl_support_bits());
    }

    /// Returns the support for scatter-gather lists (SGLS): data of any address and length, metadata at any address,
    /// and no bit buckets.
    fn sgl_support_bits(&self) -> u32 {
        if self.limits.takes_segments { 1 | BYTE_ALIGNED_METADATA } else { 0 }
    }

    /// Returns the bits of ONCS that announce optional I/O commands.
    fn oncs_bits(&self) -> u16 {
        let rows = Action::ROWS.iter().filter(|row| self.limits.kind.offers(row.set));
        bits_from_numbers(rows.map(|row| row.optional_bit))
    }

    /// Fills Identify Namespace (NVM Command Set Specification 1.0). Without a namespace, leaves zeros.
    fn fill_identify_namespace(&self, id: u32, namespace: Option<Namespace>, page: &mut [u8; IDENTIFY_BYTES]) {
        let Some(namespace) = namespace else { return };
        let mut page = IdentifyNamespace::over(&mut page[..]);
        for field in [IdentifyNamespace::BLOCKS, IdentifyNamespace::CAPACITY, IdentifyNamespace::USED] {
            page.set(field, namespace.blocks());
        }
        page.set(IdentifyNamespace::LENGTH, namespace.bytes.into());
        page.set(IdentifyNamespace::ENDURANCE_GROUP, self.namespace_kind_row().endurance_group());
        page.set(IdentifyNamespace::IS_SHARED, self.has_several_controllers());
        page.set(IdentifyNamespace::RESERVATIONS, CAPABILITIES);
        page.set(IdentifyNamespace::ACCESS_GROUP, if self.has_several_controllers() { id } else { 0 });
        self.fill_format_capabilities(namespace.format, &mut page);
    }

    /// Fills the fields of Identify Namespace that depend on the namespace's format, not on its size.
    fn fill_format_capabilities(
        &self,
        format: NamespaceBlockFormat,
        page: &mut LayoutBytes<IdentifyNamespace, &mut [u8]>,
    ) {
        use IdentifyNamespace as Field;
        self.fill_format_fields(format, page);
        let block_shift = format.block_shift;
        // Deallocated blocks read as zeros, with a guard of all ones.
        page.set(Field::DEALLOCATED_VALUE, 0b001);
        page.set(Field::ZEROES_DEALLOCATE, true);
        let atomic = self.atomic_unit_field(block_shift);
        if atomic > 0 {
            // No atomic write may cross a boundary.
            page.set(Field::HAS_ATOMIC_UNITS, true);
            for field in
                [Field::ATOMIC_NORMAL, Field::ATOMIC_POWER_FAIL, Field::BOUNDARY_NORMAL, Field::BOUNDARY_POWER_FAIL]
            {
                page.set(field, atomic);
            }
        }
        let limits = Limits { block_shift, ..self.limits };
        page.set(Field::COPY_RANGE_MAX, low_u16(limits.copy_source_blocks_max()));
        page.set(Field::COPY_MAX, limits.copy_blocks_max());
        page.set(Field::COPY_RANGES, low_u8(COPY_SOURCES_MAX) - 1);
    }

    /// Fills the fields of Identify Namespace about LBA formats, metadata and protection information (NLBAF, FLBAS, MC,
    /// DPC, DPS, LBAF).
    fn fill_format_fields(&self, format: NamespaceBlockFormat, page: &mut LayoutBytes<IdentifyNamespace, &mut [u8]>) {
        let formats = self.supported_lba_formats();
        let own = formats.iter().position(|other| *other == format.matching_lba_format()).unwrap_or(0);
        page.set(IdentifyNamespace::FORMATS, low_u8(short_length(formats.len())) - 1);
        page.set(IdentifyNamespace::FORMAT, low_u8(short_length(own)));
        if formats.iter().any(|format| format.metadata_bytes > 0) {
            page.set(IdentifyNamespace::METADATA, METADATA_CAPABILITIES);
            page.set(IdentifyNamespace::PROTECTION_CAPABILITIES, PROTECTION_CAPABILITIES);
        }
        page.set(IdentifyNamespace::PROTECTION, format.metadata_size_and_dps().1);
        for (place, LbaFormat { block_shift, metadata_bytes }) in formats.into_iter().enumerate() {
            let mut entry = page.field_structure_mut(IdentifyNamespace::LBA_FORMATS.element(place));
            entry.set(LbaFormatEntry::BLOCK_SHIFT, low_u8(block_shift));
            entry.set(LbaFormatEntry::METADATA_BYTES, metadata_bytes.into());
        }
    }

    /// Fills the list of namespace identification descriptors with the UUID (type 3) and the command set (type 4).
    fn fill_namespace_ids(&self, id: u32, namespace: Namespace, page: &mut [u8; IDENTIFY_BYTES]) {
        let mut page = NamespaceIds::over(&mut page[..]);
        page.set(NamespaceIds::UUID_TYPE, 3);
        page.set(NamespaceIds::UUID_BYTES, 16);
        page.set(NamespaceIds::UUID, self.uuid(id, namespace.generation));
        // Descriptor type 4 is the command set: NVM, Key Value or Zoned Namespace.
        page.set(NamespaceIds::SET_TYPE, 4);
        page.set(NamespaceIds::SET_BYTES, 1);
        page.set(NamespaceIds::SET, self.namespace_kind_row().command_set());
    }

    /// Returns the UUID of a namespace (RFC 9562, version 8). It is derived from model, serial number, identifier and
    /// generation, so that it never changes and is never used again. The UUID of the first namespace 1 also names the
    /// controller.
    fn uuid(&self, namespace: u32, generation: u32) -> [u8; 16] {
        let mut uuid = [0; 16];
        let further = match (namespace, generation) {
            (1, 0) => String::new(),
            (_, 0) => format!(" {namespace}"),
            _ => format!(" {namespace} {generation}"),
        };
        for (place, part) in uuid.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let name = format!("{} {} {place}{further}", self.model, self.serial);
            *part = crc32fast::hash(name.as_bytes()).to_be_bytes();
        }
        uuid[6] = uuid[6] & 0x0f | 0x80;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        uuid
    }

    fn uuid_text(&self) -> String {
        let hex: String = self.uuid(1, 0).iter().map(|byte| format!("{byte:02x}")).collect();
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    /// Returns the namespace with an identifier, attached or not, or none if it does not exist. Invalid Namespace if
    /// the identifier is out of range.
    fn find_existing(&self, id: u32) -> Result<Option<Namespace>, Status> {
        let found = self.subsystem.namespaces().get(index(id.wrapping_sub(1))).copied();
        found.ok_or(Status::INVALID_NAMESPACE)
    }

    /// Returns the namespace with an identifier, or none if it does not exist or is not attached to the controller.
    /// Invalid Namespace if the identifier is out of range.
    fn find_attached(&self, id: u32) -> Result<Option<Namespace>, Status> {
        Ok(self.find_existing(id)?.filter(|namespace| namespace.is_attached(self.number)))
    }

    /// Returns the namespace with an identifier. Invalid Field if it does not exist or is not attached to the
    /// controller.
    fn require_attached(&self, id: u32) -> Result<Namespace, Status> {
        self.find_attached(id)?.ok_or(Status::INVALID_FIELD)
    }

    /// Fills the I/O Command Set Independent Identify Namespace structure of a namespace, which is ready. Fails as
    /// [`Identity::require_attached`].
    fn fill_namespace_status(&self, id: u32, page: &mut [u8; IDENTIFY_BYTES]) -> Result<(), Status> {
        self.require_attached(id)?;
        let mut page = IdentifyCommon::over(&mut page[..]);
        page.set(IdentifyCommon::RESERVATIONS, CAPABILITIES);
        page.set(IdentifyCommon::ACCESS_GROUP, if self.has_several_controllers() { id } else { 0 });
        page.set(IdentifyCommon::IS_READY, true);
        page.set(IdentifyCommon::ENDURANCE_GROUP, self.namespace_kind_row().endurance_group());
        Ok(())
    }

    /// Fills a list with the identifiers greater than `above` of the namespaces for which `is_listed` is true. Invalid
    /// Namespace if `above` is one of the two highest values.
    fn fill_namespace_list(
        &self,
        above: u32,
        is_listed: impl Fn(&Namespace) -> bool,
        page: &mut [u8; IDENTIFY_BYTES],
    ) -> Result<(), Status> {
        if above >= 0xffff_fffe {
            return Err(Status::INVALID_NAMESPACE);
        }
        let namespaces = self.subsystem.namespaces();
        let numbered = (1..).zip(&namespaces).filter(|(_, it)| it.as_ref().is_some_and(&is_listed));
        let listed = numbered.map(|(id, _)| id).filter(|id: &u32| *id > above);
        let mut page = NamespaceList::over(&mut page[..]);
        let listed = listed.take(NamespaceList::IDS.count()).enumerate();
        listed.for_each(|(place, id)| page.set(NamespaceList::IDS.element(place), id));
        Ok(())
    }
}

/// Refuses with Invalid Field a data structure about logical blocks if the drive has keys and values in their place.
fn check_command_set(row: &KindRow, cns: u8, command_set: u8) -> Result<(), Status> {
    let is_about_blocks = match cns {
        cns::NAMESPACE | cns::ALLOCATED_NAMESPACE => true,
        cns::SET_CONTROLLER | cns::SET_NAMESPACE => command_set == 0,
        _ => false,
    };
    if is_about_blocks { row.commands_of(0).map(drop).ok_or(Status::INVALID_FIELD) } else { Ok(()) }
}

/// Fills Identify I/O Command Set with the only combination of command sets.
fn list_command_sets(row: &KindRow, page: &mut [u8; IDENTIFY_BYTES]) {
    let sets = row.command_sets.iter().fold(0, |sets, (set, _)| sets | 1 << set);
    CommandSets::over(&mut page[..]).set(CommandSets::COMBINATIONS.element(0), sets);
}

/// Fills a list of controllers or endurance groups with the only one, or leaves it empty.
fn fill_single_entry_list(id: u16, is_listed: bool, page: &mut [u8; IDENTIFY_BYTES]) {
    let mut page = IdList::over(&mut page[..]);
    page.set(IdList::COUNT, is_listed.into());
    page.set(IdList::IDS.element(0), id);
}

/// Returns OACS or ONCS from the numbers of the bits that announce commands.
pub(super) fn bits_from_numbers(bits: impl Iterator<Item = Option<u16>>) -> u16 {
    bits.flatten().fold(0, |set, bit| set | 1 << bit)
}
