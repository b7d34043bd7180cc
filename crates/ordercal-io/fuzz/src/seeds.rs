//! The first inputs of every target: what the library itself writes, and the fixtures of its tests.

use std::fs;
use std::path::Path;

use ndarray::Array2;
use ordercal::grouped::{GroupFit, GroupMap, GroupedModel, RowGroups};
use ordercal::metrics::{MetricOptions, MetricState, Predictions};
use ordercal::{Dataset, Method, ScoreKind, Scores, Unwatched};
use ordercal_io::{Format, OutputSpec, OutputType, SavedGroups, SavedModel, ScoreWriter};

use crate::targets::Target;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/data/io");

/// Small inputs are mutated to more effect.
const LARGEST: usize = 8 << 10;

const LABELS: [usize; 8] = [0, 1, 2, 0, 1, 2, 0, 1];

fn logits() -> Array2<f32> {
    let score = |(row, class)| {
        let hit = if LABELS[row] == class { 3.0 } else { 0.0 };
        hit + ((7 * row + 5 * class) % 11) as f32 / 4.0
    };
    Array2::from_shape_fn((LABELS.len(), 3), score)
}

/// Writes the seeds of a target into a folder.
pub fn write(target: Target, folder: &Path) {
    fs::create_dir_all(folder).expect("the folder of the seeds can be made");
    let mut seeds = match target {
        Target::Reader(ending) => return write_files(ending, folder),
        Target::Columns(ending) => columns(ending),
        Target::Model => models(),
        Target::Groups => groups(),
        Target::State => states(),
        Target::Config => configs(),
        Target::RoundTrip => rows(),
    };
    seeds.retain(|seed| seed.len() <= LARGEST);
    for (index, seed) in seeds.into_iter().enumerate() {
        fs::write(folder.join(format!("seed-{index}")), seed).expect("a seed can be written");
    }
}

fn write_files(ending: &str, folder: &Path) {
    let logits = logits();
    let spec = OutputSpec::new(ScoreKind::Logits, 3).with_rows(logits.nrows());
    let names = ["cat", "dog", "eel"].map(str::to_owned).to_vec();
    for (name, spec) in [
        ("plain", spec.clone()),
        ("named", spec.clone().with_class_names(Some(names))),
        ("wide", spec.with_dtype(OutputType::F64)),
    ] {
        let path = folder.join(format!("seed-{name}{ending}"));
        // Formats that are only read have fixtures.
        if Format::of_output(&path).is_err() {
            continue;
        }
        let wide = spec.dtype == OutputType::F64;
        let mut writer = ScoreWriter::create(&path, spec).expect("a seed can be written");
        let written = match wide {
            true => writer.write_f64(logits.mapv(f64::from).view()),
            false => writer.write_f32(logits.view()),
        };
        written
            .and_then(|()| writer.finish())
            .expect("a seed can be written");
    }
    let packed = ending.strip_suffix(".zst");
    for entry in fs::read_dir(FIXTURES)
        .expect("there are fixtures")
        .flatten()
    {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let wanted = |ending: &str| {
            let format = |path: &Path| Format::of(path).ok();
            let same = format(&path) == format(Path::new(&format!("x{ending}")));
            same && name.ends_with(".gz") == ending.ends_with(".gz")
        };
        let bytes = fs::read(&path).expect("a fixture can be read");
        if wanted(packed.unwrap_or(ending)) && bytes.len() <= LARGEST {
            let bytes = packed.and_then(|_| zstd_frame(&bytes)).unwrap_or(bytes);
            fs::write(folder.join(format!("seed-{name}")), bytes).expect("a seed can be written");
        }
    }
}

/// A frame of Zstandard that holds the bytes as they are (RFC 8878): a header, and one block without compression.
fn zstd_frame(bytes: &[u8]) -> Option<Vec<u8>> {
    const MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();
    /// The content's size follows, in one byte.
    const SINGLE_SEGMENT: u8 = 0x20;
    let size = u8::try_from(bytes.len()).ok()?;
    let last_block = 1 | u32::from(size) << 3;
    let header = [
        &MAGIC[..],
        &[SINGLE_SEGMENT, size],
        &last_block.to_le_bytes()[..3],
    ];
    Some([&header.concat(), bytes].concat())
}

fn models() -> Vec<Vec<u8>> {
    let scores = Scores::new(ScoreKind::Logits, logits()).expect("the scores are finite");
    let data = Dataset::new(scores, &LABELS).expect("the labels are classes");
    let mut seeds = Vec::new();
    for method in Method::all() {
        let fitted = method.fit(&data).expect("ordinary data can be fitted");
        let saved = SavedModel::new(method, fitted);
        let bytes = saved.to_bytes().expect("a model of our own");
        seeds.push(without_checksum(&bytes));
        seeds.push(bytes);
    }
    seeds
}

/// The same model, or models of groups, as version 1 of the format of a model, which has no checksum that a mutation
/// would break.
fn without_checksum(bytes: &[u8]) -> Vec<u8> {
    const VERSION: &[u8] = b"\"version\":\"2\"";
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> = (0..bytes.len())
        .filter(|&place| bytes[place..].starts_with(VERSION))
        .collect();
    assert!(!places.is_empty(), "the header says the version");
    for place in places {
        bytes[place + VERSION.len() - 2] = b'1';
    }
    bytes
}

