//! Zstandard through the C library. Any number of frames, with or without their content's size.
//!
//! Decompression is done in one go into a buffer of a guessed size, and again into a larger one when
//! that was too small: a frame that is streamed needs a window as large as it likes to announce, and
//! that would be memory for a mere number. The guess learns from the batches before.

use zstd::zstd_safe::{
    CCtx, CParameter, DCtx, compress_bound, get_error_name, get_frame_content_size,
};
use zstd::zstd_safe::{max_c_level, min_c_level};

use super::{Fault, Output, room};

/// The library's own default.
const LEVEL_DEFAULT: i32 = 3;
/// The library's code for "the output does not fit", as its functions return it: negated.
const OUTPUT_TOO_SMALL: usize = 70_usize.wrapping_neg();
/// How much larger the next try is.
const GROWTH: usize = 4;
const RATIO_MIN: usize = 4;
/// Most that the guess expects of a batch because of those before.
const RATIO_MAX: usize = 64;
const GUESS_BYTES_MIN: usize = 16 * 1024;
const NO_MEMORY: &str = "there is no memory for its context";

/// Compresses to one frame.
#[derive(Default)]
pub(super) struct Encoder {
    context: Option<(i32, CCtx<'static>)>,
}

impl Encoder {
    pub(super) fn encode(
        &mut self,
        level: Option<i32>,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<usize, &'static str> {
        let level = level.unwrap_or(LEVEL_DEFAULT).clamp(min_c_level(), max_c_level());
        if self.context.as_ref().is_none_or(|(made_for, _)| *made_for != level) {
            let mut context = CCtx::try_create().ok_or(NO_MEMORY)?;
            context.set_parameter(CParameter::CompressionLevel(level)).map_err(get_error_name)?;
            self.context = Some((level, context));
        }
        let (_, context) = self.context.as_mut().expect("made just now");
        room(output, compress_bound(input.len()));
        let written = context.compress2(output.as_mut_slice(), input);
        written.map_err(|code| {
            // A frame may be open: the next batch begins with a new context.
            self.context = None;
            get_error_name(code)
        })
    }
}

/// Decompresses any number of frames.
#[derive(Default)]
pub(super) struct Decoder {
    context: Option<DCtx<'static>>,
    /// Output per input of the last batch, rounded up.
    ratio: usize,
}

impl Decoder {
    pub(super) fn decode(&mut self, input: &[u8], output: &mut Output) -> Result<(), Fault> {
        let context = match &mut self.context {
            Some(context) => context,
            none => none.insert(DCtx::try_create().ok_or(Fault::Damaged(NO_MEMORY))?),
        };
        let ratio = self.ratio.clamp(RATIO_MIN, RATIO_MAX);
        let likely = input.len().saturating_mul(ratio).max(GUESS_BYTES_MIN);
        let announced = get_frame_content_size(input)
            .ok()
            .flatten()
            .and_then(|size| usize::try_from(size).ok());
        let mut size = match announced {
            // One byte more than the first frame, in case it is the only one and honest.
            Some(announced) => announced.min(input.len().saturating_mul(RATIO_MAX)).max(1),
            None => likely,
        };
        loop {
            size = size.min(output.limit).max(1);
            output.bytes.reserve(size);
            match context.decompress(&mut output.bytes, input) {
                Ok(written) => {
                    self.ratio = written / input.len().max(1) + 1;
                    return Ok(());
                }
                Err(OUTPUT_TOO_SMALL) if output.bytes.capacity() >= output.limit => {
                    return Err(Fault::TooLarge);
                }
                Err(OUTPUT_TOO_SMALL) => size = output.bytes.capacity().saturating_mul(GROWTH),
                Err(code) => return Err(Fault::Damaged(get_error_name(code))),
            }
            output.bytes.clear();
        }
    }
}
