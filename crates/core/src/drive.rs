//! A drive: everything that a run needs to know of host, link, protocol and memory.

use serde_json::{Map, Value as Json};

use crate::config::origin::Sources;
use crate::config::section::{self, Section, any, names, section};
use crate::config::{Acknowledge, Buffer, Controller, Dma, Doubt, Fault, FaultAction, Host, Link, Media, Power};
use crate::config::{Peer, RootComplex, Stack, Switch, Translation};
use crate::media;
use crate::time::Span;

section! {
    /// Keys above all sections.
    pub struct Header ("") {
        /// Name under which results appear; without it, the file's name
        name => name: String = String::new(), any();
        /// What the drive is, in one line
        summary => summary: String = String::new(), any();
        /// Protocol between host and device
        interface => interface: Interface = Interface::ALL[0], any();
        /// Faults that are injected into a run; of those that meet a request, the first that happens counts
        faults => faults: Vec<Fault> = Vec::new(), any();
        /// So many equal drives in one host, each on a root port of its own or behind a switch; the requests of a thread go to them in turn
        drives => drives: u16 = 1, 1..=64;
    }
}

/// From the list of protocols: the names of interfaces, and a drive with a section for each.
macro_rules! drive_with {
    ($($protocol:ident: $Protocol:ident = $name:literal,)+) => {
        /// The protocol between host and device.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Interface {
            $($Protocol,)+
        }

        names! { Interface { $($name => $Protocol,)+ } }

        impl Interface {
            /// All of them, in the order of the list.
            pub const ALL: &[Interface] = &[$(Interface::$Protocol,)+];
        }

        /// A complete description, every key resolved.
        ///
        /// Equal if every value is; where the values come from does not count.
        #[derive(Clone, Debug)]
        pub struct Drive {
            pub name: String,
            pub summary: String,
            pub interface: Interface,
            pub faults: Vec<Fault>,
            pub drives: u16,
            pub link: Link,
            pub switch: Switch,
            pub peer: Peer,
            pub dma: Dma,
            pub host: Host,
            pub root_complex: RootComplex,
            pub stack: Stack,
            pub power: Power,
            pub media: Media,
            pub controller: Controller,
            pub buffer: Buffer,
            pub translation: Translation,
            $(pub $protocol: crate::protocol::$protocol::config::$Protocol,)+
            /// Keys whose value in effect is a fitted one.
            pub fitted: Vec<Doubt>,
            /// Keys whose value in effect is assumed.
            pub assumed: Vec<Doubt>,
            pub(crate) sources: Sources,
        }

        impl Drive {
            /// The defaults of all keys.
            pub(crate) fn blank() -> Drive {
                let Header { name, summary, interface, faults, drives } = Header::default();
                Drive {
                    name,
                    summary,
                    interface,
                    faults,
                    drives,
                    link: Link::default(),
                    switch: Switch::default(),
                    peer: Peer::default(),
                    dma: Dma::default(),
                    host: Host::default(),
                    root_complex: RootComplex::default(),
                    stack: Stack::default(),
                    power: Power::default(),
                    media: Media::default(),
                    controller: Controller::default(),
                    buffer: Buffer::default(),
                    translation: Translation::default(),
                    $($protocol: Default::default(),)+
                    fitted: Vec::new(),
                    assumed: Vec::new(),
                    sources: Sources::default(),
                }
            }

            /// All sections, in the order in which they are explained.
            pub(crate) fn sections(&self) -> Vec<&dyn Section> {
                let Drive {
                    link, switch, peer, dma, host, root_complex, stack, power, media, controller, buffer,
                    translation, ..
                } = self;
                let shared: [&dyn Section; 12] = [
                    link, switch, peer, dma, host, root_complex, stack, power, media, controller, buffer,
                    translation,
                ];
                let mut sections = shared.to_vec();
                sections.extend([$(&self.$protocol as &dyn Section,)+]);
                sections
            }

            pub(crate) fn sections_mut(&mut self) -> Vec<&mut dyn Section> {
                let Drive {
                    link, switch, peer, dma, host, root_complex, stack, power, media, controller, buffer,
                    translation, ..
                } = self;
                let shared: [&mut dyn Section; 12] = [
                    link, switch, peer, dma, host, root_complex, stack, power, media, controller, buffer,
                    translation,
                ];
                shared.into_iter().chain([$(&mut self.$protocol as &mut dyn Section,)+]).collect()
            }
        }

        impl PartialEq for Drive {
            fn eq(&self, other: &Drive) -> bool {
                self.header() == other.header()
                    && self.link == other.link
                    && self.switch == other.switch
                    && self.peer == other.peer
                    && self.dma == other.dma
                    && self.host == other.host
                    && self.root_complex == other.root_complex
                    && self.stack == other.stack
                    && self.power == other.power
                    && self.media == other.media
                    && self.controller == other.controller
                    && self.buffer == other.buffer
                    && self.translation == other.translation
                    $(&& self.$protocol == other.$protocol)+
                    && self.fitted == other.fitted
                    && self.assumed == other.assumed
            }
        }
    };
}
protocols!(drive_with);

