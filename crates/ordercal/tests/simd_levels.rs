//! Every instruction set gives the same fits and the same probabilities, bit for bit.
//!
//! The level is read once per process, so the test runs itself once for each value of `ORDERCAL_SIMD`. Levels that this
//! processor lacks fall back to a lower one and compare equal.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ordercal::metrics::{Metric, MetricOptions, Predictions, evaluate};
use ordercal::{Method, ScoreKind, Scores, kernels};
use ordercal_testkit::rows::overconfident_data;

/// Where a child process writes its results.
const RESULTS: &str = "ORDERCAL_TEST_RESULTS";
/// A level that no processor has.
const UNKNOWN: &str = "sse9";
/// Methods that only combine others, and are slow without vector instructions.
const COMBINED: [&str; 2] = ["auto", "auto-free"];

fn run_at(level: &str, results: &Path) -> String {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "simd_levels::all_levels_give_the_same_bytes"])
        .env("ORDERCAL_SIMD", level)
        .env(RESULTS, results)
        .output()
        .unwrap();
    assert!(status.status.success(), "{level}: {status:?}");
    std::fs::read_to_string(results).unwrap()
}

#[test]
fn all_levels_give_the_same_bytes() {
    if let Some(path) = std::env::var_os(RESULTS) {
        return write_results(Path::new(&path));
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let levels = ["portable", "avx2", "avx512"];
    let results = levels.map(|level| run_at(level, &folder.join(format!("simd-{level}.txt"))));
    let used = results.each_ref().map(|text| text.lines().next().unwrap());
    assert_eq!(used[0], "level portable");
    let best = used[2];
    if best != "level avx512" {
        // The processor does not support AVX-512: a lower level is used.
        assert!(best == used[1] || best == used[0]);
    }
    for (level, text) in levels.iter().zip(&results) {
        for (here, portable) in text.lines().zip(results[0].lines()).skip(1) {
            assert_eq!(here, portable, "{level} differs from portable");
        }
        assert_eq!(text.lines().count(), results[0].lines().count());
    }
}

#[test]
fn an_unknown_level_is_refused() {
    if std::env::var("ORDERCAL_SIMD").is_ok_and(|level| level == UNKNOWN) {
        return refuse_scores();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "simd_levels::an_unknown_level_is_refused"])
        .env("ORDERCAL_SIMD", UNKNOWN)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn refuse_scores() {
    let refused = Scores::new(ScoreKind::Logits, ndarray::array![[0.0_f32, 1.0]]).unwrap_err();
    let message = refused.to_string();
    assert!(
        message.contains(UNKNOWN) && message.contains("avx512"),
        "{message}"
    );
}

fn write_results(path: &Path) {
    let mut text = format!("level {}\n", kernels::simd_level());
    // Short rows, rows with a remainder after whole vectors, and networks wide enough for matrix products.
    for (rows, classes) in [(400, 3), (300, 29), (160, 70)] {
        let data = overconfident_data(rows, classes, 5);
        for method in Method::all() {
            let key = method.key();
            if COMBINED.contains(&key) {
                continue;
            }
            let model = method.fit(&data).unwrap().model;
            for kind in ScoreKind::ALL {
                let wide = model.apply::<f64>(data.scores(), kind).unwrap();
                let narrow = model.apply::<f32>(data.scores(), kind).unwrap();
                let wide = hash(wide.iter().map(|v| v.to_bits()));
                let narrow = hash(narrow.iter().map(|v| u64::from(v.to_bits())));
                writeln!(text, "{key} {classes} {kind}: {wide:016x} {narrow:016x}").unwrap();
            }
        }
        let predictions = Predictions::from(&data);
        for (metric, value) in evaluate(
            &predictions,
            &Metric::for_classes(predictions.classes()),
            &MetricOptions::default(),
        )
        .unwrap()
        {
            writeln!(text, "{metric} {classes}: {:016x}", value.to_bits()).unwrap();
        }
    }
    std::fs::write(path, text).unwrap();
}

/// The FNV-1a hash.
fn hash(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0xcbf2_9ce4_8422_2325, |hash, value| {
        (hash ^ value).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
