//! A drive: everything that a run needs to know of host, link, protocol and memory.

use serde_json::{Map, Value as Json};

use super::origin::Sources;
use super::overrides::Override;
use super::problem::Problems;
use super::schema::{
    Capi, Cxl, DcExpress, Host, Interface, Link, Media, Moneta, Nvme, Power, Pss, RootComplex, Stack, Wait,
};
use super::section::{self, Section, any, section};
use super::{explain, presets, reader, shipped};

section! {
    /// Keys above all sections.
    pub struct Header ("") {
        /// Name under which results appear; without it, the file's name
        name => name: String = String::new(), any();
        /// What the drive is, in one line
        summary => summary: String = String::new(), any();
        /// Protocol between host and device: `nvme`, `dc-express`, `moneta`, `pss`, `capi` or `cxl`
        interface => interface: Interface = Interface::Nvme, any();
    }
}

section! {
    /// A key whose value was fitted: chosen so that a published result comes out.
    pub struct Fitted ("fitted") {
        /// The key with its section
        key => key: String = String::new(), any();
        /// What it was fitted to
        why => why: String = String::new(), any();
    }
}

/// A complete description, every key resolved.
///
/// Equal if every value is; where the values come from does not count.
#[derive(Clone, Debug)]
pub struct Drive {
    pub name: String,
    pub summary: String,
    pub interface: Interface,
    pub link: Link,
    pub host: Host,
    pub root_complex: RootComplex,
    pub stack: Stack,
    pub power: Power,
    pub media: Media,
    pub nvme: Nvme,
    pub dc_express: DcExpress,
    pub moneta: Moneta,
    pub pss: Pss,
    pub capi: Capi,
    pub cxl: Cxl,
    /// Keys whose value in effect is a fitted one.
    pub fitted: Vec<Fitted>,
    pub(super) sources: Sources,
}

impl Drive {
    /// Read a drive file. Values come, in rising order of precedence, from the schema's defaults, the presets
    /// of sections, the shipped drive that `preset` names, the file, and `overrides` from first to last.
    ///
    /// # Errors
    /// Everything that is wrong with the file and the overrides, in that order.
    pub fn from_toml(file_name: &str, text: &str, overrides: &[Override]) -> Result<Drive, Problems> {
        reader::read(file_name, text, overrides)
    }

    /// A drive that comes with the program, by name.
    ///
    /// # Panics
    /// If the shipped file itself has problems.
    pub fn shipped(name: &str) -> Option<Drive> {
        let shipped = shipped::find(name)?;
        match Drive::from_toml(shipped.file, shipped.text, &[]) {
            Ok(drive) => Some(drive),
            Err(problems) => panic!("{problems}"),
        }
    }

    /// Every key with its value, where the value comes from, and its meaning, for a terminal 100 columns wide.
    pub fn explain(&self) -> String {
        explain::explain(self)
    }

    /// Every key with its value, in the key's unit and the schema's order.
    pub fn resolved(&self) -> Json {
        let mut resolved = section::values(&self.header());
        for section in self.sections() {
            let values = section.values().into_iter().map(|(key, value)| (String::from(key), value));
            resolved.insert(String::from(section.path()), Json::Object(values.collect::<Map<_, _>>()));
        }
        let fitted = self.fitted.iter().map(|mark| Json::Object(section::values(mark)));
        resolved.insert(String::from("fitted"), fitted.collect());
        Json::Object(resolved)
    }

    /// [`Drive::resolved`] as a drive file, which reads back to an equal drive.
    ///
    /// # Panics
    /// If a field was set beyond what its key allows, and TOML cannot express it.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.resolved()).expect("values that the schema allows are plain TOML")
    }

    /// The fitted keys on which this drive's results can depend: not those of a protocol that it does not speak, nor
    /// of interrupts that nobody waits for.
    pub fn fitted_in_effect(&self) -> impl Iterator<Item = &Fitted> {
        self.fitted.iter().filter(|mark| match mark.key.split_once('.') {
            Some(("dc_express", _)) => self.interface == Interface::DcExpress,
            Some(("moneta", _)) => self.interface == Interface::Moneta,
            Some(("pss", _)) => self.interface == Interface::Pss,
            Some(("capi", _)) => self.interface == Interface::Capi,
            Some(("cxl", _)) => self.interface == Interface::Cxl,
            Some(("host", key)) if key.starts_with("interrupt") => self.host.wait == Wait::Sleep,
            _ => true,
        })
    }

    /// The full name of everything that an override can set, presets included.
    pub(crate) fn key_names() -> Vec<String> {
        let blank = Drive::blank();
        let header = blank.header();
        let mut names = vec![String::from("preset")];
        names.extend(header.keys().iter().map(|key| String::from(key.name)));
        for section in blank.sections() {
            let preset = presets::has(section.path()).then_some("preset");
            let keys = section.keys().into_iter().map(|key| key.name);
            names.extend(preset.into_iter().chain(keys).map(|key| section::full_name(section.path(), key)));
        }
        names
    }

    /// The schema's defaults.
    pub(super) fn blank() -> Drive {
        let header = Header::default();
        Drive {
            name: header.name,
            summary: header.summary,
            interface: header.interface,
            link: Link::default(),
            host: Host::default(),
            root_complex: RootComplex::default(),
            stack: Stack::default(),
            power: Power::default(),
            media: Media::default(),
            nvme: Nvme::default(),
            dc_express: DcExpress::default(),
            moneta: Moneta::default(),
            pss: Pss::default(),
            capi: Capi::default(),
            cxl: Cxl::default(),
            fitted: Vec::new(),
            sources: Sources::default(),
        }
    }

    pub(super) fn header(&self) -> Header {
        Header { name: self.name.clone(), summary: self.summary.clone(), interface: self.interface }
    }

    pub(super) fn sections(&self) -> [&dyn Section; 12] {
        [
            &self.link,
            &self.host,
            &self.root_complex,
            &self.stack,
            &self.power,
            &self.media,
            &self.nvme,
            &self.dc_express,
            &self.moneta,
            &self.pss,
            &self.capi,
            &self.cxl,
        ]
    }

    pub(super) fn sections_mut(&mut self) -> [&mut dyn Section; 12] {
        [
            &mut self.link,
            &mut self.host,
            &mut self.root_complex,
            &mut self.stack,
            &mut self.power,
            &mut self.media,
            &mut self.nvme,
            &mut self.dc_express,
            &mut self.moneta,
            &mut self.pss,
            &mut self.capi,
            &mut self.cxl,
        ]
    }
}

impl PartialEq for Drive {
    fn eq(&self, other: &Drive) -> bool {
        self.header() == other.header()
            && self.link == other.link
            && self.host == other.host
            && self.root_complex == other.root_complex
            && self.stack == other.stack
            && self.power == other.power
            && self.media == other.media
            && self.nvme == other.nvme
            && self.dc_express == other.dc_express
            && self.moneta == other.moneta
            && self.pss == other.pss
            && self.capi == other.capi
            && self.cxl == other.cxl
            && self.fitted == other.fitted
    }
}
