//! One named test for each way in which a file can be wrong.

mod common;

use std::io::Write;

use common::{check_message, fixture};
use ordercal_io::{DataRef, Error, LabelNeed, LoadedData, ReadOptions, load, load_pair};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const ENDINGS: &[&str] = &[
    "npy",
    "npz",
    "csv",
    "csv.gz",
    "safetensors",
    "p",
    #[cfg(feature = "parquet")]
    "parquet",
    #[cfg(feature = "parquet")]
    "arrow",
];

/// Reads a file with the given bytes, `NAME#SPLIT` for a split, and gives the error that must come of it.
fn refused(name: &str, bytes: impl AsRef<[u8]>) -> Error {
    refused_with(name, bytes, ReadOptions::default())
}

fn refused_with(name: &str, bytes: impl AsRef<[u8]>, options: ReadOptions) -> Error {
    let dir = tempfile::tempdir().unwrap();
    let file = name.split('#').next().unwrap();
    std::fs::write(dir.path().join(file), bytes).unwrap();
    let read = LoadedData::read(&DataRef::parse(dir.path().join(name)), options);
    let checked = read.and_then(|data| match data.labels() {
        Some(_) => data.dataset().map(|_| ()),
        None => data.scores().map(|_| ()),
    });
    let error = checked.expect_err("the file must be refused");
    check_message(&error);
    assert!(error.path().ends_with(file), "{error}");
    error
}

/// A test that bytes under a name give an error that matches a pattern.
macro_rules! refuses {
    ($test:ident, $name:expr, $bytes:expr, $($pattern:tt)+) => {
        #[test]
        fn $test() {
            let error = refused($name, $bytes);
            assert!(matches!(&error, $($pattern)+), "{error:?}");
        }
    };
}

/// The bytes of a fixture.
fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).unwrap()
}

/// The first bytes of a fixture.
fn cut(name: &str, length: usize) -> Vec<u8> {
    let mut bytes = bytes(name);
    assert!(length < bytes.len());
    bytes.truncate(length);
    bytes
}

/// A fixture without its last byte.
fn cut_end(name: &str) -> Vec<u8> {
    cut(name, bytes(name).len() - 1)
}

/// A fixture with other bytes at an offset.
fn patched(name: &str, at: usize, with: &[u8]) -> Vec<u8> {
    let mut bytes = bytes(name);
    bytes[at..at + with.len()].copy_from_slice(with);
    bytes
}

/// Replaces some bytes, wherever they are, by as many others.
fn replaced(name: &str, from: &[u8], to: &[u8]) -> Vec<u8> {
    let bytes = bytes(name);
    let at = bytes.windows(from.len()).position(|w| w == from).unwrap();
    patched(name, at, to)
}

/// A `.npy` file with any header.
fn npy(descr: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((dict.len() as u16).to_le_bytes());
    bytes.extend(dict.as_bytes());
    bytes.extend(values);
    bytes
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn npy_floats(rows: usize, values: &[f32]) -> Vec<u8> {
    npy(
        "<f4",
        &format!("({rows}, {})", values.len() / rows),
        &floats(values),
    )
}

fn npy_labels(labels: &[u8]) -> Vec<u8> {
    npy("|u1", &format!("({},)", labels.len()), labels)
}

fn npz(arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (name, bytes) in arrays {
        zip.start_file(format!("{name}.npy"), options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn safetensors(header: &str, values: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(values);
    bytes
}

// Any file.

#[test]
fn missing_file() {
    let error = load(&DataRef::new("no/such/file.npy"), None).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }));
    check_message(&error);
}

#[test]
fn folder_with_a_files_name() {
    let dir = tempfile::tempdir().unwrap();
    for ending in ENDINGS {
        let path = dir.path().join(format!("a.{ending}"));
        std::fs::create_dir(&path).unwrap();
        let error = load(&DataRef::new(&path), None).unwrap_err();
        assert!(matches!(error, Error::IsDirectory { .. }), "{error:?}");
        check_message(&error);
    }
}

#[test]
fn empty_file_of_every_format() {
    for ending in ENDINGS {
        let error = refused(&format!("a.{ending}"), b"");
        assert!(matches!(error, Error::Empty { .. }), "{ending}: {error:?}");
    }
}

#[test]
#[cfg(unix)]
fn unreadable_file() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.npy");
    std::fs::write(&path, b"x").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
    // The superuser can read everything, and then sees that it is no npy file.
    let error = load(&DataRef::new(&path), None).unwrap_err();
    let permitted = std::fs::read(&path).is_ok();
    match &error {
        Error::Io { action: "read", .. } => assert!(!permitted),
        other => assert!(permitted, "{other:?}"),
    }
    check_message(&error);
}

