"""Keywords of calls as types: options of a job, and sections of a drive with their keys. Made by a test from the
program's own tables; `make snapshots` renews it."""

from collections.abc import Sequence
from typing import Any, Literal, TypedDict

Value = bool | int | float | str | Sequence[int | float | str]

class LinkSection(TypedDict, total=False):
    generation: int
    lanes: int
    max_payload_bytes: int
    max_read_request_bytes: int
    read_completion_boundary_bytes: int
    completion_bytes: int
    address_bits: int
    one_way_ns: float
    hops: int
    hop_ns: float
    duplex: Literal["full", "shared"]
    granularity: Literal["train", "packet"]
    dllps: bool
    skip_ordered_sets: bool
    posted_header_credits: int
    posted_data_credits: int
    non_posted_header_credits: int
    read_tags: int
    bit_error_rate: float
    lane_bytes_per_ns: float
    doorbell_overhead_bytes: int
    write_overhead_bytes: int
    request_overhead_bytes: int
    completion_overhead_bytes: int
    command_payload: bool
    data_requests: bool
    acknowledge: Literal["pipelined", "awaited"]
    preset: str

class SwitchSection(TypedDict, total=False):
    drives: int
    uplink_generation: int
    uplink_lanes: int
    pass_ns: float
    hosts: int
    route_bytes: int

class PeerSection(TypedDict, total=False):
    holds: Literal["nothing", "data", "all"]
    link_generation: int
    link_lanes: int
    payload_bytes: int
    memory_read_ns: float
    memory_write_ns: float

class FabricSection(TypedDict, total=False):
    transport: Literal["none", "tcp", "rdma"]
    initiators: int
    queue_pairs: int
    polled_queues: bool
    link_gbit_per_s: float
    mtu_bytes: int
    propagation_ns: float
    switch_ns: float
    switch_buffer_kib: int
    lossless: bool
    loss_ratio: float
    retransmit_us: float
    header_digest: bool
    data_digest: bool
    digest_bytes_per_ns: float
    in_capsule_bytes: int
    h2c_data_bytes: int
    success_flag: bool
    initiator_submit_ns: float
    initiator_receive_ns: float
    initiator_segment_ns: float
    initiator_copy_bytes_per_ns: float
    initiator_worker_ns: float
    interrupt_gap_us: float
    nic_ns: float
    nic_generation: int
    nic_lanes: int
    target_cores: int
    target_poll_us: float
    target_wake_ns: float
    target_notice_ns: float
    target_command_ns: float
    target_response_ns: float
    target_segment_ns: float
    target_copy_bytes_per_ns: float
    preset: str

class DmaSection(TypedDict, total=False):
    descriptor_ns: float
    from_host_ns: float
    to_host_ns: float
    piece_ns: float
    to_host_piece_ns: float
    to_host_piece_bytes: int
    piece_bytes: int
    full_duplex: bool
    word_bytes: int
    fetch_ns: float
    fetch_bytes_per_ns: float
    memory_bytes_per_ns: float
    store_whole: bool
    store_bytes_per_ns: float
    request_bytes: int
    requests: int
    preset: str

class HostSection(TypedDict, total=False):
    cores: int
    threads_per_core: int
    thread_yield: float
    variation: float
    sockets: int
    core_ghz: float
    nominal_ghz: float
    ipc: float
    nominal_ipc: float
    uncore_follows_core: bool
    wait: Literal["spin", "sleep", "hybrid"]
    hybrid_sleep_ratio: float
    poll_ns: float
    mmio_write_ns: float
    mmio_drain_ns: float
    mmio_room: int
    context_switch_ns: float
    context_switch_growth_ns: float
    cold_ns: float
    cold_after_ns: float
    deactivate_ns: float
    reactivate_ns: float
    interrupt_ns: float
    idle_exit_ns: float
    idle_states: Literal["none", "c1", "c1e", "c6"]
    c1_exit_ns: float
    c1_residency_ns: float
    c1e_exit_ns: float
    c1e_residency_ns: float
    c6_exit_ns: float
    c6_residency_ns: float
    io_wait_factor: int
    c1_stated_exit_ns: float
    c1e_stated_exit_ns: float
    c6_stated_exit_ns: float
    interrupt_handler_ns: float
    interrupt_cores: int
    wake_ns: float
    time_slice_us: float
    cache_line_transfer_ns: float
    remote_line_transfer_ns: float
    preset: str

