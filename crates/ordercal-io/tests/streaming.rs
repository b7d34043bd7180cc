//! Chunks hold the same as the whole; what is written can be read back; memory does not grow with the rows.

use std::path::Path;

use crate::common::{Expected, check_message, fixture};
use ndarray::{Array2, s};
use ordercal::ScoreKind;
use ordercal_io::{
    DataRef, Error, LabelNeed, OutputSpec, OutputType, ReadOptions, RowReader, ScoreMatrix,
    ScoreWriter, load,
};

/// Every fixture that holds `fine` with labels and weights in itself.
const FINE: &[&str] = &[
    "fine_stored.npz",
    "fine_deflated.npz",
    "fine_fortran_stored.npz",
    "fine_fortran_deflated.npz",
    "bundle.npz#calib",
    "fine.csv",
    "fine_quoted.csv",
    "fine_names.csv",
    "fine.csv.gz",
    "fine.safetensors",
    "fine_f8.safetensors",
    "fine_dict.pkl",
    "published_5.p#calib",
    "fine_lists.pkl",
    #[cfg(feature = "parquet")]
    "fine_snappy.parquet",
    #[cfg(feature = "parquet")]
    "fine_list.parquet",
    #[cfg(feature = "parquet")]
    "fine_fixed_names.parquet",
    #[cfg(feature = "parquet")]
    "fine.arrow",
    #[cfg(feature = "parquet")]
    "fine_stream.arrow",
    #[cfg(feature = "parquet")]
    "fine_zstd.feather",
];

#[test]
fn chunks_of_every_size_add_up_to_the_whole() {
    let fine = Expected::read("fine");
    for name in FINE {
        for size in [1, 3, 10, 23, 1000] {
            let names = ["ape", "bee", "cat", "dog"].map(String::from).to_vec();
            let options = ReadOptions::default()
                .with_chunk_rows(size)
                .with_class_names(names);
            let reader = RowReader::open(&DataRef::parse(fixture(name)), options).unwrap();
            assert_eq!(reader.classes(), 4);
            let (mut bits, mut labels) = (Vec::new(), Vec::new());
            for rows in reader {
                let rows = rows.unwrap_or_else(|e| panic!("{e}"));
                assert!(
                    rows.len() <= size && rows.first_row == labels.len(),
                    "{name}"
                );
                // A label's class is masked in no row, so every chunk is a dataset of its own.
                let dataset = rows.dataset().unwrap();
                bits.extend(dataset.scores().as_slice().iter().map(|v| v.to_bits()));
                labels.extend_from_slice(dataset.labels());
            }
            assert_eq!(bits, fine.scores, "{name} by {size}");
            assert_eq!(labels, fine.labels, "{name} by {size}");
        }
    }
}

#[test]
fn column_order_npy_is_read_in_chunks() {
    for name in ["fine_f4_fortran.npy", "fine_f8_big_fortran.npy"] {
        let options = ReadOptions::default().with_chunk_rows(5);
        let reader = RowReader::open(&DataRef::new(fixture(name)), options).unwrap();
        assert_eq!(reader.known_rows(), Some(23));
        let mut bits = Vec::new();
        for rows in reader {
            let rows = rows.unwrap();
            let scores = rows.checked_scores().unwrap();
            bits.extend(scores.as_slice().iter().map(|v| v.to_bits()));
        }
        assert_eq!(bits, Expected::read("fine").scores, "{name}");
    }
}

#[test]
fn an_error_in_a_later_chunk_counts_rows_from_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.csv");
    let mut text = String::from("label,logit_0,logit_1\n");
    for row in 0..100 {
        text.push_str(if row == 57 { "0,1,nan\n" } else { "1,2,3\n" });
    }
    std::fs::write(&path, text).unwrap();
    let options = ReadOptions::default().with_chunk_rows(10);
    let reader = RowReader::open(&DataRef::new(&path), options).unwrap();
    let error = reader
        .map(|rows| rows.and_then(|rows| rows.dataset().map(|d| d.rows())))
        .find_map(Result::err)
        .unwrap();
    let nan = ordercal::Error::NanScore { row: 57, column: 1 };
    assert!(
        matches!(&error, Error::Data { source, .. } if *source == nan),
        "{error:?}"
    );
    check_message(&error, &path);
}

#[test]
fn rows_are_counted_where_the_file_does_not_say() {
    let mut reader = RowReader::open(
        &DataRef::new(fixture("fine_quoted.csv")),
        ReadOptions::default(),
    )
    .unwrap();
    assert_eq!(reader.known_rows(), None);
    assert_eq!(reader.count_rows().unwrap(), 23);
    assert_eq!(reader.map(|rows| rows.unwrap().len()).sum::<usize>(), 23);
}

const OUTPUTS: &[&str] = &[
    "out.npy",
    "out.npz",
    "out.csv",
    "out.csv.gz",
    "out.safetensors",
    #[cfg(feature = "parquet")]
    "out.parquet",
    #[cfg(feature = "parquet")]
    "out.arrow",
];

#[test]
fn columns_are_called_by_the_classes() {
    let dir = tempfile::tempdir().unwrap();
    let tables = OUTPUTS
        .iter()
        .filter(|name| !name.contains("np") && !name.contains("safe"));
    for name in tables {
        let path = dir.path().join(name);
        for (classes, read_back) in [(["b, \"c\"", "a"], true), (["1", "0"], false)] {
            let classes = classes.map(String::from).to_vec();
            let spec = OutputSpec::new(ScoreKind::Probs, 2).with_class_names(Some(classes.clone()));
            let mut writer = ScoreWriter::create(&path, spec).unwrap();
            writer
                .write_f32(ndarray::array![[0.25, 0.75]].view())
                .unwrap();
            writer.finish().unwrap();
            let back = load(&DataRef::new(&path), None).unwrap();
            // Names that are numbers would be taken for positions.
            let expected = read_back.then_some(classes.as_slice());
            assert_eq!(back.class_names(), expected, "{name}");
            let error = back.scores().unwrap().row(0)[0] - 0.25_f32.ln();
            assert!(error.abs() < 1e-7, "{name}");
        }
    }
}