impl Drive {
    /// The same drive with nothing going wrong.
    pub fn without_faults(&self) -> Drive {
        Drive { faults: Vec::new(), ..self.clone() }
    }

    /// One of several.
    pub fn alone(&self) -> Drive {
        Drive { drives: 1, ..self.clone() }
    }

    /// Its name, and how many of it there are if there are several.
    pub fn title(&self) -> String {
        match self.drives {
            1 => self.name.clone(),
            drives => format!("{drives} x {}", self.name),
        }
    }

    /// Time for which the port at the upper end of a drive's link is busy with a posted packet: a root port accepts them in
    /// its own time, a switch as they come.
    pub fn write_accept(&self) -> Span {
        if self.switch.is_there() { Span::ZERO } else { self.root_complex.write_accept }
    }

    /// Payload of the packets that carry a read's data from the drive.
    pub fn data_payload_bytes(&self) -> u32 {
        match (self.peer.is_there(), self.peer.payload_bytes) {
            (false, _) | (true, 0) => self.link.max_payload_bytes,
            (true, bytes) => bytes,
        }
    }

    /// What a switch adds to the way of a packet that finds its uplink free.
    pub fn through_switch(&self) -> Span {
        if self.switch.is_there() { self.switch.pass } else { Span::ZERO }
    }

    /// Take a section that can have a preset over from another drive.
    pub(crate) fn take_section(&mut self, path: &str, other: Drive) {
        match path {
            "link" => self.link = other.link,
            "host" => self.host = other.host,
            "root_complex" => self.root_complex = other.root_complex,
            "stack" => self.stack = other.stack,
            "power" => self.power = other.power,
            "media" => self.media = other.media,
            _ => {}
        }
    }

    /// Every key with its value, in the key's unit and the schema's order.
    pub fn resolved(&self) -> Json {
        let mut resolved = section::values(&self.header());
        let (faults, drives) = (resolved.remove("faults"), resolved.remove("drives"));
        for section in self.sections() {
            let values = section.values().into_iter().map(|(key, value)| (String::from(key), value));
            resolved.insert(String::from(section.path()), Json::Object(values.collect::<Map<_, _>>()));
        }
        for (list, doubts) in [("fitted", &self.fitted), ("assumed", &self.assumed)] {
            let doubts = doubts.iter().map(|doubt| Json::Object(section::values(doubt)));
            resolved.insert(String::from(list), doubts.collect());
        }
        // Nearly all drives have no faults, stand alone and on a root port, and are what they were before there was anything else.
        if let Some(faults) = faults.filter(|_| !self.faults.is_empty()) {
            resolved.insert(String::from("faults"), faults);
        }
        if let Some(drives) = drives.filter(|_| self.drives > 1) {
            resolved.insert(String::from("drives"), drives);
        }
        if !self.switch.is_there() {
            resolved.remove(self.switch.path());
        }
        if !self.peer.is_there() {
            resolved.remove(self.peer.path());
        }
        Json::Object(resolved)
    }

    /// What the software's costs are multiplied by: they hold at the stack's clock and on its core, if it states them, else
    /// as the host's own.
    pub fn software_ratio(&self) -> f64 {
        let (host, stack) = (&self.host, &self.stack);
        if stack.clock_ghz == 0.0 {
            return host.cost_ratio();
        }
        let ipc = if stack.ipc > 0.0 { stack.ipc } else { host.ipc };
        stack.clock_ghz / host.core_ghz * (ipc / host.ipc)
    }

    /// Whether a write that it has acknowledged outlives power: it is in the cells, or in buffers that are protected.
    pub fn keeps_acknowledged(&self) -> bool {
        self.media.acknowledge == Acknowledge::Late || self.buffer.power_loss_protection
    }

    /// Whether power is going to fail in its runs.
    pub fn loses_power(&self) -> bool {
        self.faults.iter().any(|fault| fault.action == FaultAction::PowerCut)
    }

    /// Its memory with what lies in front of it, idle; chance comes from `seed`.
    pub fn memory(&self, seed: u64) -> media::Media {
        media::Media::of(&self.media, seed).behind(&self.media, &self.controller, &self.buffer, &self.translation, seed)
    }

    /// The keys above all sections.
    pub(crate) fn header(&self) -> Header {
        Header {
            name: self.name.clone(),
            summary: self.summary.clone(),
            interface: self.interface,
            faults: self.faults.clone(),
            drives: self.drives,
        }
    }
}