class RootComplexSection(TypedDict, total=False):
    placement: Literal["cache", "core", "dram", "remote-cache", "remote-core", "remote-dram"]
    data_placement: Literal["cache", "core", "dram", "remote-cache", "remote-core", "remote-dram"]
    cache_read_ns: float
    core_read_ns: float
    dram_read_ns: float
    llc_kib: int
    llc_io_kib: int
    data_cold_ratio: float
    remote_ns: float
    write_ns: float
    write_accept_ns: float
    iommu: bool
    iommu_entries: int
    iommu_page_kib: int
    iommu_walk_ns: float
    iommu_walks: int
    refresh_interval_ns: float
    refresh_ns: float
    late_write_ratio: float
    late_write_ns: float
    preset: str

class StackSection(TypedDict, total=False):
    stages: list[dict[str, Any]]
    copy_bytes_per_ns: float
    copy_writes: bool
    clock_ghz: float
    ipc: float
    engines: str
    filesystem: Literal["raw", "ext4", "xfs"]
    scheduler: Literal["none", "mq-deadline", "kyber", "bfq"]
    application: Literal["loop", "fio"]
    mitigations: bool
    iommu: Literal["passthrough", "lazy", "strict"]
    shared_file: bool
    statistics: bool
    cgroups: bool
    poller_idle_us: float
    poller_wake_ns: float
    preset: str

class PowerSection(TypedDict, total=False):
    idle_w: float
    package_awake_w: float
    package_sleep_us: float
    core_w: float
    volts_min: float
    volts_max: float
    volts_min_ghz: float
    preset: str

class MediaSection(TypedDict, total=False):
    technology: Literal["pcm", "dram", "nand", "disk"]
    capacity_mib: int
    raw_mib: int
    channels: int
    banks_per_channel: int
    stripe_bytes: int
    read_ns: float
    command_ns: float
    bus_bytes_per_ns: float
    program_ns: float
    program_bytes: int
    acknowledge: Literal["early", "late"]
    chip_bytes: int
    spare_chips: int
    buses_per_channel: int
    bus_bits_per_clock: int
    command_clocks: int
    dummy_clocks: int
    reset_ns: float
    set_ns: float
    program_group_cells: int
    data_pattern: Literal["typical", "zeros", "ones", "random"]
    write_difference: bool
    difference_ratio: float
    ecc_decode_ns: float
    housekeeping_interval_us: float
    housekeeping_us: float
    wear_levelling: Literal["none", "start-gap", "randomised-start-gap"]
    wear_line_bytes: int
    wear_regions_per_bank: int
    gap_write_interval: int
    endurance_cycles: int
    planes: int
    plane_reads: Literal["together", "independent"]
    command_bus: Literal["unlimited", "separate", "shared"]
    transfer_pages: int
    block_pages: int
    read_centre_ns: float
    read_upper_ns: float
    erase_ns: float
    suspend_ns: float
    erase_pulse_ns: float
    suspensions_max: int
    read_spread: float
    program_spread: float
    read_retry_rate: float
    read_retry_again: float
    read_retry_ns: float
    slc_program_ns: float
    slc_read_ns: float
    read_pj_per_bit: float
    write_pj_per_bit: float
    preset: str

class ControllerSection(TypedDict, total=False):
    cores: int
    read_core_ns: float
    write_core_ns: float
    read_pipeline_ns: float
    write_pipeline_ns: float
    pipeline_spread: float
    pipeline_tail_ns: float

class BufferSection(TypedDict, total=False):
    capacity_kib: int
    command_ns: float
    command_servers: int
    merge_ns: float
    page_ns: float
    journal_interval_us: float
    journal_us: float
    power_loss_protection: bool
    read_ahead_kib: int

