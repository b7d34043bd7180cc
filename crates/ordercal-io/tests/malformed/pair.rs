//! Scores and labels in two files that do not fit together.

use super::*;
fn pair_refused(scores: &[u8], labels_name: &str, labels: &[u8]) -> Error {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("scores.npy"), dir.path().join(labels_name));
    std::fs::write(&a, scores).unwrap();
    std::fs::write(&b, labels).unwrap();
    let error = load_pair(&a, &b, None).and_then(|data| data.dataset().map(|_| ()));
    let error = error.expect_err("the pair must be refused");
    check_message(&error, dir.path());
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
    assert!(error.to_string().contains("labels.npy: "), "{error}");
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