#[test]
#[cfg(target_os = "linux")]
fn path_that_is_not_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir
        .path()
        .join(std::ffi::OsStr::from_bytes(b"\xff\xfe.npy"));
    std::fs::write(&path, b"nonsense").unwrap();
    let error = load(&DataRef::parse(&path), None).unwrap_err();
    assert!(matches!(error, Error::WrongMagic { .. }), "{error:?}");
    std::fs::copy(fixture("fine_f4.npy"), &path).unwrap();
    assert_eq!(load(&DataRef::parse(&path), None).unwrap().rows(), 23);
}

refuses!(unknown_ending, "a.xlsx", b"x", Error::UnknownFormat { .. });

// .npy

refuses!(
    npy_wrong_magic,
    "a.npy",
    b"PK\x03\x04 something",
    Error::WrongMagic { .. }
);
refuses!(
    npy_only_the_magic,
    "a.npy",
    cut("fine_f4.npy", 6),
    Error::Truncated { .. }
);
refuses!(
    npy_truncated_header,
    "a.npy",
    cut("fine_f4.npy", 60),
    Error::Truncated { .. }
);
refuses!(
    npy_truncated_data,
    "a.npy",
    cut_end("fine_f4.npy"),
    Error::Truncated {
        needed: 368,
        available: 367,
        offset: 128,
        ..
    }
);
refuses!(
    npy_unknown_version,
    "a.npy",
    patched("fine_f4.npy", 6, &[9]),
    Error::Malformed { offset: 6, .. }
);
refuses!(
    npy_huge_header,
    "a.npy",
    patched("fine_version2.npy", 8, &[0xff; 4]),
    Error::Malformed { offset: 8, .. }
);
refuses!(
    npy_header_is_no_dict,
    "a.npy",
    replaced("fine_f4.npy", b"'descr'", b"descr  "),
    Error::Malformed { .. }
);
refuses!(
    npy_huge_shape,
    "a.npy",
    npy("<f4", "(4000000000000, 1000)", b"abcd"),
    Error::Truncated { .. }
);
refuses!(
    npy_overflowing_shape,
    "a.npy",
    npy("<f8", "(9999999999999999, 9999999999999999)", b""),
    Error::Truncated { .. }
);
refuses!(
    npy_overflow_behind_a_zero,
    "a.npy",
    npy("<f8", "(0, 9999999999999999, 9999999999999999)", b""),
    Error::Truncated { .. }
);
refuses!(
    npy_objects,
    "a.npy",
    bytes("object.npy"),
    Error::ObjectArray { .. }
);
refuses!(
    npy_complex,
    "a.npy",
    bytes("complex.npy"),
    Error::WrongDtype { .. }
);
refuses!(
    npy_record,
    "a.npy",
    bytes("record.npy"),
    Error::WrongDtype { .. }
);
refuses!(
    npy_integer_scores,
    "a.npy",
    npy("<i4", "(1, 2)", &[0; 8]),
    Error::WrongDtype { .. }
);
refuses!(
    npy_vector_as_scores,
    "a.npy",
    npy("<f4", "(2,)", &floats(&[0.0, 1.0])),
    Error::WrongShape { .. }
);
refuses!(
    npy_cube_as_scores,
    "a.npy",
    npy("<f4", "(1, 1, 2)", &floats(&[0.0, 1.0])),
    Error::WrongShape { .. }
);
refuses!(
    npy_scalar_as_scores,
    "a.npy",
    npy("<f4", "()", &floats(&[0.0])),
    Error::WrongShape { .. }
);
refuses!(
    npy_no_rows,
    "a.npy",
    npy("<f4", "(0, 3)", &[]),
    Error::Data {
        source: ordercal::Error::NoRows,
        ..
    }
);
refuses!(
    npy_one_class,
    "a.npy",
    npy_floats(2, &[0.0, 1.0]),
    Error::Data {
        source: ordercal::Error::TooFewClasses { classes: 1 },
        ..
    }
);
refuses!(
    npy_nan,
    "a.npy",
    npy_floats(2, &[0.0, 1.0, f32::NAN, 0.0]),
    Error::Data {
        source: ordercal::Error::NanScore { row: 1, column: 0 },
        ..
    }
);
refuses!(
    npy_infinity,
    "a.npy",
    npy_floats(2, &[0.0, f32::INFINITY, 0.0, 0.0]),
    Error::Data {
        source: ordercal::Error::ScoreTooLarge {
            row: 0,
            column: 1,
            ..
        },
        ..
    }
);
refuses!(
    npy_with_a_split,
    "a.npy#test",
    bytes("fine_f4.npy"),
    Error::UnknownSplit { .. }
);