class TranslationSection(TypedDict, total=False):
    mapping: Literal["none", "page"]
    unit_bytes: int
    over_provisioning: float
    used: float
    block_mib: int
    policy: Literal["greedy", "fifo", "d-choices", "cost-benefit", "hot-cold", "wear-aware"]
    collection_reads: Literal["queued", "first"]
    collection_rows: int
    collection_lines: int
    choices: int
    map_cache_kib: int
    slc_cache_mib: int
    idle_us: float
    idle_blocks: int
    wear_gap_erases: int
    precondition: Literal["none", "sequential", "random", "auto"]

class VolumeSection(TypedDict, total=False):
    rate_iops: float
    iops_per_gib: float
    min_iops: float
    max_iops: float
    burst_iops: float
    credit_operations: int
    operation_kib: int
    merges_sequential: bool
    rate_mib_per_s: float
    mib_per_s_per_gib: float
    min_mib_per_s: float
    max_mib_per_s: float
    burst_mib_per_s: float
    burst_mib_per_s_per_gib: float
    credit_mib: float
    credit_mib_per_gib: float
    counts_whole_operations: bool
    window_ms: float
    credits: Literal["auto", "full", "used"]
    read_latency_us: float
    write_latency_us: float

class ZonesSection(TypedDict, total=False):
    size_mib: int
    capacity_mib: int
    active_max: int
    open_max: int
    dies: int
    append_max_kib: int
    append_ns: float
    command_ns: float

class PlacementSection(TypedDict, total=False):
    handles: int
    groups: int
    isolation: Literal["initial", "persistent"]

class KeyValueSection(TypedDict, total=False):
    value_max_kib: int
    key_max_bytes: int
    keys_max: int
    index_cache_kib: int
    lookup_ns: float

class NvmeSection(TypedDict, total=False):
    queue_pairs: int
    queue_entries: int
    fetch_entries: int
    parse_ns: float
    max_transfer_kib: int
    interrupts: bool
    coalescing_entries: int
    coalescing_us: float
    shadow_doorbells: bool
    completion_doorbells: bool
    data_pointer: Literal["prp", "sgl"]
    block_bytes: int
    atomic_write_bytes: int
    namespaces: int
    protection: Literal["none", "type1", "type2", "type3"]
    protection_by: Literal["host", "controller"]

class DcExpressSection(TypedDict, total=False):
    queue_pairs: int
    queue_entries: int
    fetch_entries: int
    polls_in_flight: int
    parse_ns: float
    turnaround_ns: float
    tag_ns: float
    command_ns: float
    tag_bits: int
    tag_choice: Literal["random", "compare", "intervals"]
    predict: bool
    max_latency_us: float
    doorbell_below_iops: int

class MonetaSection(TypedDict, total=False):
    tags: int
    request_words: int
    tag_pool: Literal["locked", "lock-free"]
    tag_hint: bool
    lock_ns: float
    records_ns: float
    sleep_ns: float
    spin_up_to_bytes: int
    zero_copy: bool
    pin_ns: float
    max_transfer_kib: int
    interrupt_vectors: int
    pipeline_ns: float
    split_queues: bool
    fair: bool
    chunk_bytes: int
    transfer_buffers: int
    ring_bytes_per_ns: float

class PssSection(TypedDict, total=False):
    descriptors: int
    max_transfer_kib: int
    exchange_descriptors: int
    commands: int
    firmware_cores: int
    firmware_ns: float
    read_mode: Literal["passthrough", "validate"]
    cache_pages: int
    prefetch_pages: int

class CapiSection(TypedDict, total=False):
    elements: int
    commands_per_element: int
    fill_ns: float
    command_ns: float
    psl_ns: float
    translation_miss_ratio: float
    claim_lines: bool
    parse_ns: float
    buffer_kib: int
    max_transfer_kib: int

class CxlSection(TypedDict, total=False):
    fill_buffers: int
    prefetch_lines: int
    issue_ns: float
    controller_ns: float
    unit_bytes: int
    buffer_units: int
    cache_mib: int
    cache_policy: Literal["lru", "fifo", "clock", "s3-fifo", "lifo"]
    cache_ns: float
    cache_prefetch_pages: int
    cache_start: Literal["empty", "clean", "dirty"]

