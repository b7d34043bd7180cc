//! Model files of earlier versions: they load and give the results that they gave then. `tests/data/models` holds them.

use std::path::{Path, PathBuf};

use crate::harness::Folder;

/// Largest difference of a probability.
const TOLERANCE: f64 = 1e-6;

/// The probabilities of a CSV file.
fn probabilities(path: &Path) -> Vec<Vec<f64>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(','));
    let header: Vec<&str> = lines.next().unwrap().collect();
    let row = |fields: std::str::Split<'_, char>| {
        let named = header.iter().zip(fields);
        let probs = named.filter(|(name, _)| name.starts_with("prob"));
        probs.map(|(_, value)| value.parse().unwrap()).collect()
    };
    lines.map(row).collect()
}

/// The rows that a model was applied to.
fn rows_of(model: &str) -> &'static str {
    let prefixes = [
        ("zeros_", "rows_zeros.csv"),
        ("one_logit_", "rows_one_logit.csv"),
        ("one_prob_", "rows_one_prob.csv"),
        ("names_", "rows_names.csv"),
        ("demo_", "rows_demo.csv"),
    ];
    let found = prefixes
        .iter()
        .find(|(prefix, _)| model.starts_with(prefix));
    found.map_or("rows.csv", |(_, rows)| rows)
}

#[test]
fn models_of_version_0_1_0_give_the_same_results() {
    let data = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/models"
    ));
    let folder = Folder::new();
    let output = folder.path("probs.csv");
    let mut models = 0;
    for entry in std::fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_none_or(|ending| ending != "safetensors")
        {
            continue;
        }
        models += 1;
        let name = path.file_stem().unwrap().to_str().unwrap();
        let rows = data.join(rows_of(name));
        let arguments = [Path::new("apply"), &path, &rows, Path::new("-o"), &output];
        let options = ["--as", "probs", "--dtype", "f64"].map(Path::new);
        folder.run_args(arguments.into_iter().chain(options)).ok();
        let found = probabilities(&output);
        let expected = probabilities(&data.join(format!("{name}.expected.csv")));
        assert_eq!(found.len(), expected.len(), "{name}");
        for (row, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found.len(), expected.len(), "{name}: row {row}");
            for (a, b) in found.iter().zip(expected) {
                assert!(
                    (a - b).abs() <= TOLERANCE,
                    "{name}: row {row}: {a} instead of {b}"
                );
            }
        }
    }
    assert_eq!(models, 38);
}
