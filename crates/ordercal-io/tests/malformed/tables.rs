//! Wrong `.parquet` and `.arrow` files.

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

#[test]
fn parquet_bomb_of_a_few_bytes_and_millions_of_values() {
    use parquet::arrow::ArrowWriter;
    use std::sync::Arc;
    let zeros = arrow_array::Float32Array::from(vec![0.0; 12_000_000]);
    let batch = arrow_array::RecordBatch::try_from_iter([
        ("logit_0", Arc::new(zeros.clone()) as arrow_array::ArrayRef),
        ("logit_1", Arc::new(zeros)),
    ]);
    let batch = batch.unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    let bytes = writer.into_inner().unwrap();
    assert!(bytes.len() < 1 << 20, "{}", bytes.len());
    let error = refused("a.parquet", bytes);
    assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
}
