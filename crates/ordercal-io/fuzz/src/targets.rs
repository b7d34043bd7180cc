//! What is fuzzed. The test `fuzz_corpus` runs the same functions on the inputs in `corpus/`.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use ndarray::{Array2, ArrayView2};
use ordercal::metrics::MetricState;
use ordercal::{Dataset, Method, Model, ScoreKind, Scores};
use ordercal_io::{
    DataRef, Error, Format, LoadedData, ReadOptions, RowReader, SavedModel, discard_pending,
    inspect,
};
use ordercal_testkit::promise::violation;

/// A function that must neither panic nor hang, nor take much memory, whatever bytes it gets.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// Reads a data file with this ending.
    Reader(&'static str),
    /// Loads a model, stores it again and applies it.
    Model,
    /// Reads the state of metrics, merges it and computes the metrics.
    State,
    /// Reads the description of a method.
    Config,
    /// Fits a method to data that the bytes describe, saves the model, loads it and applies both.
    RoundTrip,
}

/// Every target: the formats by their usual ending, compressed files that are read as streams and as copies, and what
/// is not data.
pub fn all() -> Vec<Target> {
    let endings = Format::ALL.iter().map(|format| format.endings()[0]);
    let packed = [".csv.gz", ".npy.zst"];
    let others = [
        Target::Model,
        Target::State,
        Target::Config,
        Target::RoundTrip,
    ];
    let readers = endings.chain(packed).map(Target::Reader);
    readers.chain(others).collect()
}

impl Target {
    /// Its name: that of the folder of its corpus.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reader(ending) => &ending[1..],
            Self::Model => "model",
            Self::State => "state",
            Self::Config => "config",
            Self::RoundTrip => "round_trip",
        }
    }

    /// Runs it on one input.
    pub fn run(self, bytes: &[u8]) {
        match self {
            Self::Reader(ending) => read(ending, bytes),
            Self::Model => load_model(bytes),
            Self::State => read_state(bytes),
            Self::Config => read_config(bytes),
            Self::RoundTrip => round_trip(bytes),
        }
    }
}

static FOLDER: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a temporary folder can be made"));

/// Writes the input to a file with an ending.
fn file(ending: &str, bytes: &[u8]) -> PathBuf {
    let path = FOLDER.path().join(format!("input{ending}"));
    std::fs::write(&path, bytes).expect("the temporary folder can be written to");
    path
}

/// An error says in one line which file it is about.
fn check<T>(path: &Path, result: Result<T, Error>) -> Option<T> {
    result
        .inspect_err(|error| {
            let text = error.to_string();
            assert!(text.starts_with(&*path.to_string_lossy()), "{text}");
            assert!(!text.contains(char::is_control), "{text:?}");
        })
        .ok()
}

fn read(ending: &str, bytes: &[u8]) {
    let path = file(ending, bytes);
    let options = ReadOptions::default();
    let sets = check(&path, inspect(&path, &options)).map_or(Vec::new(), |found| found.sets);
    let mut splits: Vec<DataRef> = (sets.into_iter().filter_map(|set| set.split))
        .map(|split| DataRef::new(&path).with_split(split))
        .collect();
    splits.push(DataRef::new(&path));
    for data in splits {
        let whole = check(&path, LoadedData::read(&data, options.clone()));
        let Some(whole) = whole else {
            continue;
        };
        check(&path, whole.scores());
        if whole.has_labels() {
            check(&path, whole.dataset());
        }
        let chunked = options.clone().with_chunk_rows(2);
        let reader = RowReader::open(&data, chunked).expect("it was just read");
        let rows: usize = reader
            .map(|chunk| chunk.expect("it was just read").len())
            .sum();
        assert_eq!(rows, whole.rows(), "in chunks");
    }
    discard_pending();
}

