//! Every key that a drive file may hold: its name, type, default, allowed values and meaning.
//!
//! One `section!` gives a struct, its reader, its explanation (`phaselink check`) and its resolved
//! form in results, so a new parameter is one line here. A key's last word is its unit; fields of
//! type [`Span`] drop it (`one_way_ns` is read into `one_way`).

use super::section::{any, names, section};
use crate::time::Span;

const fn ns(n: u64) -> Span {
    Span::from_ns(n)
}
const fn us(n: u64) -> Span {
    Span::from_us(n)
}
const ZERO: Span = Span::ZERO;
/// Upper bound of any single latency in a description.
const LONGEST: Span = Span::from_s(100);

section! {
    /// The PCI Express link between the root port and the device.
    pub struct Link ("link") {
        /// Generation: 2.5, 5, 8, 16, 32 or 64 GT/s a lane (PCI Express Base Specification 6.0, section 4.2)
        generation => generation: u8 = 2, 1..=6;
        /// Lanes
        lanes => lanes: u8 = 4, [1, 2, 4, 8, 12, 16, 32];
        /// Largest payload of one packet (Max_Payload_Size)
        max_payload_bytes => max_payload_bytes: u32 = 128, [128, 256, 512, 1024, 2048, 4096];
        /// Largest read that one request packet may ask for (Max_Read_Request_Size)
        max_read_request_bytes => max_read_request_bytes: u32 = 512, [128, 256, 512, 1024, 2048, 4096];
        /// Size into which the root complex cuts read completions (Read Completion Boundary: 64 or 128; larger in models that answer a read with one packet)
        read_completion_boundary_bytes => read_completion_boundary_bytes: u32 = 64, [64, 128, 256, 512, 1024, 2048, 4096];
        /// Address width in the headers of requests: 64 bits make a header of 4 double words, 32 of 3
        address_bits => address_bits: u8 = 64, [32, 64];
        /// Time from the last symbol leaving one end to the packet being usable at the other, without hops
        one_way_ns => one_way: Span = ns(240), ZERO..=LONGEST;
        /// Switches or chipsets between root port and device
        hops => hops: u8 = 0, 0..=8;
        /// Time that each hop adds in each direction
        hop_ns => hop: Span = ns(150), ZERO..=LONGEST;
        /// Whether both directions have a wire of their own, or share one on which one packet travels at a time
        duplex => duplex: Duplex = Duplex::Full, any();
        /// Whether a burst of equal packets travels as one event (`train`) or packet by packet (`packet`)
        granularity => granularity: Granularity = Granularity::Train, any();
        /// Whether ACK and flow-control packets (DLLPs) take time on the wire
        dllps => dllps: bool = true, any();
        /// Whether skip ordered sets take time on the wire
        skip_ordered_sets => skip_ordered_sets: bool = true, any();
        /// Posted header credits that each receiver advertises (one a packet)
        posted_header_credits => posted_header_credits: u16 = 64, 1..=127;
        /// Posted data credits that each receiver advertises (16 bytes each)
        posted_data_credits => posted_data_credits: u16 = 1024, 8..=2047;
        /// Non-posted header credits that each receiver advertises (one a packet)
        non_posted_header_credits => non_posted_header_credits: u16 = 64, 1..=127;
        /// Reads that the device may have outstanding (transaction tags)
        read_tags => read_tags: u16 = 32, 1..=1024;
        /// Chance that a transmitted bit arrives wrong, which makes its packet be replayed
        bit_error_rate => bit_error_rate: f64 = 0.0, 0.0..=1e-4;
        /// Rate of one lane, or 0 for that of the generation, encoding taken off
        lane_bytes_per_ns => lane_bytes_per_ns: f64 = 0.0, 0.0..=1000.0;
        /// Header and framing of a doorbell (the host's write to a register), or 0 for what the specification gives
        doorbell_overhead_bytes => doorbell_overhead_bytes: u32 = 0, 0..=64;
        /// Header and framing of any other write, or 0 for what the specification gives
        write_overhead_bytes => write_overhead_bytes: u32 = 0, 0..=64;
        /// A read request with its framing, or 0 for what the specification gives
        request_overhead_bytes => request_overhead_bytes: u32 = 0, 0..=64;
        /// Header and framing of a completion, or 0 for what the specification gives
        completion_overhead_bytes => completion_overhead_bytes: u32 = 0, 0..=64;
        /// Whether the payload of packets without user data (doorbells, commands, completion entries, messages) takes time on the wire
        command_payload => command_payload: bool = true, any();
        /// Whether the device's requests for user data take time on the wire
        data_requests => data_requests: bool = true, any();
        /// Whether ACKs travel when the wire has room (`pipelined`), or a packet without user data holds the wire until its own ACK has passed (`awaited`)
        acknowledge => acknowledge: LinkAcknowledge = LinkAcknowledge::Pipelined, any();
    }
}

