//! History of the five-minute rule, as far as its inputs are published: price and rate of a device, and the price of
//! memory.

/// Published version of the five-minute rule, with its inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedRuleVersion {
    /// Year of the publication.
    pub year: u32,
    /// Kind of device that the rule weighs against memory.
    pub device: &'static str,
    /// Size of a page or record in bytes.
    pub page_bytes: f64,
    /// Price of a device that does one access a second, in dollars.
    pub dollars_per_access: f64,
    /// Price of a MiB of memory in dollars (1987: 1,024 KB at $5 each).
    pub dollars_per_mib: f64,
    /// Publication from which prices and rates are taken.
    pub source: &'static str,
}

impl PublishedRuleVersion {
    /// Returns the break-even time: the interval between accesses, in seconds, at which memory and device cost the
    /// same.
    pub fn seconds(&self) -> f64 {
        self.dollars_per_access / (self.page_bytes / f64::from(1 << 20) * self.dollars_per_mib)
    }
}

/// All published versions of the rule, oldest first.
pub const HISTORY: [PublishedRuleVersion; 4] = [
    PublishedRuleVersion {
        year: 1987,
        device: "disk",
        page_bytes: 1024.0,
        dollars_per_access: 2000.0,
        dollars_per_mib: 5.0 * 1024.0,
        source: "Gray and Putzolu, SIGMOD 1987: $2,000 an access a second, $5 a KB",
    },
    PublishedRuleVersion {
        year: 1997,
        device: "disk",
        page_bytes: 8192.0,
        dollars_per_access: 2000.0 / 64.0,
        dollars_per_mib: 15.0,
        source: "Gray and Graefe, SIGMOD Record 1997: $2,000 for 64 accesses a second, $15 a MB",
    },
    PublishedRuleVersion {
        year: 2007,
        device: "disk",
        page_bytes: 4096.0,
        dollars_per_access: 80.0 / 83.0,
        dollars_per_mib: 0.047,
        source: "Graefe, DaMoN 2007: $80 for 83 accesses a second, $47 a GB",
    },
    PublishedRuleVersion {
        year: 2007,
        device: "flash",
        page_bytes: 4096.0,
        dollars_per_access: 999.0 / 6200.0,
        dollars_per_mib: 0.047,
        source: "Graefe, DaMoN 2007: $999 for 6,200 accesses a second, $47 a GB",
    },
];
