//! Wrong `.npy` files.

use super::*;
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
    npy_integers_in_one_column,
    "a.npy",
    npy("<i4", "(2, 1)", &[0; 8]),
    Error::WrongDtype { .. }
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
    npy_text_as_scores,
    "a.npy",
    npy("|S1", "(1, 2)", b"ab"),
    Error::WrongDtype { .. }
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
