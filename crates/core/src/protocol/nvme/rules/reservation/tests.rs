use super::*;

const A: ReservingHost = ReservingHost::Named([0xa; HOST_BYTES]);
const B: ReservingHost = ReservingHost::Named([0xb; HOST_BYTES]);
const C: ReservingHost = ReservingHost::OfController(3);
const KEY_A: u64 = 0xa1;
const KEY_B: u64 = 0xb1;

use ReservationType::*;

fn register(reservations: &mut Reservations, host: ReservingHost, key: u64) -> Result<Vec<Notice>, Status> {
    let command = ReservationCommand::Register { action: RegisterAction::Register, ignores_key: false, persists: None };
    reservations.execute(command, ReservationKeys { current: 0, other: key }, host)
}

fn acquire(
    reservations: &mut Reservations,
    (host, key): (ReservingHost, u64),
    (action, kind): (AcquireAction, ReservationType),
    other: u64,
) -> Result<Vec<Notice>, Status> {
    reservations.execute(ReservationCommand::Acquire { action, kind }, ReservationKeys { current: key, other }, host)
}

/// Returns reservations with the registrants A and B, of which A holds one of this type.
fn reservation_held_by_a(kind: ReservationType) -> Reservations {
    let mut reservations = Reservations::default();
    register(&mut reservations, A, KEY_A).unwrap();
    register(&mut reservations, B, KEY_B).unwrap();
    acquire(&mut reservations, (A, KEY_A), (AcquireAction::Acquire, kind), 0).unwrap();
    reservations
}

fn release(reservations: &mut Reservations, kind: ReservationType) -> Result<Vec<Notice>, Status> {
    let keys = ReservationKeys { current: KEY_A, other: 0 };
    reservations.execute(ReservationCommand::Release(kind), keys, A)
}

/// Base Specification 2.0, section 8.19: what each type leaves to the holder, to another registrant, and to others.
#[test]
fn reservation_types_grant_the_specified_access() {
    use NamespaceAccess::{None, Read, Write};
    for (kind, expected) in [
        (WriteExclusive, [Write, Read, Read]),
        (ExclusiveAccess, [Write, None, None]),
        (WriteExclusiveRegistrants, [Write, Write, Read]),
        (ExclusiveAccessRegistrants, [Write, Write, None]),
        (WriteExclusiveAll, [Write, Write, Read]),
        (ExclusiveAccessAll, [Write, Write, None]),
    ] {
        let reservations = reservation_held_by_a(kind);
        assert_eq!([A, B, C].map(|host| reservations.access(host)), expected, "{kind:?}");
    }
    assert_eq!(Reservations::default().access(C), Write);
}

#[test]
fn reservation_types_have_their_numbers() {
    for (number, kind) in (1..).zip(ReservationType::ALL) {
        assert_eq!((ReservationType::of(number.into()), kind.number()), (Ok(kind), number));
    }
    assert_eq!([0, 7, u32::MAX].map(ReservationType::of), [Err(Status::INVALID_FIELD); 3]);
}

#[test]
fn registration_needs_and_changes_with_its_current_key() {
    let mut reservations = Reservations::default();
    assert_eq!(register(&mut reservations, A, 0), Err(Status::INVALID_FIELD));
    assert_eq!(register(&mut reservations, A, KEY_A), Ok(vec![]));
    assert_eq!(register(&mut reservations, A, KEY_A), Ok(vec![]));
    assert_eq!(register(&mut reservations, A, 7), Err(Status::RESERVATION_CONFLICT));
    let mut change = |host, action, ignores_key, current, other| {
        let command = ReservationCommand::Register { action, ignores_key, persists: None };
        reservations.execute(command, ReservationKeys { current, other }, host)
    };
    assert_eq!(change(A, RegisterAction::Replace, false, 7, 8), Err(Status::RESERVATION_CONFLICT));
    assert_eq!(change(A, RegisterAction::Replace, false, KEY_A, 8), Ok(vec![]));
    assert_eq!(change(A, RegisterAction::Replace, true, 7, 9), Ok(vec![]));
    assert_eq!(change(B, RegisterAction::Replace, false, 0, 8), Err(Status::RESERVATION_CONFLICT));
    assert_eq!(change(B, RegisterAction::Replace, true, 0, 8), Ok(vec![]));
    assert_eq!(change(B, RegisterAction::Unregister, false, 7, 0), Err(Status::RESERVATION_CONFLICT));
    assert_eq!(change(B, RegisterAction::Unregister, true, 7, 0), Ok(vec![]));
    assert_eq!(change(B, RegisterAction::Unregister, true, 7, 0), Err(Status::RESERVATION_CONFLICT));
    // The generation counts five changes: one registration, two replacements, and B added and removed.
    assert_eq!(reservations.generation, 5);
}