fn load_model(bytes: &[u8]) {
    let path = file(".safetensors", bytes);
    let Some(saved) = check(&path, SavedModel::load(&path)) else {
        return;
    };
    let stored = saved.to_bytes().expect("it came from a file");
    let again = SavedModel::from_bytes(&stored, &path).expect("it was just stored");
    assert_eq!(again.to_bytes().unwrap(), stored);
    let classes = saved.model.classes();
    let score = |(row, class): (usize, usize)| match row {
        0 => class as f32,
        1 => (class * class % 7) as f32 - 3.0,
        _ => [1e30, -1e30, f32::MIN_POSITIVE][class % 3],
    };
    apply(
        &saved.model,
        ArrayView2::from(&Array2::from_shape_fn((3, classes), score)),
    );
}

/// Applies a model to logits, and checks that the order is kept if that is promised.
fn apply(model: &Model, rows: ArrayView2<'_, f32>) -> Vec<u32> {
    let scores = Scores::new(ScoreKind::Logits, rows).expect("the scores are finite");
    let mut bits = Vec::new();
    for kind in [ScoreKind::Logits, ScoreKind::Probs] {
        let result = model.apply::<f32>(&scores, kind).expect("as many classes");
        if model.order_preserving() {
            for (input, output) in rows.outer_iter().zip(result.outer_iter()) {
                let (input, output) = (input.to_vec(), output.to_vec());
                assert_eq!(violation(&input, &output, kind), None);
            }
        }
        bits.extend(result.iter().map(|value| value.to_bits()));
    }
    bits
}

fn read_state(bytes: &[u8]) {
    let Ok(state) = MetricState::from_bytes(bytes) else {
        return;
    };
    let stored = state.to_bytes();
    let mut again = MetricState::from_bytes(&stored).expect("it was just stored");
    assert_eq!(again.to_bytes(), stored);
    let _ = state.finalize();
    if again.merge(&state).is_ok() {
        assert_eq!(again.rows(), 2 * state.rows());
        let _ = again.finalize();
    }
}

fn read_config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(table) = toml::from_str::<serde_json::Value>(text) else {
        return;
    };
    let Ok(method) = serde_json::from_value::<Method>(table) else {
        return;
    };
    let stored = serde_json::to_string(&method).expect("it came from a table");
    let again: Method = serde_json::from_str(&stored).expect("it was just stored");
    assert_eq!(serde_json::to_string(&again).unwrap(), stored);
    let _ = method.validate();
}

/// The first bytes are the method, the number of classes and the exponent of the scores' scale; then each row is a
/// label and a score per class.
fn round_trip(bytes: &[u8]) {
    const MOST_ROWS: usize = 24;
    let [method, classes, exponent, rows @ ..] = bytes else {
        return;
    };
    let methods = Method::all();
    let method = &methods[usize::from(*method) % methods.len()];
    let classes = 2 + usize::from(*classes) % 4;
    let scale = 10_f32.powi(i32::from(*exponent as i8) % 30);
    let rows: Vec<&[u8]> = rows.chunks_exact(classes + 1).take(MOST_ROWS).collect();
    let labels: Vec<usize> = rows
        .iter()
        .map(|row| usize::from(row[0]) % classes)
        .collect();
    let score = |(row, class): (usize, usize)| scale * f32::from(rows[row][class + 1] as i8);
    let logits = Array2::from_shape_fn((rows.len(), classes), score);
    let Ok(scores) = Scores::new(ScoreKind::Logits, logits.view()) else {
        assert!(rows.is_empty());
        return;
    };
    let data = Dataset::new(scores, &labels).expect("the labels are classes");
    let Ok(fitted) = method.fit(&data) else {
        return;
    };
    let saved = SavedModel::new(method.clone(), fitted);
    let path = FOLDER.path().join("model.safetensors");
    saved
        .save(&path)
        .expect("the temporary folder can be written to");
    let loaded = SavedModel::load(&path).expect("it was just saved");
    assert_eq!(loaded.to_bytes().unwrap(), saved.to_bytes().unwrap());
    let before = apply(&saved.model, logits.view());
    assert_eq!(apply(&loaded.model, logits.view()), before);
}