class RamdiskSection(TypedDict, total=False):
    slots: int
    parse_ns: float
    max_transfer_kib: int

class Sections(TypedDict, total=False):
    link: LinkSection | str
    switch: SwitchSection | str
    peer: PeerSection | str
    fabric: FabricSection | str
    dma: DmaSection | str
    host: HostSection | str
    root_complex: RootComplexSection | str
    stack: StackSection | str
    power: PowerSection | str
    media: MediaSection | str
    controller: ControllerSection | str
    buffer: BufferSection | str
    translation: TranslationSection | str
    volume: VolumeSection | str
    zones: ZonesSection | str
    placement: PlacementSection | str
    key_value: KeyValueSection | str
    nvme: NvmeSection | str
    dc_express: DcExpressSection | str
    moneta: MonetaSection | str
    pss: PssSection | str
    capi: CapiSection | str
    cxl: CxlSection | str
    ramdisk: RamdiskSection | str

class CompareOptions(Sections, total=False):
    runtime: Value
    timeout: Value
    time_based: Value
    burst: Value
    ramp_time: Value
    rw: Value
    readwrite: Value
    offset: Value
    fileoffset: Value
    number_ios: Value
    rwmixread: Value
    rwmixwrite: Value
    random_distribution: Value
    blocksize: Value
    bssplit: Value
    size: Value
    io_size: Value
    io_limit: Value
    thinktime: Value
    thinktime_blocks: Value
    query_rounds: Value
    group_commit: Value
    object_size: Value
    object_trim: Value
    zone_append: Value
    rate_iops: Value
    rate_process: Value
    read_iolog: Value
    trace_device: Value
    trace_format: Value
    replay_time_scale: Value
    replay_no_stall: Value
    ioengine: Value
    filename: Value
    direct: Value
    buffered: Value
    kb_base: Value
    norandommap: Value
    random_generator: Value
    stonewall: Value
    wait_for_previous: Value
    exitall: Value
    loops: Value
    startdelay: Value
    nrfiles: Value
    percentage_random: Value
    zonemode: Value
    iodepth_batch: Value
    iodepth_batch_submit: Value
    iodepth_batch_complete_min: Value
    iodepth_batch_complete: Value
    iodepth_batch_complete_max: Value
    iodepth_low: Value
    hipri: Value
    sqthread_poll: Value
    sqthread_poll_cpu: Value
    fixedbufs: Value
    registerfiles: Value
    nonvectored: Value
    fdp: Value
    dataplacement: Value
    plids: Value
    fdp_pli: Value
    plid_select: Value
    fdp_pli_select: Value
    force_async: Value
    cmdprio_percentage: Value
    io_submit_mode: Value
    thinktime_blocks_type: Value
    thinktime_spin: Value
    rate_ignore_thinktime: Value
    fsync: Value
    fdatasync: Value
    end_fsync: Value
    fsync_on_close: Value
    sync: Value
    pre_read: Value
    create_only: Value
    bs_is_seq_rand: Value
    blocksize_unaligned: Value
    bs_unaligned: Value
    description: Value
    group_reporting: Value
    new_group: Value
    thread: Value
    randrepeat: Value
    allrandrepeat: Value
    softrandommap: Value
    clocksource: Value
    gtod_reduce: Value
    gtod_cpu: Value
    disable_lat: Value
    disable_clat: Value
    disable_slat: Value
    disable_bw_measurement: Value
    disable_bw: Value
    lat_percentiles: Value
    clat_percentiles: Value
    slat_percentiles: Value
    percentile_list: Value
    significant_figures: Value
    unit_base: Value
    disk_util: Value
    invalidate: Value
    fadvise_hint: Value
    fadvise: Value
    fallocate: Value
    overwrite: Value
    unlink: Value
    create_serialize: Value
    create_fsync: Value
    create_on_open: Value
    allow_file_create: Value
    allow_mounted_write: Value
    mem: Value
    iomem: Value
    mem_align: Value
    iomem_align: Value
    lockmem: Value
    refill_buffers: Value
    scramble_buffers: Value

class RunOptions(CompareOptions, total=False):
    numjobs: Value
    bs: Value
    iodepth: Value
