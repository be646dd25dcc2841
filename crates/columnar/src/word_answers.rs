//! What predicates say of the words of a chunk's dictionary, for readers that filter the chunk part
//! by part: each word is evaluated once for all parts.

use std::sync::Mutex;

use arrow_buffer::BooleanBuffer;
use vortex_array::ArrayRef;

use crate::error::ColumnarError;
use crate::predicate::Predicate;

/// Predicates whose answers are kept; those of one clause on a column are rarely more.
const KEPT: usize = 4;

/// The answers that were needed last.
#[derive(Debug, Default)]
pub(crate) struct WordAnswers(Mutex<Vec<Known>>);

#[derive(Debug)]
struct Known {
    /// The same array, not an equal one: codes of another dictionary mean other words.
    words: ArrayRef,
    predicate: Predicate,
    answers: BooleanBuffer,
}

impl WordAnswers {
    /// For each word, whether the predicate is true of it; `evaluate` tells, if it is not known.
    pub(crate) fn of(
        &self,
        words: &ArrayRef,
        predicate: &Predicate,
        evaluate: impl FnOnce() -> Result<BooleanBuffer, ColumnarError>,
    ) -> Result<BooleanBuffer, ColumnarError> {
        let is_known =
            |known: &Known| ArrayRef::ptr_eq(&known.words, words) && known.predicate == *predicate;
        // What a thread that panicked has left is whole.
        let lock = || {
            self.0
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
        };
        if let Some(known) = lock().iter().find(|known| is_known(known)) {
            return Ok(known.answers.clone());
        }
        let answers = evaluate()?;
        let mut kept = lock();
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push(Known {
            words: words.clone(),
            predicate: predicate.clone(),
            answers: answers.clone(),
        });
        Ok(answers)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use vortex_array::IntoArray as _;
    use vortex_array::arrays::PrimitiveArray;

    use super::*;
    use crate::predicate::CompareOp;
    use crate::value::OwnedValue;

    #[test]
    fn words_are_evaluated_once_for_each_dictionary_and_predicate() {
        let known = WordAnswers::default();
        let dictionary = || PrimitiveArray::from_iter([1_i32, 2]).into_array();
        let greater = |bound| Predicate::Compare {
            op: CompareOp::Gt,
            value: OwnedValue::Int32(bound),
        };
        let (one, other) = (dictionary(), dictionary());
        let evaluated = Cell::new(0);
        let ask = |words: &ArrayRef, bound: i32| {
            let answers = known.of(words, &greater(bound), || {
                evaluated.set(evaluated.get() + 1);
                Ok(BooleanBuffer::collect_bool(2, |word| {
                    word as i32 + 1 > bound
                }))
            });
            let answers = answers.expect("evaluates");
            assert_eq!(answers.value(0), 1 > bound);
            assert_eq!(answers.value(1), 2 > bound);
        };
        for _ in 0..3 {
            ask(&one, 1);
            ask(&one, 2);
            ask(&one.clone(), 1);
        }
        assert_eq!(evaluated.get(), 2);
        ask(&other, 1);
        assert_eq!(evaluated.get(), 3, "an equal dictionary is another one");
        (2..9).for_each(|bound| ask(&one, bound));
        ask(&one, 1);
        assert_eq!(
            evaluated.get(),
            10,
            "bound 2 is kept, and bound 1 no longer"
        );
        let failed = known.of(&other, &greater(7), || Err(ColumnarError::NotComparable));
        assert!(failed.is_err());
        ask(&other, 7);
        assert_eq!(evaluated.get(), 11, "errors are not kept");
    }
}
