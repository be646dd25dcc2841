//! For any records, the answers by row, by range and by group are the same, and they are what a
//! plain reading of the records says.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::*;

const ROWS: u32 = 200;
/// The group's range is longer than the group.
const CAPACITY: u32 = 256;

/// Records of one group; of marks and deletion vectors those that the snapshot sees.
struct Planted {
    sight: Sight,
    kinds: Kinds,
    memory: BTreeMap<u32, CommandId>,
    marks: BTreeMap<u32, Xid>,
    /// Bits, and the writer.
    vectors: Vec<(Vec<u32>, Xid)>,
    unseen: Vec<u32>,
    /// Rows that have no mark, and about which the filter says so.
    known_unmarked: Vec<u32>,
    /// Look-ups of single records, to see that none is made in vain.
    looks: Cell<u32>,
}

impl Planted {
    fn look(&self) {
        self.looks.set(self.looks.get() + 1);
    }
}

impl Records for Planted {
    type Error = ();

    fn sight(&self) -> Sight {
        self.sight
    }

    fn kinds(&self) -> Kinds {
        self.kinds
    }

    fn capacity(&self) -> u32 {
        CAPACITY
    }

    fn row_count(&self) -> u32 {
        ROWS
    }

    fn any_in_memory(&self) -> bool {
        !self.memory.is_empty()
    }

    fn in_memory(&self, position: u32) -> Option<CommandId> {
        self.memory.get(&position).copied()
    }

    fn among_in_memory(&self, positions: Range<u32>, hide: &mut dyn FnMut(u32, CommandId)) {
        let among = self.memory.range(positions);
        among.for_each(|(&row, &by)| hide(row, by));
    }

    fn may_be_marked(&self, position: u32) -> bool {
        !self.known_unmarked.contains(&position)
    }

    fn mark(&self, position: u32) -> Result<Option<Xid>, ()> {
        self.look();
        Ok(self.marks.get(&position).copied())
    }

    fn marks(&self, positions: Range<u32>, hide: &mut dyn FnMut(u32, Xid)) -> Result<(), ()> {
        self.marks
            .range(positions)
            .for_each(|(&row, &by)| hide(row, by));
        Ok(())
    }

    fn vector(&self, position: u32) -> Result<Option<Xid>, ()> {
        self.look();
        let mut with_row = self
            .vectors
            .iter()
            .filter(|(rows, _)| rows.contains(&position));
        Ok(with_row.next().map(|&(_, by)| by))
    }

    fn in_vectors(&self, positions: Range<u32>, hide: &mut dyn FnMut(u32, Xid)) -> Result<(), ()> {
        for (rows, by) in &self.vectors {
            let inside = rows.iter().filter(|&row| positions.contains(row));
            inside.for_each(|&row| hide(row, *by));
        }
        Ok(())
    }

    fn vectors(&self, rows: &mut RowSet, by: &mut dyn FnMut(Xid)) -> Result<(), ()> {
        for (bits, writer) in &self.vectors {
            by(*writer);
            bits.iter().for_each(|&row| {
                rows.insert(row);
            });
        }
        Ok(())
    }

    fn is_unseen(&self, position: u32) -> Result<bool, ()> {
        self.look();
        Ok(self.unseen.contains(&position))
    }

    fn all_unseen(&self, rows: &mut RowSet) -> Result<(), ()> {
        self.unseen.iter().for_each(|&row| {
            rows.insert(row);
        });
        Ok(())
    }
}

/// Numbers that look random; the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as u32 % bound
    }

    fn is_one_of(&mut self, sides: u32) -> bool {
        self.below(sides) == 0
    }

    fn xid(&mut self) -> Xid {
        Xid::from_number(3 + self.below(1_000))
    }

    fn rows(&mut self) -> Vec<u32> {
        let most = [0, 3, 40, 400][self.below(4) as usize];
        (0..most).map(|_| self.below(ROWS)).collect()
    }

    fn records(&mut self) -> Planted {
        let sight = [
            Sight::Everything,
            Sight::Now,
            Sight::Until(5),
            Sight::Until(5),
        ][self.below(4) as usize];
        let kinds = Kinds {
            marks: !self.is_one_of(3),
            vectors: self.is_one_of(2),
            recent: self.is_one_of(3),
        };
        let mut planted = Planted {
            sight,
            kinds,
            memory: BTreeMap::new(),
            marks: BTreeMap::new(),
            vectors: Vec::new(),
            unseen: Vec::new(),
            known_unmarked: Vec::new(),
            looks: Cell::new(0),
        };
        // A flag is set before the first record that it announces: so no record is without it.
        if (kinds.vectors || kinds.marks) && self.is_one_of(3) {
            let rows = self.rows();
            planted.memory = rows.into_iter().map(|row| (row, self.below(10))).collect();
        }
        if kinds.marks {
            let rows = self.rows();
            planted.marks = rows.into_iter().map(|row| (row, self.xid())).collect();
        }
        if kinds.vectors {
            let by = self.xid();
            let rows = match self.is_one_of(20) {
                true => (0..ROWS).collect(),
                false => self.rows(),
            };
            planted.vectors.push((rows, by));
        }
        if kinds.recent {
            planted.unseen = self.rows();
        }
        let has_mark = |row: &u32| {
            planted.marks.contains_key(row)
                || planted.vectors.iter().any(|(rows, _)| rows.contains(row))
        };
        let unmarked: Vec<u32> = (0..ROWS).filter(|row| !has_mark(row)).collect();
        planted.known_unmarked = unmarked
            .into_iter()
            .filter(|_| !self.is_one_of(3))
            .collect();
        planted
    }
}

