//! Runs of equal keys: groups are looked up once for each run, and values are added run by run.

use howdah_columnar::Column;

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
    let run_count = |values: &[T]| {
        let pairs = values.iter().zip(values.iter().skip(1));
        1 + pairs.map(|(a, b)| u32::from(a != b)).sum::<u32>() as usize
    };
    let are_few = |values: &[T]| run_count(values) * FEW_RUNS <= values.len();
    if !are_few(values.get(..RUN_SAMPLE)?) || !are_few(values) {
        return None;
    }
    ends.clear();
    ends.resize(run_count(values), values.len() as u32);
    let mut run = 0;
    for (end, pair) in (1u32..).zip(values.windows(2)) {
        // Overwritten unless the run ends here.
        ends[run] = end;
        run += usize::from(pair[0] != pair[1]);
    }
    ends[run] = values.len() as u32;
    Some(ends.iter().map(|&end| values[end as usize - 1]).collect())
}