#[test]
fn only_registrants_acquire_and_one_holds() {
    for kind in ReservationType::ALL {
        let mut reservations = reservation_held_by_a(kind);
        let mut again = |by, kind| acquire(&mut reservations, by, (AcquireAction::Acquire, kind), 0);
        assert_eq!(again((A, KEY_A), kind), Ok(vec![]));
        assert_eq!(again((A, KEY_B), kind), Err(Status::RESERVATION_CONFLICT));
        assert_eq!(again((C, 1), kind), Err(Status::RESERVATION_CONFLICT));
        let by_b = if kind.is_held_by_all() { Ok(vec![]) } else { Err(Status::RESERVATION_CONFLICT) };
        assert_eq!(again((B, KEY_B), kind), by_b, "{kind:?}");
        let other = if kind == WriteExclusive { ExclusiveAccess } else { WriteExclusive };
        assert_eq!(again((A, KEY_A), other), Err(Status::RESERVATION_CONFLICT));
    }
}

#[test]
fn release_and_clear_notify_affected_hosts() {
    for kind in ReservationType::ALL {
        let mut reservations = reservation_held_by_a(kind);
        let other = if kind == WriteExclusive { ExclusiveAccess } else { WriteExclusive };
        assert_eq!(release(&mut reservations, other), Err(Status::INVALID_FIELD));
        let told = if kind.admits_other_registrants() {
            vec![(B, ReservationNoticeKind::ReservationReleased)]
        } else {
            vec![]
        };
        assert_eq!(release(&mut reservations, kind), Ok(told), "{kind:?}");
        assert_eq!(release(&mut reservations, kind), Ok(vec![]), "nothing is held");
        assert_eq!(reservations.access(C), NamespaceAccess::Write);
        let keys = ReservationKeys { current: KEY_A, other: 0 };
        let cleared = reservations.execute(ReservationCommand::Clear, keys, A);
        assert_eq!(cleared, Ok(vec![(B, ReservationNoticeKind::ReservationPreempted)]));
        assert!(reservations.is_empty());
    }
}

#[test]
fn unregistering_the_holder_releases_its_reservation() {
    for kind in ReservationType::ALL {
        let mut reservations = reservation_held_by_a(kind);
        let notices = reservations.forget(A);
        assert_eq!(reservations.held.is_some(), kind.is_held_by_all(), "{kind:?}");
        let is_told = matches!(kind, WriteExclusiveRegistrants | ExclusiveAccessRegistrants);
        assert_eq!(
            notices,
            if is_told { vec![(B, ReservationNoticeKind::ReservationReleased)] } else { vec![] },
            "{kind:?}"
        );
        reservations.forget(B);
        assert_eq!((reservations.held, reservations.access(C)), (None, NamespaceAccess::Write));
    }
}

