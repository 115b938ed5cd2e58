// Names of drives for people, and questions to start with. Answers are computed from what is simulated.

/** Headings of the list of drives, with the sets of the program that they show; what is in no set is of papers. */
const GROUPS = [["Bought now", "2026"], ["Cloud volumes", "cloud"], ["Of 2018", "2018"], ["One memory behind every interface", "interfaces"]];
const OTHERS = "Of papers and talks";
/** Drive on which the page opens. */
const FIRST_DRIVE = "tlc-gen5";

const NAMES = {
  "capi": "CAPI, phase-change memory",
  "capi-pcm-legacy": "CAPI on POWER8, 90 nm phase-change memory",
  "capi-pcm-next": "CAPI on POWER8, 25 nm phase-change memory",
  "cxl": "CXL.mem, phase-change memory",
  "cxl-flash": "Flash behind CXL with a DRAM cache",
  "cxl-memory-gen5": "CXL memory expanders, DDR4",
  "cxl-pcm-legacy": "CXL.mem, 90 nm phase-change memory",
  "cxl-pcm-next": "CXL.mem, 25 nm phase-change memory",
  "dc-express": "DC Express from user space",
  "dc-express-block": "DC Express as a block device",
  "disk-raid": "Four disks, RAID",
  "dram-card": "NVMe card with DRAM",
  "ebs-gp2": "Amazon EBS gp2, 100 GiB",
  "ebs-gp3": "Amazon EBS gp3, 100 GiB",
  "ebs-io2": "Amazon EBS io2 Block Express, 100 GiB",
  "ebs-st1": "Amazon EBS st1, 1 TiB of disks",
  "fusion-io": "Early PCIe flash card",
  "hyperdisk-balanced": "Google Hyperdisk Balanced, 100 GiB",
  "moneta": "Moneta, gen1 x8",
  "moneta-4x": "Moneta, four lanes",
  "moneta-block": "Moneta as a block device",
  "nvm-model-block": "NVMe model, block memory",
  "nvm-model-dram": "NVMe model, DRAM-like memory",
  "nvme": "NVMe by interrupt, phase-change memory",
  "nvme-polled": "NVMe by polling, phase-change memory",
  "nvme-ssd-gen3": "Flash SSD, NVMe gen3",
  "onyx": "Onyx, phase-change memory",
  "optane-p4800x": "3D XPoint SSD, gen3 (P4800X class)",
  "optane-p5800x": "3D XPoint SSD, gen4 (P5800X class)",
  "pd-balanced": "Google pd-balanced, 100 GiB",
  "pd-ssd": "Google pd-ssd, 100 GiB",
  "premium-ssd": "Azure Premium SSD P10",
  "premium-ssd-v2": "Azure Premium SSD v2, 100 GiB",
  "pcie-pcm-legacy": "NVMe, 90 nm phase-change memory",
  "pcie-pcm-next": "NVMe, 25 nm phase-change memory",
  "pss": "IBM's phase-change card (PSS)",
  "pss-4-cards": "Four PSS cards as one",
  "pss-block": "PSS as a block device",
  "ramdisk": "Example: one doorbell",
  "slc-gen7": "One-bit flash for GPUs, gen7 (a paper's assumption)",
  "ssd-raid": "Four SATA SSDs, RAID",
  "tlc-gen3": "Flash SSD of 2018, gen3",
  "tlc-gen4": "Flash SSD of 2020, gen4, for clients",
  "tlc-gen5": "Flash SSD of 2022, gen5, for servers",
  "xl-flash": "Low-latency flash SSD, gen5",
};

const humanName = (name) => NAMES[name] ?? name;

/** A factor in words: 1.84 as `1.8 times`. */
const times = (factor) => `${factor >= 9.95 ? factor.toFixed(0) : factor.toFixed(1)} times`;
const yesOrNo = (is) => (is ? "Yes" : "No");

/** Settings of a pinned state, as the address has them. */
const pinned = (settings) => new URLSearchParams(settings).toString();

/** Questions: the settings that ask them, and a sentence from the figures (`iops`, `mean_ns`, `p99_ns`) now and pinned. */
const EXAMPLES = [
  {
    question: "How long does a read of an SSD take?", settings: { drive: "tlc-gen5" },
    answer: (now) => `${seconds(now.mean_ns)}, most of it in ${now.longest}.`,
  },
  {
    question: "Is 3D XPoint faster than flash?", settings: { drive: "optane-p5800x", vs: pinned({ drive: "tlc-gen5" }) },
    answer: (now, was) => `${yesOrNo(now.mean_ns < was.mean_ns)}: alone, a flash read takes ${times(was.mean_ns / now.mean_ns)} as long.`,
  },
  {
    question: "What does Linux cost?", settings: { drive: "optane-p5800x", stack: "linux-6", vs: pinned({ drive: "optane-p5800x" }) },
    answer: (now, was) => `${seconds(now.mean_ns - was.mean_ns)} a read, ${percent((now.mean_ns - was.mean_ns) / was.mean_ns)} more than from user space.`,
  },
  {
    question: "What do 64 requests at once bring?", settings: { drive: "tlc-gen5", iodepth: 64, vs: pinned({ drive: "tlc-gen5" }) },
    answer: (now, was) => `${times(now.iops / was.iops)} the requests a second, each ${times(now.mean_ns / was.mean_ns)} as long.`,
  },
  {
    question: "How fast are writes that do not end?",
    settings: { drive: "tlc-gen4", reads: 0, iodepth: 32, vs: pinned({ drive: "tlc-gen4", reads: 0, iodepth: 32, burst: 1 }) },
    answer: (now, was) => `${quantity(now.iops)} a second in steady state, ${percent(now.iops / was.iops)} of what the buffer takes in a burst.`,
  },
  {
    question: "Does CXL beat NVMe for 512 bytes?",
    settings: { drive: "cxl-memory-gen5", bs: 512, vs: pinned({ drive: "dram-card", bs: 512 }) },
    answer: (now, was) => `${yesOrNo(now.mean_ns < was.mean_ns)}: DRAM behind NVMe takes ${times(was.mean_ns / now.mean_ns)} as long.`,
  },
];
