//! Rows that are known to be among the first before all of their values are read.
//!
//! A morsel may leave out columns that are only returned. What is kept of its rows is the ordinal
//! of the morsel and the number of the row; when all morsels are done, the caller reads the values
//! of the rows that are left.

use std::collections::BTreeMap;

use howdah_columnar::OwnedValue;

use super::{First, FirstPlan, Row};
use crate::error::VectorError;

/// Rows of one morsel whose values are still to be read.
#[derive(Debug)]
pub struct LateRows {
    /// The morsel.
    pub ordinal: u64,
    /// Its rows, ascending.
    pub rows: Vec<u32>,
    /// The columns of the query to read.
    pub columns: Vec<usize>,
}

impl First {
    /// The rows that were kept without their values.
    pub(crate) fn late(&self, plan: &FirstPlan) -> Vec<LateRows> {
        let mut morsels: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for entry in &self.heap {
            if let Row::Late(ordinal, row) = entry.row {
                morsels.entry(ordinal).or_default().push(row);
            }
        }
        let late = morsels.into_iter().map(|(ordinal, mut rows)| {
            rows.sort_unstable();
            LateRows {
                ordinal,
                rows,
                columns: plan.returned_columns().collect(),
            }
        });
        late.collect()
    }

    /// Sets the values of such rows: of each of the columns, those of all rows.
    ///
    /// # Errors
    ///
    /// [`VectorError::Unsupported`] if there are more or fewer values.
    pub(crate) fn supply(
        &mut self,
        late: &LateRows,
        mut columns: Vec<Vec<Option<OwnedValue>>>,
    ) -> Result<(), VectorError> {
        let fits = columns.len() == late.columns.len()
            && (columns.iter()).all(|values| values.len() == late.rows.len());
        if !fits {
            return Err(VectorError::Unsupported {
                what: "values that were read late and do not fit",
            });
        }
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        for entry in &mut entries {
            let Row::Late(ordinal, row) = entry.row else {
                continue;
            };
            if ordinal == late.ordinal
                && let Ok(at) = late.rows.binary_search(&row)
            {
                let values = columns.iter_mut().map(|values| values[at].take());
                entry.row = Row::Read(values.collect());
            }
        }
        self.heap = entries.into();
        Ok(())
    }
}
