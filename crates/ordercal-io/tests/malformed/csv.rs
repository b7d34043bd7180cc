//! Wrong `.csv` and `.csv.gz` files.

use super::*;
const CSV: &str = "label,logit_0,logit_1\n0,1.5,2.5\n1,0.5,-1\n";

fn csv(from: &str, to: &str) -> String {
    assert!(CSV.contains(from));
    CSV.replacen(from, to, 1)
}

refuses!(
    csv_no_header_but_text,
    "a.csv",
    "cat,1.5,2.5\ndog,0.5,-1\n",
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
    Error::ClassNamesNeeded { row: 1, .. }
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
    Error::NotPacked { .. }
);
refuses!(
    csv_gz_truncated,
    "a.csv.gz",
    cut("fine.csv.gz", 300),
    Error::BadPacking { .. }
);
refuses!(
    csv_gz_wrong_checksum,
    "a.csv.gz",
    patched("fine.csv.gz", bytes("fine.csv.gz").len() - 6, &[1, 2]),
    Error::BadPacking { .. }
);

#[test]
fn csv_without_labels_where_they_are_needed() {
    let required = ReadOptions::default().with_labels(LabelNeed::Required);
    let error = refused_with("a.csv", csv("label", "lable"), required);
    assert!(
        matches!(&error, Error::NoLabels { expected, .. } if expected.contains("rename `lable`?")),
        "{error:?}"
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
