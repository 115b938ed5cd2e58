//! Data placement of a served drive, as an NVMe driver meets it: identification, features, directives, log pages, reclaim units, and
//! namespaces with handles of their own.

use crate::nvme_bench::{Bench, DATA, Fields, LIMITS, transfer, u64_at};
use phaselink_core::config::{PlacementIsolation, TranslationPolicyName};
use phaselink_core::media::translation::policy::TranslationPolicySettings;
use phaselink_core::media::translation::{HostStreams, TranslationShape, UntimedPlacedDrive};
use phaselink_core::protocol::nvme::commands::opcode;
use phaselink_core::protocol::nvme::rules::{BlockNamespaceParts, Limits, NamespaceKind, PlacementLimits};
use phaselink_core::protocol::nvme::spec::{CompletionEntry, Status, admin};
use phaselink_core::random::Random;
use phaselink_serve::nvme::{Controller, Identity};

/// Reclaim units of 64 KiB, four handles in each of two groups.
const SHAPE: TranslationShape = TranslationShape {
    units: 256,
    used_units: 256,
    block_units: 16,
    blocks: 40,
    line_units: 4,
    policy: TranslationPolicyName::Greedy,
    settings: TranslationPolicySettings { choices: 2 },
    map: None,
    slc: None,
    wear_gap: 0,
    placement: Some(STREAMS),
};
const STREAMS: HostStreams = HostStreams { handles: 4, groups: 2, isolation: PlacementIsolation::Initial };
const PLACED: Limits = Limits { namespaces: 2, blocks: LIMITS.blocks / 2, kind: placed(PLACEMENT), ..LIMITS };
const PLACEMENT: PlacementLimits = PlacementLimits {
    handles: 4,
    groups: 2,
    identifiers_max: 8,
    streams: STREAMS,
    shape: SHAPE,
    unit_bytes: 4096,
    is_enabled: true,
    is_directed: true,
};

const fn placed(placement: PlacementLimits) -> NamespaceKind {
    NamespaceKind::Blocks(BlockNamespaceParts { placement: Some(placement), metadata: None })
}

const FEATURE: u32 = 0x1d;
const EVENTS: u32 = 0x1e;
const CONFIGURATIONS: u32 = 0x20;
const USAGE: u32 = 0x21;
const STATISTICS: u32 = 0x22;
const EVENT_LOG: u32 = 0x23;

fn admin_command(opcode: u8, namespace: u32, dwords: [u32; 4]) -> Fields {
    let dwords = [dwords[0], dwords[1], dwords[2], dwords[3], 0, 0];
    Fields { opcode, namespace, prp: [DATA, 0], dwords, ..Fields::default() }
}

/// Status and bytes of a log page of an endurance group.
fn log(bench: &mut Bench, id: u32, group: u32, specific: u32) -> (Status, Vec<u8>) {
    bench.machine.memory[DATA as usize..][..4096].fill(0xee);
    let dwords = [id | specific << 8 | 1023 << 16, group << 16, 0, 0];
    let status = bench.administer(admin_command(admin::GET_LOG_PAGE, 0, dwords)).status;
    (status, bench.machine.memory[DATA as usize..][..4096].to_vec())
}

fn feature(bench: &mut Bench, opcode: u8, namespace: u32, dwords: [u32; 3]) -> CompletionEntry {
    bench.administer(admin_command(opcode, namespace, [dwords[0], dwords[1], dwords[2], 0]))
}

/// Writes four kibibytes with a placement identifier; none without a directive.
fn write(bench: &mut Bench, unit: u64, identifier: Option<u16>) -> Status {
    write_to(bench, 1, unit, identifier)
}

fn write_to(bench: &mut Bench, namespace: u32, unit: u64, identifier: Option<u16>) -> Status {
    let mut fields = transfer(opcode::WRITE, unit * 8, 8, [DATA, 0]);
    fields.namespace = namespace;
    if let Some(identifier) = identifier {
        fields.dwords[2] |= 2 << 20;
        fields.dwords[3] = u32::from(identifier) << 16;
    }
    bench.ask(fields).status
}

/// Placement identifier, reclaim unit handle and blocks left of each reclaim unit of a namespace.
fn units(bench: &mut Bench, namespace: u32) -> (Status, Vec<(u16, u8, u64)>) {
    bench.machine.memory[DATA as usize..][..4096].fill(0xee);
    let dwords = [1, 1023, 0, 0, 0, 0];
    let command =
        Fields { opcode: opcode::IO_MANAGEMENT_RECEIVE, namespace, prp: [DATA, 0], dwords, ..Fields::default() };
    let status = bench.ask(command).status;
    let page = &bench.machine.memory[DATA as usize..][..4096];
    let count = usize::from(u16::from_le_bytes([page[14], page[15]]));
    let unit = |it: &[u8]| (u16::from_le_bytes([it[0], it[1]]), it[2], u64_at(it, 8));
    (
        status,
        if status == Status::SUCCESS { page[16..][..count * 32].chunks(32).map(unit).collect() } else { Vec::new() },
    )
}

