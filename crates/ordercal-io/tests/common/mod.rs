//! What the tests share: where the fixtures are and what they hold.

// Each test file uses its own part of this.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

use ordercal_io::{Error, LoadedData};

/// A fixture, see `tests/data/io/make.py`.
pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/io")).join(name)
}

/// What a fixture must hold, as written by the script that made it.
pub struct Expected {
    pub labels: Vec<u32>,
    pub weights: Vec<f64>,
    /// The bits of each score as a 32-bit float, row by row.
    pub scores: Vec<u32>,
}

impl Expected {
    /// Reads `fine.txt` or `coarse.txt`.
    pub fn read(name: &str) -> Self {
        let text = std::fs::read_to_string(fixture(&format!("{name}.txt"))).unwrap();
        let mut expected = Self {
            labels: Vec::new(),
            weights: Vec::new(),
            scores: Vec::new(),
        };
        for line in text.lines() {
            let mut words = line.split(' ');
            expected.labels.push(words.next().unwrap().parse().unwrap());
            expected
                .weights
                .push(words.next().unwrap().parse().unwrap());
            let bits = words.map(|word| u32::from_str_radix(word, 16).unwrap());
            expected.scores.extend(bits);
        }
        expected
    }

    /// Fails unless the scores and labels are the expected ones, bit for bit, and the weights if any.
    pub fn check(&self, what: &str, data: &LoadedData) {
        let dataset = data.dataset().unwrap_or_else(|e| panic!("{what}: {e}"));
        let bits: Vec<u32> = dataset
            .scores()
            .as_slice()
            .iter()
            .map(|v| v.to_bits())
            .collect();
        assert_eq!(bits, self.scores, "{what}");
        assert_eq!(dataset.labels(), self.labels, "{what}");
        if let Some(weights) = dataset.weights() {
            assert_eq!(weights, self.weights, "{what}");
        }
    }
}

/// Fails unless the message is one line that names the file.
pub fn check_message(error: &Error, path: &Path) {
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    assert!(text.starts_with(&path.display().to_string()), "{text}");
}
