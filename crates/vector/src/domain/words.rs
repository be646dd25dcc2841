//! Numbers of words, the same in all dictionaries that a thread reads.

use howdah_columnar::{Column, Value};
use rustc_hash::FxHashMap;

/// Words by number, from 1 on; 0 is NULL.
#[derive(Default)]
pub(super) struct Words {
    numbers: FxHashMap<Box<[u8]>, u32>,
    held_bytes: usize,
}

fn bytes_of(words: &Column, word: usize) -> Option<&[u8]> {
    match words.value(word)? {
        Value::Text(text) => Some(text.as_bytes()),
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

impl Words {
    /// Numbers given so far.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The numbers of a dictionary's words by code; words that have none get one.
    pub(super) fn ordinals(&mut self, words: &Column) -> Vec<u32> {
        let mut ordinal = |word: usize| {
            let Some(bytes) = bytes_of(words, word) else {
                return 0;
            };
            if let Some(&number) = self.numbers.get(bytes) {
                return number;
            }
            let number = self.numbers.len() as u32 + 1;
            self.held_bytes += bytes.len();
            self.numbers.insert(bytes.into(), number);
            number
        };
        (0..words.len()).map(&mut ordinal).collect()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.held_bytes + self.numbers.capacity() * (size_of::<(Box<[u8]>, u32)>() + 1)
    }
}