fn renew(bench: &mut Bench, identifiers: &[u16]) -> Status {
    let list: Vec<u8> = identifiers.iter().flat_map(|it| it.to_le_bytes()).collect();
    bench.machine.memory[DATA as usize..][..list.len()].copy_from_slice(&list);
    let dwords = [1 | (identifiers.len() as u32 - 1) << 16, 0, 0, 0, 0, 0];
    let command =
        Fields { opcode: opcode::IO_MANAGEMENT_SEND, namespace: 1, prp: [DATA, 0], dwords, ..Fields::default() };
    bench.ask(command).status
}

/// Status and identifier of a namespace of 32 blocks of a format with these reclaim unit handles.
fn create(bench: &mut Bench, format: u8, handles: &[u16]) -> (Status, u64) {
    let page = &mut bench.machine.memory[DATA as usize..][..4096];
    page.fill(0);
    (page[0], page[8], page[26]) = (32, 32, format);
    page[392..394].copy_from_slice(&(handles.len() as u16).to_le_bytes());
    for (place, handle) in handles.iter().enumerate() {
        page[512 + place * 2..][..2].copy_from_slice(&handle.to_le_bytes());
    }
    let entry = bench.administer(admin_command(admin::NAMESPACE_MANAGEMENT, 0, [0; 4]));
    if entry.status == Status::SUCCESS {
        let page = &mut bench.machine.memory[DATA as usize..][..4096];
        page.fill(0);
        page[0] = 1;
        let attach = admin_command(admin::NAMESPACE_ATTACHMENT, entry.result as u32, [0; 4]);
        assert_eq!(bench.administer(attach).status, Status::SUCCESS);
    }
    (entry.status, entry.result)
}

fn delete(bench: &mut Bench, namespace: u32) -> Status {
    bench.administer(admin_command(admin::NAMESPACE_MANAGEMENT, namespace, [1, 0, 0, 0])).status
}

/// Returns a 128-bit number.
fn u128_at(page: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(page[at..at + 16].try_into().unwrap())
}

#[test]
fn identify_and_configuration_log_describe_placement() {
    let mut bench = Bench::with(PLACED);
    let (_, controller) = bench.identify(1, 0);
    let attributes = u32::from_le_bytes(controller[96..100].try_into().unwrap());
    assert_eq!((attributes >> 19 & 1, attributes >> 4 & 1, controller[340], controller[256] >> 5 & 1), (1, 1, 1, 1));
    let (namespace, independent) = (bench.identify(0, 1).1, bench.identify(8, 1).1);
    assert_eq!((namespace[102], independent[12]), (1, 1), "both are in endurance group 1");
    let (status, page) = log(&mut bench, CONFIGURATIONS, 1, 0);
    assert_eq!((status, page[0], u32::from_le_bytes(page[4..8].try_into().unwrap())), (Status::SUCCESS, 0, 96));
    // Expected: valid, volatile write cache, one bit of the placement identifier for the group; two groups, four
    // handles, eight identifiers, two namespaces.
    assert_eq!(page[16..34], [80, 0, 0x91, 0, 2, 0, 0, 0, 4, 0, 7, 0, 2, 0, 0, 0, 0, 0]);
    assert_eq!((u64_at(&page, 32), page[80], page[84]), (64 << 10, 1, 1), "initially isolated units of 64 KiB");
    let plain = &mut Bench::with(LIMITS);
    assert_eq!(log(plain, CONFIGURATIONS, 1, 0).0, Status::INVALID_LOG_PAGE);
    assert_eq!(
        plain.administer(admin_command(admin::DIRECTIVE_RECEIVE, 1, [1023, 1, 0, 0])).status,
        Status::INVALID_OPCODE
    );
}

