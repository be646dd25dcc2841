//! The first rows by an order.

use howdah_columnar::ColumnType;

use super::scan::{OpenMorsel, Zone};
use crate::error::{Declined, VectorError};
use crate::plan::{Expr, OrderBy};
use crate::runtime::ResultColumn;

/// What to return and how to order.
pub(crate) enum FirstPlan {}

impl FirstPlan {
    pub(crate) fn compile(
        _columns: &[Expr],
        _order: &[OrderBy],
        _limit: usize,
        _types: &[ColumnType],
    ) -> Result<Self, Declined> {
        Err(Declined::Types {
            name: "the first rows".to_owned(),
        })
    }

    pub(crate) fn columns(&self) -> impl Iterator<Item = usize> {
        match *self {}
        #[allow(unreachable_code)]
        std::iter::empty()
    }
}

/// The first rows of one thread.
pub(crate) struct First;

impl First {
    pub(crate) fn new(plan: &FirstPlan) -> Self {
        match *plan {}
    }

    pub(crate) fn add(
        &mut self,
        plan: &FirstPlan,
        _zone: &Zone<'_>,
        _ordinal: u64,
    ) -> Result<(), VectorError> {
        match *plan {}
    }

    pub(crate) fn end_morsel(
        &mut self,
        plan: &FirstPlan,
        _morsel: &OpenMorsel,
    ) -> Result<(), VectorError> {
        match *plan {}
    }

    pub(crate) fn merge(&mut self, plan: &FirstPlan, _other: Self) -> Result<(), VectorError> {
        match *plan {}
    }

    pub(crate) fn finish(
        self,
        plan: &FirstPlan,
    ) -> Result<(usize, Vec<ResultColumn>), VectorError> {
        match *plan {}
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        0
    }
}
