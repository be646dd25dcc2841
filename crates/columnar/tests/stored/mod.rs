//! Stored row groups, taken apart and put together by docs/format.md alone, without the crate under
//! test.

// Every test binary uses a part of this.
#![allow(dead_code)]

pub const HEADER_LEN: usize = 32;
pub const ENTRY_LEN: usize = 32;

/// A stored row group, taken apart.
#[derive(Clone, PartialEq, Debug)]
pub struct Parts {
    pub header: Vec<u8>,
    pub columns: Vec<Entry>,
    pub body: Vec<u8>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    pub fields: [u8; ENTRY_LEN],
    pub statistics: Vec<u8>,
    pub nodes: Vec<u8>,
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes")) as usize
}

impl Parts {
    pub fn of(stored: &[u8]) -> Self {
        let footer_len = u32_at(stored, 20);
        let columns = (0..u32_at(stored, 12)).map(|at| {
            let entry = &stored[HEADER_LEN + at * ENTRY_LEN..][..ENTRY_LEN];
            let (start, middle) = (u32_at(entry, 20), u32_at(entry, 20) + u32_at(entry, 24));
            Entry {
                fields: entry.try_into().expect("an entry"),
                statistics: stored[start..middle].to_vec(),
                nodes: stored[middle..middle + u32_at(entry, 28)].to_vec(),
            }
        });
        Self {
            header: stored[..HEADER_LEN].to_vec(),
            columns: columns.collect(),
            body: stored[footer_len..].to_vec(),
        }
    }

    /// The stored row group, with the lengths and places that its sections have now.
    pub fn stored(&self) -> Vec<u8> {
        let (mut table, mut sections) = (Vec::new(), Vec::new());
        let start = HEADER_LEN + self.columns.len() * ENTRY_LEN;
        for column in &self.columns {
            table.extend_from_slice(&column.fields[..20]);
            for number in [
                start + sections.len(),
                column.statistics.len(),
                column.nodes.len(),
            ] {
                table.extend_from_slice(&(number as u32).to_le_bytes());
            }
            sections.extend_from_slice(&column.statistics);
            sections.extend_from_slice(&column.nodes);
        }
        let mut stored = self.header.clone();
        stored[20..24].copy_from_slice(&((start + sections.len()) as u32).to_le_bytes());
        [stored, table, sections, self.body.clone()].concat()
    }

    /// The same row group, each of its grouped columns with nodes of its own.
    pub fn with_own_nodes(&self) -> Self {
        let mut parts = self.clone();
        for column in &mut parts.columns {
            if let [(4, content)] = &records(&column.nodes)[..] {
                let content = &mut &content[..];
                let (index, named) = (take_varint(content), take_varint(content));
                column.nodes = changed(&self.columns[named].nodes, 3, |record| {
                    let fields = &mut &record[..];
                    assert_eq!(take_varint(fields), 0);
                    *record = [&varint(index), *fields].concat();
                });
            }
        }
        parts
    }

    /// The same with a change of one column.
    pub fn with(&self, column: usize, change: impl FnOnce(&mut Entry)) -> Vec<u8> {
        let mut changed = self.clone();
        change(&mut changed.columns[column]);
        changed.stored()
    }
}

pub fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

pub fn take_varint(bytes: &mut &[u8]) -> usize {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = take(bytes, 1)[0];
        value |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return value;
        }
    }
}

pub fn take<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (head, tail) = bytes.split_at(len);
    *bytes = tail;
    head
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    [vec![kind], varint(content.len()), content.to_vec()].concat()
}

/// The records of a section: their kinds and contents.
pub fn records(mut section: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut records = Vec::new();
    while !section.is_empty() {
        let kind = take(&mut section, 1)[0];
        let len = take_varint(&mut section);
        records.push((kind, take(&mut section, len).to_vec()));
    }
    records
}

pub fn section(records: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let records = records.iter();
    records
        .flat_map(|(kind, content)| record(*kind, content))
        .collect()
}

/// A section with a change of the content of its records of a kind.
pub fn changed(bytes: &[u8], kind: u8, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut records = records(bytes);
    let found = records.iter_mut().find(|(found, _)| *found == kind);
    change(&mut found.expect("such a record").1);
    section(&records)
}