#[test]
fn npy_alone_has_no_labels() {
    let required = ReadOptions::default().with_labels(LabelNeed::Required);
    let error = refused_with("a.npy", bytes("fine_f4.npy"), required);
    assert!(matches!(error, Error::NoLabels { .. }), "{error:?}");
}

// A pair of files.

fn pair_refused(scores: &[u8], labels_name: &str, labels: &[u8]) -> Error {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("scores.npy"), dir.path().join(labels_name));
    std::fs::write(&a, scores).unwrap();
    std::fs::write(&b, labels).unwrap();
    let error = load_pair(&a, &b, None).and_then(|data| data.dataset().map(|_| ()));
    let error = error.expect_err("the pair must be refused");
    check_message(&error);
    error
}

#[test]
fn pair_of_different_lengths() {
    let scores = npy_floats(2, &[0.0, 1.0, 2.0, 3.0]);
    let error = pair_refused(&scores, "labels.npy", &npy_labels(&[0, 1, 0]));
    assert!(
        matches!(
            error,
            Error::LengthMismatch {
                found: 3,
                rows: 2,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.path().ends_with("labels.npy"));
    for labels in ["label\n0\n", "label\n0\n1\n0\n"] {
        let error = pair_refused(&scores, "labels.csv", labels.as_bytes());
        assert!(matches!(error, Error::LengthMismatch { .. }), "{error:?}");
    }
}

#[test]
fn pair_with_scores_of_unknown_length() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("scores.csv"), dir.path().join("labels.npy"));
    std::fs::write(&a, "logit_0,logit_1\n0,1\n2,3\n").unwrap();
    for labels in [&[0][..], &[0, 1, 0]] {
        std::fs::write(&b, npy_labels(labels)).unwrap();
        let error = load_pair(&a, &b, None).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { .. }), "{error:?}");
    }
}

#[test]
fn pair_with_labels_of_a_wrong_shape() {
    let scores = npy_floats(2, &[0.0, 1.0, 2.0, 3.0]);
    let error = pair_refused(&scores, "labels.npy", &npy("|u1", "(2, 3)", &[0; 6]));
    assert!(matches!(error, Error::WrongShape { .. }), "{error:?}");
    let error = pair_refused(&scores, "labels.npy", &npy("|u1", "()", &[0]));
    assert!(matches!(error, Error::WrongShape { .. }), "{error:?}");
}

#[test]
fn pair_with_a_label_out_of_range() {
    let scores = npy_floats(2, &[0.0, 1.0, 2.0, 3.0]);
    let error = pair_refused(&scores, "labels.npy", &npy_labels(&[1, 2]));
    let ordercal::Error::LabelOutOfRange {
        row: 1,
        label: 2,
        classes: 2,
    } = (match error {
        Error::Data { source, .. } => source,
        other => panic!("{other:?}"),
    })
    else {
        panic!("another error");
    };
}

#[test]
fn pair_with_labels_that_are_halves() {
    let scores = npy_floats(2, &[0.0, 1.0, 2.0, 3.0]);
    let error = pair_refused(
        &scores,
        "labels.npy",
        &npy("<f4", "(2,)", &floats(&[0.0, 0.5])),
    );
    assert!(
        matches!(error, Error::LabelNotInteger { row: 1, .. }),
        "{error:?}"
    );
}

#[test]
fn pair_with_one_hot_labels_that_are_not() {
    let scores = npy_floats(2, &[0.0, 1.0, 2.0, 3.0]);
    let error = pair_refused(&scores, "labels.npy", &npy("|u1", "(2, 2)", &[0, 1, 1, 1]));
    assert!(
        matches!(error, Error::NotOneHot { row: 1, .. }),
        "{error:?}"
    );
}

// .npz

