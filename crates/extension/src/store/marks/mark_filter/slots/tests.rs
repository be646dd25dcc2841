//! What slots answer, in one thread and under writers and builders that run at once.

use std::sync::Barrier;
use std::thread;

use howdah_bridge::shared_memory::zeroed;

use super::*;

const ROWS: u32 = MAX_ROWS as u32 - 64;

fn name(group: u64) -> Name {
    Name {
        file: 7 << 32 | 9,
        place: 5 << 32 | group,
    }
}

/// Assigns a valid slot with some bits set to the group.
fn make(shared: &Shared, group: u64, marked: &[u32], now: i64) -> bool {
    let Some((slot, version)) = shared.assign(&name(group), ROWS, now) else {
        return false;
    };
    marked.iter().for_each(|&position| slot.set(position));
    slot.advance(version, State::Valid);
    true
}

#[test]
fn only_valid_slots_speak() {
    let shared = zeroed::<Shared>();
    assert_eq!(shared.may_have(&name(0), 3, 0), None);
    let (slot, version) = shared.assign(&name(0), ROWS, 0).unwrap();
    shared.set(&name(0), 3);
    assert_eq!(shared.may_have(&name(0), 3, 0), None);
    slot.advance(version, State::Valid);
    assert_eq!(shared.may_have(&name(0), 3, 0), Some(true));
    assert_eq!(shared.may_have(&name(0), 4, 0), Some(false));
    assert_eq!(shared.may_have(&name(0), ROWS, 0), None, "behind the group");
    shared.set(&name(0), MAX_ROWS as u32);
    assert_eq!(shared.may_have(&name(1), 3, 0), None);
}

#[test]
fn rows_beside_each_other_are_unmarked_up_to_the_first_marked_one() {
    let shared = zeroed::<Shared>();
    assert_eq!(shared.unmarked_among(&name(0), 0..64, 0), 0, "no slot");
    assert!(make(&shared, 0, &[3, 70], 0));
    let counts = [0..64, 3..64, 4..64, 4..100, 69..70, 71..ROWS].map(|positions| {
        let expected = positions
            .clone()
            .find(|position| [3, 70].contains(position));
        let expected = expected.unwrap_or(positions.end) - positions.start;
        (shared.unmarked_among(&name(0), positions, 0), expected)
    });
    counts
        .iter()
        .for_each(|(found, expected)| assert_eq!(found, expected));
    assert_eq!(
        shared.unmarked_among(&name(0), 71..ROWS + 1, 0),
        0,
        "behind the group"
    );
    assert_eq!(
        shared.unmarked_among(&name(1), 0..64, 0),
        0,
        "another group"
    );
    assert_eq!(shared.unmarked_among(&name(0), 0..64, EXPIRES_AFTER + 1), 0);
}

/// Groups of 131,072 rows are 512 blocks of 256 row numbers apart.
#[test]
fn groups_of_one_table_get_slots_beside_each_other() {
    for (file, database) in [(0, 5), (7 << 32 | 9, 5), (81_234 << 32 | 90_211, 16_384)] {
        let (shared, mut without) = (zeroed::<Shared>(), 0);
        for group in 0..SLOTS as u64 / 2 {
            let place = database << 32 | (group * 512);
            match shared.assign(&Name { file, place }, ROWS, 0) {
                Some((slot, version)) => slot.advance(version, State::Valid),
                None => without += 1,
            }
        }
        assert!(without < SLOTS / 50, "{without} groups");
    }
}

#[test]
fn slots_expire_and_are_made_anew() {
    let shared = zeroed::<Shared>();
    assert!(make(&shared, 0, &[3], 0));
    assert!(!make(&shared, 0, &[], EXPIRES_AFTER), "the group has one");
    let later = EXPIRES_AFTER + 1;
    assert_eq!(shared.may_have(&name(0), 3, later), None);
    assert!(make(&shared, 0, &[4], later));
    assert_eq!(shared.may_have(&name(0), 3, later), Some(false));
    assert_eq!(shared.may_have(&name(0), 4, later), Some(true));
}

#[test]
fn a_builder_that_is_gone_is_succeeded_and_cannot_come_back() {
    let shared = zeroed::<Shared>();
    let (slot, version) = shared.assign(&name(0), ROWS, 0).unwrap();
    assert!(!make(&shared, 0, &[], BUILT_WITHIN));
    let now = BUILT_WITHIN + 1;
    assert!(slot.may_go(version, now));
    let next = slot.assign(&name(1), ROWS, version, now).unwrap();
    slot.advance(version, State::Valid);
    assert!(State::of(slot.version.load(Ordering::Relaxed)) == State::Building);
    slot.advance(next, State::Valid);
    assert_eq!(slot.may_have(&name(1), 3, now), Some(false));
    assert_eq!(slot.may_have(&name(0), 3, now), None);
    assert!(make(&shared, 0, &[3], now), "in another slot");
    assert_eq!(shared.may_have(&name(0), 3, now), Some(true));
}

#[test]
fn young_slots_stay_and_old_ones_give_way() {
    let shared = zeroed::<Shared>();
    let rivals: Vec<u64> = (0..)
        .filter(|&group| name(group).first_slot(SLOTS) == name(0).first_slot(SLOTS))
        .take(PROBES + 1)
        .collect();
    for (at, &group) in rivals[..PROBES].iter().enumerate() {
        assert!(make(&shared, group, &[1], at as i64));
    }
    let last = rivals[PROBES];
    assert!(!make(&shared, last, &[2], KEPT_FOR));
    assert!(make(&shared, last, &[2], KEPT_FOR + 1));
    assert_eq!(shared.may_have(&name(last), 1, KEPT_FOR), Some(false));
    assert_eq!(shared.may_have(&name(rivals[0]), 1, KEPT_FOR), None);
    assert_eq!(shared.may_have(&name(rivals[1]), 1, KEPT_FOR), Some(true));
}

/// One process frees the slot and assigns it again over and over. Others mark rows, one of them
/// in an index of its own that builders read. No marked row may be reported as having no mark.
#[test]
fn a_row_that_was_marked_is_never_said_to_have_no_mark() {
    let (shared, index) = (zeroed::<Shared>(), zeroed::<Shared>());
    let (rounds, rows) = (300, 4_096_u32);
    let begin = Barrier::new(4);
    let index = &index.slots[0];
    let is_in_index =
        |row: u32| index.bits[row as usize / 64].load(Ordering::SeqCst) >> (row % 64) & 1 == 1;
    thread::scope(|scope| {
        for writer in 0..2 {
            let (shared, begin) = (&shared, &begin);
            scope.spawn(move || {
                begin.wait();
                for row in (writer..rows).step_by(2) {
                    shared.set(&name(0), row);
                    index.set(row);
                    fence(Ordering::SeqCst);
                    shared.set(&name(0), row);
                    // From here on the mark is completely written.
                    assert_ne!(shared.may_have(&name(0), row, 0), Some(false));
                    std::hint::spin_loop();
                }
            });
        }
        scope.spawn(|| {
            begin.wait();
            for round in 0..rounds {
                let now = i64::from(round) * (EXPIRES_AFTER + 1);
                let Some((slot, version)) = shared.assign(&name(0), ROWS, now) else {
                    continue;
                };
                (0..rows)
                    .filter(|&row| is_in_index(row))
                    .for_each(|row| slot.set(row));
                slot.advance(version, State::Valid);
            }
        });
        begin.wait();
    });
    let said: Vec<_> = (0..rows)
        .filter(|&row| shared.may_have(&name(0), row, 0) == Some(false))
        .collect();
    assert!(said.is_empty(), "{said:?}");
}
