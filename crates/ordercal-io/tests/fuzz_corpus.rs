//! Replays the inputs that fuzzing has found worth keeping: see `cargo xtask fuzz`.

#[path = "../fuzz/src/targets.rs"]
mod targets;

use std::path::Path;

#[test]
fn every_input_of_every_target_is_survived() {
    let corpus = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus"));
    let mut size = 0;
    for target in targets::all() {
        let folder = corpus.join(target.name());
        let entries = std::fs::read_dir(&folder)
            .unwrap_or_else(|e| panic!("{}: {e}; fill it with cargo xtask fuzz", folder.display()));
        let mut inputs: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "{} is empty", folder.display());
        for input in inputs {
            let bytes = std::fs::read(&input).unwrap();
            size += bytes.len();
            let outcome = std::panic::catch_unwind(|| target.run(&bytes));
            assert!(outcome.is_ok(), "{} on {}", target.name(), input.display());
        }
    }
    assert!(size < 300_000, "{size} bytes; keep the corpus small");
}
