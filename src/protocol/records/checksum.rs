//! The CRC-32C of a batch whose head changes after its records were summed.
//!
//! The checksum covers the end of the head, which is only known when a batch leaves, and the
//! records, which by then may have left the processor's cache. So records are summed while they
//! are written, and [`join`] puts the two sums together: the sum of A followed by B is that of A
//! moved on by the length of B, which is a multiplication modulo the polynomial, and that of B.
//! (The same algebra as `crc32_combine` of zlib 1.2.12.)
//!
//! Pure. Polynomials are reflected, as in all of CRC-32C: the highest bit is the coefficient of 1.

/// Castagnoli's polynomial (RFC 3720), without its highest term.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// The polynomial 1.
const ONE: u32 = 1 << 31;
/// x to the power of 8: what a byte of zeros multiplies by.
const BYTE: u32 = 1 << 23;

/// `BYTE` squared so many times.
const SQUARES: [u32; 32] = {
    let mut squares = [BYTE; 32];
    let mut i = 1;
    while i < squares.len() {
        squares[i] = multiply(squares[i - 1], squares[i - 1]);
        i += 1;
    }
    squares
};

/// The checksum of what `first` is that of, followed by `second_bytes` bytes that `second` is that of.
pub(super) fn join(first: u32, second: u32, second_bytes: u32) -> u32 {
    let mut moved = first;
    let mut left = second_bytes;
    for square in SQUARES {
        if left == 0 {
            break;
        }
        if left & 1 == 1 {
            moved = multiply(square, moved);
        }
        left >>= 1;
    }
    moved ^ second
}

/// The product of two polynomials modulo [`POLYNOMIAL`].
const fn multiply(a: u32, b: u32) -> u32 {
    let (mut product, mut power) = (0, b);
    let mut coefficient = ONE;
    while coefficient != 0 {
        if a & coefficient != 0 {
            product ^= power;
        }
        power = if power & 1 == 1 { (power >> 1) ^ POLYNOMIAL } else { power >> 1 };
        coefficient >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn joined_is_the_checksum_of_both_in_a_row(
            first in proptest::collection::vec(any::<u8>(), 0..100),
            second in proptest::collection::vec(any::<u8>(), 0..3000),
        ) {
            let all = [first.as_slice(), second.as_slice()].concat();
            let joined =
                join(crc32c::crc32c(&first), crc32c::crc32c(&second), second.len() as u32);
            prop_assert_eq!(joined, crc32c::crc32c(&all));
        }
    }

    #[test]
    fn long_ones_join_too() {
        let second = vec![0x5a; (1 << 20) + 3];
        let all = [&b"head"[..], &second].concat();
        let joined = join(crc32c::crc32c(b"head"), crc32c::crc32c(&second), second.len() as u32);
        assert_eq!(joined, crc32c::crc32c(&all));
    }
}
