//! Data as people have it: chosen columns, other names, missing headers, one column for two classes.

use std::io::Write;
use std::path::PathBuf;

use crate::common::{Expected, fixture};
use ndarray::array;
use ordercal::ScoreKind;
use ordercal_io::{
    ColumnChoice, DataRef, Error, Format, IdType, IdValues, LabelNeed, LoadedData, OutputSpec,
    ReadOptions, RowReader, ScoreMatrix, ScoreWriter, load,
};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn read(&self, name: &str, text: &str, options: ReadOptions) -> Result<LoadedData, Error> {
        LoadedData::read(&DataRef::new(self.write(name, text)), options)
    }
}

fn choose(columns: ColumnChoice) -> ReadOptions {
    ReadOptions::default().with_columns(columns)
}

fn f64s(data: &LoadedData) -> Vec<f64> {
    match data.matrix() {
        ScoreMatrix::F64(scores) => scores.iter().copied().collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_table_without_a_header() {
    let place = Place::new();
    let text = "1,0.5,2.5\n0,1.5,-1\n";
    let label = ColumnChoice::default().with_label("0");
    let data = place.read("a.csv", text, choose(label)).unwrap();
    assert_eq!(f64s(&data), [0.5, 2.5, 1.5, -1.0]);
    assert_eq!(data.labels().unwrap(), [1, 0]);
    let all = place.read("b.csv", text, ReadOptions::default()).unwrap();
    assert_eq!((all.rows(), all.classes()), (2, 3));
    let needed = ReadOptions::default().with_labels(LabelNeed::Required);
    let error = place.read("c.csv", text, needed).unwrap_err();
    assert!(
        matches!(&error, Error::NoLabels { expected, .. } if expected.contains("--label-column")),
        "{error}"
    );
    let mut named = ColumnChoice::default().with_label("0");
    named.header = Some(false);
    let error = place.read("d.csv", "label,x\n", choose(named)).unwrap_err();
    assert!(
        matches!(&error, Error::NotANumber { column, text, .. } if column == "1" && text == "x"),
        "{error}"
    );
}

#[test]
fn the_names_and_the_index_of_pandas() {
    let place = Place::new();
    let text = ",0,1,y_true\n7,0.25,0.75,1\n8,0.5,0.5,0\n";
    let options = ReadOptions::default().with_kind(ScoreKind::Probs);
    let data = place.read("a.csv", text, options).unwrap();
    assert_eq!(f64s(&data), [0.25, 0.75, 0.5, 0.5]);
    assert_eq!(
        (data.labels().unwrap(), data.kind()),
        (&[1, 0][..], ScoreKind::Probs)
    );
    let data = place
        .read("b.csv", "0,1\n3,4\n", ReadOptions::default())
        .unwrap();
    assert_eq!(f64s(&data), [3.0, 4.0]);
}

#[test]
fn tabs_and_other_marks() {
    let place = Place::new();
    let text = "label\tlogit_0\tlogit_1\n1\t2\t3\n";
    let data = place.read("a.tsv", text, ReadOptions::default()).unwrap();
    assert_eq!(f64s(&data), [2.0, 3.0]);
    let text = text.replace('\t', ";");
    let error = place
        .read("a.csv", &text, ReadOptions::default())
        .unwrap_err();
    assert!(
        matches!(&error, Error::NoScores { expected, .. } if expected.contains("--delimiter ';'")),
        "{error}"
    );
    let mut columns = ColumnChoice::default();
    columns.delimiter = Some(b';');
    let data = place.read("a.csv", &text, choose(columns)).unwrap();
    assert_eq!(data.labels().unwrap(), [1]);
}

#[test]
fn one_column_is_the_second_of_two_classes() {
    let place = Place::new();
    for (name, text, expected) in [
        ("a.csv", "logit,label\n1.5,1\n-2,0\n", [0.0, 1.5, 0.0, -2.0]),
        ("b.csv", "prob,label\n0.25,1\n1,0\n", [0.75, 0.25, 0.0, 1.0]),
        (
            "c.jsonl",
            "{\"probs\":[0.25]}\n{\"probs\":[1]}\n",
            [0.75, 0.25, 0.0, 1.0],
        ),
    ] {
        let data = place.read(name, text, ReadOptions::default()).unwrap();
        assert_eq!(f64s(&data), expected, "{name}");
        assert!(data.scores().is_ok(), "{name}");
    }
    let logs = place.read("d.csv", "log_prob\n-0.25\n-3\n", ReadOptions::default());
    let logs = f64s(&logs.unwrap());
    for pair in logs.chunks(2) {
        assert!((pair[0].exp() + pair[1].exp() - 1.0).abs() < 1e-15);
    }
    let path = place.0.path().join("e.npy");
    let mut header = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    header.extend(
        format!(
            "{:<117}\n",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"
        )
        .bytes(),
    );
    header.extend([1.5_f32, -2.0].iter().flat_map(|v| v.to_le_bytes()));
    std::fs::write(&path, &header).unwrap();
    assert_eq!(
        f64s(&load(&DataRef::new(&path), None).unwrap()),
        [0.0, 1.5, 0.0, -2.0]
    );
    let labels = fixture("labels_i8.npy");
    let error = load(&DataRef::new(labels), None).unwrap_err();
    assert!(matches!(error, Error::WrongDtype { .. }), "{error}");
}

#[test]
fn rows_with_a_label_to_ignore_are_left_out_and_rows_keep_their_numbers() {
    let place = Place::new();
    let text = "label,logit_0,logit_1,weight\n-100,9,9,1\n1,2,3,5\n-100,9,9,1\n7,4,5,6\n";
    let options = ReadOptions::default().with_ignored_label("-100".to_owned());
    let data = place.read("a.csv", text, options.clone()).unwrap();
    assert_eq!((data.rows(), data.weights().unwrap()), (2, &[5.0, 6.0][..]));
    let error = data.dataset().unwrap_err();
    assert!(
        matches!(
            &error,
            Error::Data {
                source: ordercal::Error::LabelOutOfRange { row: 3, .. },
                ..
            }
        ),
        "{error}"
    );
    let chunked = RowReader::open(
        &DataRef::new(place.0.path().join("a.csv")),
        options.with_chunk_rows(1),
    );
    assert_eq!(
        chunked
            .unwrap()
            .map(|chunk| chunk.unwrap().len())
            .sum::<usize>(),
        2
    );
    let all = ReadOptions::default().with_ignored_label("1".to_owned());
    let error = place
        .read("b.csv", "label,logit_0,logit_1\n1,2,3\n", all)
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::Data {
                source: ordercal::Error::NoRows,
                ..
            }
        ),
        "{error}"
    );
    let text = "label,logit_cat,logit_dog\ncat,1,2\nunsure,3,4\n";
    let named = ReadOptions::default().with_ignored_label("unsure".to_owned());
    assert_eq!(
        place.read("c.csv", text, named).unwrap().labels().unwrap(),
        [0]
    );
}