#[test]
fn what_is_written_is_read_back_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let values = Array2::from_shape_fn((37, 3), |(i, j)| {
        (i as f64 * 0.37 + j as f64).sin() * 10_f64.powi(i as i32 - 20)
    });
    let narrow = values.mapv(|v| v as f32);
    for name in OUTPUTS {
        let path = dir.path().join(name);
        let spec = OutputSpec::new(ScoreKind::Logits, 3).with_rows(37);
        let mut writer = ScoreWriter::create(&path, spec.clone()).unwrap();
        writer.write_f32(narrow.slice(s![..20, ..])).unwrap();
        writer.write_f32(narrow.slice(s![20.., ..])).unwrap();
        writer.finish().unwrap();
        let back = load(&DataRef::new(&path), None).unwrap();
        match back.matrix() {
            ScoreMatrix::F32(matrix) => assert_eq!(matrix, narrow, "{name}"),
            ScoreMatrix::F64(matrix) => assert_eq!(matrix.mapv(|v| v as f32), narrow, "{name}"),
            other => panic!("{name}: {}", other.dtype()),
        }

        let spec = spec.with_dtype(OutputType::F64);
        let mut writer = ScoreWriter::create(&path, spec).unwrap();
        writer.write_f64(values.view()).unwrap();
        writer.finish().unwrap();
        let back = load(&DataRef::new(&path), None).unwrap();
        assert!(
            matches!(back.matrix(), ScoreMatrix::F64(m) if *m == values),
            "{name}"
        );
    }
}

#[test]
fn what_is_written_says_its_kind() {
    let dir = tempfile::tempdir().unwrap();
    let probs = ndarray::array![[0.25_f32, 0.75]];
    for name in OUTPUTS.iter().filter(|name| **name != "out.npy") {
        let path = dir.path().join(name);
        let spec = OutputSpec::new(ScoreKind::Probs, 2).with_rows(1);
        let mut writer = ScoreWriter::create(&path, spec).unwrap();
        writer.write_f32(probs.view()).unwrap();
        writer.finish().unwrap();
        assert_eq!(
            load(&DataRef::new(&path), None).unwrap().kind(),
            ScoreKind::Probs,
            "{name}"
        );
    }
}

#[test]
fn the_same_rows_give_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let values = ndarray::array![[0.25_f32, 0.75], [0.5, 0.5]];
    for name in OUTPUTS {
        let path = dir.path().join(name);
        let write = || {
            let spec = OutputSpec::new(ScoreKind::Probs, 2).with_rows(2);
            let mut writer = ScoreWriter::create(&path, spec).unwrap();
            writer.write_f32(values.view()).unwrap();
            writer.finish().unwrap();
            std::fs::read(&path).unwrap()
        };
        assert_eq!(write(), write(), "{name}");
    }
}

#[test]
fn an_abandoned_output_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for name in OUTPUTS {
        let spec = OutputSpec::new(ScoreKind::Probs, 2).with_rows(2);
        let mut writer = ScoreWriter::create(&dir.path().join(name), spec).unwrap();
        writer
            .write_f32(ndarray::array![[0.5_f32, 0.5]].view())
            .unwrap();
        drop(writer);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_reported_by_every_format() {
    let dir = tempfile::tempdir().unwrap();
    for name in OUTPUTS {
        let path = dir.path().join(name);
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let spec = OutputSpec::new(ScoreKind::Probs, 2).with_rows(1);
        let written = ScoreWriter::create(&path, spec).and_then(|mut writer| {
            writer.write_f32(ndarray::array![[0.5_f32, 0.5]].view())?;
            writer.finish()
        });
        let error = written.unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{name}: {error:?}");
        check_message(&error, &path);
    }
}

/// The most memory this process has used, in bytes.
#[cfg(target_os = "linux")]
fn peak_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    let kilobytes = line.split_whitespace().nth(1).unwrap();
    kilobytes.parse::<usize>().unwrap() * 1024
}

#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_the_rows() {
    let dir = tempfile::tempdir().unwrap();
    const ROWS: usize = 4_000_000;
    for name in ["big.npy", "big.npz", "big.safetensors"] {
        let path = dir.path().join(name);
        write_big(&path, ROWS);
        let before = peak_memory();
        let options = ReadOptions::default().with_labels(LabelNeed::Ignored);
        let reader = RowReader::open(&DataRef::new(&path), options).unwrap();
        assert_eq!(reader.map(|rows| rows.unwrap().len()).sum::<usize>(), ROWS);
        let grown = peak_memory() - before;
        // The file is 160 MB.
        assert!(grown < 40 << 20, "{name}: {grown} bytes more");
        std::fs::remove_file(path).unwrap();
    }
}

fn write_big(path: &Path, rows: usize) {
    let spec = OutputSpec::new(ScoreKind::Logits, 10).with_rows(rows);
    let mut writer = ScoreWriter::create(path, spec).unwrap();
    let block = Array2::from_shape_fn((10_000, 10), |(i, j)| (i * j) as f32);
    for _ in 0..rows / 10_000 {
        writer.write_f32(block.view()).unwrap();
    }
    writer.finish().unwrap();
}
