//! Models in files: what comes back is what was saved, and damage is told.

use std::path::{Path, PathBuf};

use ndarray::Array2;
use ordercal::{Method, ScoreKind, Scores};
use ordercal_io::{ClassType, Error, FORMAT_VERSION, SavedModel};
use ordercal_testkit::rows::{hostile_matrix, overconfident_data};

fn fit(key: &str, classes: usize) -> SavedModel {
    let data = overconfident_data(300, classes, 1);
    let method = Method::from_key(key).unwrap();
    let fitted = method.fit(&data).unwrap();
    SavedModel::new(method, fitted)
}

fn keys() -> Vec<String> {
    let plain = Method::all();
    let free = plain
        .iter()
        .filter(|m| !m.promises_order())
        .map(|m| format!("{}+order", m.key()));
    plain
        .iter()
        .map(|m| m.key().to_string())
        .chain(free)
        .collect()
}

#[test]
fn every_model_comes_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (
        dir.path().join("a.safetensors"),
        dir.path().join("b.safetensors"),
    );
    for key in keys() {
        for classes in [2, 5] {
            let names = (0..classes).map(|c| format!("class {c} ≤ \"é\"")).collect();
            let saved = fit(&key, classes).with_class_names(Some(names));
            saved.save(&a).unwrap();
            let loaded = SavedModel::load(&a).unwrap_or_else(|e| panic!("{key}: {e}"));
            assert!(loaded == saved, "{key} came back different");
            let rows = hostile_matrix(100, classes, &mut ordercal::Rng::new(2));
            let scores = Scores::new(ScoreKind::Logits, rows).unwrap();
            let before: Array2<f64> = saved.model.apply(&scores, ScoreKind::Probs).unwrap();
            let after: Array2<f64> = loaded.model.apply(&scores, ScoreKind::Probs).unwrap();
            assert!(before == after, "{key} gives other results after loading");
            // The same fit again, saved again: the same bytes.
            fit(&key, classes)
                .with_class_names(loaded.class_names.clone())
                .save(&b)
                .unwrap();
            assert!(
                std::fs::read(&a).unwrap() == std::fs::read(&b).unwrap(),
                "{key}: other bytes"
            );
        }
    }
}

