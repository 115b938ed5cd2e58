//! PCI configuration space of the device (PCI Express Base Specification 6.0, section 7.5).

use crate::nvme::identify::VENDOR;

/// Size of the PCI configuration space, in bytes. Beyond the first 256 there are no capabilities.
pub const CONFIGURATION_BYTES: u64 = 4096;
/// Size of BAR 0, in bytes: a page of registers and a page of doorbells.
pub const REGISTERS_BYTES: u64 = 0x2000;
/// Size of BAR 4, in bytes: the table of interrupt vectors (MSI-X), and their pending bits in its second half.
pub const VECTORS_BYTES: u64 = 0x1000;
const PENDING_START: u32 = 0x800;

/// Offsets of registers and capabilities in the PCI configuration space, in bytes.
mod at {
    pub(super) const COMMAND: usize = 0x04;
    pub(super) const STATUS: usize = 0x06;
    pub(super) const CLASS: usize = 0x09;
    pub(super) const BAR0: usize = 0x10;
    pub(super) const BAR4: usize = 0x20;
    pub(super) const SUBSYSTEM: usize = 0x2c;
    pub(super) const CAPABILITIES: usize = 0x34;
    pub(super) const INTERRUPT: usize = 0x3c;
    pub(super) const POWER: usize = 0x40;
    pub(super) const VECTORS: usize = 0x50;
    pub(super) const EXPRESS: usize = 0x60;
}

/// PCI device identifier of the NVMe device, in the vendor's own numbering (assumed).
const DEVICE: u16 = 0x0001;
/// PCI class code: mass storage, non-volatile memory, NVM Express.
const CLASS: [u8; 3] = [0x02, 0x08, 0x01];
/// Lowest bits of a BAR: memory with a 64-bit address.
const BAR_64_BITS: u8 = 0b100;
/// Identifiers of PCI capabilities: power management, PCI Express and MSI-X.
const CAPABILITY_POWER: u8 = 0x01;
const CAPABILITY_EXPRESS: u8 = 0x10;
const CAPABILITY_VECTORS: u8 = 0x11;
/// Bits of the function-level reset: `RESET_OFFERED` in Device Capabilities, and `RESET_WANTED` in Device Control.
const RESET_OFFERED: u8 = 1 << 4;
const RESET_WANTED: u8 = 1 << 7;

const HEADER_BYTES: usize = 256;

/// PCI configuration space of a device, and the bits of it that a host may change.
#[derive(Clone, Debug)]
pub struct PciConfigurationSpace {
    bytes: [u8; HEADER_BYTES],
    writable: [u8; HEADER_BYTES],
    vectors: u16,
}

impl PciConfigurationSpace {
    /// Makes the configuration space of a device with `vectors` interrupt vectors, as after power-on.
    pub fn new(vectors: u16) -> PciConfigurationSpace {
        let (bytes, writable) = ([0; HEADER_BYTES], [0; HEADER_BYTES]);
        let mut space = PciConfigurationSpace { bytes, writable, vectors };
        space.put_configuration_header();
        space.put_power_capability();
        space.put_msix_capability();
        space.put_express_capability();
        space
    }

    /// Returns a configuration space with the same number of vectors in its state after power-on.
    pub fn reset(&self) -> PciConfigurationSpace {
        PciConfigurationSpace::new(self.vectors)
    }

    fn put_configuration_header(&mut self) {
        self.put(0, &VENDOR.to_le_bytes());
        self.put(2, &DEVICE.to_le_bytes());
        // Status register: capabilities list present.
        self.put(at::STATUS, &[1 << 4]);
        self.put(at::CLASS, &CLASS);
        self.put(at::BAR0, &[BAR_64_BITS]);
        self.put(at::BAR4, &[BAR_64_BITS]);
        self.put(at::SUBSYSTEM, &VENDOR.to_le_bytes());
        self.put(at::SUBSYSTEM + 2, &DEVICE.to_le_bytes());
        self.put(at::CAPABILITIES, &[at::POWER as u8]);
        // Interrupt pin A.
        self.put(at::INTERRUPT + 1, &[1]);
        // Writable bits of the Command register: memory space, bus master, parity errors, system errors, interrupt
        // disable.
        self.set_writable_bits(at::COMMAND, &[0x46, 0x05]);
        self.set_writable_bits(at::BAR0, &bar_mask(REGISTERS_BYTES));
        self.set_writable_bits(at::BAR4, &bar_mask(VECTORS_BYTES));
        self.set_writable_bits(at::INTERRUPT, &[0xff]);
    }

    /// Adds the power management capability: version 3, no power saving, and no reset on the return from D3
    /// (No_Soft_Reset).
    fn put_power_capability(&mut self) {
        self.put(at::POWER, &[CAPABILITY_POWER, at::VECTORS as u8, 3, 0, 1 << 3]);
        self.set_writable_bits(at::POWER + 4, &[0b11]);
    }

    /// Adds the MSI-X capability (section 7.7.2).
    fn put_msix_capability(&mut self) {
        self.put(at::VECTORS, &[CAPABILITY_VECTORS, at::EXPRESS as u8]);
        self.put(at::VECTORS + 2, &(self.vectors - 1).to_le_bytes());
        self.put(at::VECTORS + 4, &4_u32.to_le_bytes());
        self.put(at::VECTORS + 8, &(PENDING_START | 4).to_le_bytes());
        // Writable bits of Message Control: MSI-X enable and function mask.
        self.set_writable_bits(at::VECTORS + 3, &[0xc0]);
    }