section! {
    /// Processor cores, and how a thread waits for its I/O.
    pub struct Host ("host") {
        /// Cores that run the workload; thread i runs on core i modulo this number
        cores => cores: u16 = 1, 1..=1024;
        /// Sockets over which the cores are spread, the first cores on the first
        sockets => sockets: u16 = 1, 1..=64;
        /// Clock of the cores
        core_ghz => core_ghz: f64 = 3.8, 0.1..=10.0;
        /// Clock at which this description's processor costs hold; they scale with `core_ghz`
        nominal_ghz => nominal_ghz: f64 = 3.8, 0.1..=10.0;
        /// Whether the shared cache and its ring run at the core clock (as in Sandy Bridge), so that its latency scales too
        uncore_follows_core => uncore_follows_core: bool = true, any();
        /// How a thread waits: `spin`, `sleep` until the interrupt, or `hybrid` (sleep for part of the expected time, then spin)
        wait => wait: Wait = Wait::Spin, any();
        /// Share of the mean latency that a hybrid wait sleeps before it spins
        hybrid_sleep_ratio => hybrid_sleep_ratio: f64 = 0.5, 0.0..=1.0;
        /// Time from a write settling in memory to a spinning core having seen it
        poll_ns => poll: Span = ns(20), ZERO..=LONGEST;
        /// Processor time of one posted write to a device register
        mmio_write_ns => mmio_write: Span = ns(50), ZERO..=LONGEST;
        /// One context switch between threads of a core
        context_switch_ns => context_switch: Span = ns(550), ZERO..=LONGEST;
        /// Time from an interrupt message reaching the root complex to the first instruction of its handler, idle-state exit included unless `idle_exit_ns` gives it
        interrupt_ns => interrupt: Span = us(1), ZERO..=LONGEST;
        /// What an interrupt takes longer to reach a core on which no thread runs
        idle_exit_ns => idle_exit: Span = ZERO, ZERO..=LONGEST;
        /// Processor time of the interrupt handler, without what `wake_ns` adds for each thread that it wakes
        interrupt_handler_ns => interrupt_handler: Span = us(1), ZERO..=LONGEST;
        /// Cores over which interrupt vectors are spread, the first ones; 0 for all
        interrupt_cores => interrupt_cores: u16 = 0, 0..=1024;
        /// Processor time of waking a sleeping thread, where the waker runs
        wake_ns => wake: Span = ZERO, ZERO..=LONGEST;
        /// How long a thread that spins in its driver keeps its core while others want it
        time_slice_us => time_slice: Span = us(4000), ZERO..=LONGEST;
        /// Time for a core to have a cache line that another core of its socket has written
        cache_line_transfer_ns => cache_line_transfer: Span = ns(30), ZERO..=LONGEST;
        /// The same for a core of another socket
        remote_line_transfer_ns => remote_line_transfer: Span = ns(110), ZERO..=LONGEST;
    }
}

