#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| ottla_fuzz::broker(data));
