//! Runs of equal keys: groups are looked up once for each run, and values are added run by run.

use howdah_columnar::Column;

use crate::functions::bits_of_pairs;

/// Runs of equal keys are used if there are at least this many times more rows.
const FEW_RUNS: usize = 4;

/// Rows whose keys tell whether to look for runs.
const RUN_SAMPLE: usize = 64;

/// The keys of runs, if the only key is an integer that is never NULL and its runs are few; and
/// where the runs end.
pub(super) fn runs_of(keys: &[Column], ends: &mut Vec<u32>) -> Option<Column> {
    let [key] = keys else {
        return None;
    };
    if key.null_count() > 0 {
        return None;
    }
    Some(match key {
        Column::Int16(array) => Column::Int16(runs(array.values(), ends)?.into()),
        Column::Int32(array) => Column::Int32(runs(array.values(), ends)?.into()),
        Column::Int64(array) => Column::Int64(runs(array.values(), ends)?.into()),
        _ => return None,
    })
}

fn runs<T: Copy + PartialEq>(values: &[T], ends: &mut Vec<u32>) -> Option<Vec<T>> {
    let are_few = |run_count: usize, len: usize| run_count * FEW_RUNS <= len;
    let sample = values.get(..RUN_SAMPLE)?;
    let changes = sample.iter().zip(&sample[1..]).filter(|(a, b)| a != b);
    if !are_few(1 + changes.count(), RUN_SAMPLE) {
        return None;
    }
    // Bit i: a run ends with row i.
    let last = bits_of_pairs(values, &values[1..], |a, b| a != b);
    let run_count = 1 + last.count_set_bits();
    if !are_few(run_count, values.len()) {
        return None;
    }
    ends.clear();
    ends.reserve(run_count);
    ends.extend(last.set_indices().map(|row| row as u32 + 1));
    ends.push(values.len() as u32);
    Some(ends.iter().map(|&end| values[end as usize - 1]).collect())
}