/// What the records say, read without regard to flags, filters and order.
fn is_hidden(planted: &Planted, row: u32) -> bool {
    let in_memory = planted.memory.get(&row);
    let in_vector = planted.vectors.iter().any(|(rows, _)| rows.contains(&row));
    let marked = planted.marks.contains_key(&row) || in_vector;
    match planted.sight {
        Sight::Everything => false,
        Sight::Now => marked || in_memory.is_some(),
        Sight::Until(command) => {
            marked || in_memory.is_some_and(|&by| by < command) || planted.unseen.contains(&row)
        }
    }
}

/// Whether a transaction is no younger than another.
fn is_no_younger(xid: Xid, than: Xid) -> bool {
    than.younger(xid) == than
}

#[test]
fn row_range_and_group_agree() {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let (mut ranges, mut wholes) = (0, 0);
    for round in 0..2_000 {
        let planted = dice.records();
        let group = of_group(&planted).unwrap();
        let (start, len) = (dice.below(ROWS), dice.below(64));
        let range = start..(start + len).min(ROWS);
        let among = of_range(&planted, range.clone()).unwrap();
        ranges += u32::from(among.is_some());
        for row in 0..ROWS {
            let by_row = of_row(&planted, row).unwrap();
            let hidden = is_hidden(&planted, row);
            assert_eq!(by_row != Hidden::No, hidden, "round {round}, row {row}");
            let in_group = group.as_ref().is_some_and(|group| group.rows.contains(row));
            assert_eq!(in_group, hidden, "round {round}, row {row} of the group");
            // A row that the group's answer calls dead for good is called so by its own.
            if let (true, Some(Hidden::By(youngest))) = (hidden, group.as_ref().map(|g| g.how)) {
                let Hidden::By(by) = by_row else {
                    panic!("round {round}, row {row}: {by_row:?}");
                };
                assert!(is_no_younger(by, youngest), "round {round}, row {row}");
            }
            if let Some(among) = &among
                && range.contains(&row)
            {
                let in_range = among.rows.contains(row - range.start);
                assert_eq!(in_range, hidden, "round {round}, row {row} of {range:?}");
                if let (true, Hidden::By(youngest)) = (hidden, among.how) {
                    assert!(matches!(by_row, Hidden::By(by) if is_no_younger(by, youngest)));
                }
            }
        }
        if let Some(HiddenRows {
            all_by: Some(youngest),
            ..
        }) = group
        {
            wholes += 1;
            for row in 0..ROWS {
                let marked = planted.marks.get(&row).copied();
                let by = marked.or(planted.vector(row).unwrap());
                assert!(
                    by.is_some_and(|by| is_no_younger(by, youngest)),
                    "round {round}"
                );
            }
        }
    }
    assert!(ranges > 100, "{ranges} ranges were answered");
    assert!(wholes > 0, "no group was hidden as a whole");
}

#[test]
fn a_group_is_gone_only_if_marks_and_vectors_hide_every_row() {
    let mut planted = Dice(1).records();
    planted.kinds = Kinds {
        marks: true,
        vectors: true,
        recent: true,
    };
    planted.sight = Sight::Until(5);
    planted.memory = BTreeMap::from([(7, 1)]);
    planted.unseen = vec![8];
    let (old, young) = (Xid::from_number(10), Xid::from_number(20));
    planted.marks = (0..ROWS - 1).map(|row| (row, old)).collect();
    planted.vectors = Vec::new();
    let gone_by = |planted: &Planted| of_group(planted).unwrap().unwrap().all_by;
    assert_eq!(gone_by(&planted), None);
    planted.memory.insert(ROWS - 1, 1);
    assert_eq!(gone_by(&planted), None, "in memory only");
    planted.unseen.push(ROWS - 1);
    assert_eq!(gone_by(&planted), None, "younger than the snapshot only");
    planted.vectors.push((vec![ROWS - 1], young));
    assert_eq!(gone_by(&planted), Some(young));
    assert_eq!(of_group(&planted).unwrap().unwrap().how, Hidden::ForNow);
}

#[test]
fn nothing_is_looked_up_in_vain() {
    let mut planted = Dice(1).records();
    planted.sight = Sight::Until(5);
    planted.memory = BTreeMap::from([(1, 4)]);
    planted.known_unmarked = (2..ROWS).collect();
    planted.kinds = Kinds::default();
    let looks = |planted: &Planted, row| {
        planted.looks.set(0);
        of_row(planted, row).unwrap();
        planted.looks.get()
    };
    assert_eq!(looks(&planted, 1), 0, "the flags deny all records");
    planted.kinds.marks = true;
    planted.kinds.vectors = true;
    assert_eq!(looks(&planted, 1), 0, "hidden in memory");
    assert_eq!(
        looks(&planted, 3),
        0,
        "the filter knows that there is no mark"
    );
    planted.kinds.recent = true;
    assert_eq!(looks(&planted, 3), 1);
    planted.sight = Sight::Everything;
    planted.known_unmarked.clear();
    assert_eq!(looks(&planted, 3), 0);
}
