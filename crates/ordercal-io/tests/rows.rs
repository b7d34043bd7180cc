//! An error in any chunk names the row of the file, counted from 0, in every format.

use std::io::Write;
use std::path::{Path, PathBuf};

use ordercal_io::{DataRef, Error, LabelNeed, ReadOptions, RowReader};

const ROWS: usize = 10;
/// In the third chunk of [`CHUNK`] rows, and not the first of it.
const BAD: usize = 7;
const CHUNK: usize = 3;

/// Two classes; labels are floats, so that one can be wrong.
struct Data {
    scores: Vec<f64>,
    labels: Vec<f64>,
    weights: Vec<f64>,
}

impl Data {
    fn good() -> Self {
        Self {
            scores: (0..2 * ROWS).map(|i| i as f64).collect(),
            labels: (0..ROWS).map(|i| (i % 2) as f64).collect(),
            weights: vec![1.0; ROWS],
        }
    }

    fn write(&self, path: &Path) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let bytes = match name.split_once('.').unwrap().1 {
            "csv" => self.csv(),
            "csv.gz" => {
                let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                gz.write_all(&self.csv()).unwrap();
                gz.finish().unwrap()
            }
            "npz" => self.npz(),
            "safetensors" => self.safetensors(),
            "pkl" => self.pickle(),
            #[cfg(feature = "parquet")]
            ending => tables::write(self, ending),
            #[cfg(not(feature = "parquet"))]
            ending => panic!("{ending}"),
        };
        std::fs::write(path, bytes).unwrap();
    }

    fn csv(&self) -> Vec<u8> {
        let mut text = String::from("label,weight,logit_0,logit_1\n");
        for row in 0..ROWS {
            let (label, weight) = (self.labels[row], self.weights[row]);
            let (first, second) = (self.scores[2 * row], self.scores[2 * row + 1]);
            text.push_str(&format!("{label},{weight},{first},{second}\n"));
        }
        text.into_bytes()
    }

    /// Name, shape and values of each array.
    fn arrays(&self) -> [(&'static str, Vec<usize>, Vec<u8>); 3] {
        let bytes = |values: &[f64]| values.iter().flat_map(|v| v.to_le_bytes()).collect();
        [
            ("logits", vec![ROWS, 2], bytes(&self.scores)),
            ("labels", vec![ROWS], bytes(&self.labels)),
            ("weights", vec![ROWS], bytes(&self.weights)),
        ]
    }

    fn npz(&self) -> Vec<u8> {
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, shape, values) in self.arrays() {
            let shape: String = shape.iter().map(|n| format!("{n},")).collect();
            let dict = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape})}}");
            let options = zip::write::SimpleFileOptions::default();
            zip.start_file(format!("{name}.npy"), options).unwrap();
            zip.write_all(b"\x93NUMPY\x01\x00").unwrap();
            zip.write_all(&(dict.len() as u16).to_le_bytes()).unwrap();
            zip.write_all(dict.as_bytes()).unwrap();
            zip.write_all(&values).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    fn safetensors(&self) -> Vec<u8> {
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        for (name, shape, values) in self.arrays() {
            let offsets = [data.len(), data.len() + values.len()];
            let tensor =
                serde_json::json!({"dtype": "F64", "shape": shape, "data_offsets": offsets});
            header.insert(name.into(), tensor);
            data.extend(values);
        }
        let header = serde_json::Value::from(header).to_string();
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    /// A dict of lists, in protocol 1.
    fn pickle(&self) -> Vec<u8> {
        fn list(bytes: &mut Vec<u8>, values: &[f64]) {
            bytes.push(b'(');
            for value in values {
                bytes.push(b'G');
                bytes.extend(value.to_be_bytes());
            }
            bytes.push(b'l');
        }
        let mut bytes = b"}(".to_vec();
        let key = |bytes: &mut Vec<u8>, name: &str| {
            bytes.extend([b'U', name.len() as u8]);
            bytes.extend(name.as_bytes());
        };
        key(&mut bytes, "logits");
        bytes.push(b'(');
        for row in self.scores.chunks(2) {
            list(&mut bytes, row);
        }
        bytes.push(b'l');
        key(&mut bytes, "labels");
        list(&mut bytes, &self.labels);
        key(&mut bytes, "weights");
        list(&mut bytes, &self.weights);
        bytes.extend(b"u.");
        bytes
    }
}

/// Files of several batches of 4 rows each, so that neither chunks nor batches agree with the other.
#[cfg(feature = "parquet")]
mod tables {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, RecordBatch};

    use super::{Data, ROWS};

    pub fn write(data: &Data, ending: &str) -> Vec<u8> {
        // NaN stands for a value that is not there, which only these formats have.
        let column = |values: Vec<f64>, nulls: bool| {
            let values = values
                .into_iter()
                .map(|v| (!nulls || !v.is_nan()).then_some(v));
            Arc::new(values.collect::<Float64Array>()) as ArrayRef
        };
        let every_second = |from: usize| data.scores[from..].iter().copied().step_by(2).collect();
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("label", column(data.labels.clone(), true), true),
            ("weight", column(data.weights.clone(), true), true),
            ("logit_0", column(every_second(0), false), true),
            ("logit_1", column(every_second(1), false), true),
        ])
        .unwrap();
        let parts = (0..ROWS)
            .step_by(4)
            .map(|row| batch.slice(row, 4.min(ROWS - row)));
        let schema = batch.schema();
        match ending {
            "parquet" => {
                let mut bytes = Vec::new();
                let mut writer =
                    parquet::arrow::ArrowWriter::try_new(&mut bytes, schema, None).unwrap();
                for part in parts {
                    writer.write(&part).unwrap();
                    writer.flush().unwrap();
                }
                writer.close().unwrap();
                bytes
            }
            "arrow" => {
                let mut writer =
                    arrow_ipc::writer::FileWriter::try_new(Vec::new(), &schema).unwrap();
                parts.for_each(|part| writer.write(&part).unwrap());
                writer.into_inner().unwrap()
            }
            _ => {
                let mut writer =
                    arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &schema).unwrap();
                parts.for_each(|part| writer.write(&part).unwrap());
                writer.into_inner().unwrap()
            }
        }
    }
}