refuses!(
    npz_wrong_magic,
    "a.npz",
    bytes("fine_f4.npy"),
    Error::WrongMagic { .. }
);
refuses!(
    npz_truncated,
    "a.npz",
    cut_end("fine_stored.npz"),
    Error::Damaged { .. }
);
refuses!(
    npz_half,
    "a.npz",
    cut("fine_stored.npz", 500),
    Error::Damaged { .. }
);
refuses!(npz_nothing_in_it, "a.npz", npz(&[]), Error::NoScores { .. });
refuses!(
    npz_other_names,
    "a.npz",
    npz(&[("arr_0", npy_floats(1, &[0.0, 1.0]))]),
    Error::NoScores { .. }
);
refuses!(npz_unknown_split, "a.npz#tset", bytes("bundle.npz"), Error::UnknownSplit { known, .. } if known == &["calib", "test"]);
refuses!(
    npz_split_needed,
    "a.npz",
    bytes("bundle.npz"),
    Error::SplitNeeded { .. }
);
refuses!(
    npz_two_kinds,
    "a.npz",
    bytes("probs.npz"),
    Error::AmbiguousScores { .. }
);
refuses!(
    npz_member_is_no_npy,
    "a.npz",
    npz(&[("logits", b"something else".to_vec())]),
    Error::WrongMagic { .. }
);
refuses!(
    npz_objects,
    "a.npz",
    npz(&[("logits", bytes("object.npy"))]),
    Error::ObjectArray { .. }
);
refuses!(
    npz_mismatched_lengths,
    "a.npz",
    npz(&[
        ("logits", npy_floats(2, &[0.0; 4])),
        ("labels", npy_labels(&[0]))
    ]),
    Error::LengthMismatch {
        found: 1,
        rows: 2,
        ..
    }
);
refuses!(
    npz_mismatched_weights,
    "a.npz",
    npz(&[
        ("logits", npy_floats(1, &[0.0; 2])),
        ("weights", npy_floats(2, &[1.0; 2]))
    ]),
    Error::LengthMismatch { .. }
);
refuses!(
    npz_text_as_weights,
    "a.npz",
    npz(&[
        ("logits", npy_floats(1, &[0.0; 2])),
        ("weights", npy("|S1", "(1,)", b"a"))
    ]),
    Error::WrongDtype { .. }
);
refuses!(
    npz_negative_weight,
    "a.npz",
    npz(&[
        ("logits", npy_floats(1, &[0.0; 2])),
        ("labels", npy_labels(&[0])),
        ("weights", npy("<f4", "(1,)", &floats(&[-1.0])))
    ]),
    Error::Data {
        source: ordercal::Error::InvalidWeight { row: 0, .. },
        ..
    }
);
refuses!(
    npz_class_names_of_another_number,
    "a.npz",
    npz(&[
        ("logits", npy_floats(1, &[0.0; 2])),
        ("class_names", npy("|S1", "(3,)", b"abc"))
    ]),
    Error::ClassNameCount {
        found: 3,
        classes: 2,
        ..
    }
);
refuses!(
    npz_class_names_that_are_numbers,
    "a.npz",
    npz(&[
        ("logits", npy_floats(1, &[0.0; 2])),
        ("class_names", npy_labels(&[0, 1]))
    ]),
    Error::WrongDtype { .. }
);
refuses!(
    npz_label_that_is_no_class_name,
    "a.npz",
    npz(&[
        ("logits", npy_floats(1, &[0.0; 2])),
        ("labels", npy("|S1", "(1,)", b"c")),
        ("class_names", npy("|S1", "(2,)", b"ab"))
    ]),
    Error::UnknownLabel { row: 0, .. }
);
refuses!(
    npz_names_of_which_some_never_occur,
    "a.npz",
    npz(&[
        ("logits", npy_floats(2, &[0.0; 6])),
        ("labels", npy("|S1", "(2,)", b"ab"))
    ]),
    Error::ClassNamesNeeded {
        found: 2,
        classes: 3,
        ..
    }
);
refuses!(
    npz_nan,
    "a.npz#calib",
    npz(&[("calib_logits", npy_floats(1, &[0.0, f32::NAN]))]),
    Error::Data {
        split: Some(_),
        source: ordercal::Error::NanScore { row: 0, column: 1 },
        ..
    }
);
refuses!(
    npz_not_probabilities,
    "a.npz",
    npz(&[("probs", npy_floats(1, &[0.7, 0.7]))]),
    Error::Data {
        source: ordercal::Error::NotNormalised { row: 0, .. },
        ..
    }
);