#[test]
fn lines_of_json() {
    let place = Place::new();
    let text = "{\"id\": 7, \"label\": \"dog\", \"logit_dog\": 1, \"logit_cat\": \"-inf\"}\n\n\
                {\"label\": \"cat\", \"logit_cat\": 2.5, \"logit_dog\": 0.5, \"id\": 8}\n";
    let options = choose(ColumnChoice::default().with_ids(["id"].map(String::from)));
    let data = place.read("a.jsonl", text, options.clone()).unwrap();
    assert_eq!(f64s(&data), [1.0, f64::NEG_INFINITY, 0.5, 2.5]);
    assert_eq!(data.class_names().unwrap(), ["dog", "cat"]);
    assert_eq!(data.labels().unwrap(), [0, 1]);
    let reader = RowReader::open(&DataRef::new(place.0.path().join("a.jsonl")), options).unwrap();
    assert_eq!(reader.ids(), [("id".to_owned(), IdType::Integer)]);
    let chunk = reader.into_iter().next().unwrap().unwrap();
    assert_eq!(chunk.ids, [IdValues::Integer(vec![7, 8])]);
    for (text, problem) in [
        ("{\"logits\":[1,2]}\n{\"logits\":[1]}\n", "row 1"),
        (
            "{\"logits\":[1,2]}\n{\"logits\":[1,NaN]}\n",
            "row 1 (line 2)",
        ),
        (
            "{\"logits\":[1,2]}\n{\"logit\":[1,2]}\n",
            "row 1, column `logits`",
        ),
        ("{\"logits\":[1,\"x\"]}\n", "`\"x\"` is not a number"),
        ("[1,2]\n", "row 0 (line 1)"),
        ("{\"logits\":[1,2],\"logits\":[1,2]}\n", "two of the name"),
        ("{\"a\":1}\n", "no scores"),
    ] {
        let error = place
            .read("b.jsonl", text, ReadOptions::default())
            .unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
    }
}