#[test]
fn preemption_takes_the_reservation_and_unregisters_by_key() {
    use ReservationNoticeKind::{RegistrationPreempted, ReservationReleased};
    let preempt = |reservations: &mut Reservations, kind, key| {
        acquire(reservations, (B, KEY_B), (AcquireAction::Preempt, kind), key)
    };
    for kind in ReservationType::ALL {
        let mut reservations = reservation_held_by_a(kind);
        register(&mut reservations, C, 0xc1).unwrap();
        let told = preempt(&mut reservations, WriteExclusive, if kind.is_held_by_all() { 0 } else { KEY_A });
        let mut expected = vec![(A, RegistrationPreempted)];
        match kind {
            // Preemption unregisters all others, so no host is left to be notified of the changed type.
            WriteExclusiveAll | ExclusiveAccessAll => expected.push((C, RegistrationPreempted)),
            WriteExclusive => {}
            _ => expected.push((C, ReservationReleased)),
        }
        assert_eq!(told, Ok(expected), "{kind:?}");
        assert_eq!(
            [A, B, C].map(|host| reservations.access(host)),
            [NamespaceAccess::Read, NamespaceAccess::Write, NamespaceAccess::Read]
        );
    }
    let mut reservations = reservation_held_by_a(ExclusiveAccess);
    assert_eq!(preempt(&mut reservations, ExclusiveAccess, 0), Err(Status::INVALID_FIELD));
    assert_eq!(preempt(&mut reservations, ExclusiveAccess, 0xdead), Err(Status::RESERVATION_CONFLICT));
    assert_eq!(acquire(&mut reservations, (A, KEY_A), (AcquireAction::Preempt, ExclusiveAccess), KEY_B), {
        Ok(vec![(B, RegistrationPreempted)])
    });
    assert_eq!(preempt(&mut reservations, ExclusiveAccess, KEY_A), Err(Status::RESERVATION_CONFLICT), "B is gone");
}

#[test]
fn holder_changes_the_type_by_self_preemption() {
    let mut reservations = reservation_held_by_a(WriteExclusive);
    let told = acquire(&mut reservations, (A, KEY_A), (AcquireAction::Preempt, ExclusiveAccessRegistrants), KEY_A);
    assert_eq!(told, Ok(vec![(B, ReservationNoticeKind::ReservationReleased)]));
    assert_eq!(
        [A, B, C].map(|host| reservations.access(host)),
        [NamespaceAccess::Write, NamespaceAccess::Write, NamespaceAccess::None]
    );
}

#[test]
fn reservation_report_lists_generation_type_and_registrants() {
    let reservations = reservation_held_by_a(ExclusiveAccess);
    let short = reservations.report(24 + 2 * 24, false);
    assert_eq!(short[..10], [2, 0, 0, 0, 2, 2, 0, 0, 0, 0]);
    assert_eq!(short[24..27], [0xff, 0xff, 1]);
    assert_eq!((&short[32..40], &short[40..48]), (&[0xa; 8][..], &KEY_A.to_le_bytes()[..]));
    assert_eq!(short[48..51], [0xff, 0xff, 0]);
    let long = reservations.report(64 + 64 + 4, true);
    assert_eq!((long.len(), &long[64..67]), (132, &[0xff, 0xff, 1][..]));
    assert_eq!((&long[72..80], &long[80..96]), (&KEY_A.to_le_bytes()[..], &[0xa; 16][..]));
    assert_eq!(reservations.report(8, true).len(), 8, "a short buffer has the start of the report");
}

#[test]
fn persistent_reservations_survive_power_loss() {
    let mut reservations = reservation_held_by_a(WriteExclusiveRegistrants);
    register(&mut reservations, C, 0xc1).unwrap();
    let lost = Reservations::decode(&reservations.encode()).unwrap();
    assert_eq!(lost, Reservations::default());
    reservations.set_persists(true);
    let kept = Reservations::decode(&reservations.encode()).unwrap();
    assert_eq!(
        [A, B, C].map(|host| kept.access(host)),
        [NamespaceAccess::Write, NamespaceAccess::Write, NamespaceAccess::Read]
    );
    assert!(
        kept.is_host_registered(A) && !kept.is_host_registered(C),
        "a host without an identifier is another one afterwards"
    );
    let record = reservations.encode();
    for end in 0..record.len() {
        let is_whole = end >= 8 && (end - 8) % RECORD_BYTES == 0;
        assert!(is_whole || Reservations::decode(&record[..end]).is_none(), "{end} bytes");
    }
}

#[test]
fn registrations_beyond_the_limit_are_refused() {
    let mut reservations = Reservations::default();
    for number in 0..REGISTRANTS_MAX as u32 {
        register(&mut reservations, ReservingHost::OfController(number), 1).unwrap();
    }
    assert_eq!(register(&mut reservations, A, 1), Err(Status::INTERNAL_ERROR));
    assert_eq!(register(&mut reservations, ReservingHost::OfController(0), 1), Ok(vec![]), "it is registered");
}
