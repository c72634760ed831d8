//! The LZ4 frame format around the block format of `lz4_flex`, as Kafka's Java client does it
//! (`Lz4BlockOutputStream`): written are independent blocks of 64 KiB, without checksums.
//!
//! ```text
//! magic 04 22 4D 18 | FLG | BD | [content size u64] | HC | { size u32 | block | [xxh32] }* |
//! 00 00 00 00 | [xxh32 of the content]          integers little-endian
//! ```
//!
//! Read is more: blocks up to 4 MiB, blocks that refer to earlier ones, checksums (compared, unlike
//! in the Java client), several frames. Clients of the time of magic 0 computed HC over the frame's
//! magic too, which is why it is ignored there (KIP-57).

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use twox_hash::XxHash32;

use super::{Fault, Output, put, room};
use crate::protocol::Reader;

const MAGIC: u32 = 0x184d_2204;
/// Frames of other programs' data, to be passed over; the last four bits are free.
const MAGIC_SKIPPABLE: u32 = 0x184d_2a50;
/// Magic, version 1 with independent blocks and no checksums, blocks of 64 KiB, checksum of those.
const HEAD: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
const END_MARK: [u8; 4] = [0; 4];
const BLOCK_BYTES: usize = 64 * 1024;

const FLAG_VERSION: u8 = 0xc0;
const VERSION: u8 = 0x40;
const FLAG_INDEPENDENT: u8 = 0x20;
const FLAG_BLOCK_CHECKSUM: u8 = 0x10;
const FLAG_CONTENT_SIZE: u8 = 0x08;
const FLAG_CONTENT_CHECKSUM: u8 = 0x04;
/// A dictionary, which nobody could know here, and a bit that is reserved.
const FLAGS_REFUSED: u8 = 0x03;
/// In a block's size: the block is not compressed.
const STORED: u32 = 0x8000_0000;
/// How far back a block may refer.
const WINDOW_BYTES: usize = 64 * 1024;
/// A byte of length stands for at most 255 bytes; the rest is what a first token may give.
const RATIO_MAX: usize = 255;
const BLOCK_SLACK_BYTES: usize = 64;

/// Compresses to one frame.
pub(super) struct Encoder {
    table: CompressTable,
}

impl Default for Encoder {
    fn default() -> Self {
        Self { table: CompressTable::large() }
    }
}

impl Encoder {
    pub(super) fn encode(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<usize, &'static str> {
        let block_bytes_max = 4 + get_maximum_output_size(BLOCK_BYTES);
        let blocks = input.len().div_ceil(BLOCK_BYTES);
        room(output, HEAD.len() + blocks * block_bytes_max + END_MARK.len());
        let size = output.len();
        let mut place = put(output, &HEAD);
        for block in input.chunks(BLOCK_BYTES) {
            place = self.block(block, place)?;
        }
        place = put(place, &END_MARK);
        Ok(size - place.len())
    }

    fn block<'a>(
        &mut self,
        block: &[u8],
        place: &'a mut [u8],
    ) -> Result<&'a mut [u8], &'static str> {
        let (size, rest) = place.split_at_mut_checked(4).ok_or("no room for a block")?;
        let written = compress_into_with_table(block, rest, &mut self.table)
            .map_err(|_| "no room for a block")?;
        if written < block.len() {
            size.copy_from_slice(&(written as u32).to_le_bytes());
            return Ok(rest.get_mut(written..).unwrap_or_default());
        }
        size.copy_from_slice(&(block.len() as u32 | STORED).to_le_bytes());
        Ok(put(rest, block))
    }
}

/// What to make of the checksum in a frame's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadCheck {
    /// It must be right.
    Made,
    /// It may be anything.
    Ignored,
}

/// Decompresses any number of frames.
pub(super) fn decode(input: &[u8], check: HeadCheck, output: &mut Output) -> Result<(), Fault> {
    let mut reader = Reader::new(input);
    loop {
        let magic = little_endian(&mut reader)?;
        if magic & 0xffff_fff0 == MAGIC_SKIPPABLE {
            let size = little_endian(&mut reader)?;
            reader.take(size as usize).map_err(|_| CUT)?;
        } else if magic == MAGIC {
            let head = Head::read(&mut reader, check)?;
            frame(&head, &mut reader, output)?;
        } else {
            return Err(Fault::Damaged("the bytes are not an LZ4 frame"));
        }
        if reader.remaining() == 0 {
            return Ok(());
        }
    }
}