section! {
    /// The root complex and the memory behind it, as the device sees them.
    pub struct RootComplex ("root_complex") {
        /// Where the device's reads of rings and commands hit: `cache`, `dram`, `remote-cache` or `remote-dram`
        placement => placement: Placement = Placement::Cache, any();
        /// Read of a line that the last-level cache holds
        cache_read_ns => cache_read: Span = ns(100), ZERO..=LONGEST;
        /// Read of a line from DRAM
        dram_read_ns => dram_read: Span = ns(160), ZERO..=LONGEST;
        /// What a remote socket adds to a read or write
        remote_ns => remote: Span = ns(100), ZERO..=LONGEST;
        /// Time from a posted write's arrival to its data being visible to the cores
        write_ns => write: Span = ns(20), ZERO..=LONGEST;
        /// Time for which a posted write occupies the ingress, and with it its credits
        write_accept_ns => write_accept: Span = ns(4), ZERO..=LONGEST;
        /// Whether device addresses are translated by an IOMMU
        iommu => iommu: bool = false, any();
        /// Share of accesses whose translation misses in the IOMMU's cache
        iommu_miss_ratio => iommu_miss_ratio: f64 = 0.0, 0.0..=1.0;
        /// Page walk of such a miss
        iommu_miss_ns => iommu_miss: Span = ns(300), ZERO..=LONGEST;
        /// Time from one refresh of a rank of DRAM to the next, or 0 for none
        refresh_interval_ns => refresh_interval: Span = ZERO, ZERO..=LONGEST;
        /// Length of a refresh, which the device's reads from DRAM wait for
        refresh_ns => refresh: Span = ZERO, ZERO..=LONGEST;
        /// Share of posted packets whose write into memory is held up
        late_write_ratio => late_write_ratio: f64 = 0.0, 0.0..=1.0;
        /// For how long such a write is held up
        late_write_ns => late_write: Span = ns(300), ZERO..=LONGEST;
    }
}

section! {
    /// The software between the application's call and the protocol driver.
    pub struct Stack ("stack") {
        /// Stages in the order in which a request meets them, application first
        stages => stages: Vec<Stage> = Vec::new(), any();
        /// Rate of the memory-to-memory copy of the data, or 0 for none
        copy_bytes_per_ns => copy_bytes_per_ns: f64 = 0.0, 0.0..=1000.0;
        /// Whether data of writes is copied too, into a buffer of the driver
        copy_writes => copy_writes: bool = false, any();
    }
}

section! {
    /// One named stage of the software stack.
    pub struct Stage ("stack.stages") {
        /// Name, in the terms of the operating system
        name => name: String = String::from("stage"), any();
        /// Processor time on the way down
        submit_ns => submit: Span = ZERO, ZERO..=LONGEST;
        /// What a write takes more than a read on the way down
        write_extra_ns => write_extra: Span = ZERO, ZERO..=LONGEST;
        /// Processor time on the way back
        complete_ns => complete: Span = ZERO, ZERO..=LONGEST;
        /// Lock that the stage takes; stages that name the same lock exclude each other
        lock => lock: String = String::new(), any();
        /// How the lock is held: for parts of the `stage` (a spinlock), or until the `request` is back (a mutex, whose waiters sleep)
        lock_held => lock_held: LockHeld = LockHeld::Stage, any();
        /// Part of `submit_ns` under the spinlock, at its end, or 0 for all of it
        submit_held_ns => submit_held: Span = ZERO, ZERO..=LONGEST;
        /// Part of `complete_ns` under the spinlock, at its end
        complete_held_ns => complete_held: Span = ZERO, ZERO..=LONGEST;
        /// Cache lines that the spinlock guards and its holder writes: each travels with the lock, and makes it be held longer
        lock_lines => lock_lines: u8 = 0, 0..=255;
        /// Cache lines that the stage writes on the way down and other cores write too
        submit_lines => submit_lines: u8 = 0, 0..=64;
        /// The same on the way back; the first ones are those of the way down
        complete_lines => complete_lines: u8 = 0, 0..=64;
        /// Whether the stage ends in waking a kernel thread, which takes the request on while its own thread sleeps
        hand_over => hand_over: bool = false, any();
    }
}

