//! Snappy, in the container of the JVM library (snappy-java, as Kafka's Java client writes) or as
//! one bare block (as some other clients wrote).
//!
//! ```text
//! container: 82 "SNAPPY" 00 | version i32 | compatible version i32 | { length i32 | block }*
//! ```
//!
//! The container is recognised by its first eight bytes alone: writers disagree about the byte order
//! of the versions. A bare block cannot begin so: 82 53 would announce 10626 bytes, to be followed
//! by a copy from before the start.

use super::{Fault, Output, put, room};
use crate::protocol::Reader;

const MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
/// The first four bytes of the magic, where a block's length may stand: a further container.
const MAGIC_AS_LENGTH: i32 = i32::from_be_bytes(*b"\x82SNA");
const VERSION: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
/// Uncompressed bytes per block, as snappy-java's default.
const BLOCK_BYTES: usize = 32 * 1024;
/// A copy of 64 bytes takes 3 bytes: nothing in the format gives more.
const RATIO_MAX: usize = 22;

/// Compresses to the container.
pub(super) struct Encoder {
    context: snap::raw::Encoder,
}

impl Default for Encoder {
    fn default() -> Self {
        Self { context: snap::raw::Encoder::new() }
    }
}

impl Encoder {
    pub(super) fn encode(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<usize, &'static str> {
        let block_bytes_max = 4 + snap::raw::max_compress_len(BLOCK_BYTES);
        let head = MAGIC.len() + VERSION.len();
        room(output, head + input.len().div_ceil(BLOCK_BYTES) * block_bytes_max);
        let mut place = output.as_mut_slice();
        let size = place.len();
        place = put(place, &MAGIC);
        place = put(place, &VERSION);
        for block in input.chunks(BLOCK_BYTES) {
            let (length, rest) = place.split_at_mut_checked(4).ok_or("no room for a block")?;
            let written = self.context.compress(block, rest).map_err(|_| "no room for a block")?;
            length.copy_from_slice(&(written as u32).to_be_bytes());
            place = rest.get_mut(written..).unwrap_or_default();
        }
        Ok(size - place.len())
    }
}

/// Decompresses both framings.
#[derive(Default)]
pub(super) struct Decoder {
    context: snap::raw::Decoder,
}

impl Decoder {
    pub(super) fn decode(&mut self, input: &[u8], output: &mut Output) -> Result<(), Fault> {
        if !input.starts_with(&MAGIC) {
            return self.block(input, output);
        }
        let cut = |_| Fault::Damaged("the container ends too early");
        let mut reader = Reader::new(input);
        reader.take(MAGIC.len() + VERSION.len()).map_err(cut)?;
        while reader.remaining() > 0 {
            let length = reader.i32().map_err(cut)?;
            if length == MAGIC_AS_LENGTH {
                let rest = reader.take(MAGIC.len() - 4 + VERSION.len()).map_err(cut)?;
                if !rest.starts_with(b"PPY\0") {
                    return Err(Fault::Damaged("a block has an illegal length"));
                }
                continue;
            }
            let length = usize::try_from(length)
                .map_err(|_| Fault::Damaged("a block has an illegal length"))?;
            self.block(reader.take(length).map_err(cut)?, output)?;
        }
        Ok(())
    }

    fn block(&mut self, block: &[u8], output: &mut Output) -> Result<(), Fault> {
        let damaged = |_| Fault::Damaged("a block is damaged");
        let size = snap::raw::decompress_len(block).map_err(damaged)?;
        if size > block.len().saturating_mul(RATIO_MAX) {
            return Err(Fault::Damaged("a block announces more than it can hold"));
        }
        if size > output.left() {
            return Err(Fault::TooLarge);
        }
        output.put_with(size, |place, _| self.context.decompress(block, place)).map_err(damaged)
    }
}