#[test]
fn npz_deflated_data_with_a_wrong_checksum() {
    // A score changed behind the checksum's back, in a stored member.
    let original = bytes("fine_stored.npz");
    let header = original.windows(6).position(|w| w == b"\x93NUMPY").unwrap();
    let error = refused("a.npz", patched("fine_stored.npz", header + 130, &[0x55]));
    assert!(matches!(error, Error::Malformed { .. }), "{error:?}");
}

#[test]
fn npz_bomb_that_claims_more_than_deflate_can_hold() {
    let mut bytes = npz(&[("logits", npy_floats(2, &[0.0; 4]))]);
    // The uncompressed size in the directory, which readers go by.
    let directory = bytes.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    bytes[directory + 24..directory + 28].copy_from_slice(&0x7fff_ffff_u32.to_le_bytes());
    let error = refused("a.npz", bytes);
    assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
}

#[test]
fn npz_header_that_claims_more_than_the_member_has() {
    let error = refused(
        "a.npz",
        npz(&[("logits", npy("<f4", "(900000000, 2)", &[0; 64]))]),
    );
    assert!(matches!(error, Error::Truncated { .. }), "{error:?}");
}

// .csv

const CSV: &str = "label,logit_0,logit_1\n0,1.5,2.5\n1,0.5,-1\n";

fn csv(from: &str, to: &str) -> String {
    assert!(CSV.contains(from));
    CSV.replacen(from, to, 1)
}

refuses!(
    csv_no_header,
    "a.csv",
    "0,1.5,2.5\n1,0.5,-1\n",
    Error::NoScores { .. }
);
refuses!(
    csv_only_a_header,
    "a.csv",
    "label,logit_0,logit_1\n",
    Error::Data {
        source: ordercal::Error::NoRows,
        ..
    }
);
refuses!(csv_missing_column, "a.csv", csv("logit_0", "logit_2"), Error::MissingColumn { column, .. } if column == "logit_0");
refuses!(
    csv_repeated_column,
    "a.csv",
    csv("logit_0", "logit_1"),
    Error::MissingColumn { .. } | Error::Duplicate { .. }
);
refuses!(
    csv_repeated_label,
    "a.csv",
    csv("logit_1", "label"),
    Error::Duplicate { .. }
);
refuses!(csv_not_a_number, "a.csv", csv("0.5", "half"), Error::NotANumber { line: 3, column, text, .. } if column == "logit_0" && text == "half");
refuses!(
    csv_empty_cell,
    "a.csv",
    csv("1.5", ""),
    Error::NotANumber { line: 2, .. }
);
refuses!(
    csv_truncated_line,
    "a.csv",
    csv("0.5,-1\n", "0.5"),
    Error::WrongFieldCount {
        line: 3,
        expected: 3,
        found: 2,
        ..
    }
);
refuses!(
    csv_too_many_cells,
    "a.csv",
    csv("2.5", "2.5,3"),
    Error::WrongFieldCount {
        line: 2,
        found: 4,
        ..
    }
);
refuses!(
    csv_missing_label,
    "a.csv",
    csv("1,0.5", ",0.5"),
    Error::BadLine { line: 3, .. }
);
refuses!(
    csv_nan,
    "a.csv",
    csv("2.5", "nan"),
    Error::Data {
        source: ordercal::Error::NanScore { row: 0, column: 1 },
        ..
    }
);
refuses!(
    csv_infinity,
    "a.csv",
    csv("-1", "inf"),
    Error::Data {
        source: ordercal::Error::ScoreTooLarge {
            row: 1,
            column: 1,
            ..
        },
        ..
    }
);
refuses!(
    csv_label_out_of_range,
    "a.csv",
    csv("1,0.5", "2,0.5"),
    Error::Data {
        source: ordercal::Error::LabelOutOfRange { row: 1, .. },
        ..
    }
);
refuses!(
    csv_negative_label,
    "a.csv",
    csv("1,0.5", "-1,0.5"),
    Error::Data {
        source: ordercal::Error::LabelOutOfRange { label: -1, .. },
        ..
    }
);
refuses!(
    csv_half_a_label,
    "a.csv",
    csv("1,0.5", "1.5,0.5"),
    Error::LabelNotInteger { row: 1, .. }
);
refuses!(
    csv_a_name_among_numbers,
    "a.csv",
    csv("1,0.5", "cat,0.5"),
    Error::UnknownLabel { row: 1, .. }
);
refuses!(
    csv_label_that_is_no_column,
    "a.csv",
    "label,logit_cat,logit_dog\nkat,1,2\n",
    Error::UnknownLabel { row: 0, .. }
);
refuses!(
    csv_header_not_utf8,
    "a.csv",
    b"label,logit_\xff,logit_b\n0,1,2\n",
    Error::BadLine { line: 1, .. }
);
refuses!(
    csv_label_not_utf8,
    "a.csv",
    b"label,logit_0,logit_1\n\xff,1,2\n",
    Error::BadLine { line: 2, .. }
);
refuses!(
    csv_with_a_split,
    "a.csv#test",
    CSV,
    Error::UnknownSplit { .. }
);
refuses!(
    csv_binary,
    "a.csv",
    bytes("fine_zstd.parquet"),
    Error::NoScores { .. } | Error::BadLine { .. }
);
refuses!(
    csv_gz_that_is_plain,
    "a.csv.gz",
    CSV,
    Error::WrongMagic { .. }
);
refuses!(
    csv_gz_truncated,
    "a.csv.gz",
    cut("fine.csv.gz", 300),
    Error::Damaged { .. }
);
refuses!(
    csv_gz_wrong_checksum,
    "a.csv.gz",
    patched("fine.csv.gz", bytes("fine.csv.gz").len() - 6, &[1, 2]),
    Error::Damaged { .. }
);