section! {
    /// Server power against core clock and activity.
    pub struct Power ("power") {
        /// The idle server, its package asleep
        idle_w => idle_w: f64 = 100.0, 0.0..=1e5;
        /// What the package adds when a device's reads keep it awake
        package_awake_w => package_awake_w: f64 = 6.0, 0.0..=1e4;
        /// Pause between a device's reads after which the package falls asleep
        package_sleep_us => package_sleep: Span = us(100), ZERO..=LONGEST;
        /// One busy core with its share of cache and ring, at `nominal_ghz`
        core_w => core_w: f64 = 25.0, 0.0..=1e4;
        /// Lowest core voltage, reached at `volts_min_ghz` and held below it
        volts_min => volts_min: f64 = 0.8, 0.1..=3.0;
        /// Core voltage at `nominal_ghz`
        volts_max => volts_max: f64 = 1.2, 0.1..=3.0;
        /// Clock up to which the lowest voltage suffices
        volts_min_ghz => volts_min_ghz: f64 = 1.2, 0.1..=10.0;
    }
}

section! {
    /// The memory behind the controller.
    pub struct Media ("media") {
        /// Cell technology: `pcm`, `dram`, `nand`, or `disk` for magnetic disks, whose arms are banks
        technology => technology: Technology = Technology::Pcm, any();
        /// User capacity
        capacity_mib => capacity_mib: u64 = 640, 1..=1 << 40;
        /// Independent channels
        channels => channels: u16 = 1, 1..=1024;
        /// Banks on each channel, which share its bus
        banks_per_channel => banks_per_channel: u16 = 4, 1..=1024;
        /// Consecutive bytes that one bank holds before the next channel's turn
        stripe_bytes => stripe_bytes: u32 = 4096, 8..=1 << 26;
        /// Array read: cells into the row buffer
        read_ns => read: Span = ns(110), ZERO..=LONGEST;
        /// Bus commands and row overhead of one access
        command_ns => command: Span = ns(194), ZERO..=LONGEST;
        /// Transfer rate of one channel's bus
        bus_bytes_per_ns => bus_bytes_per_ns: f64 = 2.0, 1e-6..=1e9;
        /// Array write of one program unit
        program_ns => program: Span = us(120), ZERO..=LONGEST;
        /// Bytes that one array write programs in a bank at once
        program_bytes => program_bytes: u32 = 4096, 1..=1 << 26;
        /// When a write is reported done: `early` (data in the row buffers) or `late` (cells programmed)
        acknowledge => acknowledge: Acknowledge = Acknowledge::Late, any();
        /// Bytes of a stripe in each chip of a bank, moved in one access; 0 where the chips of a bank act as one
        chip_bytes => chip_bytes: u32 = 0, 0..=1 << 20;
        /// Chips of a stripe beside those of the data, for error correction and metadata
        spare_chips => spare_chips: u8 = 0, 0..=64;
        /// Buses of each channel, over which the chips of a stripe are dealt; `bus_bytes_per_ns` is the rate of each
        buses_per_channel => buses_per_channel: u8 = 1, 1..=64;
        /// Bits that a bus moves in one clock, which gives the length of a clock
        bus_bits_per_clock => bus_bits_per_clock: u16 = 8, 1..=1024;
        /// Clocks of command and address before the data of each chip
        command_clocks => command_clocks: u16 = 0, 0..=1024;
        /// Clocks between address and data of each chip's read; `read_ns` passes within them as far as they reach
        dummy_clocks => dummy_clocks: u16 = 0, 0..=1024;
        /// Pulse that makes a cell a zero, or 0 if unknown
        reset_ns => reset: Span = ZERO, ZERO..=LONGEST;
        /// Pulse that makes a cell a one, or 0 if unknown
        set_ns => set: Span = ZERO, ZERO..=LONGEST;
        /// Cells of a chip that get the same pulse at once: what its supply can drive
        program_group_cells => program_group_cells: u32 = 1, 1..=1 << 30;
        /// Data of writes: `typical` (takes `program_ns`), `zeros`, `ones` or `random`
        data_pattern => data_pattern: DataPattern = DataPattern::Typical, any();
        /// Whether a write reads first and programs only the cells that differ
        write_difference => write_difference: bool = false, any();
        /// Share of the cells of a write that differ from what they hold
        difference_ratio => difference_ratio: f64 = 0.5, 0.0..=1.0;
        /// Time to check and correct the data of a read, after its transfer
        ecc_decode_ns => ecc_decode: Span = ZERO, ZERO..=LONGEST;
        /// Time from one pause of the whole memory for housekeeping to the next, or 0 for none
        housekeeping_interval_us => housekeeping_interval: Span = ZERO, ZERO..=LONGEST;
        /// Length of such a pause, in which no access starts
        housekeeping_us => housekeeping: Span = ZERO, ZERO..=LONGEST;
        /// Wear levelling within each bank: `none`, `start-gap` or `randomised-start-gap` (Qureshi et al., MICRO 2009)
        wear_levelling => wear_levelling: WearLevelling = WearLevelling::None, any();
        /// Line that wear levelling moves and endurance is counted for; 0 for a whole stripe
        wear_line_bytes => wear_line_bytes: u32 = 0, 0..=1 << 26;
        /// Regions of a bank that each have a spare line and move their gap on their own
        wear_regions_per_bank => wear_regions_per_bank: u32 = 1, 1..=1 << 16;
        /// Writes to a region after which its gap moves by a line
        gap_write_interval => gap_write_interval: u32 = 100, 1..=1 << 30;
        /// Writes that a line endures, or 0 for no limit
        endurance_cycles => endurance_cycles: u64 = 0, 0..=1 << 50;
        /// Energy of a bit that is read, cells and row buffer, or 0 if unknown
        read_pj_per_bit => read_pj_per_bit: f64 = 0.0, 0.0..=1e9;
        /// Energy of a bit that is written, likewise
        write_pj_per_bit => write_pj_per_bit: f64 = 0.0, 0.0..=1e9;
    }
}

