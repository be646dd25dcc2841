//! The node table of a column: the trees of encodings that its chunk is made of, and where
//! the parts of every node lie.
//!
//! ```text
//!   node = encoding, metadata, parts, children       a chunk: dict ─┬─ bitpacked ─ part 0
//!   stored in preorder, roots one after the other                   └─ varbin ──── part 1
//!                                                                       └─ for ─ …
//! ```
//!
//! A node's metadata and parts are as Vortex defines them for its encoding (our own encodings:
//! `docs/format.md`); the row counts and types of children follow from their parents.
//!
//! Invariant: the parts of a parsed table ascend and lie within the chunk; every node has as many
//! children as it declares, and trees are at most [`MAX_DEPTH`] high.

use std::ops::Range;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::access::messages;
use crate::access::metadata::PackedMetadata;
use crate::codec::CHUNK_ALIGNMENT;
use crate::error::ColumnarError;
use crate::grouped::{Field, Fields, RECORD_BESIDE};
use crate::layout::ChunkLayout;
use crate::layout::wire::{Reader, ensure, put_bytes, put_varint};

/// The record of a node section that holds the nodes. Readers skip unknown records from
/// [`FIRST_OPTIONAL_RECORD`] on and refuse others.
const RECORD_NODES: u8 = 1;

/// The record with the number of rows of a numeric column that are images.
const RECORD_IMAGES: u8 = 2;

/// The record that finds a column among those of its group.
const RECORD_FIELD: u8 = 3;

/// Records from this kind on may be ignored by readers that do not know them.
pub(crate) const FIRST_OPTIONAL_RECORD: u8 = 128;

/// The greatest height of a tree of nodes.
const MAX_DEPTH: usize = 24;

/// The greatest number of nodes of a column.
const MAX_NODES: usize = 1 << 16;

/// Defines [`Encoding`] by a table of names, numbers, and names in Vortex or in this format.
macro_rules! encodings {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// An encoding of the format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Encoding {
            $($(#[$doc])* $name = $number,)*
        }

        impl Encoding {
            /// All, by number.
            pub(crate) const ALL: [Self; [$($number),*].len()] = [$(Self::$name),*];

            /// Its name in Vortex, or in this format.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

// Numbers are only ever appended, never used again.
encodings! {
    Primitive = 0, "vortex.primitive";
    Bool = 1, "vortex.bool";
    VarBin = 2, "vortex.varbin";
    VarBinView = 3, "vortex.varbinview";
    Constant = 4, "vortex.constant";
    Dict = 5, "vortex.dict";
    Chunked = 6, "vortex.chunked";
    Masked = 7, "vortex.masked";
    Alp = 8, "vortex.alp";
    AlpRd = 9, "vortex.alprd";
    Fsst = 10, "vortex.fsst";
    OnPair = 11, "vortex.onpair";
    Pco = 12, "vortex.pco";
    RunEnd = 13, "vortex.runend";
    Sequence = 14, "vortex.sequence";
    Sparse = 15, "vortex.sparse";
    ZigZag = 16, "vortex.zigzag";
    /// Ours: small zstd frames with one dictionary, see [`crate::frames`].
    Frames = 17, "howdah.frames";
    BitPacked = 18, "fastlanes.bitpacked";
    FrameOfReference = 19, "fastlanes.for";
    /// Ours: strings of one length, see [`crate::letters`].
    Letters = 20, "howdah.letters";
}

// Each is found by its number.
const _: () = {
    let mut number = 0;
    while number < Encoding::ALL.len() {
        assert!(Encoding::ALL[number] as usize == number);
        number += 1;
    }
};

impl Encoding {
    /// Whether its only part is a single value.
    pub(crate) fn has_value(self) -> bool {
        matches!(self, Self::Constant | Self::Sparse)
    }
}

/// One node. Ranges of bytes are relative to the chunk.
#[derive(Clone, Debug)]
struct Node {
    encoding: Encoding,
    metadata: Range<u32>,
    /// Behind the metadata: the only part, when it is so short that it is kept here.
    inline: Option<Range<u32>>,
    parts: Range<u32>,
    child_count: u32,
    /// One past the node's last descendant.
    end: u32,
}

/// The nodes of one column.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeTable {
    nodes: Vec<Node>,
    metadata: Vec<u8>,
    parts: Vec<Range<u32>>,
    /// Of each part: the power of two that its start is a multiple of.
    alignments: Vec<u8>,
    image_count: u32,
    field: Option<Field>,
    /// See [`group_hash`](NodeTable::group_hash).
    group_hash: u64,
}

/// One node of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeRef<'a> {
    table: &'a NodeTable,
    at: usize,
}

impl<'a> NodeRef<'a> {
    fn node(self) -> &'a Node {
        &self.table.nodes[self.at]
    }

    pub(crate) fn encoding(self) -> Encoding {
        self.node().encoding
    }

    pub(crate) fn metadata(self) -> &'a [u8] {
        let range = &self.node().metadata;
        &self.table.metadata[range.start as usize..range.end as usize]
    }

    /// The part that the table itself holds.
    pub(crate) fn inline(self) -> Option<&'a [u8]> {
        let range = self.node().inline.as_ref()?;
        Some(&self.table.metadata[range.start as usize..range.end as usize])
    }

    /// The parts, as ranges of the chunk.
    pub(crate) fn parts(self) -> &'a [Range<u32>] {
        let range = &self.node().parts;
        &self.table.parts[range.start as usize..range.end as usize]
    }

    /// The alignments of the parts, in bytes.
    pub(crate) fn alignments(self) -> impl Iterator<Item = usize> {
        let range = &self.node().parts;
        self.table.alignments[range.start as usize..range.end as usize]
            .iter()
            .map(|&exponent| 1 << exponent)
    }

    /// The parts of the node and of all below it: they lie side by side.
    pub(crate) fn all_parts(self) -> &'a [Range<u32>] {
        let last = &self.table.nodes[self.node().end as usize - 1];
        &self.table.parts[self.node().parts.start as usize..last.parts.end as usize]
    }

    pub(crate) fn child_count(self) -> usize {
        self.node().child_count as usize
    }

    pub(crate) fn child(self, index: usize) -> Option<NodeRef<'a>> {
        self.children().nth(index)
    }

    pub(crate) fn children(self) -> impl Iterator<Item = NodeRef<'a>> {
        let mut next = self.at + 1;
        (0..self.child_count()).map(move |_| {
            let at = next;
            next = self.table.nodes[at].end as usize;
            NodeRef {
                table: self.table,
                at,
            }
        })
    }

    /// A table of this tree alone.
    pub(crate) fn to_table(self) -> NodeTable {
        let mut table = NodeTable::default();
        table.copy(self);
        table
    }
}

