//! The values that every client writes: JSON objects, the same in every run and every program.

use std::fmt::Write;

/// How many different values there are; record `i` carries value `i % POOL`.
pub const POOL: usize = 4096;

const NAMES: [&str; 8] = ["ada", "barbara", "edsger", "grace", "hedy", "john", "leslie", "tony"];
const EVENTS: [&str; 6] = ["cart", "login", "logout", "purchase", "search", "view"];
const GOODS: [&str; 8] = ["bolt", "clamp", "drill", "file", "hammer", "plane", "saw", "vise"];

/// How many different keys there are; record `i` carries key `i % KEYS`, when it carries any.
pub const KEYS: usize = 10_000;

/// [`KEYS`] keys of 16 bytes each.
#[must_use]
pub fn keys() -> Vec<Vec<u8>> {
    (0..KEYS).map(|i| format!("customer-{i:07}").into_bytes()).collect()
}

/// [`POOL`] values of exactly `size` bytes each.
///
/// # Panics
///
/// Below 100 bytes: the head of a value would not fit.
#[must_use]
pub fn payloads(size: usize) -> Vec<Vec<u8>> {
    assert!(size >= 100, "values have 100 bytes or more");
    let mut random = SplitMix(0x0771A);
    (0..POOL).map(|i| payload(i, size, &mut random)).collect()
}

fn payload(i: usize, size: usize, random: &mut SplitMix) -> Vec<u8> {
    let mut text = String::with_capacity(size + 40);
    let _infallible = write!(
        text,
        r#"{{"id":{i},"user":"{}{}","event":"{}","at":{},"note":""#,
        random.of(&NAMES),
        random.below(1000),
        random.of(&EVENTS),
        1_790_000_000_000 + random.below(100_000_000),
    );
    while text.len() < size {
        let _infallible = write!(
            text,
            "{} {:08x}, {} at {}.{:02}; ",
            random.below(100),
            random.below(1 << 32),
            random.of(&GOODS),
            random.below(1000),
            random.below(100)
        );
    }
    // ASCII throughout, so any cut is between two characters.
    text.truncate(size - 2);
    text.push_str("\"}");
    text.into_bytes()
}

/// Sebastiano Vigna's `SplitMix64`: reproducible everywhere, needs no crate.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn of(&mut self, words: &[&'static str]) -> &'static str {
        let i = self.below(words.len() as u64);
        words[usize::try_from(i).expect("an index below the length fits")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_size_and_repeat_in_every_run() {
        for size in [100, 1024] {
            let pool = payloads(size);
            assert_eq!(pool.len(), POOL);
            assert!(pool.iter().all(|v| v.len() == size && v.is_ascii() && v.ends_with(b"\"}")));
            assert_eq!(pool, payloads(size));
        }
    }

    #[test]
    fn values_differ() {
        let mut pool = payloads(100);
        pool.sort();
        pool.dedup();
        assert_eq!(pool.len(), POOL);
    }
}