section! {
    /// The NVMe driver and controller.
    pub struct Nvme ("nvme") {
        /// I/O queue pairs; thread i uses pair i modulo this number (the specification's 65,536 include the admin queue's)
        queue_pairs => queue_pairs: u32 = 1, 1..=65536;
        /// Entries of each submission and completion queue (NVM Express Base Specification 2.0, section 3.3.3)
        queue_entries => queue_entries: u32 = 1024, 2..=65536;
        /// Submission queue entries that one read may fetch
        fetch_entries => fetch_entries: u8 = 8, 1..=64;
        /// Time to parse one command
        parse_ns => parse: Span = ns(32), ZERO..=LONGEST;
        /// Largest transfer of one command (MDTS); larger requests are split by the driver
        max_transfer_kib => max_transfer_kib: u32 = 128, [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];
        /// Whether completions raise an interrupt message (MSI-X)
        interrupts => interrupts: bool = true, any();
        /// Whether doorbells go to a page in host memory that the controller reads (Doorbell Buffer Config, section 5.8)
        shadow_doorbells => shadow_doorbells: bool = false, any();
        /// Whether the driver tells the controller how far it has read a completion queue; as long as the submission queue, it cannot overflow without
        completion_doorbells => completion_doorbells: bool = true, any();
        /// How a command describes its data buffer: `prp` (page by page, beyond two pages in a list that is read separately) or `sgl` (one segment, in the command itself)
        data_pointer => data_pointer: DataPointer = DataPointer::Prp, any();
        /// Logical block: the specification's are 512 bytes and more (LBADS), smaller ones are for models of byte-addressed memory
        block_bytes => block_bytes: u32 = 512, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
    }
}