#[test]
fn writes_fill_the_reclaim_units_they_name() {
    let mut bench = Bench::with(PLACED);
    for (unit, identifier) in
        [(0, None), (1, Some(0)), (2, Some(0x8001)), (3, Some(0x8001)), (4, Some(3)), (5, Some(9))]
    {
        assert_eq!(write(&mut bench, unit, identifier), Status::SUCCESS);
    }
    let (status, found) = units(&mut bench, 1);
    assert_eq!(status, Status::SUCCESS);
    // Blocks have 512 bytes. The write with an invalid placement identifier went to the first handle.
    let left = |units: u64| (16 - units) * 8;
    let expected = [
        (0, 0, left(3)),
        (0x8000, 0, left(0)),
        (1, 1, left(0)),
        (0x8001, 1, left(2)),
        (2, 2, left(0)),
        (0x8002, 2, left(0)),
        (3, 3, left(1)),
        (0x8003, 3, left(0)),
    ];
    assert_eq!(found, expected);
    assert_eq!(renew(&mut bench, &[0x8001, 2]), Status::SUCCESS);
    assert_eq!(units(&mut bench, 1).1[3], (0x8001, 1, left(0)));
    assert_eq!(renew(&mut bench, &[3, 4]), Status::INVALID_FIELD);
    assert_eq!(units(&mut bench, 1).1[6], (3, 3, left(1)), "a list that is wrong renews none");
    let mut streams = transfer(opcode::WRITE, 0, 8, [DATA, 0]);
    streams.dwords[2] |= 1 << 20;
    assert_eq!(bench.ask(streams).status, Status::INVALID_FIELD, "there is no directive for streams");
}

/// Writes the same units to a served drive and to a translation layer alone, whose counts are the oracle.
#[test]
fn placement_statistics_equal_a_bare_translation_layer() {
    let mut bench = Bench::with(PLACED);
    let mut alone = UntimedPlacedDrive::new(SHAPE, 4096);
    let mut random = Random::stream(1, "units");
    for turn in 0..6000_u64 {
        let hot = turn % 2 == 0;
        let unit = if hot { random.bits() % 24 } else { 24 + turn / 2 % 104 };
        let namespace = if turn % 3 == 0 { 2 } else { 1 };
        assert_eq!(write_to(&mut bench, namespace, unit, Some(u16::from(hot))), Status::SUCCESS);
        alone.write(((u64::from(namespace) - 1) * 128 + unit) * 4096, 4096, u8::from(hot));
    }
    let (status, page) = log(&mut bench, STATISTICS, 1, 0);
    let expected = alone.statistics();
    assert_eq!(status, Status::SUCCESS);
    assert_eq!(
        (u128_at(&page, 0), u128_at(&page, 16), u128_at(&page, 32)),
        (expected.host_bytes, expected.media_bytes, expected.erased_bytes)
    );
    assert_eq!(expected.host_bytes, 6000 * 4096);
    assert!(expected.erased_bytes > 0 && alone.layer().inconsistency().is_none());
}

#[test]
fn placement_events_are_logged_for_enabled_handles() {
    let mut bench = Bench::with(PLACED);
    // Without enabled events, nothing is logged.
    write(&mut bench, 0, Some(9));
    let types = feature(&mut bench, admin::GET_FEATURES, 1, [EVENTS, 0, 0]);
    assert_eq!((types.status, types.result), (Status::SUCCESS, 3));
    assert_eq!(bench.machine.memory[DATA as usize..][..6], [0, 0, 3, 0, 0x80, 0]);
    for handle in [0, 1] {
        bench.machine.memory[DATA as usize..][..3].copy_from_slice(&[0, 3, 0x80]);
        let set = feature(&mut bench, admin::SET_FEATURES, 1, [EVENTS, handle | 3 << 16, 1]);
        assert_eq!(set.status, Status::SUCCESS);
    }
    write(&mut bench, 1, Some(9));
    write(&mut bench, 2, Some(0x8001));
    renew(&mut bench, &[0x8001, 3]);
    let (status, page) = log(&mut bench, EVENT_LOG, 1, 1);
    let event = |place: usize| &page[64 * (1 + place)..][..64];
    let told =
        |event: &[u8]| (event[0], event[1], u16::from_le_bytes([event[2], event[3]]), event[12], event[32], event[34]);
    assert_eq!((status, page[0]), (Status::SUCCESS, 2));
    assert_eq!(told(event(0)), (3, 7, 9, 1, 0, 0), "an identifier that there is not, and where its write went");
    assert_eq!(told(event(1)), (0, 7, 0x8001, 1, 1, 1), "a unit that was not fully written");
    let mut random = Random::stream(2, "units");
    for _ in 0..4000 {
        write(&mut bench, random.bits() % 128, Some(0));
        write_to(&mut bench, 2, random.bits() % 128, Some(0));
    }
    let (_, page) = log(&mut bench, EVENT_LOG, 1, 0);
    assert_eq!((page[64], page[65]), (0x80, 0), "data was moved, of handles that are not told apart any more");
    bench.machine.memory[DATA as usize] = 1;
    let unknown = feature(&mut bench, admin::SET_FEATURES, 1, [EVENTS, 1 << 16, 1]);
    assert_eq!(unknown.status, Status::INVALID_FIELD, "no unit has a time limit");
    let beyond = feature(&mut bench, admin::GET_FEATURES, 1, [EVENTS, 4, 0]);
    assert_eq!(beyond.status, Status::INVALID_FIELD);
    let all = feature(&mut bench, admin::GET_FEATURES, u32::MAX, [EVENTS, 0, 0]);
    assert_eq!(all.status, Status::INVALID_NAMESPACE);
}

