//! Wrong `.safetensors` files.

use super::*;
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
    safetensors_integers_in_one_column,
    "a.safetensors",
    safetensors(
        r#"{"logits":{"dtype":"I8","shape":[2,1],"data_offsets":[0,2]}}"#,
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
        r#"{"logits":{"dtype":"F32","shape":[1,1,1],"data_offsets":[0,4]}}"#,
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
