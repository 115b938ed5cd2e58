//! Complete description of a drive: everything that a run needs to know of host, link, protocol and memory.

use std::borrow::Cow;

use serde_json::{Map, Value as Json};

use crate::config::origin::Sources;
use crate::config::section::{self, Section, any, names, section};
use crate::config::{
    DataPlacement, Fault, FaultAction, FaultTimeline, Mapping, Precondition, StartCredits, UncertainConstant, Wait,
    Zoning,
};
use crate::media;
use crate::media::keys::{KeyIndexPages, KeyLayout};
use crate::media::translation::HostStreams;
use crate::media::zones::ZoneLayout;
use crate::number::narrow;
use crate::time::Span;
use crate::workload::Job;

section! {
    /// Keys above all sections.
    pub struct Header ("") {
        /// Name under which results show the drive; without it, the name of its file
        name => name: String = String::new(), any();
        /// Description of the drive in one line, which `phaselink check` and results show
        summary => summary: String = String::new(), any();
        /// Protocol between host and device
        interface => interface: Interface = Interface::ALL[0], any();
        /// Fault rules of the drive: faults that are injected into a run. If several rules match a request, the first
        /// one that triggers applies
        faults => faults: Vec<Fault> = Vec::new(), any();
        /// Timeline of faults that are injected into a run: lines such as `at=2s for=500ms stall`, each of which is
        /// read as a fault rule
        fault_lines => fault_lines: FaultTimeline = FaultTimeline::default(), any();
        /// Number of equal drives in the host, each at a root port of its own or behind a switch; the requests of a
        /// thread go to the drives in turn
        drives => drives: u16 = 1, 1..=64;
    }
}

