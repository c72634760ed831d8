//! gzip (RFC 1952) around the deflate of `flate2`. The head and the trailer of a member are read
//! here, so that one raw inflate context serves all members and all batches.

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};

use super::{Fault, Output, room};
use crate::protocol::Reader;

/// zlib's own default is 6 too.
const LEVEL_DEFAULT: i32 = 6;
/// log2 of the largest window of deflate.
const WINDOW_BITS: u8 = 15;
/// The first step of the output; each further one doubles it.
const STEP_BYTES_MIN: usize = 4096;
/// Head and trailer of a member, and as much again.
const FRAME_BYTES: usize = 64;

const MAGIC: u16 = 0x1f8b;
const METHOD_DEFLATE: u8 = 8;
const FLAG_HEAD_CRC: u8 = 0x02;
const FLAG_EXTRA: u8 = 0x04;
const FLAG_NAME: u8 = 0x08;
const FLAG_COMMENT: u8 = 0x10;
const FLAGS_RESERVED: u8 = 0xe0;

/// Compresses to one member.
#[derive(Default)]
pub(super) struct Encoder {
    context: Option<(u32, Compress)>,
}

impl Encoder {
    pub(super) fn encode(
        &mut self,
        level: Option<i32>,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<usize, &'static str> {
        let level = level.unwrap_or(LEVEL_DEFAULT).clamp(1, 9) as u32;
        if self.context.as_ref().is_none_or(|(made_for, _)| *made_for != level) {
            let level_of = flate2::Compression::new(level);
            self.context = Some((level, Compress::new_gzip(level_of, WINDOW_BITS)));
        }
        let (_, context) = self.context.as_mut().expect("made just now");
        context.reset();
        // An eighth more is what deflate makes of bytes that it cannot compress, at the worst.
        room(output, input.len() + input.len() / 8 + FRAME_BYTES);
        loop {
            let read = (context.total_in() as usize).min(input.len());
            let written = (context.total_out() as usize).min(output.len());
            let (rest, place) = (input.get(read..), output.get_mut(written..));
            let (rest, place) = (rest.unwrap_or_default(), place.unwrap_or_default());
            match context.compress(rest, place, FlushCompress::Finish) {
                Ok(Status::StreamEnd) => return Ok(context.total_out() as usize),
                Ok(Status::Ok | Status::BufError) => room(output, output.len() * 2),
                Err(_) => return Err("deflate refused its input"),
            }
        }
    }
}

/// Decompresses any number of members.
#[derive(Default)]
pub(super) struct Decoder {
    context: Option<Decompress>,
}

impl Decoder {
    pub(super) fn decode(&mut self, input: &[u8], output: &mut Output) -> Result<(), Fault> {
        let mut reader = Reader::new(input);
        loop {
            head(&mut reader)?;
            let start = output.bytes.len();
            self.inflate(&mut reader, output)?;
            let member = output.bytes.get(start..).unwrap_or_default();
            let (crc, size) = (little_endian(&mut reader)?, little_endian(&mut reader)?);
            if crc != crc32fast::hash(member) {
                return Err(Fault::Damaged("the checksum of the content is wrong"));
            }
            if size != member.len() as u32 {
                return Err(Fault::Damaged("the size of the content is wrong"));
            }
            if reader.remaining() == 0 {
                return Ok(());
            }
        }
    }

    fn inflate(&mut self, reader: &mut Reader<'_>, output: &mut Output) -> Result<(), Fault> {
        let context = self.context.get_or_insert_with(|| Decompress::new(false));
        context.reset(false);
        let input = reader.clone().take(reader.remaining()).map_err(|_| CUT)?;
        // What one member and the limit leave; one byte above the limit shows that it is passed.
        let mut step = input.len().saturating_mul(4).max(STEP_BYTES_MIN);
        loop {
            if output.bytes.len() > output.limit {
                return Err(Fault::TooLarge);
            }
            if output.bytes.len() == output.bytes.capacity() {
                output.bytes.reserve(step.min(output.left() + 1));
                step = step.saturating_mul(2);
            }
            let read = context.total_in() as usize;
            let before = (read, output.bytes.len());
            let rest = input.get(read..).unwrap_or_default();
            match context.decompress_vec(rest, &mut output.bytes, FlushDecompress::None) {
                Ok(Status::StreamEnd) => break,
                Ok(Status::Ok | Status::BufError) => {
                    let full = output.bytes.len() == output.bytes.capacity();
                    let moved = (context.total_in() as usize, output.bytes.len()) != before;
                    if !full && !moved {
                        return Err(CUT);
                    }
                }
                Err(_) => return Err(Fault::Damaged("the deflate stream is damaged")),
            }
        }
        reader.take(context.total_in() as usize).map_err(|_| CUT)?;
        Ok(())
    }
}

const CUT: Fault = Fault::Damaged("the stream ends too early");

/// The head of a member.
fn head(reader: &mut Reader<'_>) -> Result<(), Fault> {
    let cut = |_| CUT;
    if reader.u16().map_err(cut)? != MAGIC {
        return Err(Fault::Damaged("the bytes are not gzip"));
    }
    if reader.u8().map_err(cut)? != METHOD_DEFLATE {
        return Err(Fault::Damaged("the method is not deflate"));
    }
    let flags = reader.u8().map_err(cut)?;
    if flags & FLAGS_RESERVED != 0 {
        return Err(Fault::Damaged("a reserved flag is set"));
    }
    // Time, extra flags, operating system.
    reader.take(6).map_err(cut)?;
    if flags & FLAG_EXTRA != 0 {
        let size = reader.u16().map_err(cut)?.swap_bytes();
        reader.take(usize::from(size)).map_err(cut)?;
    }
    for text in [FLAG_NAME, FLAG_COMMENT] {
        if flags & text != 0 {
            while reader.u8().map_err(cut)? != 0 {}
        }
    }
    if flags & FLAG_HEAD_CRC != 0 {
        reader.u16().map_err(cut)?;
    }
    Ok(())
}

fn little_endian(reader: &mut Reader<'_>) -> Result<u32, Fault> {
    reader.u32().map(u32::swap_bytes).map_err(|_| CUT)
}