const CUT: Fault = Fault::Damaged("the frame ends too early");

/// What the head of a frame says.
struct Head {
    flags: u8,
    block_bytes_max: usize,
    content_size: Option<u64>,
}

impl Head {
    fn read(reader: &mut Reader<'_>, check: HeadCheck) -> Result<Self, Fault> {
        let cut = |_| CUT;
        let mut descriptor = reader.clone();
        let flags = reader.u8().map_err(cut)?;
        let block = reader.u8().map_err(cut)?;
        if flags & FLAG_VERSION != VERSION {
            return Err(Fault::Damaged("the frame has an unknown version"));
        }
        if flags & FLAGS_REFUSED != 0 {
            return Err(Fault::Damaged("the frame needs a dictionary or has a reserved flag"));
        }
        let content_size = if flags & FLAG_CONTENT_SIZE == 0 {
            None
        } else {
            Some(reader.i64().map_err(cut)?.swap_bytes() as u64)
        };
        let bytes = descriptor.take(reader.position() - descriptor.position()).map_err(cut)?;
        let made = (XxHash32::oneshot(0, bytes) >> 8) as u8;
        if reader.u8().map_err(cut)? != made && check == HeadCheck::Made {
            return Err(Fault::Damaged("the checksum of the frame's head is wrong"));
        }
        let block_bytes_max = match block >> 4 & 0x07 {
            code @ 4..=7 => 1 << (2 * u32::from(code) + 8),
            _ => return Err(Fault::Damaged("the frame has an unknown block size")),
        };
        Ok(Self { flags, block_bytes_max, content_size })
    }
}

fn frame(head: &Head, reader: &mut Reader<'_>, output: &mut Output) -> Result<(), Fault> {
    let start = output.bytes.len();
    loop {
        let word = little_endian(reader)?;
        if word == 0 {
            break;
        }
        let size = (word & !STORED) as usize;
        if size > head.block_bytes_max {
            return Err(Fault::Damaged("a block is longer than the frame allows"));
        }
        let block = reader.take(size).map_err(|_| CUT)?;
        if head.flags & FLAG_BLOCK_CHECKSUM != 0
            && little_endian(reader)? != XxHash32::oneshot(0, block)
        {
            return Err(Fault::Damaged("the checksum of a block is wrong"));
        }
        if word & STORED != 0 {
            output.put(block)?;
        } else {
            let window_from = if head.flags & FLAG_INDEPENDENT == 0 { Some(start) } else { None };
            decode_block(block, head.block_bytes_max, window_from, output)?;
        }
    }
    let content = output.bytes.get(start..).unwrap_or_default();
    if head.flags & FLAG_CONTENT_CHECKSUM != 0
        && little_endian(reader)? != XxHash32::oneshot(0, content)
    {
        return Err(Fault::Damaged("the checksum of the content is wrong"));
    }
    if head.content_size.is_some_and(|size| size != content.len() as u64) {
        return Err(Fault::Damaged("the content has another size than announced"));
    }
    Ok(())
}

/// Decompresses one block; `window_from` is where the content begins that it may refer to.
fn decode_block(
    block: &[u8],
    block_bytes_max: usize,
    window_from: Option<usize>,
    output: &mut Output,
) -> Result<(), Fault> {
    let possible = block.len().saturating_mul(RATIO_MAX).saturating_add(BLOCK_SLACK_BYTES);
    let room = possible.min(block_bytes_max);
    let size = room.min(output.left());
    let decoded = output.put_with(size, |place, before| match window_from {
        None => lz4_flex::block::decompress_into(block, place),
        Some(from) => {
            let from = from.max(before.len().saturating_sub(WINDOW_BYTES));
            let window = before.get(from..).unwrap_or_default();
            lz4_flex::block::decompress_into_with_dict(block, place, window)
        }
    });
    match decoded {
        Ok(()) => Ok(()),
        Err(lz4_flex::block::DecompressError::OutputTooSmall { .. }) if size < room => {
            Err(Fault::TooLarge)
        }
        Err(_) => Err(Fault::Damaged("a block is damaged")),
    }
}

fn little_endian(reader: &mut Reader<'_>) -> Result<u32, Fault> {
    reader.u32().map(u32::swap_bytes).map_err(|_| CUT)
}
