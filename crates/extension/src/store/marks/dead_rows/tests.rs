//! What slots answer, in one thread and under processes that note rows and take slots at once.

use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use howdah_bridge::shared_memory::zeroed;

use super::*;

fn name(group: u64) -> Name {
    Name {
        file: 7 << 32 | 9,
        place: 5 << 32 | group,
    }
}

fn xid(number: u32) -> Xid {
    as_xid(u64::from(number))
}

fn note(shared: &Shared, group: u64, position: u32, hider: u32, now: i64) -> bool {
    let slot = shared.slot_for(&name(group), now);
    slot.inspect(|(slot, version)| slot.note(*version, position, xid(hider)))
        .is_some()
}

fn hider(shared: &Shared, group: u64, position: u32, now: i64) -> Option<Xid> {
    let name = name(group);
    shared
        .slots_of(&name)
        .find_map(|slot| slot.hider(&name, position, now))
}

#[test]
fn what_was_noted_is_known_and_nothing_else() {
    let shared = zeroed::<Shared>();
    assert!(hider(&shared, 0, 0, 0).is_none());
    let last = MAX_ROWS as u32 - 1;
    for (position, writer) in [(0, 100), (31, 105), (32, 103), (last, 104), (last + 1, 90)] {
        assert!(note(&shared, 0, position, writer, 0));
    }
    for position in [0, 31, 32, last] {
        assert!(
            hider(&shared, 0, position, 0) == Some(xid(105)),
            "{position}"
        );
    }
    for (group, position) in [(0, 1), (0, 30), (0, 33), (0, last + 1), (1, 0), (1, 31)] {
        assert!(hider(&shared, group, position, 0).is_none(), "{position}");
    }
    assert!(hider(&shared, 0, 31, EXPIRES_AFTER).is_some());
    assert!(hider(&shared, 0, 31, EXPIRES_AFTER + 1).is_none());
}

#[test]
fn later_transactions_are_later_across_the_wraparound() {
    let shared = zeroed::<Shared>();
    for writer in [u32::MAX - 5, 20, u32::MAX - 9] {
        note(&shared, 0, writer % 1000, writer, 0);
    }
    assert!(hider(&shared, 0, 20, 0) == Some(xid(20)));
    // A mark that is frozen tells no writer.
    note(&shared, 1, 3, Xid::FROZEN.raw().into_inner(), 0);
    assert!(hider(&shared, 1, 3, 0).is_some_and(|xid| !xid.is_normal()));
}

#[test]
fn a_slot_that_changes_hands_tells_nothing_of_the_group_before() {
    let shared = zeroed::<Shared>();
    let rivals: Vec<u64> = (0..)
        .filter(|&group| name(group).first_slot(SLOTS) == name(0).first_slot(SLOTS))
        .take(PROBES + 1)
        .collect();
    for (at, &group) in rivals[..PROBES].iter().enumerate() {
        assert!(note(&shared, group, 5, 100, at as i64));
    }
    let (first, last) = (rivals[0], rivals[PROBES]);
    // A process looks for its slot, and is about to note.
    let before = shared.slot_for(&name(first), 0).unwrap();
    assert!(!note(&shared, last, 6, 100, KEPT_FOR), "all are young");
    assert!(note(&shared, last, 6, 100, KEPT_FOR + 1));
    let now = KEPT_FOR + 1;
    assert!(hider(&shared, last, 5, now).is_none() && hider(&shared, last, 6, now).is_some());
    assert!(hider(&shared, first, 5, now).is_none());
    before.0.note(before.1, 7, xid(100));
    assert!(hider(&shared, last, 7, now).is_none(), "of another group");
    assert!(hider(&shared, rivals[1], 5, now).is_some());
    for slot in &shared.slots {
        slot.take_away(|_| true);
    }
    for &group in &rivals {
        assert!((0..9).all(|row| hider(&shared, group, row, now).is_none()));
    }
}

/// Two processes note only even rows of one group and odd rows of another, while the slots change
/// hands all the time. No other row may ever be said to be dead.
#[test]
fn no_row_is_dead_that_was_not_noted() {
    let shared = zeroed::<Shared>();
    let (over, begin) = (AtomicBool::new(false), Barrier::new(4));
    let groups: Vec<u64> = (0..)
        .filter(|&group| name(group).first_slot(SLOTS) == name(0).first_slot(SLOTS))
        .take(2 * PROBES)
        .collect();
    let rows = 256_u32;
    let (seen, wrong) = thread::scope(|scope| {
        for writer in 0..2 {
            let (shared, over, begin, groups) = (&shared, &over, &begin, &groups);
            scope.spawn(move || {
                begin.wait();
                for round in 0_u32.. {
                    if round > 40_000 && over.load(Ordering::SeqCst) {
                        break;
                    }
                    let at = (round + writer * 3) as usize % groups.len();
                    let row = round % (rows / 2) * 2 + at as u32 % 2;
                    note(
                        shared,
                        groups[at],
                        row,
                        100 + round,
                        i64::from(round) * KEPT_FOR / 2,
                    );
                }
            });
        }
        scope.spawn(|| {
            begin.wait();
            while !over.load(Ordering::SeqCst) {
                shared.slots[name(0).first_slot(SLOTS)].take_away(|_| true);
                thread::yield_now();
            }
        });
        begin.wait();
        let (mut seen, mut wrong, started) = (0, None, Instant::now());
        // The slots are empty most of the time, and how threads take turns is the machine's affair.
        while seen < 1_000 && wrong.is_none() && started.elapsed() < Duration::from_secs(60) {
            for (at, &group) in groups.iter().enumerate() {
                for row in 0..rows {
                    if hider(&shared, group, row, 0).is_some() {
                        seen += 1;
                        if row % 2 != at as u32 % 2 {
                            wrong = Some((row, group));
                        }
                    }
                }
            }
        }
        over.store(true, Ordering::SeqCst);
        (seen, wrong)
    });
    assert_eq!(wrong, None, "a row that was never noted");
    assert!(seen > 0, "the test sees nothing");
}