#[test]
fn placement_directive_is_enabled_per_namespace() {
    let mut bench = Bench::with(PLACED);
    let parameters = |bench: &mut Bench, namespace| {
        let entry = bench.administer(admin_command(admin::DIRECTIVE_RECEIVE, namespace, [1023, 1, 0, 0]));
        let page = &bench.machine.memory[DATA as usize..][..96];
        (entry.status, page[0], page[32], page[64])
    };
    let direct = |bench: &mut Bench, namespace, dwords: [u32; 2]| {
        bench.administer(admin_command(admin::DIRECTIVE_SEND, namespace, [0, dwords[0], dwords[1], 0])).status
    };
    assert_eq!(parameters(&mut bench, 1), (Status::SUCCESS, 0b101, 0b101, 0b100));
    assert_eq!(direct(&mut bench, 1, [1, 2 << 8]), Status::SUCCESS);
    assert_eq!((parameters(&mut bench, 1).2, parameters(&mut bench, 2).2), (0b001, 0b101));
    assert_eq!(write(&mut bench, 0, Some(1)), Status::SUCCESS);
    assert_eq!((units(&mut bench, 1).1[0].2, units(&mut bench, 1).1[2].2), (120, 128), "the identifier was ignored");
    assert_eq!(direct(&mut bench, 1, [1, 2 << 8 | 1]), Status::SUCCESS);
    write(&mut bench, 0, Some(1));
    assert_eq!(units(&mut bench, 1).1[2].2, 120);
    for (namespace, dwords, status) in [
        (1, [2 << 8 | 1, 2 << 8 | 1], Status::INVALID_FIELD),
        (1, [2, 2 << 8 | 1], Status::INVALID_FIELD),
        (1, [1, 1 << 8 | 1], Status::INVALID_FIELD),
        (u32::MAX, [1, 2 << 8 | 1], Status::INVALID_NAMESPACE),
        (3, [1, 2 << 8 | 1], Status::INVALID_NAMESPACE),
    ] {
        assert_eq!(direct(&mut bench, namespace, dwords), status, "{namespace} {dwords:x?}");
    }
}