section! {
    /// The DC Express driver and endpoint (Vučinić et al., FAST 2014).
    pub struct DcExpress ("dc_express") {
        /// Queue pairs; thread i uses pair i modulo this number
        queue_pairs => queue_pairs: u16 = 1, 1..=1024;
        /// Entries of each command queue (64 bytes each)
        queue_entries => queue_entries: u32 = 64, 2..=65536;
        /// Commands that one queue read fetches where they overlap (section 2: "requests for one or more commands"); at depth 1 one
        fetch_entries => fetch_entries: u8 = 4, 1..=8;
        /// Queue reads that may be in flight at once for each queue
        polls_in_flight => polls_in_flight: u8 = 4, 1..=64;
        /// Time to parse one command
        parse_ns => parse: Span = ns(32), ZERO..=LONGEST;
        /// Pause of the endpoint between the answer to one queue read and the next when it has nothing to predict
        turnaround_ns => turnaround: Span = ns(60), ZERO..=LONGEST;
        /// Processor time to write one incomplete tag into the receive buffer, and to check it afterwards
        tag_ns => tag: Span = Span::from_ps(2400), ZERO..=LONGEST;
        /// Length of the incomplete tag
        tag_bits => tag_bits: u8 = 32, [8, 16, 32, 64];
        /// How the tag is chosen: `random`, `compare` (the device compares with its contents) or `intervals` (the device keeps the unused values)
        tag_choice => tag_choice: TagChoice = TagChoice::Random, any();
        /// Whether the endpoint times its queue reads to the commands it expects
        predict => predict: bool = true, any();
        /// Longest time that one read may take, times the queue size the time-out of a stuck read; 0 derives it from link and media
        max_latency_us => max_latency: Span = ZERO, ZERO..=LONGEST;
        /// Load below which driver and endpoint fall back to doorbells, or 0 to poll always
        doorbell_below_iops => doorbell_below_iops: u64 = 0, 0..=1_000_000_000;
    }
}

section! {
    /// The Moneta driver and controller (Swanson, talk of 2011, "MON" below).
    pub struct Moneta ("moneta") {
        /// Tags: requests that the device may have at once, one bit of a status register each
        tags => tags: u8 = 64, 1..=64;
        /// 64-bit register writes that issue a request. 1: it fits one word, with DMA addresses preloaded by tag. 2: a DMA address comes with it. 3: nothing is packed. More than one takes a lock
        request_words => request_words: u8 = 1, [1, 2, 3];
        /// Whether the pool of free tags is `locked`, with a request's records allocated apart, or `lock-free`, with records found by tag
        tag_pool => tag_pool: TagPool = TagPool::LockFree, any();
        /// Whether a thread tries the tag of its processor first, whose records are still in that processor's cache
        tag_hint => tag_hint: bool = true, any();
        /// Time for which the pool of tags is locked to take or give back a tag
        lock_ns => lock: Span = ns(40), ZERO..=LONGEST;
        /// Processor time to allocate and release a request's records where they do not come with a tag (pool `locked`)
        records_ns => records: Span = ns(1030), ZERO..=LONGEST;
        /// Processor time to put a thread to sleep over its request and to bring it back, beyond `host.wake_ns` and context switches
        sleep_ns => sleep: Span = us(5), ZERO..=LONGEST;
        /// Requests up to this size are waited for spinning, larger ones sleeping; 0 always sleeps
        spin_up_to_bytes => spin_up_to_bytes: u32 = 4096, 0..=1 << 30;
        /// Whether the device moves data straight from and to the application's buffer; needs a DMA address in each request
        zero_copy => zero_copy: bool = false, any();
        /// Processor time to pin and release an application's buffer (zero copy)
        pin_ns => pin: Span = us(1), ZERO..=LONGEST;
        /// Largest request; larger ones are split by the driver
        max_transfer_kib => max_transfer_kib: u32 = 1024, [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];
        /// Interrupt vectors and status registers; tag i belongs to number i modulo this
        interrupt_vectors => interrupt_vectors: u8 = 8, 1..=64;
        /// Time of a request in the device's pipeline, from its last word to the request queue
        pipeline_ns => pipeline: Span = us(1), ZERO..=LONGEST;
        /// Whether reads and writes have a request queue each, drawn from in turn, or share one
        split_queues => split_queues: bool = true, any();
        /// Whether a large request goes to the back of its queue after each piece, or keeps the head
        fair => fair: bool = true, any();
        /// Largest piece of a request that the scoreboard takes at once: a transfer buffer
        chunk_bytes => chunk_bytes: u32 = 4096, [512, 1024, 2048, 4096, 8192];
        /// Transfer buffers of reads, and as many of writes; a queue that both share has all of them
        transfer_buffers => transfer_buffers: u8 = 4, 1..=64;
        /// Rate of the ring between transfer buffers and memory controllers
        ring_bytes_per_ns => ring_bytes_per_ns: f64 = 4.0, 1e-3..=1e4;
    }
}