/// A saved model with its bytes changed.
fn changed(dir: &Path, change: impl Fn(&mut Vec<u8>)) -> PathBuf {
    let path = dir.join("model.safetensors");
    fit("diag", 3).save(&path).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    change(&mut bytes);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Replaces text in the header by text of the same length.
fn replace(bytes: &mut [u8], from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let at = bytes
        .windows(from.len())
        .position(|w| w == from.as_bytes())
        .unwrap();
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
}

/// The same model as version 1 of the format had it, changed in its header.
fn first_version(dir: &Path, change: impl Fn(&mut Vec<u8>)) -> PathBuf {
    let path = dir.join("first.safetensors");
    let bytes = fit("diag", 3).to_bytes().unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let metadata = header["__metadata__"].as_object_mut().unwrap();
    metadata.remove("checksum").unwrap();
    metadata["version"] = "1".into();
    let mut header = header.to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut older = (header.len() as u64).to_le_bytes().to_vec();
    older.extend(header);
    older.extend(&bytes[8 + length..]);
    change(&mut older);
    std::fs::write(&path, older).unwrap();
    path
}

#[test]
fn kinds_and_types_of_names_are_kept_and_older_files_load() {
    let saved = fit("ts", 2)
        .with_class_names(Some(vec!["20".into(), "30".into()]))
        .with_class_type(ClassType::Integer)
        .with_kind(ScoreKind::LogProbs);
    let loaded = SavedModel::from_bytes(&saved.to_bytes().unwrap(), Path::new("x")).unwrap();
    assert_eq!(loaded, saved);
    assert_eq!(loaded.kind, Some(ScoreKind::LogProbs));

    let dir = tempfile::tempdir().unwrap();
    let older = SavedModel::load(&first_version(dir.path(), |_| {})).unwrap();
    assert_eq!(older, fit("diag", 3));
    assert_eq!((older.kind, older.class_type), (None, ClassType::Text));
}

#[test]
fn one_wrong_bit_anywhere_is_noticed() {
    let bytes = fit("ets", 3)
        .with_class_names(Some(vec!["a".into(), "b".into(), "\"checksum\":\"".into()]))
        .with_kind(ScoreKind::Logits)
        .to_bytes()
        .unwrap();
    let path = Path::new("model");
    SavedModel::from_bytes(&bytes, path).unwrap();
    let mut damaged = bytes.clone();
    for place in 0..bytes.len() {
        for bit in 0..8 {
            damaged[place] ^= 1 << bit;
            let found = SavedModel::from_bytes(&damaged, path);
            assert!(found.is_err(), "bit {bit} of byte {place} went unnoticed");
            damaged[place] = bytes[place];
        }
    }
}

#[test]
fn damage_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let load = |change: &dyn Fn(&mut Vec<u8>)| {
        let path = changed(dir.path(), change);
        let error = SavedModel::load(&path).unwrap_err();
        let message = error.to_string();
        assert!(
            message.starts_with(&path.display().to_string()),
            "{message}"
        );
        assert!(!message.contains('\n'), "{message}");
        error
    };
    assert!(matches!(
        load(&|b| b.clear()),
        Error::Empty { .. } | Error::Truncated { .. }
    ));
    assert!(matches!(load(&|b| b.truncate(5)), Error::Truncated { .. }));
    assert!(matches!(
        load(&|b| b.truncate(300)),
        Error::Truncated { .. }
    ));
    assert!(matches!(
        load(&|b| b.truncate(b.len() - 8)),
        Error::Truncated { .. }
    ));
    assert!(matches!(
        load(&|b| b[..8].fill(0xff)),
        Error::NotAModel { .. }
    ));
    assert!(matches!(load(&|b| b[20] = 0xff), Error::Damaged { .. }));
    assert!(matches!(load(&|b| b.push(0)), Error::DamagedModel { .. }));
    assert!(matches!(
        load(&|b| replace(b, "ordercal-model", "something-else")),
        Error::NotAModel { .. }
    ));
    let newer = load(&|b| replace(b, "\"version\":\"2\"", "\"version\":\"7\""));
    assert!(matches!(
        newer,
        Error::NewerModel {
            version: 7,
            known: FORMAT_VERSION,
            ..
        }
    ));
    // In older files, only what does not fit together can be told.
    let load = |change: &dyn Fn(&mut Vec<u8>)| {
        SavedModel::load(&first_version(dir.path(), change)).unwrap_err()
    };
    assert!(matches!(
        load(&|b| replace(b, "\"slopes\"", "\"slapes\"")),
        Error::DamagedModel { .. }
    ));
    let classes = load(&|b| replace(b, "\"classes\":\"3\"", "\"classes\":\"4\""));
    assert!(matches!(classes, Error::DamagedModel { .. }));
    let negative = load(&|b| {
        let end = b.len();
        b[end - 1] ^= 0x80;
    });
    assert!(
        matches!(negative, Error::DamagedModel { .. }),
        "a slope below zero: {negative}"
    );
}

#[test]
fn parameters_that_give_no_numbers_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let huge = |b: &mut Vec<u8>| {
        let text = String::from_utf8_lossy(b).into_owned();
        let at = text.find("\\\"beta\\\":").expect("ts has a beta") + 9;
        let end = at
            + b[at..]
                .iter()
                .position(|c| !c.is_ascii_digit() && *c != b'.')
                .unwrap();
        let mut digits = b"1e308".to_vec();
        digits.resize(end - at, b' ');
        b[at..end].copy_from_slice(&digits);
    };
    let path = dir.path().join("m.safetensors");
    let mut bytes = fit("ts", 3).to_bytes().unwrap();
    replace(&mut bytes, "\"version\":\"2\"", "\"version\":\"1\"");
    huge(&mut bytes);
    std::fs::write(&path, bytes).unwrap();
    let error = SavedModel::load(&path).unwrap_err();
    assert!(
        matches!(&error, Error::DamagedModel { message, .. } if message.contains("no numbers")),
        "{error}"
    );
}

#[test]
fn other_files_are_no_models() {
    let missing = SavedModel::load(Path::new("no such file.safetensors")).unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }));
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(
        SavedModel::load(dir.path()).unwrap_err(),
        Error::IsDirectory { .. }
    ));
    let path = dir.path().join("nowhere").join("model.safetensors");
    assert!(fit("ts", 2).save(&path).is_err());
    assert!(!path.exists());
}