impl NodeTable {
    /// The roots, in order.
    pub(crate) fn roots(&self) -> impl Iterator<Item = NodeRef<'_>> {
        let mut next = 0;
        std::iter::from_fn(move || {
            let at = next;
            next = self.nodes.get(at)?.end as usize;
            Some(NodeRef { table: self, at })
        })
    }

    /// The encodings of all nodes.
    pub(crate) fn encodings(&self) -> impl Iterator<Item = Encoding> {
        self.nodes.iter().map(|node| node.encoding)
    }

    pub(crate) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Rows of a numeric column that are images.
    pub(crate) fn image_count(&self) -> usize {
        self.image_count as usize
    }

    pub(crate) fn set_image_count(&mut self, count: usize) {
        self.image_count = count as u32;
    }

    /// The place of the column among those of its group.
    pub(crate) fn field(&self) -> Option<&Field> {
        self.field.as_ref()
    }

    /// A hash of what the columns of a group have in common: their tree, and what a row is made
    /// of. 0 for other columns, and before it is written.
    pub(crate) fn group_hash(&self) -> u64 {
        self.group_hash
    }

    pub(crate) fn set_field(&mut self, field: Field) {
        self.field = Some(field);
    }

    /// The nodes of another column of the group, by its number there; `None` if there is none.
    pub(crate) fn of_other_field(&self, index: usize) -> Option<Self> {
        let field = Field::new(Arc::clone(self.field.as_ref()?.fields()), index)?;
        Some(Self {
            field: Some(field),
            ..self.clone()
        })
    }

    /// Lets the column's field know its rows by the same memory as another column of the group.
    pub(crate) fn share_fields(&mut self, fields: &Arc<Fields>) {
        if let Some(field) = &mut self.field {
            field.share(fields);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let field = self.field.as_ref();
        field.map_or(0, Field::heap_bytes)
            + self.nodes.capacity() * size_of::<Node>()
            + self.metadata.capacity()
            + self.parts.capacity() * size_of::<Range<u32>>()
            + self.alignments.capacity()
    }

    /// Begins a node; its parts and children are added next, then it is [`end`](Self::end)ed.
    pub(crate) fn begin(
        &mut self,
        encoding: Encoding,
        metadata: &[u8],
        inline: Option<&[u8]>,
    ) -> usize {
        let start = self.metadata.len() as u32;
        self.metadata.extend_from_slice(metadata);
        let middle = self.metadata.len() as u32;
        self.metadata.extend_from_slice(inline.unwrap_or_default());
        let parts = self.parts.len() as u32;
        self.nodes.push(Node {
            encoding,
            metadata: start..middle,
            inline: inline.map(|_| middle..self.metadata.len() as u32),
            parts: parts..parts,
            child_count: 0,
            end: 0,
        });
        self.nodes.len() - 1
    }

    /// Adds a part to the node that was begun last. It starts at the first multiple of its
    /// alignment behind the part before it.
    pub(crate) fn add_part(&mut self, range: Range<u32>, alignment: usize) {
        self.parts.push(range);
        self.alignments.push(alignment.ilog2() as u8);
        if let Some(node) = self.nodes.last_mut() {
            node.parts.end = self.parts.len() as u32;
        }
    }

    pub(crate) fn end(&mut self, node: usize, child_count: usize) {
        self.nodes[node].child_count = child_count as u32;
        self.nodes[node].end = self.nodes.len() as u32;
    }

    fn copy(&mut self, tree: NodeRef<'_>) {
        let node = self.begin(tree.encoding(), tree.metadata(), tree.inline());
        for (part, alignment) in tree.parts().iter().zip(tree.alignments()) {
            self.add_part(part.clone(), alignment);
        }
        for child in tree.children() {
            self.copy(child);
        }
        self.end(node, tree.child_count());
    }

    /// Removes what was added since the table had `node_count` nodes.
    pub(crate) fn truncate(&mut self, node_count: usize) {
        if let Some(first) = self.nodes.get(node_count) {
            self.metadata.truncate(first.metadata.start as usize);
            self.parts.truncate(first.parts.start as usize);
            self.alignments.truncate(first.parts.start as usize);
            self.nodes.truncate(node_count);
        }
    }

    /// Appends the node section of a column.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        if self.nodes.is_empty() {
            return;
        }
        let mut record = Vec::new();
        for node in &self.nodes {
            record.push(node.encoding as u8);
            let bytes =
                |range: &Range<u32>| &self.metadata[range.start as usize..range.end as usize];
            put_bytes(&mut record, bytes(&node.metadata));
            put_varint(&mut record, node.child_count.into());
            let part_count = u64::from(node.parts.end - node.parts.start);
            put_varint(
                &mut record,
                part_count << 1 | u64::from(node.inline.is_some()),
            );
            if let Some(inline) = &node.inline {
                put_bytes(&mut record, bytes(inline));
            }
            for part in node.parts.start as usize..node.parts.end as usize {
                record.push(self.alignments[part]);
                let part = &self.parts[part];
                put_varint(&mut record, (part.end - part.start).into());
            }
        }
        out.push(RECORD_NODES);
        put_varint(out, record.len() as u64);
        out.extend_from_slice(&record);
        if self.image_count > 0 {
            record.clear();
            put_varint(&mut record, self.image_count.into());
            out.push(RECORD_IMAGES);
            put_bytes(out, &record);
        }
        if let Some(field) = &self.field {
            record.clear();
            field.write(&mut record);
            out.push(RECORD_FIELD);
            put_bytes(out, &record);
        }
    }

    /// Reads the node section of a column.
    pub(crate) fn parse(
        bytes: &[u8],
        layout: ChunkLayout,
        row_count: usize,
        chunk_len: u64,
    ) -> Result<Self, ColumnarError> {
        let root_count = layout.root_count();
        let mut section = Reader::new(bytes);
        let mut table = Self::default();
        let (mut tree, mut fields) = (&[][..], &[][..]);
        while !section.is_empty() {
            let (kind, mut record) = section.record()?;
            match kind {
                RECORD_NODES => {
                    tree = record.rest();
                    let mut end = 0;
                    for _ in 0..root_count {
                        table.parse_node(&mut record, &mut end, chunk_len, 0)?;
                    }
                    record.finish()?;
                }
                RECORD_IMAGES => {
                    table.image_count = record.count()?;
                    record.finish()?;
                }
                RECORD_FIELD => {
                    let mut others = record.clone();
                    others.count()?;
                    fields = others.rest();
                    table.field = Some(Field::parse(record)?);
                }
                RECORD_BESIDE => {
                    return Err(ColumnarError::corrupt("a column names one without nodes"));
                }
                FIRST_OPTIONAL_RECORD.. => {}
                kind => return Err(ColumnarError::newer("column record", kind.into())),
            }
        }
        let has_images = matches!(layout, ChunkLayout::Numeric(numeric) if numeric.has_images);
        ensure(
            root_count == table.roots().count()
                && has_images == (table.image_count > 0)
                && table.image_count() <= row_count
                && (layout == ChunkLayout::Grouped) == table.field.is_some(),
            "the nodes of a column do not fit its layout",
        )?;
        if layout == ChunkLayout::Grouped {
            table.group_hash = xxh3_64(tree) ^ xxh3_64(fields).rotate_left(1);
        }
        table.nodes.shrink_to_fit();
        table.metadata.shrink_to_fit();
        table.parts.shrink_to_fit();
        table.alignments.shrink_to_fit();
        Ok(table)
    }

    fn parse_node(
        &mut self,
        record: &mut Reader<'_>,
        end: &mut u32,
        chunk_len: u64,
        depth: usize,
    ) -> Result<(), ColumnarError> {
        ensure(
            depth < MAX_DEPTH && self.nodes.len() < MAX_NODES,
            "a column has too many nodes",
        )?;
        let number = record.u8()?;
        let encoding = *Encoding::ALL
            .get(usize::from(number))
            .ok_or_else(|| ColumnarError::newer("encoding", number.into()))?;
        let metadata = record.bytes()?;
        messages::check(encoding, metadata)?;
        let child_count = record.count()? as usize;
        let parts = record.count()?;
        let inline = match parts & 1 {
            0 => None,
            _ => Some(record.bytes()?),
        };
        if let Some(value) = inline {
            // Readers find the parts of all other nodes by their numbers in the chunk.
            ensure(
                encoding.has_value() && parts >> 1 == 0,
                "a node has an inline part beside others",
            )?;
            messages::check_value(value)?;
        }
        let node = self.begin(encoding, metadata, inline);
        for _ in 0..parts >> 1 {
            let exponent = record.u8()?;
            ensure(
                exponent <= CHUNK_ALIGNMENT.ilog2() as u8,
                "a part has an unknown alignment",
            )?;
            let len = record.count()?;
            let part = end
                .checked_next_multiple_of(1 << exponent)
                .and_then(|start| Some(start..start.checked_add(len)?))
                .filter(|part| u64::from(part.end) <= chunk_len)
                .ok_or_else(|| ColumnarError::corrupt("a part lies outside of its chunk"))?;
            *end = part.end;
            self.add_part(part, 1 << exponent);
        }
        for _ in 0..child_count {
            self.parse_node(record, end, chunk_len, depth + 1)?;
        }
        self.end(node, child_count);
        Ok(())
    }

    /// The cascade of a whole chunk, for people, such as `dict(bitpacked, fsst)`.
    pub(crate) fn describe(&self, layout: ChunkLayout) -> String {
        let mut cascades = self.roots().map(describe_node);
        match layout {
            ChunkLayout::AllNull => "null".to_owned(),
            ChunkLayout::Array => cascades.next().unwrap_or_default(),
            ChunkLayout::Grouped => {
                format!("grouped({})", cascades.next().unwrap_or_default())
            }
            ChunkLayout::Numeric(_) => {
                format!("decimal({})", cascades.collect::<Vec<_>>().join("; "))
            }
        }
    }
}

/// The tree as text; plain leaves and validities are left out.
fn describe_node(node: NodeRef<'_>) -> String {
    let name = node.encoding().name();
    let name = name.rsplit_once('.').map_or(name, |(_, name)| name);
    let validity = validity_child(node);
    let children: Vec<String> = node
        .children()
        .enumerate()
        .filter(|(index, _)| Some(*index) != validity)
        .map(|(_, child)| describe_node(child))
        .filter(|child| child != "primitive")
        .collect();
    if children.is_empty() {
        name.to_owned()
    } else {
        format!("{name}({})", children.join(", "))
    }
}

/// The child, if any, that tells which rows are null.
pub(crate) fn validity_child(node: NodeRef<'_>) -> Option<usize> {
    let at = match node.encoding() {
        Encoding::Primitive | Encoding::Bool | Encoding::VarBinView | Encoding::Letters => 0,
        Encoding::VarBin | Encoding::Masked => 1,
        Encoding::Fsst => 2,
        Encoding::Frames => 3,
        Encoding::OnPair => 4,
        Encoding::BitPacked => {
            PackedMetadata::parse(node.metadata()).map_or(0, |metadata| metadata.patch_children())
        }
        _ => return None,
    };
    (at < node.child_count()).then_some(at)
}