const FILES: &[&str] = &[
    "a.csv",
    "a.csv.gz",
    "a.npz",
    "a.safetensors",
    "a.pkl",
    #[cfg(feature = "parquet")]
    "a.parquet",
    #[cfg(feature = "parquet")]
    "a.arrow",
    #[cfg(feature = "parquet")]
    "a.ipc",
];

/// What reading in chunks says of a file.
fn first_error(reader: Result<RowReader, Error>) -> Error {
    reader
        .unwrap()
        .map(|rows| rows.and_then(|rows| rows.dataset().map(|_| ())))
        .find_map(Result::err)
        .expect("the data is bad")
}

fn error_of(path: &Path) -> Error {
    let options = ReadOptions::default()
        .with_labels(LabelNeed::Required)
        .with_chunk_rows(CHUNK);
    first_error(RowReader::open(&DataRef::new(path), options))
}

/// Spoils the data and reads it in every format.
fn each_format(spoil: impl Fn(&mut Data), check: impl Fn(&Error) -> bool) {
    let dir = tempfile::tempdir().unwrap();
    for name in FILES {
        let path = dir.path().join(name);
        let mut data = Data::good();
        spoil(&mut data);
        data.write(&path);
        let error = error_of(&path);
        assert!(check(&error), "{name}: {error:?}");
        let message = error.to_string();
        assert!(message.contains(&format!("row {BAD}")), "{message}");
    }
}

fn library_error(error: &Error, wanted: impl Fn(&ordercal::Error) -> bool) -> bool {
    matches!(error, Error::Data { source, .. } if wanted(source))
}

#[test]
fn scores() {
    use ordercal::Error as E;
    each_format(
        |data| data.scores[2 * BAD + 1] = f64::NAN,
        |error| {
            library_error(error, |e| {
                *e == E::NanScore {
                    row: BAD,
                    column: 1,
                }
            })
        },
    );
}

#[test]
fn labels() {
    use ordercal::Error as E;
    each_format(
        |data| data.labels[BAD] = 2.0,
        |error| library_error(error, |e| matches!(e, E::LabelOutOfRange { row: BAD, .. })),
    );
    each_format(
        |data| data.labels[BAD] = 0.5,
        |error| matches!(error, Error::LabelNotInteger { row: BAD, .. }),
    );
}

#[test]
fn weights() {
    use ordercal::Error as E;
    each_format(
        |data| data.weights[BAD] = -1.0,
        |error| library_error(error, |e| matches!(e, E::InvalidWeight { row: BAD, .. })),
    );
}

#[test]
#[cfg(feature = "parquet")]
fn missing_values() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.parquet", "a.arrow", "a.ipc"] {
        for column in ["label", "weight"] {
            let path = dir.path().join(name);
            let mut data = Data::good();
            let values = if column == "label" {
                &mut data.labels
            } else {
                &mut data.weights
            };
            values[BAD] = f64::NAN;
            data.write(&path);
            let error = error_of(&path);
            let found =
                matches!(&error, Error::MissingValue { row: BAD, column: c, .. } if c == column);
            assert!(found, "{name}: {error:?}");
        }
    }
}

#[test]
fn cells_of_a_csv_file_that_are_no_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.csv");
    let text = String::from_utf8(Data::good().csv()).unwrap();
    std::fs::write(&path, text.replace("14,15", "14,fifteen")).unwrap();
    let error = error_of(&path);
    assert!(
        matches!(&error, Error::NotANumber { row: 7, line: 9, text, .. } if text == "fifteen"),
        "{error}"
    );
    std::fs::write(&path, text.replace("14,15", "14")).unwrap();
    let error = error_of(&path);
    assert!(
        matches!(
            error,
            Error::WrongFieldCount {
                row: 7,
                line: 9,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn labels_in_a_file_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| -> PathBuf {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let lines = |line: &dyn Fn(usize) -> String| (0..ROWS).map(line).collect::<String>();
    let scores = write(
        "scores.csv",
        format!("logit_0,logit_1\n{}", lines(&|i| format!("{i},1\n"))),
    );
    for (bad, row) in [("2", BAD), ("0.5", BAD), ("cat", BAD)] {
        let text = lines(&|i| format!("{}\n", if i == BAD { bad } else { "1" }));
        let labels = write("labels.csv", format!("label\n{text}"));
        let options = ReadOptions::default().with_chunk_rows(CHUNK);
        let error = first_error(RowReader::open_pair(&scores, &labels, options));
        let message = error.to_string();
        assert!(message.contains(&format!("row {row}")), "{message}");
        // The file to blame is the one with the labels.
        assert!(
            message.starts_with(&labels.display().to_string()),
            "{message}"
        );
    }
    // Too few labels: the number of rows of scores is that of the whole file.
    let labels = write("labels.csv", "label\n0\n1\n0\n1\n".to_owned());
    let options = ReadOptions::default().with_chunk_rows(CHUNK);
    let error = first_error(RowReader::open_pair(&scores, &labels, options));
    let found = matches!(
        error,
        Error::LengthMismatch {
            found: 4,
            rows: ROWS,
            ..
        }
    );
    assert!(found, "{error:?}");
}