#[test]
fn written_tables_have_the_names_of_classes_and_columns_that_are_handed_through() {
    let place = Place::new();
    let ids = [
        ("id".to_owned(), IdType::Integer),
        ("who".to_owned(), IdType::Text),
    ];
    let names = ["cat".to_owned(), "a \"dog\", x".to_owned()];
    let values = vec![
        IdValues::Integer(vec![7, -8]),
        IdValues::Text(vec!["é, \"x\"\ny".into(), " b ".into()]),
    ];
    for name in [
        "a.csv",
        "a.tsv",
        "a.jsonl",
        "a.csv.gz",
        "a.jsonl.gz",
        #[cfg(feature = "parquet")]
        "a.tsv.zst",
        #[cfg(feature = "parquet")]
        "a.parquet",
        #[cfg(feature = "parquet")]
        "a.arrow",
    ] {
        let path = place.0.path().join(name);
        let spec = OutputSpec::new(ScoreKind::Probs, 2)
            .with_ids(&ids)
            .with_class_names(Some(names.to_vec()));
        let mut writer = ScoreWriter::create(&path, spec).unwrap();
        writer.set_ids(values.clone());
        writer
            .write_f32(array![[0.25, 0.75], [1.0, 0.0]].view())
            .unwrap();
        let error = writer.write_f32(array![[0.25, 0.75]].view()).unwrap_err();
        assert!(matches!(error, Error::WrongBlock { .. }), "{error}");
        writer.finish().unwrap();
        let options = choose(ColumnChoice::default().with_ids(["id", "who"].map(String::from)));
        let mut reader = RowReader::open(&DataRef::new(&path), options).unwrap();
        assert_eq!(reader.class_names().unwrap(), names, "{name}");
        let chunk = reader.next().unwrap().unwrap();
        let text = IdValues::Text(vec!["7".into(), "-8".into()]);
        assert!(chunk.ids[0] == values[0] || chunk.ids[0] == text, "{name}");
        let IdValues::Text(who) = &chunk.ids[1] else {
            panic!("{name}");
        };
        assert_eq!(who[0], "é, \"x\"\ny", "{name}");
    }
    let spec = OutputSpec::new(ScoreKind::Probs, 2)
        .with_rows(1)
        .with_ids(&ids);
    let error = ScoreWriter::create(&place.0.path().join("a.npy"), spec)
        .err()
        .unwrap();
    assert!(matches!(error, Error::NotATable { .. }), "{error}");
    let options = choose(ColumnChoice::default().with_ids(["id"].map(String::from)));
    let data = DataRef::new(fixture("fine_f4.npy"));
    let error = RowReader::open(&data, options).err().unwrap();
    assert!(matches!(error, Error::NotATable { .. }), "{error}");
}

#[test]
fn compressed_files_of_any_format() {
    let place = Place::new();
    let fine = Expected::read("fine");
    for name in [
        "fine_stored.npz",
        "fine.safetensors",
        "fine_dict.pkl",
        "fine.csv",
    ] {
        let bytes = std::fs::read(fixture(name)).unwrap();
        let mut gz = flate2_of(&bytes);
        fine.check(
            name,
            &load(&DataRef::new(place.write(&format!("{name}.gz"), &gz)), None).unwrap(),
        );
        gz.truncate(gz.len() / 2);
        let error = load(
            &DataRef::new(place.write(&format!("cut-{name}.gz"), gz)),
            None,
        )
        .unwrap_err();
        assert!(matches!(error, Error::BadPacking { .. }), "{name}: {error}");
        let plain = place.write(&format!("plain-{name}.gz"), &bytes);
        let error = load(&DataRef::new(plain), None).unwrap_err();
        assert!(matches!(error, Error::NotPacked { .. }), "{name}: {error}");
    }
}