#[test]
fn csv_without_labels_where_they_are_needed() {
    let required = ReadOptions::default().with_labels(LabelNeed::Required);
    let error = refused_with("a.csv", csv("label", "lable"), required);
    assert!(matches!(error, Error::NoLabels { .. }), "{error:?}");
    assert!(
        error.to_string().contains("did you mean `lable`?"),
        "{error}"
    );
}

#[test]
fn csv_gz_bomb_with_a_row_that_does_not_end() {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(b"label,logit_0,logit_1\n0,\"").unwrap();
    for _ in 0..80 {
        gz.write_all(&[b'\n'; 1 << 20]).unwrap();
    }
    let error = refused("a.csv.gz", gz.finish().unwrap());
    assert!(matches!(error, Error::BadLine { .. }), "{error:?}");
}

// .safetensors

refuses!(
    safetensors_too_short,
    "a.safetensors",
    b"abc",
    Error::Truncated { .. }
);
refuses!(
    safetensors_wrong_magic,
    "a.safetensors",
    bytes("fine_f4.npy"),
    Error::Malformed { .. }
);
refuses!(
    safetensors_huge_header,
    "a.safetensors",
    patched("fine.safetensors", 0, &[0xff; 8]),
    Error::Malformed { .. }
);
refuses!(
    safetensors_header_beyond_the_file,
    "a.safetensors",
    patched("fine.safetensors", 0, &99_999_u64.to_le_bytes()),
    Error::Truncated { .. }
);
refuses!(
    safetensors_truncated_data,
    "a.safetensors",
    cut_end("fine.safetensors"),
    Error::Truncated { .. }
);
refuses!(
    safetensors_header_is_no_json,
    "a.safetensors",
    safetensors("not json", b""),
    Error::Damaged { .. }
);
refuses!(
    safetensors_offsets_that_disagree,
    "a.safetensors",
    safetensors(
        r#"{"logits":{"dtype":"F32","shape":[9,9],"data_offsets":[0,4]}}"#,
        &[0; 4]
    ),
    Error::Damaged { .. }
);
refuses!(
    safetensors_overflowing_shape,
    "a.safetensors",
    safetensors(
        r#"{"logits":{"dtype":"F32","shape":[9999999999999,99999999999],"data_offsets":[0,4]}}"#,
        &[0; 4]
    ),
    Error::Damaged { .. }
);
refuses!(
    safetensors_integer_scores,
    "a.safetensors",
    safetensors(
        r#"{"logits":{"dtype":"I8","shape":[1,2],"data_offsets":[0,2]}}"#,
        &[0; 2]
    ),
    Error::WrongDtype { .. }
);
refuses!(
    safetensors_eighth_precision,
    "a.safetensors",
    safetensors(
        r#"{"logits":{"dtype":"F8_E4M3","shape":[1,2],"data_offsets":[0,2]}}"#,
        &[0; 2]
    ),
    Error::WrongDtype { .. }
);
refuses!(
    safetensors_vector,
    "a.safetensors",
    safetensors(
        r#"{"logits":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#,
        &[0; 4]
    ),
    Error::WrongShape { .. }
);
refuses!(
    safetensors_other_names,
    "a.safetensors",
    safetensors(
        r#"{"weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#,
        &[0; 4]
    ),
    Error::NoScores { .. }
);
refuses!(
    safetensors_unknown_split,
    "a.safetensors#valid",
    bytes("coarse_f2.safetensors"),
    Error::UnknownSplit { .. }
);
refuses!(
    safetensors_nan,
    "a.safetensors",
    safetensors(
        r#"{"logits":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}"#,
        &floats(&[f32::NAN, 0.0])
    ),
    Error::Data {
        source: ordercal::Error::NanScore { .. },
        ..
    }
);
refuses!(
    safetensors_mismatched_lengths,
    "a.safetensors",
    safetensors(
        r#"{"logits":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"labels":{"dtype":"U8","shape":[2],"data_offsets":[8,10]}}"#,
        &[0; 10]
    ),
    Error::LengthMismatch { .. }
);