section! {
    /// The PSS driver, and the card with its firmware.
    pub struct Pss ("pss") {
        /// Descriptors in the shared area of host memory: commands that the driver may have outstanding
        descriptors => descriptors: u32 = 256, [16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
        /// Largest transfer of one descriptor
        max_transfer_kib => max_transfer_kib: u32 = 128, 4..=1024;
        /// Most descriptors that the card takes over at once
        exchange_descriptors => exchange_descriptors: u16 = 16, 1..=1024;
        /// Commands that the card works on at a time
        commands => commands: u16 = 64, 1..=4096;
        /// Processor cores of the card
        firmware_cores => firmware_cores: u16 = 2, 1..=1024;
        /// Processor time of the firmware for each command
        firmware_ns => firmware: Span = us(10), ZERO..=LONGEST;
        /// Whether reads are checked and corrected before they are sent (`validate`) or sent as they come from the chips, with their metadata (`passthrough`)
        read_mode => read_mode: ReadMode = ReadMode::Validate, any();
        /// Pages of 4 KiB that the DRAM of the card holds: written, stored lately or read ahead; 0 for none
        cache_pages => cache_pages: u32 = 1024, 0..=1 << 24;
        /// Pages that are read ahead of sequential reads while the card has nothing else to do
        prefetch_pages => prefetch_pages: u32 = 4, 0..=1024;
    }
}

/// What happens to reads before they go to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    Passthrough,
    Validate,
}

names! { ReadMode { "passthrough" => Passthrough, "validate" => Validate } }

section! {
    /// The CAPI attachment: work elements, processor service layer (PSL) and accelerator (AFU) (Bougioukou et al.).
    pub struct Capi ("capi") {
        /// Work elements that the AFU has at once; commands beyond gather for the next
        elements => elements: u16 = 8, 1..=1024;
        /// Commands that an element carries, of one or several threads; its line of 128 bytes has room for seven
        commands_per_element => commands_per_element: u8 = 7, 1..=7;
        /// Processor time to write a command into an element
        fill_ns => fill: Span = ns(20), ZERO..=LONGEST;
        /// Time that a command of the AFU takes in the PSL, translation in its cache included
        psl_ns => psl: Span = ns(305), ZERO..=LONGEST;
        /// Share of commands whose address the PSL has to look up in the page table, a line in host memory
        translation_miss_ratio => translation_miss_ratio: f64 = 0.0, 0.0..=1.0;
        /// Whether the AFU claims lines before it writes them, with a command of their own
        claim_lines => claim_lines: bool = true, any();
        /// Time to parse one command
        parse_ns => parse: Span = ns(32), ZERO..=LONGEST;
        /// Buffer of the AFU: a write is done once it is in there
        buffer_kib => buffer_kib: u32 = 256, 4..=1 << 20;
        /// Largest transfer of one command; larger requests are split
        max_transfer_kib => max_transfer_kib: u32 = 128, [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];
    }
}

