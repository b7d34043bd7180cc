//! Wrong pickles, and pickles that are programs.

use super::*;
refuses!(
    pickle_wrong_magic,
    "a.p",
    bytes("fine_f4.npy"),
    Error::WrongMagic { .. }
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