// .p, .pkl

refuses!(
    pickle_wrong_magic,
    "a.p",
    bytes("fine_f4.npy"),
    Error::Malformed { offset: 0, .. }
);
refuses!(
    pickle_truncated,
    "a.p",
    cut_end("published_4.p"),
    Error::Truncated { .. }
);
refuses!(
    pickle_half,
    "a.p",
    cut("published_2.p", 400),
    Error::Truncated { .. }
);
refuses!(pickle_that_would_run_something, "a.pkl", bytes("forbidden.pkl"),
    Error::PickleForbidden { module, name, .. } if module == "subprocess" && name == "Popen");
refuses!(
    pickle_that_would_run_a_shell,
    "a.pkl",
    b"cos\nsystem\n(S'ls'\ntR.",
    Error::PickleForbidden { .. }
);
refuses!(
    pickle_objects,
    "a.pkl",
    bytes("object.pkl"),
    Error::ObjectArray { .. }
);
refuses!(
    pickle_of_a_number,
    "a.pkl",
    b"\x80\x02K\x07.",
    Error::NoScores { .. }
);
refuses!(
    pickle_unknown_split,
    "a.p#val",
    bytes("published_3.p"),
    Error::UnknownSplit { .. }
);
refuses!(
    pickle_split_needed,
    "a.p",
    bytes("published_3.p"),
    Error::SplitNeeded { .. }
);
refuses!(
    pickle_of_a_later_protocol,
    "a.p",
    patched("published_5.p", 1, &[6]),
    Error::Malformed { .. }
);
refuses!(
    pickle_with_a_wrong_shape,
    "a.p",
    replaced("fine_dict.pkl", &[b'K', 23, b'K', 4], &[b'K', 23, b'K', 5]),
    Error::Malformed { .. }
);
refuses!(
    pickle_with_a_huge_shape,
    "a.p",
    replaced(
        "fine_dict.pkl",
        &[b'K', 23, b'K', 4, 0x86],
        b"J\xff\xff\xff\x7f"
    ),
    Error::Malformed { .. }
);
refuses!(
    pickle_with_a_huge_string,
    "a.p",
    b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7fabc.",
    Error::Truncated { .. }
);

#[test]
fn pickle_of_billion_laughs() {
    // Each tuple holds the last one twice: forty bytes of them would be a trillion values.
    let mut program = b"\x80\x02K\x00".to_vec();
    for _ in 0..200 {
        program.extend(b"2\x86");
    }
    program.push(b'.');
    let error = refused("a.p", program);
    assert!(matches!(error, Error::Malformed { .. }), "{error:?}");
}

#[test]
fn pickle_that_encodes_the_same_text_over_and_over() {
    let mut program = b"\x80\x02c_codecs\nencode\nq\x00X\x00\x10\x00\x00".to_vec();
    program.extend([b'a'; 4096]);
    program.extend(b"\x85q\x01");
    for _ in 0..100 {
        program.extend(b"h\x00h\x01R0");
    }
    program.push(b'.');
    let error = refused("a.p", program);
    assert!(matches!(error, Error::Malformed { .. }), "{error:?}");
}

// .parquet and .arrow

#[cfg(feature = "parquet")]
mod tables {
    use super::*;
    use ordercal::ScoreKind;
    use std::path::Path;