    /// Adds the PCI Express capability: an endpoint of version 2, with function-level reset.
    fn put_express_capability(&mut self) {
        self.put(at::EXPRESS, &[CAPABILITY_EXPRESS, 0, 2]);
        self.put(at::EXPRESS + 7, &[RESET_OFFERED]);
        // Writable bits of Device Control: all except function-level reset, which always reads as zero.
        self.set_writable_bits(at::EXPRESS + 8, &[0xff, 0x7f]);
        // Link Capabilities and Link Status: one lane at 2.5 GT/s. No data crosses this link.
        self.put(at::EXPRESS + 12, &[0x11]);
        self.put(at::EXPRESS + 18, &[0x11]);
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Sets which bits of the bytes from `at` on the host can write.
    fn set_writable_bits(&mut self, at: usize, bits: &[u8]) {
        self.writable[at..at + bits.len()].copy_from_slice(bits);
    }

    /// Returns true if the host has enabled interrupts by vector (MSI-X).
    pub fn is_msix_enabled(&self) -> bool {
        self.bytes[at::VECTORS + 3] & 1 << 7 != 0
    }

    /// Copies the configuration space, from `offset` on, to `into`. Bytes that are not defined are zero.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        for (at, byte) in (offset..).zip(into) {
            *byte = usize::try_from(at).ok().and_then(|at| self.bytes.get(at)).copied().unwrap_or(0);
        }
    }

    /// Writes `from` to the configuration space, from `offset` on, where a host may change it. Returns true if the host
    /// asks for a function-level reset.
    pub fn write(&mut self, offset: u64, from: &[u8]) -> bool {
        let mut reset = false;
        for (at, byte) in (offset..).zip(from) {
            let Some(at) = usize::try_from(at).ok().filter(|at| *at < HEADER_BYTES) else { break };
            reset |= at == at::EXPRESS + 9 && byte & RESET_WANTED != 0;
            let writable = self.writable[at];
            self.bytes[at] = self.bytes[at] & !writable | byte & writable;
        }
        reset
    }
}

/// Returns the address bits that a host may set in a 64-bit BAR of `bytes` bytes: all but those below its size.
fn bar_mask(bytes: u64) -> [u8; 8] {
    (!(bytes - 1)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(space: &PciConfigurationSpace, at: usize) -> u32 {
        let mut bytes = [0; 4];
        space.read(at as u64, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    #[test]
    fn capability_list_links_power_msix_and_express() {
        let space = PciConfigurationSpace::new(5);
        let mut at = word(&space, at::CAPABILITIES) as usize & 0xff;
        let mut found = Vec::new();
        while at != 0 {
            let head = word(&space, at);
            found.push(head as u8);
            at = (head >> 8) as usize & 0xff;
        }
        assert_eq!(found, [CAPABILITY_POWER, CAPABILITY_VECTORS, CAPABILITY_EXPRESS]);
        assert_eq!(word(&space, 8) >> 8, 0x010802);
        // The table size field of MSI-X holds the number of vectors minus one.
        assert_eq!(word(&space, at::VECTORS) >> 16, 4);
    }

    #[test]
    fn bar_reports_its_size_when_written_with_ones() {
        let mut space = PciConfigurationSpace::new(5);
        assert!(!space.write(at::BAR0 as u64, &[0xff; 8]));
        assert_eq!((word(&space, at::BAR0), word(&space, at::BAR0 + 4)), (0xffff_e004, 0xffff_ffff));
    }

    #[test]
    fn only_writable_bits_change_and_a_reset_is_noticed() {
        let mut space = PciConfigurationSpace::new(5);
        space.write(0, &[0xff; 64]);
        assert_eq!(word(&space, 0), u32::from(VENDOR) | u32::from(DEVICE) << 16);
        assert_eq!(word(&space, at::COMMAND), 0x0010_0546);
        assert!(space.write(at::EXPRESS as u64 + 8, &[0, RESET_WANTED]));
        assert_eq!(word(&space, at::EXPRESS + 8) & 0xffff, 0);
        // Accesses beyond the end have no effect.
        space.write(u64::MAX - 1, &[1]);
        space.read(4090, &mut [0; 16]);
    }

    #[test]
    fn host_can_enable_only_power_msix_and_express_functions() {
        let mut space = PciConfigurationSpace::new(5);
        let before =
            (at::POWER..HEADER_BYTES).map(|at| word(&space, at & !3).to_le_bytes()[at & 3]).collect::<Vec<_>>();
        for at in at::POWER..HEADER_BYTES {
            space.write(at as u64, &[0xff]);
        }
        let mut changed = (at::POWER..HEADER_BYTES).zip(before).filter_map(|(at, before)| {
            let now = word(&space, at & !3).to_le_bytes()[at & 3];
            (now != before).then_some((at, now ^ before))
        });
        // Power Management 1.2, section 3.2.4: power state. PCI Express 4.0, section 7.7.2.2: MSI-X enable and function
        // mask; section 7.5.3.4: Device Control, whose last bit starts a reset and reads as zero.
        assert_eq!(changed.next(), Some((at::POWER + 4, 0b11)));
        assert_eq!(changed.next(), Some((at::VECTORS + 3, 0xc0)));
        assert_eq!((changed.next(), changed.next()), (Some((at::EXPRESS + 8, 0xff)), Some((at::EXPRESS + 9, 0x7f))));
        assert_eq!(changed.next(), None);
    }
}