/// Bytes gzipped, by what writes `.csv.gz`.
fn flate2_of(bytes: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gz.write_all(bytes).unwrap();
    gz.finish().unwrap()
}

#[test]
fn the_format_of_a_file_can_be_said() {
    let place = Place::new();
    let path = place.write("scores.txt", "label,logit_0,logit_1\n1,2,3\n");
    let error = load(&DataRef::new(&path), None).unwrap_err();
    assert!(matches!(&error, Error::UnknownFormat { .. }), "{error}");
    let options = ReadOptions::default().with_format(Format::Csv);
    assert_eq!(
        LoadedData::read(&DataRef::new(&path), options)
            .unwrap()
            .rows(),
        1
    );
}

#[test]
#[cfg(unix)]
fn a_pipe_is_read_as_often_as_needed() {
    let place = Place::new();
    let path = place.0.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let bytes = std::fs::read(fixture("bundle.npz")).unwrap();
    let target = path.clone();
    let writer = std::thread::spawn(move || std::fs::write(target, bytes));
    let options = ReadOptions::default().with_format(Format::Npz);
    for split in ["calib", "test"] {
        let data = LoadedData::read(&DataRef::new(&path).with_split(split), options.clone());
        assert_eq!(data.unwrap().rows(), 23);
    }
    writer.join().unwrap().unwrap();
}

#[test]
fn integers_are_scores_if_there_are_several_columns() {
    let mut header = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    header.extend(
        format!(
            "{:<117}\n",
            "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }"
        )
        .bytes(),
    );
    header.extend([1_i32, -2, 3, 4].iter().flat_map(|v| v.to_le_bytes()));
    let place = Place::new();
    let data = load(&DataRef::new(place.write("a.npy", header)), None).unwrap();
    assert_eq!(f64s(&data), [1.0, -2.0, 3.0, 4.0]);
}

#[test]
#[cfg(feature = "parquet")]
fn whole_numbers_and_decimals_in_parquet() {
    let ints = load(&DataRef::new(fixture("ints.parquet")), None).unwrap();
    assert_eq!((ints.rows(), ints.classes()), (23, 2));
    Expected::read("coarse").check(
        "decimals",
        &load(&DataRef::new(fixture("coarse_decimal.parquet")), None).unwrap(),
    );
    Expected::read("fine").check(
        "brotli",
        &load(&DataRef::new(fixture("fine_brotli.parquet")), None).unwrap(),
    );
}

#[test]
fn brain_floats_protocol_0_and_tensors() {
    let (fine, coarse) = (Expected::read("fine"), Expected::read("coarse"));
    let labels = fixture("labels_i8.npy");
    let brain = ordercal_io::load_pair(&fixture("coarse_bf16.npy"), &labels, None).unwrap();
    assert_eq!(brain.matrix().dtype(), "bfloat16");
    coarse.check("bf16 npy", &brain);
    for name in ["published_0.p", "published_0_python2.p"] {
        let calib = load(&DataRef::new(fixture(name)).with_split("calib"), None);
        fine.check(name, &calib.unwrap_or_else(|e| panic!("{e}")));
    }
    fine.check(
        "pt",
        &load(&DataRef::new(fixture("fine.pt")), None).unwrap(),
    );
    let pair = load(&DataRef::new(fixture("coarse_bf16.pt")), None).unwrap();
    assert_eq!(pair.matrix().dtype(), "bfloat16");
    coarse.check("bf16 pt", &pair);
    let error = load(&DataRef::new(fixture("forbidden.pt")), None).unwrap_err();
    assert!(matches!(error, Error::PickleForbidden { .. }), "{error}");
}