/// One node of a record of nodes, without its children.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub encoding: u8,
    pub metadata: Vec<u8>,
    pub child_count: usize,
    pub inline: Option<Vec<u8>>,
    /// The alignment and the length of each stored part.
    pub parts: Vec<(u8, usize)>,
}

/// All nodes, in preorder.
pub fn nodes(mut record: &[u8]) -> Vec<Node> {
    let mut nodes = Vec::new();
    while !record.is_empty() {
        let encoding = take(&mut record, 1)[0];
        let len = take_varint(&mut record);
        let metadata = take(&mut record, len).to_vec();
        let child_count = take_varint(&mut record);
        let part_count = take_varint(&mut record);
        let inline = (part_count & 1 == 1).then(|| {
            let len = take_varint(&mut record);
            take(&mut record, len).to_vec()
        });
        let mut part = |_| (take(&mut record, 1)[0], take_varint(&mut record));
        nodes.push(Node {
            encoding,
            metadata,
            child_count,
            inline,
            parts: (0..part_count >> 1).map(&mut part).collect(),
        });
    }
    nodes
}

pub fn record_of(nodes: &[Node]) -> Vec<u8> {
    let mut record = Vec::new();
    for node in nodes {
        record.push(node.encoding);
        record.extend(varint(node.metadata.len()));
        record.extend(&node.metadata);
        record.extend(varint(node.child_count));
        record.extend(varint(
            node.parts.len() << 1 | usize::from(node.inline.is_some()),
        ));
        if let Some(inline) = &node.inline {
            record.extend(varint(inline.len()));
            record.extend(inline);
        }
        for (alignment, len) in &node.parts {
            record.push(*alignment);
            record.extend(varint(*len));
        }
    }
    record
}

/// The stored parts of a column's nodes, one after the other.
fn parts_of(group: &Parts, column: usize, nodes: &[Node]) -> Vec<Vec<u8>> {
    let fields = &group.columns[column].fields;
    let chunk = &group.body[u32_at(fields, 8)..][..u32_at(fields, 16)];
    let mut end = 0;
    let mut part = |&(alignment, len): &(u8, usize)| {
        let start = usize::next_multiple_of(end, 1 << alignment);
        end = start + len;
        chunk[start..end].to_vec()
    };
    let of_nodes = nodes.iter().flat_map(|node| &node.parts);
    of_nodes.map(&mut part).collect()
}

/// The row group `whole`, each of its trees replaced by `vortex.chunked` over the trees of other
/// row groups: of those with its first rows, and its other rows. All are of layout 1.
pub fn chunked(whole: &Parts, pieces: &[Parts]) -> Vec<u8> {
    let mut joined = whole.clone();
    joined.body.clear();
    let mut offsets = vec![0; 8];
    let mut row_count = 0;
    for piece in pieces {
        row_count += u32_at(&piece.header, 16) as u64;
        offsets.extend(row_count.to_le_bytes());
    }
    for (at, column) in joined.columns.iter_mut().enumerate() {
        assert_eq!(column.fields[1], 1);
        let root = Node {
            encoding: 6,
            child_count: 1 + pieces.len(),
            ..Node::default()
        };
        let ends = Node {
            encoding: 0,
            parts: vec![(3, offsets.len())],
            ..Node::default()
        };
        let (mut all, mut parts) = (vec![root, ends], vec![offsets.clone()]);
        for piece in pieces {
            let own = nodes(&records(&piece.columns[at].nodes)[0].1);
            parts.extend(parts_of(piece, at, &own));
            all.extend(own);
        }
        let start = joined.body.len().next_multiple_of(64);
        joined.body.resize(start, 0);
        let alignments = all.iter().flat_map(|node| &node.parts);
        for (part, (alignment, _)) in parts.iter().zip(alignments) {
            let end = joined.body.len() - start;
            joined
                .body
                .resize(start + end.next_multiple_of(1 << alignment), 0);
            joined.body.extend(part);
        }
        let len = joined.body.len() - start;
        column.fields[8..16].copy_from_slice(&(start as u64).to_le_bytes());
        column.fields[16..20].copy_from_slice(&(len as u32).to_le_bytes());
        column.nodes = section(&[(1, record_of(&all))]);
    }
    joined.header[24..32].copy_from_slice(&(joined.body.len() as u64).to_le_bytes());
    joined.stored()
}