/// Tables with columns of groups and of ids, and with labels of either kind.
fn columns(ending: &str) -> Vec<Vec<u8>> {
    let names = [
        "logit_0", "logit_1", "q_0", "q_1", "patient", "day", "label",
    ];
    let rows = [
        ["1.5", "0.5", "0.25", "0.75", "3", "\"2024-01-02\"", "1"],
        ["0.5", "1", "1", "0", "3", "\"x\"", "-100"],
        ["-1", "2e3", "0", "1", "4", "\"\"", "0"],
    ];
    let kept = |kept: &[usize]| {
        let mut text = String::new();
        if ending == ".csv" {
            let names: Vec<&str> = kept.iter().map(|&place| names[place]).collect();
            text += &(names.join(",") + "\n");
        }
        for row in rows {
            let cells = kept.iter().map(|&place| match ending {
                ".csv" => row[place].to_owned(),
                _ => format!("\"{}\":{}", names[place], row[place]),
            });
            let cells = cells.collect::<Vec<_>>().join(",");
            text += &match ending {
                ".csv" => cells + "\n",
                _ => format!("{{{cells}}}\n"),
            };
        }
        text.into_bytes()
    };
    vec![
        kept(&[0, 1, 2, 3, 4, 5]),
        kept(&[0, 1, 4, 5, 6]),
        kept(&[0, 1, 2, 3, 4, 5, 6]),
    ]
}

fn groups() -> Vec<Vec<u8>> {
    let scores = Scores::new(ScoreKind::Logits, logits()).expect("the scores are finite");
    let data = Dataset::new(scores, &LABELS).expect("the labels are classes");
    let mut seeds = Vec::new();
    for method in ["ts", "diag"] {
        let method = Method::from_key(method).expect("it is in the table");
        let mut how = GroupFit::new(method).expect("ts is in the table");
        (how.min_rows, how.folds) = (2, 2);
        let keys = RowGroups::new(LABELS.len(), |row| {
            vec![["a", "b"][row % 2].to_owned(), (row / 4).to_string()]
        });
        let pooled = how.method.fit(&data).expect("ordinary data can be fitted");
        let own = how
            .group_method
            .fit(&data)
            .expect("ordinary data can be fitted")
            .model;
        // Held-out rows of so few are against maps of groups, so these are made.
        let map = |weight| GroupMap {
            own: own.clone(),
            weight,
        };
        let maps = [
            (vec!["a".to_owned()], map(0.5)),
            (vec!["a".to_owned(), "1".to_owned()], map(1.0)),
        ];
        let mut fitted = how
            .fit(&data, &keys, &Unwatched)
            .expect("ordinary data can be fitted");
        fitted.model = GroupedModel::new(pooled.model, maps.into()).expect("as many classes");
        let by = ["country", "device"].map(str::to_owned).to_vec();
        let saved = SavedGroups::new(by, &how, fitted, |pooled| pooled);
        let bytes = saved.to_bytes().expect("models of our own");
        seeds.push(without_checksum(&bytes));
        seeds.push(bytes);
    }
    seeds
}

fn states() -> Vec<Vec<u8>> {
    let scores = Scores::new(ScoreKind::Logits, logits()).expect("the scores are finite");
    let data = Dataset::new(scores, &LABELS).expect("the labels are classes");
    let predictions = Predictions::from_dataset(&data);
    let state = MetricState::new(3, MetricOptions::default()).expect("usual options");
    let marginal = state.clone().with_marginal().expect("few classes");
    let states = [state.clone(), state, marginal].into_iter().enumerate();
    let filled = states.map(|(index, mut state)| {
        if index > 0 {
            state.update(&predictions).expect("as many classes");
        }
        state.to_bytes()
    });
    let mut filled: Vec<Vec<u8>> = filled.collect();
    // The other flags: weights that are not whole, no bins of classes, shards.
    let weights = vec![0.5; LABELS.len()];
    let weighted = predictions
        .with_weights(weights)
        .expect("they are positive");
    let mut lean =
        MetricState::without_class_bins(3, MetricOptions::default()).expect("usual options");
    lean.update(&weighted).expect("as many classes");
    lean.mark_shard();
    filled.push(lean.to_bytes());
    filled
}

/// A value of JSON is one of TOML, unless it is null or a table.
fn configs() -> Vec<Vec<u8>> {
    let text = |method: Method| {
        let table = serde_json::to_value(method).expect("a method of our own");
        let table = table.as_object().expect("a method is a table").clone();
        let lines = table.into_iter().filter(|(_, value)| !value.is_null());
        let lines = lines.map(|(key, value)| format!("{key} = {value}\n"));
        lines.collect::<String>().into_bytes()
    };
    Method::all().into_iter().map(text).collect()
}

fn rows() -> Vec<Vec<u8>> {
    let logits = logits().mapv(|v| (4.0 * v) as u8);
    let rows = logits.outer_iter().zip(LABELS);
    let rows: Vec<u8> = rows
        .flat_map(|(row, label)| [vec![label as u8], row.to_vec()].concat())
        .collect();
    let methods = 0..Method::all().len() as u8;
    // Three classes, and scores in whole numbers.
    methods
        .map(|method| [&[method, 1, 0], &rows[..]].concat())
        .collect()
}
