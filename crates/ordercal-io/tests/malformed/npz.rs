//! Wrong `.npz` files.

use super::*;
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
    npz(&[("X_test", npy_floats(1, &[0.0, 1.0]))]),
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
    npz_a_class_name_twice,
    "a.npz",
    npz(&[
        ("logits", npy_floats(1, &[0.0; 2])),
        ("class_names", npy("|S1", "(2,)", b"aa"))
    ]),
    Error::Duplicate { .. }
);
refuses!(
    npz_class_names_that_are_floats,
    "a.npz",
    npz(&[
        ("logits", npy_floats(1, &[0.0; 2])),
        ("class_names", npy_floats(1, &[0.0, 1.0]))
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
    npz_names_of_unknown_columns,
    "a.npz",
    npz(&[
        ("logits", npy_floats(2, &[0.0; 6])),
        ("labels", npy("|S1", "(2,)", b"ab"))
    ]),
    Error::ClassNamesNeeded { row: 0, .. }
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