/// Defines [`Interface`] and [`Drive`] from the list of sections that all drives share and the list of protocols.
macro_rules! drive_of {
    (
        shared { $($(#[doc = $about:literal])+ $section:ident: $Section:ident,)+ }
        protocols { $($protocol:ident: $Protocol:ident = $name:literal,)+ }
    ) => {
        /// Protocol between host and device.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Interface {
            $(
                #[doc = concat!("Protocol that a drive file selects with `interface = \"", $name, "\"`.")]
                $Protocol,
            )+
        }

        names! { Interface { $($name => $Protocol,)+ } }

        impl Interface {
            /// All protocols, in the order in which they are listed.
            pub const ALL: &[Interface] = &[$(Interface::$Protocol,)+];
        }

        /// Complete description of a drive, every key resolved.
        ///
        /// Two drives are equal if every value is; where the values come from does not count.
        #[derive(Clone, Debug)]
        pub struct Drive {
            /// Name under which results show the drive.
            pub name: String,
            /// Summary of the drive in one line.
            pub summary: String,
            /// Protocol that host and device speak.
            pub interface: Interface,
            /// Fault rules, whose faults are injected into a run.
            pub faults: Vec<Fault>,
            /// Number of equal drives in the host.
            pub drives: u16,
            $($(#[doc = $about])+ pub $section: crate::config::$Section,)+
            $(
                #[doc = concat!("Keys of the protocol `", $name, "`.")]
                pub $protocol: crate::protocol::$protocol::config::$Protocol,
            )+
            /// Keys of the drive whose value in effect has been fitted to measurements.
            pub fitted: Vec<UncertainConstant>,
            /// Keys of the drive whose value in effect is assumed, without a source.
            pub assumed: Vec<UncertainConstant>,
            /// Origins of the values: files, presets and overrides that gave them.
            pub sources: Sources,
        }

        impl Drive {
            /// Returns a drive in which every key has its default value.
            pub(crate) fn blank() -> Drive {
                let Header { name, summary, interface, faults, drives, .. } = Header::default();
                Drive {
                    name,
                    summary,
                    interface,
                    faults,
                    drives,
                    $($section: Default::default(),)+
                    $($protocol: Default::default(),)+
                    fitted: Vec::new(),
                    assumed: Vec::new(),
                    sources: Sources::default(),
                }
            }

            /// Returns all sections of the drive's description, in the order in which they are explained.
            pub fn sections(&self) -> Vec<&dyn Section> {
                vec![$(&self.$section,)+ $(&self.$protocol,)+]
            }

            /// Returns all sections of the drive's description for changing, in the order in which they are explained.
            pub(crate) fn sections_mut(&mut self) -> Vec<&mut dyn Section> {
                vec![$(&mut self.$section,)+ $(&mut self.$protocol,)+]
            }

            /// Replaces the section named `path`, one that all drives share, by that of another drive. Does nothing for
            /// a protocol's section.
            pub(crate) fn take_section(&mut self, path: &str, other: Drive) {
                match path {
                    $(stringify!($section) => self.$section = other.$section,)+
                    _ => {}
                }
            }
        }

        impl PartialEq for Drive {
            fn eq(&self, other: &Drive) -> bool {
                self.header() == other.header()
                    $(&& self.$section == other.$section)+
                    $(&& self.$protocol == other.$protocol)+
                    && self.fitted == other.fitted
                    && self.assumed == other.assumed
            }
        }
    };
}

/// Hands the list of sections that all drives share, and then the list of protocols, to `drive_of`. A new section is
/// one line here.
macro_rules! with_shared_sections {
    ($($protocols:tt)+) => {
        drive_of! {
            shared {
                /// Link between host and device.
                link: Link,
                /// Switch between root port and drive, if there is one.
                switch: Switch,
                /// Peer device that the drive's data goes to instead of host memory, if there is one.
                peer: Peer,
                /// Network between host and drive, if there is one.
                fabric: Fabric,
                /// DMA engine of the device.
                dma: Dma,
                /// Host: processors, waiting, interrupts.
                host: Host,
                /// Root complex, through which packets reach host memory.
                root_complex: RootComplex,
                /// Software stack above the driver.
                stack: Stack,
                /// Power of the server.
                power: Power,
                /// Storage media.
                media: Media,
                /// Processors of the drive.
                controller: Controller,
                /// Write buffer of the drive.
                buffer: Buffer,
                /// Flash translation layer.
                translation: Translation,
                /// Limits of a rate-limited volume, if the drive is one.
                volume: Volume,
                /// Zones of the drive, if its blocks are written in order.
                zones: Zoning,
                /// Placement of data by hosts, if the drive has it.
                placement: DataPlacement,
                /// Values by their keys, if the drive has them in place of logical blocks.
                key_value: KeyValues,
            }
            protocols { $($protocols)+ }
        }
    };
}
protocols!(with_shared_sections);

impl Drive {
    /// Returns a copy of this drive without injected faults.
    pub fn without_faults(&self) -> Drive {
        Drive { faults: Vec::new(), ..self.clone() }
    }

    /// Returns a copy of this drive in its host, without a network in between.
    pub fn without_fabric(&self) -> Drive {
        Drive { fabric: Default::default(), ..self.clone() }
    }

    /// Returns the first fault of the drive that needs a network, if the drive is behind none. Such a drive can be served
    /// over NVMe/TCP, but not simulated.
    pub fn fault_without_network(&self) -> Option<FaultAction> {
        let mut actions = self.faults.iter().map(|fault| fault.action);
        actions.find(|action| action.is_network_connection_effect() && !self.fabric.is_there())
    }

    /// True if the drive's memory is flash behind a translation layer and a write buffer, whose speed depends on what
    /// was written before.
    pub fn is_flash(&self) -> bool {
        self.translation.mapping == Mapping::Page
    }

    /// True if the drive is a volume whose burst rate lasts only as long as its burst credits.
    pub fn has_credits(&self) -> bool {
        self.volume.has_credits(self.media.capacity_mib)
    }

    /// Returns this drive in the initial state that `jobs` need. `translation.precondition = "auto"` becomes the steady
    /// state of random overwrites if a job writes at random and is measured in the steady state. Otherwise, and always
    /// with zones, it becomes a drive written in order. `volume.credits = "auto"` becomes no credits if a job is
    /// measured in the steady state, unless it replays a trace, whose pauses earn credits.
    pub fn preconditioned_for(&self, jobs: &[Job]) -> Cow<'_, Drive> {
        let mut drive = Cow::Borrowed(self);
        if self.translation.precondition == Precondition::Auto {
            let is_random = jobs.iter().any(|job| job.is_steady() && job.writes_at_random() && !self.zones.is_there());
            let precondition = if is_random { Precondition::Random } else { Precondition::Sequential };
            drive.to_mut().translation.precondition = precondition;
        }
        if self.has_credits() && self.volume.credits == StartCredits::Auto {
            let is_used = jobs.iter().any(|job| job.is_steady() && job.trace.is_none());
            let credits = if is_used { StartCredits::Used } else { StartCredits::Full };
            drive.to_mut().volume.credits = credits;
        }
        drive
    }

    /// Returns the machine of all hosts that share this drive: with the cores of all of them, and with a link whose
    /// messages are routed by port. Returns the drive unchanged if no hosts share it.
    pub fn combined_hosts(&self) -> Cow<'_, Drive> {
        let mut drive = Cow::Borrowed(self);
        if self.switch.has_hosts() {
            let all = drive.to_mut();
            all.link = self.switch.with_port_routing(&self.link);
            all.host.cores = self.host.cores.saturating_mul(self.switch.hosts);
        }
        if self.fabric.initiators > 1 {
            drive.to_mut().host.cores = self.host.cores.saturating_mul(self.fabric.initiators);
        }
        drive
    }

    /// Returns a copy of this drive that is the only one in its host.
    pub fn as_only_drive(&self) -> Drive {
        Drive { drives: 1, ..self.clone() }
    }

    /// Returns a copy of this drive whose host polls for completions, without a software stack above the driver.
    pub fn polled(&self) -> Drive {
        let mut drive = self.clone();
        drive.host.wait = Wait::Spin;
        drive.stack = Default::default();
        drive
    }

    /// Returns the name of the drive, with the number of drives if there are several.
    pub fn title(&self) -> String {
        match self.drives {
            1 => self.name.clone(),
            drives => format!("{drives} x {}", self.name),
        }
    }

    /// Returns the time for which the port at the upper end of a drive's link is busy with one posted packet. A root
    /// port takes its own time to accept one; a switch accepts at line rate.
    pub fn write_accept(&self) -> Span {
        if self.switch.is_there() { Span::ZERO } else { self.root_complex.write_accept }
    }

    /// Returns the largest payload in bytes of the packets that carry a read's data from the drive.
    pub fn data_payload_bytes(&self) -> u32 {
        match (self.peer.is_there(), self.peer.payload_bytes) {
            (false, _) | (true, 0) => self.link.max_payload_bytes,
            (true, bytes) => bytes,
        }
    }

    /// Returns the time that a switch adds to a packet that finds its uplink free; zero without a switch.
    pub fn switch_forwarding_time(&self) -> Span {
        if self.switch.direction().is_some() { self.switch.pass } else { Span::ZERO }
    }

    /// Returns every key of the drive with its value as JSON, in the key's unit and the schema's order. Leaves out
    /// sections that the drive does not use.
    pub fn resolved(&self) -> Json {
        let mut resolved = section::values(&self.header());
        // `fault_lines` are already part of `faults`.
        resolved.remove("fault_lines");
        let (faults, drives) = (resolved.remove("faults"), resolved.remove("drives"));
        for section in self.sections() {
            let values = section.values().into_iter().map(|(key, value)| (String::from(key), value));
            resolved.insert(String::from(section.path()), Json::Object(values.collect::<Map<_, _>>()));
        }
        for (list, doubts) in [("fitted", &self.fitted), ("assumed", &self.assumed)] {
            let doubts = doubts.iter().map(|doubt| Json::Object(section::values(doubt)));
            resolved.insert(String::from(list), doubts.collect());
        }
        // Omit settings that have their default, so that the documents of simple drives stay short.
        if let Some(faults) = faults.filter(|_| !self.faults.is_empty()) {
            resolved.insert(String::from("faults"), faults);
        }
        if let Some(drives) = drives.filter(|_| self.drives > 1) {
            resolved.insert(String::from("drives"), drives);
        }
        if self.switch.direction().is_none() {
            resolved.remove(self.switch.path());
        }
        if !self.peer.is_there() {
            resolved.remove(self.peer.path());
        }
        if !self.fabric.is_there() {
            resolved.remove(self.fabric.path());
        }
        if !self.volume.is_there() {
            resolved.remove(self.volume.path());
        }
        if !self.zones.is_there() {
            resolved.remove(self.zones.path());
        }
        if !self.placement.is_there() {
            resolved.remove(self.placement.path());
        }
        if !self.key_value.is_there() {
            resolved.remove(self.key_value.path());
        }
        Json::Object(resolved)
    }

    /// Returns the factor that scales the costs of the software stack to this host. The stack states the clock and the
    /// core that its costs hold for; where it states none, they are taken as the host's own.
    pub fn software_ratio(&self) -> f64 {
        let (host, stack) = (&self.host, &self.stack);
        if stack.clock_ghz == 0.0 {
            return host.kernel_cost_ratio();
        }
        let ipc = if stack.ipc > 0.0 { stack.ipc } else { host.ipc };
        stack.clock_ghz / host.core_ghz * (ipc / host.ipc)
    }

    /// Returns the core on which the costs of the software stack were measured: its clock in GHz, the key that states this
    /// clock, and its instructions per clock relative to the host's core; `None` if both have as many or it is unknown.
    pub(crate) fn measured_software_core(&self) -> (f64, &'static str, Option<f64>) {
        let (host, stack) = (&self.host, &self.stack);
        let (ghz, key, ipc) = match stack.clock_ghz > 0.0 {
            true => (stack.clock_ghz, "stack.clock_ghz", stack.ipc),
            false => (host.nominal_ghz, "host.nominal_ghz", host.nominal_ipc),
        };
        (ghz, key, Some(ipc / host.ipc).filter(|_| ipc != host.ipc && ipc != 0.0))
    }

    /// True if an acknowledged write outlives a loss of power: it is in the cells, or in a buffer with power-loss
    /// protection.
    pub fn keeps_acknowledged(&self) -> bool {
        !self.protocol().acknowledges_early(self) || self.buffer.power_loss_protection
    }

    /// True if a fault rule of this drive cuts its power during a run.
    pub fn loses_power(&self) -> bool {
        self.faults.iter().any(|fault| fault.action == FaultAction::PowerCut)
    }

    /// Returns the idle media of the drive, behind its processors, write buffer, translation layer, zones and rate
    /// limits. Random choices follow from `seed`.
    pub fn memory(&self, seed: u64) -> media::Media {
        let Drive { media, controller, buffer, translation, placement, zones, volume, .. } = self;
        let memory = media::Media::of(media, seed).behind_processors(controller, seed);
        let memory = memory.behind_translation(media, buffer, translation, placement, seed);
        memory.with_zones(media, translation, zones).limited(volume, media.capacity_mib)
    }

    /// Returns the number of bytes from the drive's start on that hold data when a run begins.
    pub fn used_bytes(&self) -> u64 {
        if self.is_flash() { self.translation.used_mib(&self.media) << 20 } else { self.media.capacity_bytes() }
    }

    /// Returns the number, size and limits of the zones, in logical blocks; `None` if the drive has no zones.
    pub fn zone_layout(&self) -> Option<ZoneLayout> {
        let blocks = |mib: u64| (mib << 20) / u64::from(self.limits().block_bytes);
        let Zoning { size_mib, active_max, open_max, .. } = self.zones;
        self.zones.is_there().then(|| ZoneLayout {
            zones: narrow::<u32, u64>(self.media.capacity_mib / size_mib),
            zone_blocks: blocks(size_mib),
            capacity_blocks: blocks(self.zones.writable_mib()),
            active_max,
            open_max,
        })
    }

    /// Returns the capacity for values in bytes, its granule, and the largest number of keys; `None` unless the drive
    /// stores values by their keys.
    pub fn key_layout(&self) -> Option<KeyLayout> {
        self.key_value.is_there().then(|| KeyLayout {
            capacity_bytes: self.value_media_bytes(),
            granule_bytes: self.protocol().limits(self).block_bytes,
            keys_max: self.key_value.keys_max,
        })
    }

    /// Returns the bytes of the media that hold values: all that the key index leaves, in whole granules.
    pub(crate) fn value_media_bytes(&self) -> u64 {
        let index_bytes = if self.key_value.index_cache_kib > 0 { self.index_bytes() } else { 0 };
        let left = self.media.capacity_bytes().saturating_sub(index_bytes);
        left - left % u64::from(self.protocol().limits(self).block_bytes)
    }

    /// Returns the size in bytes of an index of all keys, in whole pages.
    pub(crate) fn index_bytes(&self) -> u64 {
        let page_bytes = self.translation.unit_bytes;
        u64::from(KeyIndexPages::count(self.key_value.keys_max, page_bytes)) * u64::from(page_bytes)
    }

    /// Returns the pages of the key index if only a part of it is in the drive's memory; otherwise `None`.
    pub fn index_pages(&self) -> Option<KeyIndexPages> {
        let cached_bytes = self.key_value.index_cache_kib << 10;
        let layout = self.key_layout().filter(|_| cached_bytes > 0)?;
        Some(KeyIndexPages::new(&layout, self.translation.unit_bytes, cached_bytes))
    }

    /// Returns the streams among which hosts choose when they place data; `None` if they cannot place data.
    pub fn placed_streams(&self) -> Option<HostStreams> {
        let DataPlacement { handles, groups, isolation } = self.placement;
        self.placement.is_there().then_some(HostStreams { handles, groups, isolation })
    }

    /// Returns the keys above all sections of the description, with their values.
    pub(crate) fn header(&self) -> Header {
        Header {
            name: self.name.clone(),
            summary: self.summary.clone(),
            interface: self.interface,
            faults: self.faults.clone(),
            fault_lines: FaultTimeline::default(),
            drives: self.drives,
        }
    }
}
