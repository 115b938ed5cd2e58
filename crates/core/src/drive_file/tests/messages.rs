//! Tests of error messages for wrong drive files and overrides.

use expect_test::{Expect, expect};

use super::{messages, read, read_with_overrides};

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&messages(text));
}

#[test]
fn all_problems_of_a_file_are_reported_in_order() {
    let text = "\
interface = 'nvm'
sumary = 'x'

[media]
preset = 'pcm-lpddr2'
read_ns = -1
read_ns = 2
channels = 'two'
capacity_mib = 0

[host]
wait = 'slep'
cores = 0x10_0000
core_ghz = nan

[medai]
read_ns = 3

[link]
lanes = 3
read_ns = 4
generation = 12x
";
    check(
        text,
        expect![[r#"
            drive.toml:1: interface is 'nvm', did you mean nvme?; allowed: nvme, dc-express, moneta, pss, capi, cxl, ramdisk
            drive.toml:2: unknown key sumary, did you mean summary?
            drive.toml:5: media.preset is 'pcm-lpddr2', did you mean pcm-lpddr2-nvm?; allowed: pcm-lpddr2-nvm, pcm-ddr3-next, pcm-p5q, pcm-p5q-card, pcm-p5q-channel, pcm-next-generation, pcm-moneta, pcm-onyx, dram, ddr4-2400-x4, nand-slc, nand-mlc, nvm-model-block, nvm-model-dram, disk-raid, ssd-raid, fusion-io, tlc-96-layer, tlc-128-layer, tlc-112-layer, xl-flash, 3d-xpoint
            drive.toml:6: media.read_ns is -1; allowed: number from 0 to 100_000_000_000 ns
            drive.toml:7: duplicate key, at `read_ns`
            drive.toml:8: media.channels is 'two'; allowed: whole number from 1 to 1024
            drive.toml:9: media.capacity_mib is 0; allowed: whole number from 1 to 1_099_511_627_776 MiB
            drive.toml:12: host.wait is 'slep', did you mean sleep?; allowed: spin, sleep, hybrid
            drive.toml:13: host.cores is 0x10_0000; allowed: whole number from 1 to 1024
            drive.toml:14: host.core_ghz is nan; allowed: number from 0.1 to 10 GHz
            drive.toml:16: unknown section [medai], did you mean [media]?; allowed: [link], [switch], [peer], [fabric], [dma], [host], [root_complex], [stack], [power], [media], [controller], [buffer], [translation], [volume], [zones], [placement], [key_value], [nvme], [dc_express], [moneta], [pss], [capi], [cxl], [ramdisk]
            drive.toml:20: link.lanes is 3; allowed: 1, 2, 4, 8, 12, 16, 32
            drive.toml:21: unknown key read_ns in [link], did you mean [media] read_ns?
            drive.toml:22: string values must be quoted, expected literal string, at `12x`"#]],
    );
}

#[test]
fn unknown_key_suggests_the_similar_key() {
    check(
        "interface = 'nvme'
read_ns = 1
[nvme]
read_ns = 1
interupts = true
one_way_us = 1
zzzzzz = 1
preset = 'fast'
[media]
read_us = 1
read = 1
[link]
queue_entries = 1
[host]
core_clock_ghz = 1
",
        expect![[r#"
            drive.toml:2: unknown key read_ns, did you mean [media] read_ns?
            drive.toml:4: unknown key read_ns in [nvme], did you mean [media] read_ns?
            drive.toml:5: unknown key interupts in [nvme], did you mean interrupts?
            drive.toml:6: unknown key one_way_us in [nvme], did you mean [link] one_way_ns?
            drive.toml:7: unknown key zzzzzz in [nvme]; allowed: queue_pairs, queue_entries, fetch_entries, parse_ns, max_transfer_kib, interrupts, coalescing_entries, coalescing_us, shadow_doorbells, completion_doorbells, data_pointer, block_bytes, atomic_write_bytes, namespaces, protection, protection_by
            drive.toml:8: unknown key preset in [nvme]; allowed: queue_pairs, queue_entries, fetch_entries, parse_ns, max_transfer_kib, interrupts, coalescing_entries, coalescing_us, shadow_doorbells, completion_doorbells, data_pointer, block_bytes, atomic_write_bytes, namespaces, protection, protection_by
            drive.toml:10: unknown key read_us in [media], did you mean read_ns?
            drive.toml:11: unknown key read in [media], did you mean read_ns?
            drive.toml:13: unknown key queue_entries in [link], did you mean [nvme] queue_entries or [dc_express] queue_entries?
            drive.toml:15: unknown key core_clock_ghz in [host], did you mean core_ghz?"#]],
    );
}

#[test]
fn ambiguous_key_prefix_suggests_the_shortest() {
    check(
        "interface = 'nvme'\n[link]\nlane = 4\n",
        expect!["drive.toml:3: unknown key lane in [link], did you mean lanes?"],
    );
}

#[test]
fn section_of_the_wrong_type_is_reported() {
    check(
        "media = 3
preset = 'nvm'
fitted = 1
[stack]
stages = [1, { name = 2 }, { submit_us = 3, lock = 'a' },
  { submit_ns = -3 },
]
[[host]]
cores = 1
",
        expect![[r#"
            drive.toml:1: media is 3; allowed: a section [media]
            drive.toml:2: preset is 'nvm', did you mean nvme?; allowed: capi, capi-pcm-legacy, capi-pcm-next, cxl, cxl-flash, cxl-memory-gen5, cxl-pcm-legacy, cxl-pcm-next, dc-express, dc-express-block, disk-raid, dram-card, ebs-gp2, ebs-gp3, ebs-io2, ebs-st1, fusion-io, hyperdisk-balanced, moneta, moneta-4x, moneta-block, nvm-model-block, nvm-model-dram, nvme, nvme-polled, nvme-ssd-gen3, onyx, optane-p4800x, optane-p5800x, pcie-pcm-legacy, pcie-pcm-next, pd-balanced, pd-ssd, premium-ssd, premium-ssd-v2, pss, pss-4-cards, pss-block, ramdisk, slc-gen7, ssd-raid, tlc-gen3, tlc-gen4, tlc-gen5, xl-flash
            drive.toml:3: fitted is 1; allowed: tables [[fitted]] with the keys key, why, low and high, or instead
            drive.toml:5: stack.stages holds 1; allowed: tables
            drive.toml:5: stack.stages.name is 2; allowed: text in quotes, a line of at most 1000 characters
            drive.toml:5: unknown key submit_us in [stack.stages], did you mean submit_ns?
            drive.toml:6: stack.stages.submit_ns is -3; allowed: number from 0 to 100_000_000_000 ns
            drive.toml:8: host is [[host]]; allowed: a section [host]"#]],
    );
}

#[test]
fn mark_without_key_or_reason_is_reported() {
    check(
        "interface = 'nvme'
[[fitted]]
key = 'host.interupt_ns'
why = 'x'
[[fitted]]
key = 'host.interrupt_ns'
[[fitted]]
key = 'host.interrupt_ns'
because = 'x'
",
        expect![[r#"
            drive.toml:2: fitted names the unknown key "host.interupt_ns", did you mean host.interrupt_ns?; allowed: a key with its section, as in host.interrupt_ns
            drive.toml:5: the entry of host.interrupt_ns in fitted gives no reason; allowed: why = the result that it was fitted to, or the reason why it is assumed
            drive.toml:9: unknown key because in [fitted]; allowed: key, why, low, high, instead"#]],
    );
}

#[test]
fn broken_condition_is_reported_at_its_last_key() {
    check(
        "interface = 'nvme'
[host]
wait = 'sleep'
nominal_ghz = 1
[nvme]
interrupts = false
queue_entries = 4
[dc_express]
queue_entries = 2
fetch_entries = 3
polls_in_flight = 3
[power]
volts_min = 1.3
[media]
capacity_mib = 1
stripe_bytes = 1048577
[stack]
stages = [{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, { name = 'tags', submit_held_ns = 1 }]
",
        expect![[r#"
            drive.toml:3: host.wait is "sleep" but nvme.interrupts is false; allowed: host.wait = "spin" or "hybrid", or an interface that sends interrupts
            drive.toml:4: power.volts_min_ghz is 1.2 with host.nominal_ghz 1; allowed: power.volts_min_ghz below host.nominal_ghz
            drive.toml:7: nvme.fetch_entries is 8 with nvme.queue_entries 4; allowed: nvme.fetch_entries up to nvme.queue_entries
            drive.toml:10: dc_express.fetch_entries is 3 with dc_express.queue_entries 2; allowed: dc_express.fetch_entries up to dc_express.queue_entries
            drive.toml:11: dc_express.polls_in_flight is 3 with dc_express.queue_entries 2; allowed: dc_express.polls_in_flight up to dc_express.queue_entries
            drive.toml:13: power.volts_min is 1.3 with power.volts_max 1.2; allowed: power.volts_min no higher than power.volts_max
            drive.toml:16: media.stripe_bytes is 1048577 with media.capacity_mib 1; allowed: a stripe no larger than the capacity
            drive.toml:18: stack.stages "tags" holds its lock for longer than it runs; allowed: submit_held_ns no larger than submit_ns, and complete_held_ns no larger than complete_ns
            drive.toml:18: stack.stages has 13 stages; allowed: at most 12"#]],
    );
}

#[test]
fn broken_memory_condition_is_reported_at_its_line() {
    check(
        "interface = 'nvme'
[media]
stripe_bytes = 512
chip_bytes = 96
wear_line_bytes = 100
housekeeping_us = 5
reset_ns = 1e6
data_pattern = 'zeros'
",
        expect![[r#"
            drive.toml:4: media.chip_bytes is 96 with media.stripe_bytes 512; allowed: media.stripe_bytes that is a multiple of media.chip_bytes
            drive.toml:5: media.wear_line_bytes is 100 with media.stripe_bytes 512; allowed: media.stripe_bytes that is a multiple of media.wear_line_bytes
            drive.toml:6: media.housekeeping_us is 5 with media.housekeeping_interval_us 0; allowed: a pause shorter than the interval
            drive.toml:7: media.program_ns is 120000, with programming pulses of 384000000 ns in all; allowed: media.program_ns no shorter than the pulses together
            drive.toml:8: the time of a write depends on its data, but media.reset_ns or media.set_ns is 0; allowed: media.reset_ns and media.set_ns above 0, or media.data_pattern = "typical" and media.write_difference = false"#]],
    );
    check(
        "interface = 'nvme'\nmedia.buses_per_channel = 3\n",
        expect![[
            r#"drive.toml:2: media.buses_per_channel is given with media.chip_bytes 0, where it has no effect; allowed: media.chip_bytes above 0, or no media.buses_per_channel"#
        ]],
    );
}

#[test]
fn value_at_a_conditions_edge_is_allowed() {
    let text = "interface = 'nvme'
host.wait = 'sleep'
nvme = { queue_entries = 2, fetch_entries = 2 }
dc_express = { queue_entries = 2, fetch_entries = 2, polls_in_flight = 2 }
power = { volts_min = 1.2, volts_max = 1.2 }
media = { capacity_mib = 1, stripe_bytes = 1048576, chip_bytes = 1048576, wear_line_bytes = 1048576, \
program_ns = 190, reset_ns = 70, set_ns = 120, program_group_cells = 8388608, \
housekeeping_interval_us = 0.002, housekeeping_us = 0.001 }
stack.stages = [{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, { submit_ns = 1, submit_held_ns = 1 }]
";
    assert!(read(text).is_ok(), "{:?}", read(text));
}

#[test]
fn key_with_its_own_problem_is_not_checked_against_others() {
    check(
        "interface = 'nvme'\nhost.wait = 'sleep'\nnvme.interrupts = 'no'\nnvme.queue_entries = 1\n",
        expect![[r#"
            drive.toml:3: nvme.interrupts is 'no'; allowed: true or false
            drive.toml:4: nvme.queue_entries is 1; allowed: whole number from 2 to 65_536"#]],
    );
}

#[test]
fn dc_express_refuses_sleeping_hosts() {
    check(
        "interface = 'dc-express'\nhost.wait = 'sleep'\n",
        expect![[
            r#"drive.toml:2: host.wait is "sleep" but interface is "dc-express", which has no interrupts; allowed: host.wait = "spin" or "hybrid", or an interface that sends interrupts"#
        ]],
    );
}

#[test]
fn override_problem_quotes_the_override() {
    let given = ["media.read_ns=-300", "media.preset=pcm", "read_ns=3", "nvme.parse=3", "nvme.queue_entries=4"];
    let problems = read_with_overrides("preset = 'nvme'\n[media]\nx = 1\n", &given).unwrap_err();
    expect![[r#"
        drive.toml:3: unknown key x in [media]; allowed: technology, capacity_mib, raw_mib, channels, banks_per_channel, stripe_bytes, read_ns, command_ns, bus_bytes_per_ns, program_ns, program_bytes, acknowledge, chip_bytes, spare_chips, buses_per_channel, bus_bits_per_clock, command_clocks, dummy_clocks, reset_ns, set_ns, program_group_cells, data_pattern, write_difference, difference_ratio, ecc_decode_ns, housekeeping_interval_us, housekeeping_us, wear_levelling, wear_line_bytes, wear_regions_per_bank, gap_write_interval, endurance_cycles, planes, plane_reads, command_bus, transfer_pages, block_pages, read_centre_ns, read_upper_ns, erase_ns, suspend_ns, erase_pulse_ns, suspensions_max, read_spread, program_spread, read_retry_rate, read_retry_again, read_retry_ns, slc_program_ns, slc_read_ns, read_pj_per_bit, write_pj_per_bit
        --set media.read_ns=-300: media.read_ns is -300; allowed: number from 0 to 100_000_000_000 ns
        --set media.preset=pcm: media.preset is pcm, did you mean pcm-p5q?; allowed: pcm-lpddr2-nvm, pcm-ddr3-next, pcm-p5q, pcm-p5q-card, pcm-p5q-channel, pcm-next-generation, pcm-moneta, pcm-onyx, dram, ddr4-2400-x4, nand-slc, nand-mlc, nvm-model-block, nvm-model-dram, disk-raid, ssd-raid, fusion-io, tlc-96-layer, tlc-128-layer, tlc-112-layer, xl-flash, 3d-xpoint
        --set read_ns=3: unknown key read_ns, did you mean media.read_ns?
        --set nvme.parse=3: unknown key parse in [nvme], did you mean parse_ns?
        --set nvme.queue_entries=4: nvme.fetch_entries is 8 with nvme.queue_entries 4; allowed: nvme.fetch_entries up to nvme.queue_entries"#]]
    .assert_eq(&problems.to_string());
}

#[test]
fn syntax_error_is_reported_with_its_line_number() {
    check(
        "interface = 'nvme'\n[media\nread_ns = 3\n",
        expect!["drive.toml:2: unclosed table, expected `]`, in `[media`"],
    );
    check(
        "interface = 'nvme'\nname = \n[media]\nread_ns = 3 4\n[media]\nread_nss = 1",
        expect![[r#"
        drive.toml:2: string values must be quoted, expected literal string, in `name =`
        drive.toml:4: string values must be quoted, expected literal string, at `3 4`
        drive.toml:5: duplicate key, at `media`
        drive.toml:6: unknown key read_nss in [media], did you mean read_ns?"#]],
    );
}

#[test]
fn unknown_policy_is_reported_also_under_its_former_key() {
    let found = messages("[translation]\nmapping = 'page'\ncleaning = 'hot-col'\n");
    let allowed = "did you mean hot-cold?; allowed: greedy, fifo, d-choices, cost-benefit, hot-cold, wear-aware";
    assert!(found.contains(allowed), "{found}");
}

#[test]
fn key_without_its_needed_part_is_refused_once_per_part() {
    check(
        "interface = 'nvme'
zones = { active_max = 5, open_max = 3 }
key_value.keys_max = 7
placement.groups = 2
switch.pass_ns = 5
peer.link_lanes = 8
dma = { word_bytes = 8, full_duplex = true }
host.mmio_room = 3
stack = { ipc = 1.5, poller_wake_ns = 3 }
controller.cores = 2
buffer = { page_ns = 5, power_loss_protection = false }
media.planes = 2
volume = { burst_iops = 5, credit_mib = 3, window_ms = 2, operation_kib = 4, merges_sequential = true }
",
        expect![[r#"
            drive.toml:2: zones.active_max is given with zones.size_mib 0, where it has no effect; allowed: zones.size_mib above 0, or no zones.active_max
            drive.toml:3: key_value.keys_max is given with key_value.value_max_kib 0, where it has no effect; allowed: key_value.value_max_kib above 0, or no key_value.keys_max
            drive.toml:4: placement.groups is given with placement.handles 0, where it has no effect; allowed: placement.handles above 0, or no placement.groups
            drive.toml:5: switch.pass_ns is given without a switch, where it has no effect; allowed: switch.drives or switch.hosts above 0, or no switch.pass_ns
            drive.toml:6: peer.link_lanes is given with peer.holds "nothing", where it has no effect; allowed: peer.holds other than "nothing", or no peer.link_lanes
            drive.toml:7: dma.full_duplex is given for a DMA engine that no transfer occupies, where it has no effect; allowed: dma.piece_ns, dma.from_host_ns or dma.to_host_ns above 0, or no dma.full_duplex
            drive.toml:7: dma.word_bytes is given with dma.piece_ns 0, where it has no effect; allowed: dma.piece_ns above 0, or no dma.word_bytes
            drive.toml:8: host.mmio_room is given with host.mmio_drain_ns 0, where it has no effect; allowed: host.mmio_drain_ns above 0, or no host.mmio_room
            drive.toml:9: stack.ipc is given with stack.clock_ghz 0, where it has no effect; allowed: stack.clock_ghz above 0, or no stack.ipc
            drive.toml:9: stack.poller_wake_ns is given in a stack without stack.engines, where it has no effect; allowed: a stack with stack.engines, as in docs/hosts.md, or no stack.poller_wake_ns
            drive.toml:10: controller.cores is given for a drive on which no command takes processor time, where it has no effect; allowed: controller.read_core_ns or controller.write_core_ns above 0, or no controller.cores
            drive.toml:11: buffer.power_loss_protection is given with media.acknowledge "late", where it has no effect; allowed: media.acknowledge = "early", or translation.mapping = "page", or no buffer.power_loss_protection
            drive.toml:12: media.planes is given with translation.mapping "none", where it has no effect; allowed: translation.mapping = "page", or no media.planes
            drive.toml:13: the volume has a rate of bursts without credits, or credits without a rate of bursts; allowed: volume.burst_iops with volume.credit_operations, and volume.burst_mib_per_s with volume.credit_mib, or neither
            drive.toml:13: volume.burst_iops is given without a rate of operations, where it has no effect; allowed: volume.rate_iops or volume.iops_per_gib above 0, or no volume.burst_iops
            drive.toml:13: volume.operation_kib is given without a limit of operations, where it has no effect; allowed: volume.rate_iops or volume.iops_per_gib above 0, or no volume.operation_kib
            drive.toml:13: volume.credit_mib is given without a bandwidth, where it has no effect; allowed: volume.rate_mib_per_s or volume.mib_per_s_per_gib above 0, or no volume.credit_mib
            drive.toml:13: volume.window_ms is given without a rate, where it has no effect; allowed: volume.rate_iops, volume.rate_mib_per_s or a rate for each GiB above 0, or no volume.window_ms"#]],
    );
    check(
        "preset = 'tlc-gen4'
translation = { idle_us = 0, idle_blocks = 5, choices = 7, slc_cache_mib = 0 }
media = { program_bytes = 16384, stripe_bytes = 16384, planes = 1, read_centre_ns = 5, slc_read_ns = 7 }
",
        expect![[r#"
            drive.toml:2: translation.choices is given with a translation.policy that does not use it, where it has no effect; allowed: translation.policy = "d-choices", or no translation.choices
            drive.toml:2: translation.idle_blocks is given with translation.idle_us 0, where it has no effect; allowed: translation.idle_us above 0, or no translation.idle_blocks
            drive.toml:3: media.read_centre_ns is given for cells of one bit, where it has no effect; allowed: media.program_bytes of as many stripes as a cell has bits, or no media.read_centre_ns
            drive.toml:3: media.slc_read_ns is given with translation.slc_cache_mib 0, where it has no effect; allowed: translation.slc_cache_mib above 0, or no media.slc_read_ns"#]],
    );
}

#[test]
fn inherited_value_may_lack_its_needed_part() {
    assert!(read_with_overrides("preset = 'ebs-gp3'", &["volume.rate_iops=0"]).is_ok(), "operation_kib is inherited");
    assert!(read_with_overrides("preset = 'nvme'", &["zones.active_max=0", "media.planes=1"]).is_ok(), "defaults");
    let nand = read("interface = 'nvme'\nmedia = { technology = 'nand', planes = 2, slc_read_ns = 5 }");
    assert!(nand.is_ok(), "flash may be described before its translation layer: {nand:?}");
}
