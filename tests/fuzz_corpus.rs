//! Every kept input of the fuzzers through the same functions, without libFuzzer: what was once found
//! stays mended.

#[path = "../fuzz/src/lib.rs"]
#[expect(dead_code, unreachable_pub, reason = "the library of another crate")]
mod decoders;

use std::path::Path;

#[test]
fn the_kept_corpus_decodes_or_is_refused() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let mut targets = decoders::TARGETS.to_vec();
    #[cfg(feature = "broker")]
    targets.push(decoders::BROKER);
    for (target, decode) in targets {
        let folder = corpus.join(target);
        let entries = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut inputs = 0;
        for entry in entries {
            let path = entry.expect("a readable folder").path();
            let input = std::fs::read(&path).expect("a readable file");
            // The name of an input that fails: the panic's message is that of the decoder.
            let outcome = std::panic::catch_unwind(|| decode(&input));
            assert!(outcome.is_ok(), "{} fails, see above", path.display());
            inputs += 1;
        }
        assert!(inputs > 0, "{} is empty", folder.display());
    }
}
