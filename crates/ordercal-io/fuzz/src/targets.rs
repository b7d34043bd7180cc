//! What is fuzzed. The test `fuzz_corpus` runs the same functions on the inputs in `corpus/`.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use ndarray::{Array2, ArrayView2};
use ordercal::grouped::RowGroups;
use ordercal::metrics::{BootstrapOptions, MetricState};
use ordercal::monitor::Monitor;
use ordercal::{Dataset, Method, Model, ScoreKind, Scores};
use ordercal_io::{
    ColumnChoice, DataRef, Error, Format, LabelNeed, LoadedData, ReadOptions, RowReader,
    SavedGroups, SavedModel, discard_pending, inspect,
};
use ordercal_testkit::promise::violation;
use sha2::{Digest, Sha256};

/// A function that must neither panic nor hang, nor take much memory, whatever bytes it gets.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// Reads a data file with this ending.
    Reader(&'static str),
    /// Reads a file with this ending whose labels are distributions over the classes, with columns of groups and of ids.
    Columns(&'static str),
    /// Loads a model, stores it again and applies it.
    Model,
    /// Loads models of groups, stores them again and applies them.
    Groups,
    /// Reads the state of metrics, merges it, computes the metrics and watches it.
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
        Target::Columns(".csv"),
        Target::Columns(".jsonl"),
        Target::Model,
        Target::Groups,
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
            Self::Columns(".csv") => "columns_csv",
            Self::Columns(_) => "columns_jsonl",
            Self::Model => "model",
            Self::Groups => "groups",
            Self::State => "state",
            Self::Config => "config",
            Self::RoundTrip => "round_trip",
        }
    }

    /// Runs it on one input.
    pub fn run(self, bytes: &[u8]) {
        match self {
            Self::Reader(ending) => read(ending, bytes),
            Self::Columns(ending) => read_columns(ending, bytes),
            Self::Model => load_model(bytes),
            Self::Groups => load_groups(bytes),
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

fn read_columns(ending: &str, bytes: &[u8]) {
    let path = file(ending, bytes);
    let data = DataRef::new(&path);
    let columns = ColumnChoice::default()
        .with_ids(["day"].map(String::from))
        .with_groups("patient".to_owned());
    let soft = columns.clone().with_soft_labels(["q_*"].map(String::from));
    for columns in [soft, columns] {
        let options = ReadOptions::default()
            .with_columns(columns)
            .with_labels(LabelNeed::Required)
            .with_ignored_label("-100".to_owned());
        let Some(whole) = check(&path, LoadedData::read(&data, options.clone())) else {
            continue;
        };
        assert_eq!(whole.ids()[0].len(), whole.rows());
        if let Some(whole) = check(&path, whole.dataset())
            && let Ok(folds) = whole.folds(2, 1)
        {
            let held_out = folds.held_out(0);
            for row in (1..whole.rows()).filter(|&row| whole.repeats(row)) {
                assert_eq!(held_out.contains(&row), held_out.contains(&(row - 1)));
            }
        }
        let reader = RowReader::open(&data, options.with_chunk_rows(2)).expect("it was just read");
        let chunks = reader.map(|chunk| chunk.expect("it was just read"));
        let rows: usize = chunks
            .map(|chunk| {
                assert_eq!(chunk.ids[0].len(), chunk.len());
                chunk.len()
            })
            .sum();
        assert_eq!(rows, whole.rows(), "in chunks");
    }
    discard_pending();
}

fn load_groups(bytes: &[u8]) {
    let path = file(".safetensors", &signed(bytes));
    let Some(saved) = check(&path, SavedGroups::load(&path)) else {
        return;
    };
    let stored = saved.to_bytes().expect("it came from a file");
    let again = SavedGroups::from_bytes(&stored, &path).expect("it was just stored");
    assert_eq!(again.to_bytes().unwrap(), stored);
    let classes = saved.model.classes();
    let keys: Vec<Vec<String>> = saved.model.maps().keys().cloned().collect();
    // The last row is of a group that there is not.
    let groups = RowGroups::new(keys.len() + 1, |row| {
        keys.get(row).cloned().unwrap_or_default()
    });
    let score = |(row, class): (usize, usize)| ((row + class * class) % 7) as f32 - 3.0;
    let rows = Array2::from_shape_fn((keys.len() + 1, classes), score);
    let scores = Scores::new(ScoreKind::Logits, rows.view()).expect("the scores are finite");
    for model in [&saved.model, &again.model] {
        let found = model.apply::<f32>(&scores, &groups, ScoreKind::Probs);
        found.expect("as many classes");
    }
    for key in &keys {
        apply(saved.model.model(key), rows.view());
    }
}

/// The bytes of a model file with the checksum that belongs to them, so that mutations are not all refused for it.
fn signed(bytes: &[u8]) -> Vec<u8> {
    const NAME: &[u8] = b"\"checksum\":\"";
    const DIGITS: usize = 64;
    let mut bytes = bytes.to_vec();
    let place = bytes.windows(NAME.len()).position(|window| window == NAME);
    let place = place.map(|place| place + NAME.len());
    if let Some(digits) = place.and_then(|place| bytes.get_mut(place..place + DIGITS)) {
        digits.fill(b'0');
        let hash = Sha256::digest(&bytes);
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let place = place.expect("there is one");
        bytes[place..place + DIGITS].copy_from_slice(hash.as_bytes());
    }
    bytes
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
    // Few enough classes for a test of each.
    if state.classes() <= 100 {
        let mut monitor = Monitor::new(state.classes(), 0.05).expect("at least two classes");
        if let Ok(verdict) = monitor.push(&state) {
            assert!((0.0..=1.0).contains(&verdict.p_value), "{verdict:?}");
        }
        let _ = state.intervals(&BootstrapOptions::default().with_resamples(3));
    }
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