    refuses!(
        parquet_wrong_magic,
        "a.parquet",
        bytes("fine_f4.npy"),
        Error::WrongMagic { .. }
    );
    refuses!(
        parquet_too_short,
        "a.parquet",
        b"PA",
        Error::WrongMagic { .. }
    );
    refuses!(
        parquet_only_a_magic,
        "a.parquet",
        b"PAR1",
        Error::Damaged { .. }
    );
    refuses!(
        parquet_truncated,
        "a.parquet",
        cut_end("fine_zstd.parquet"),
        Error::Damaged { .. }
    );
    refuses!(
        parquet_huge_footer,
        "a.parquet",
        patched(
            "fine_zstd.parquet",
            bytes("fine_zstd.parquet").len() - 8,
            &[0xff, 0xff, 0xff, 0x7f]
        ),
        Error::Damaged { .. }
    );
    refuses!(
        parquet_damaged_page,
        "a.parquet",
        patched("fine_zstd.parquet", 40, &[0xff; 24]),
        Error::Damaged { .. }
    );
    refuses!(parquet_null, "a.parquet", bytes("nulls.parquet"), Error::MissingValue { row: 0, column, .. } if column == "logit_1");
    refuses!(
        parquet_ragged_lists,
        "a.parquet",
        bytes("ragged.parquet"),
        Error::RaggedRow {
            row: 7,
            found: 3,
            expected: 4,
            ..
        }
    );
    refuses!(
        parquet_integer_scores,
        "a.parquet",
        bytes("ints.parquet"),
        Error::WrongDtype { .. }
    );
    refuses!(
        parquet_with_a_split,
        "a.parquet#test",
        bytes("fine_zstd.parquet"),
        Error::UnknownSplit { .. }
    );
    refuses!(
        arrow_wrong_magic,
        "a.arrow",
        bytes("fine_f4.npy"),
        Error::WrongMagic { .. }
    );
    refuses!(
        arrow_only_a_magic,
        "a.arrow",
        b"ARROW1\0\0",
        Error::Truncated { .. } | Error::Damaged { .. }
    );
    refuses!(
        arrow_truncated,
        "a.arrow",
        cut_end("fine.arrow"),
        Error::Truncated { .. } | Error::Damaged { .. }
    );
    refuses!(
        arrow_stream_truncated,
        "a.arrow",
        cut("fine_stream.arrow", 900),
        Error::Truncated { .. }
    );
    refuses!(
        arrow_stream_with_a_huge_message,
        "a.arrow",
        b"\xff\xff\xff\xff\xff\xff\xff\x7f",
        Error::Truncated { .. }
    );
    refuses!(
        arrow_huge_footer,
        "a.arrow",
        patched("fine.arrow", bytes("fine.arrow").len() - 10, &[0xff; 4]),
        Error::Truncated { .. } | Error::Damaged { .. }
    );
    refuses!(
        arrow_with_a_split,
        "a.arrow#test",
        bytes("fine.arrow"),
        Error::UnknownSplit { .. }
    );

    #[test]
    fn parquet_missing_column() {
        let kind = ReadOptions::default().with_kind(ScoreKind::Probs);
        // A hint that no column fits changes nothing: the columns say what they are.
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("renamed.parquet");
        rename_column(&fixture("fine_gzip.parquet"), &path);
        let error = refused_with("a.parquet", std::fs::read(path).unwrap(), kind);
        assert!(
            matches!(&error, Error::MissingColumn { column, .. } if column == "logit_2"),
            "{error:?}"
        );
    }

    /// Writes a table like the fixture, whose column `logit_2` is called `logit_9`.
    fn rename_column(from: &Path, to: &Path) {
        use arrow_array::{RecordBatch, RecordBatchReader};
        use arrow_schema::{Field, Schema};
        use parquet::arrow::ArrowWriter;
        use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
        use std::sync::Arc;

        let file = std::fs::File::open(from).unwrap();
        let reader = ParquetRecordBatchReader::try_new(file, 1024).unwrap();
        let fields: Vec<Field> = reader
            .schema()
            .fields()
            .iter()
            .map(|field| {
                let name = field.name().replace("logit_2", "logit_9");
                Field::new(name, field.data_type().clone(), field.is_nullable())
            })
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let file = std::fs::File::create(to).unwrap();
        let mut writer = ArrowWriter::try_new(file, Arc::clone(&schema), None).unwrap();
        for batch in reader {
            let columns = batch.unwrap().columns().to_vec();
            writer
                .write(&RecordBatch::try_new(Arc::clone(&schema), columns).unwrap())
                .unwrap();
        }
        writer.close().unwrap();
    }
}