section! {
    /// CXL.mem: loads and stores of the processor, and a memory expander (Compute Express Link Specification).
    pub struct Cxl ("cxl") {
        /// Lines of 64 bytes that a core may have under way at once: its fill buffers
        fill_buffers => fill_buffers: u16 = 16, 1..=256;
        /// Processor time to issue the loads or stores of one line
        issue_ns => issue: Span = ns(1), ZERO..=LONGEST;
        /// Time of a message in the device, port and controller both ways, without buffer and memory
        controller_ns => controller: Span = ns(40), ZERO..=LONGEST;
        /// Bytes that the device reads from its memory, or writes to it, at once
        unit_bytes => unit_bytes: u32 = 256, [64, 128, 256, 512, 1024, 2048, 4096];
        /// Units that the device's buffer holds of those read, and as many of those written; it is within the persistence domain
        buffer_units => buffer_units: u32 = 64, 1..=65536;
    }
}

/// Whether the two directions of a link are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplex {
    Full,
    Shared,
}

names! { Duplex { "full" => Full, "shared" => Shared } }

/// What a packet has to do with its acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkAcknowledge {
    Pipelined,
    Awaited,
}

names! { LinkAcknowledge { "pipelined" => Pipelined, "awaited" => Awaited } }

/// What one simulation event on the link stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    Train,
    Packet,
}

names! { Granularity { "train" => Train, "packet" => Packet } }

/// How a thread waits for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Spin,
    Sleep,
    Hybrid,
}

names! { Wait { "spin" => Spin, "sleep" => Sleep, "hybrid" => Hybrid } }

/// For how long a stage's lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockHeld {
    Stage,
    Request,
}

names! { LockHeld { "stage" => Stage, "request" => Request } }

/// Where the device's reads of host memory are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    Cache,
    Dram,
    RemoteCache,
    RemoteDram,
}

names! { Placement { "cache" => Cache, "dram" => Dram, "remote-cache" => RemoteCache, "remote-dram" => RemoteDram } }

/// Cell technology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Technology {
    Pcm,
    Dram,
    Nand,
    Disk,
}

names! { Technology { "pcm" => Pcm, "dram" => Dram, "nand" => Nand, "disk" => Disk } }

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledge {
    Early,
    Late,
}

names! { Acknowledge { "early" => Early, "late" => Late } }

/// How an NVMe command describes its data buffer (NVM Express Base Specification 2.0, sections 4.1.1 and 4.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPointer {
    Prp,
    Sgl,
}

names! { DataPointer { "prp" => Prp, "sgl" => Sgl } }

/// What writes hold, as far as the time to program it depends on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPattern {
    Typical,
    Zeros,
    Ones,
    Random,
}

names! { DataPattern { "typical" => Typical, "zeros" => Zeros, "ones" => Ones, "random" => Random } }

/// How writes are spread over lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WearLevelling {
    None,
    StartGap,
    RandomisedStartGap,
}

names! {
    WearLevelling {
        "none" => None,
        "start-gap" => StartGap,
        "randomised-start-gap" => RandomisedStartGap,
    }
}

/// How DC Express chooses its incomplete tag (section 3.1 of the paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagChoice {
    Random,
    Compare,
    Intervals,
}

names! { TagChoice { "random" => Random, "compare" => Compare, "intervals" => Intervals } }

/// How Moneta's driver guards its pool of free tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagPool {
    Locked,
    LockFree,
}

names! { TagPool { "locked" => Locked, "lock-free" => LockFree } }

/// The protocol between host and device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    Nvme,
    DcExpress,
    Moneta,
    Pss,
    Capi,
    Cxl,
}

names! {
    Interface {
        "nvme" => Nvme,
        "dc-express" => DcExpress,
        "moneta" => Moneta,
        "pss" => Pss,
        "capi" => Capi,
        "cxl" => Cxl,
    }
}