#[test]
fn placement_can_be_toggled_only_without_namespaces() {
    let mut bench = Bench::with(PLACED);
    let get = |bench: &mut Bench, group| feature(bench, admin::GET_FEATURES, 0, [FEATURE, group, 0]);
    let set = |bench: &mut Bench, dwords: [u32; 2]| {
        feature(bench, admin::SET_FEATURES, 0, [FEATURE | 1 << 31, dwords[0], dwords[1]]).status
    };
    assert_eq!((get(&mut bench, 1).result, get(&mut bench, 2).status), (1, Status::INVALID_FIELD));
    write(&mut bench, 0, Some(1));
    assert_eq!(set(&mut bench, [1, 0]), Status::COMMAND_SEQUENCE_ERROR);
    assert_eq!(set(&mut bench, [1, 1]), Status::SUCCESS, "no change");
    assert_eq!(set(&mut bench, [1, 0x101]), Status::INVALID_FIELD, "there is one configuration");
    assert_eq!(delete(&mut bench, u32::MAX), Status::SUCCESS);
    assert_eq!(
        log(&mut bench, USAGE, 1, 0).1[..24],
        [4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(set(&mut bench, [1, 0]), Status::SUCCESS);
    assert_eq!(create(&mut bench, 0, &[1]), (Status::SUCCESS, 1));
    assert_eq!(units(&mut bench, 1).0, Status::PLACEMENT_DISABLED);
    for id in [USAGE, STATISTICS, EVENT_LOG] {
        assert_eq!(log(&mut bench, id, 1, 0).0, Status::PLACEMENT_DISABLED);
        assert_eq!(log(&mut bench, id, 0, 0).0, Status::INVALID_FIELD);
    }
    assert_eq!(feature(&mut bench, admin::GET_FEATURES, 1, [EVENTS, 0, 0]).status, Status::PLACEMENT_DISABLED);
    let direct = admin_command(admin::DIRECTIVE_SEND, 1, [0, 1, 2 << 8 | 1, 0]);
    assert_eq!(bench.administer(direct).status, Status::PLACEMENT_DISABLED);
    assert_eq!(write(&mut bench, 0, Some(1)), Status::SUCCESS, "directives are ignored");
    assert_eq!(delete(&mut bench, 1), Status::SUCCESS);
    assert_eq!(set(&mut bench, [1, 1]), Status::SUCCESS);
    assert_eq!(u128_at(&log(&mut bench, STATISTICS, 1, 0).1, 0), 0, "a change has cleared the statistics");
}

#[test]
fn namespace_gets_the_listed_handles_or_a_default() {
    let mut bench = Bench::with(PLACED);
    assert_eq!(delete(&mut bench, u32::MAX), Status::SUCCESS);
    let handles = Status::INVALID_PLACEMENT_HANDLES;
    for wrong in [&[4][..], &[1, 1], &[0, 1, 2, 3, 0]] {
        assert_eq!(create(&mut bench, 0, wrong).0, handles, "{wrong:?}");
    }
    assert_eq!(create(&mut bench, 0, &[3, 1]), (Status::SUCCESS, 1));
    let all = |units: Vec<(u16, u8, u64)>| units.into_iter().map(|it| (it.0, it.1)).collect::<Vec<_>>();
    assert_eq!(all(units(&mut bench, 1).1), [(0, 3), (0x8000, 3), (1, 1), (0x8001, 1)]);
    assert_eq!(write(&mut bench, 0, Some(0x8001)), Status::SUCCESS);
    assert_eq!(units(&mut bench, 1).1[3].2, 120);
    assert_eq!(write(&mut bench, 0, Some(2)), Status::SUCCESS, "no such handle in this namespace");
    assert_eq!(units(&mut bench, 1).1[0].2, 120);
    assert_eq!(create(&mut bench, 1, &[1]).0, Status::INVALID_FORMAT, "handle 1 has blocks of 512 bytes");
    assert_eq!(create(&mut bench, 0, &[]), (Status::SUCCESS, 2));
    assert_eq!(all(units(&mut bench, 2).1), [(0, 0), (0x8000, 0)]);
    let (_, usage) = log(&mut bench, USAGE, 1, 0);
    assert_eq!([usage[8], usage[16], usage[24], usage[32]], [2, 1, 0, 1]);
    assert_eq!(delete(&mut bench, 1), Status::SUCCESS);
    assert_eq!(create(&mut bench, 0, &[0]).0, handles, "the controller has chosen it for another namespace");
}

#[test]
fn handles_and_placement_settings_outlive_the_server() {
    let mut bench = Bench::with(PLACED);
    assert_eq!(delete(&mut bench, u32::MAX), Status::SUCCESS);
    assert_eq!(create(&mut bench, 0, &[2, 0]), (Status::SUCCESS, 1));
    bench.machine.memory[DATA as usize] = 3;
    assert_eq!(feature(&mut bench, admin::SET_FEATURES, 1, [EVENTS, 1 << 16, 1]).status, Status::SUCCESS);
    bench.step();
    let identity = Identity::new("test", PLACED, 0);
    identity.subsystem.load(&bench.store).unwrap();
    bench.controller = Controller::new(identity);
    bench.enable();
    let mut bench = Bench { io: crate::nvme_bench::pair(1, bench.io.commands, bench.io.answers), ..bench };
    for fields in [crate::nvme_bench::create_completion_queue(1, 16), crate::nvme_bench::create_submission_queue(1, 16)]
    {
        assert_eq!(bench.administer(fields).status, Status::SUCCESS);
    }
    let found = units(&mut bench, 1).1;
    assert_eq!((found.len(), found[0].1, found[2].1), (4, 2, 0));
    let types = feature(&mut bench, admin::GET_FEATURES, 1, [EVENTS, 0, 0]);
    assert_eq!((types.result, bench.machine.memory[DATA as usize + 3]), (3, 1), "the event is still enabled");
    let three = Limits {
        kind: placed(PlacementLimits {
            streams: HostStreams { handles: 3, ..STREAMS },
            shape: TranslationShape { placement: Some(HostStreams { handles: 3, ..STREAMS }), ..SHAPE },
            ..PLACEMENT
        }),
        ..PLACED
    };
    assert!(Identity::new("test", three, 0).subsystem.load(&bench.store).is_err(), "a drive with fewer handles");
}
