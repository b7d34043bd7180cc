//! The same data in every format gives the same dataset, bit for bit.

use crate::common::{Expected, fixture};
use ordercal::ScoreKind;
use ordercal_io::{
    DataRef, Error, LabelNeed, LoadedData, ReadOptions, RowReader, inspect, load, load_pair,
};

/// The names of the classes, where labels are names and nothing in the file says which is which.
fn named() -> ReadOptions {
    ReadOptions::default().with_class_names(["ape", "bee", "cat", "dog"].map(String::from).to_vec())
}

fn read(name: &str) -> LoadedData {
    LoadedData::read(&DataRef::parse(fixture(name)), named()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn npy_of_every_layout_and_type() {
    let fine = Expected::read("fine");
    for name in [
        "fine_f4.npy",
        "fine_f8.npy",
        "fine_f4_fortran.npy",
        "fine_f4_big.npy",
        "fine_f8_big_fortran.npy",
        "fine_version2.npy",
    ] {
        let data = load_pair(&fixture(name), &fixture("labels_i8.npy"), None).unwrap();
        fine.check(name, &data);
    }
    let coarse = load_pair(&fixture("coarse_f2.npy"), &fixture("labels_i8.npy"), None).unwrap();
    assert_eq!(coarse.matrix().dtype(), "float16");
    Expected::read("coarse").check("coarse_f2.npy", &coarse);
}

#[test]
fn labels_of_every_form() {
    let fine = Expected::read("fine");
    for form in [
        "i1",
        "i2",
        "i4",
        "i8",
        "u1",
        "u2",
        "u4",
        "u8",
        "big_i2",
        "big_u8",
        "f4",
        "big_f8",
        "column",
        "onehot_bool",
        "onehot_f4",
        "names",
        "names_bytes",
        "names_big",
    ] {
        let labels = fixture(&format!("labels_{form}.npy"));
        let data = LoadedData::read_pair(&fixture("fine_f4.npy"), &labels, named()).unwrap();
        fine.check(form, &data);
        if form.starts_with("names") {
            let error = load_pair(&fixture("fine_f4.npy"), &labels, None).unwrap_err();
            assert!(
                matches!(error, Error::ClassNamesNeeded { row: 0, .. }),
                "{form}: {error}"
            );
        }
    }
    // Labels from a table, scores from an array, and the other way round.
    for labels in [
        "fine.csv",
        "fine_names.csv",
        #[cfg(feature = "parquet")]
        "fine_list.parquet",
        #[cfg(feature = "parquet")]
        "fine_stream.arrow",
    ] {
        let data = LoadedData::read_pair(&fixture("fine_f4.npy"), &fixture(labels), named());
        fine.check(labels, &data.unwrap());
    }
    let data = load_pair(&fixture("fine.csv"), &fixture("labels_u1.npy"), None).unwrap();
    fine.check("csv with npy labels", &data);
}

#[test]
fn npz_stored_deflated_and_in_column_order() {
    let fine = Expected::read("fine");
    for name in [
        "fine_stored.npz",
        "fine_deflated.npz",
        "fine_fortran_stored.npz",
        "fine_fortran_deflated.npz",
        "bundle.npz#calib",
    ] {
        let data = read(name);
        fine.check(name, &data);
        assert!(data.weights().is_some(), "{name}");
    }
    let test = read("bundle.npz#test");
    Expected::read("coarse").check("bundle.npz#test", &test);
    assert_eq!(test.split(), Some("test"));
    assert_eq!(test.class_names().unwrap(), ["ape", "bee", "cat", "dog"]);
}

#[test]
fn csv_plain_quoted_named_and_gzipped() {
    let fine = Expected::read("fine");
    for name in [
        "fine.csv",
        "fine_quoted.csv",
        "fine_names.csv",
        "fine.csv.gz",
    ] {
        let data = read(name);
        fine.check(name, &data);
        assert!(data.weights().is_some(), "{name}");
    }
    assert_eq!(read("fine_names.csv").class_names().unwrap()[3], "dog");
}

#[test]
#[cfg(feature = "parquet")]
fn parquet_of_every_codec_and_layout() {
    let fine = Expected::read("fine");
    for name in [
        "fine_snappy.parquet",
        "fine_zstd.parquet",
        "fine_gzip.parquet",
        "fine_lz4.parquet",
        "fine_list.parquet",
        "fine_fixed_names.parquet",
    ] {
        let data = read(name);
        fine.check(name, &data);
        assert_eq!(data.matrix().dtype(), "float32", "{name}");
        assert!(data.weights().is_some(), "{name}");
    }
    let half = read("coarse_f2.parquet");
    assert_eq!(half.matrix().dtype(), "float16");
    Expected::read("coarse").check("coarse_f2.parquet", &half);
}

#[test]
#[cfg(feature = "parquet")]
fn arrow_files_streams_and_feather() {
    let fine = Expected::read("fine");
    for name in [
        "fine.arrow",
        "fine_stream.arrow",
        "fine_lz4.feather",
        "fine_zstd.feather",
    ] {
        let data = read(name);
        fine.check(name, &data);
        assert!(data.weights().is_some(), "{name}");
    }
}

#[test]
#[cfg(feature = "parquet")]
fn categories_of_pandas_are_classes_in_their_declared_order() {
    let fine = Expected::read("fine");
    let names = ["ape", "bee", "cat", "dog"].map(String::from);
    for name in ["categories.parquet", "categories.feather"] {
        let data = DataRef::new(fixture(name));
        let mut reader = RowReader::open(&data, ReadOptions::default()).unwrap();
        assert_eq!(reader.class_names().unwrap(), ["dog", "cat", "ape", "bee"]);
        reader.match_classes(&names, "the model").unwrap();
        fine.check(name, &LoadedData::collect(reader).unwrap());
    }
    // Any other dictionary may be in the order of the rows.
    let other = DataRef::new(fixture("fine_fixed_names.parquet"));
    let error = load(&other, None).unwrap_err();
    assert!(matches!(error, Error::ClassNamesNeeded { .. }), "{error}");
}

#[test]
fn safetensors_of_every_float_type() {
    let fine = Expected::read("fine");
    fine.check("f32", &read("fine.safetensors"));
    fine.check("f64", &read("fine_f8.safetensors"));
    let coarse = Expected::read("coarse");
    let half = read("coarse_f2.safetensors");
    coarse.check("f16", &half);
    assert_eq!(half.class_names().unwrap()[1], "bee");
    let brain = read("coarse_bf16.safetensors");
    assert_eq!(brain.matrix().dtype(), "bfloat16");
    coarse.check("bf16", &brain);
}

#[test]
fn pickles_of_every_protocol_with_old_and_new_module_names() {
    let (fine, coarse) = (Expected::read("fine"), Expected::read("coarse"));
    for protocol in 2..6 {
        for age in ["", "_old"] {
            let name = format!("published_{protocol}{age}.p");
            fine.check(&name, &read(&format!("{name}#calib")));
            coarse.check(&name, &read(&format!("{name}#test")));
        }
    }
    fine.check("python 2", &read("published_python2.p#calib"));
    fine.check("python 2", &read("published_python2.p#test"));
}

#[test]
fn pickles_of_dicts_lists_and_numbers() {
    let (fine, coarse) = (Expected::read("fine"), Expected::read("coarse"));
    for name in [
        "fine_dict.pkl",
        "fine_dict_fortran_5.pkl",
        "fine_lists.pkl",
        "nested.pickle#calib",
    ] {
        fine.check(name, &read(name));
    }
    coarse.check("nested.pickle#test", &read("nested.pickle#test"));
}

#[test]
fn the_fixtures_really_differ_in_how_they_are_stored() {
    let bytes = |name: &str| std::fs::read(fixture(name)).unwrap();
    let contains = |name: &str, what: &[u8]| bytes(name).windows(what.len()).any(|w| w == what);
    assert!(contains("published_2_old.p", b"numpy.core.multiarray"));
    assert!(contains("published_5_old.p", b"numpy.core.numeric"));
    assert!(contains("published_5.p", b"numpy._core.numeric"));
    assert!(contains("published_2.p", b"_codecs"));
    assert!(contains("fine_f4_fortran.npy", b"'fortran_order': True"));
    assert!(contains("fine_f4_big.npy", b">f4"));
    assert!(!bytes("fine_stream.arrow").starts_with(b"ARROW1"));
    assert!(bytes("fine.arrow").starts_with(b"ARROW1"));
}

#[test]
fn the_kind_is_said_by_the_name_or_the_caller() {
    let options = |kind| ReadOptions::default().with_kind(kind);
    let data = DataRef::new(fixture("probs.npz"));
    let probs = LoadedData::read(&data, options(ScoreKind::Probs)).unwrap();
    assert_eq!(probs.kind(), ScoreKind::Probs);
    let log_probs = LoadedData::read(&data, options(ScoreKind::LogProbs)).unwrap();
    assert_eq!(log_probs.kind(), ScoreKind::LogProbs);
    let npy = DataRef::new(fixture("fine_f4.npy"));
    assert_eq!(load(&npy, None).unwrap().kind(), ScoreKind::Logits);
    assert_eq!(
        load(&npy, Some(ScoreKind::Probs)).unwrap().kind(),
        ScoreKind::Probs
    );
}

#[test]
fn labels_can_be_left_alone() {
    let options = ReadOptions::default().with_labels(LabelNeed::Ignored);
    for name in [
        "fine_stored.npz",
        "fine.csv",
        #[cfg(feature = "parquet")]
        "fine_list.parquet",
        "fine_dict.pkl",
    ] {
        let data = LoadedData::read(&DataRef::new(fixture(name)), options.clone()).unwrap();
        assert!(
            data.labels().is_none() && data.weights().is_none(),
            "{name}"
        );
        assert_eq!(data.rows(), 23);
    }
}

#[test]
#[cfg(feature = "parquet")]
fn given_class_names_decide_which_label_is_which() {
    let names = ["dog", "cat", "bee", "ape"].map(String::from).to_vec();
    let options = ReadOptions::default().with_class_names(names);
    let data = DataRef::new(fixture("fine_fixed_names.parquet"));
    let reversed = LoadedData::read(&data, options).unwrap();
    let expected = Expected::read("fine")
        .labels
        .into_iter()
        .map(|l| 3 - i64::from(l));
    assert_eq!(reversed.labels().unwrap(), expected.collect::<Vec<_>>());
}

/// Two files with the same rows, the columns of the second in another order.
fn swapped(names: [&str; 3], second: &str) -> (tempfile::TempDir, LoadedData, RowReader) {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        DataRef::new(path)
    };
    let [a, b, c] = names;
    let first = format!("label,logit_{a},logit_{b},logit_{c}\n{b},1,5,2\n{a},3,1,2\n");
    let first = load(&write("first.csv", first), None).unwrap();
    let second = write("second.csv", second.to_owned());
    let reader = RowReader::open(&second, ReadOptions::default()).unwrap();
    (dir, first, reader)
}

#[test]
fn columns_are_matched_by_name() {
    for second in [
        "label,logit_cat,logit_ape,logit_bee\nbee,2,1,5\nape,2,3,1\n",
        // Labels that are numbers count the columns of their own file.
        "label,logit_cat,logit_ape,logit_bee\n2,2,1,5\n1,2,3,1\n",
    ] {
        let (_dir, first, mut reader) = swapped(["ape", "bee", "cat"], second);
        let names = first.class_names().unwrap();
        reader.match_classes(names, "the model").unwrap();
        assert_eq!(reader.class_names().unwrap(), names);
        let second = LoadedData::collect(reader).unwrap();
        assert_eq!(second.matrix(), first.matrix());
        assert_eq!(second.labels(), first.labels());
    }
    let other = "label,logit_cat,logit_ape,logit_cow\ncow,2,1,5\n";
    let (_dir, first, mut reader) = swapped(["ape", "bee", "cat"], other);
    let error = reader.match_classes(first.class_names().unwrap(), "the model");
    let error = error.unwrap_err();
    assert!(
        matches!(&error, Error::Data { path, source: ordercal::Error::ClassNamesDiffer { .. }, .. }
            if path.ends_with("second.csv")),
        "{error}"
    );
    // Without names on one side, by position.
    let (_dir, first, mut reader) = swapped(
        ["ape", "bee", "cat"],
        "label,logit_0,logit_1,logit_2\nbee,1,5,2\n",
    );
    reader
        .match_classes(first.class_names().unwrap(), "the model")
        .unwrap();
    assert_eq!(LoadedData::collect(reader).unwrap().labels().unwrap(), [1]);
}

#[test]
fn names_that_are_given_must_be_those_of_the_file() {
    let names = ["dog", "cat", "bee", "ape"].map(String::from).to_vec();
    let options = ReadOptions::default().with_class_names(names);
    let error = LoadedData::read(&DataRef::new(fixture("fine_names.csv")), options).unwrap_err();
    assert!(matches!(error, Error::OtherClassNames { .. }), "{error}");
}

#[test]
fn inspecting_lists_the_sets() {
    let contents = inspect(&fixture("bundle.npz"), &ReadOptions::default()).unwrap();
    let splits: Vec<_> = contents
        .sets
        .iter()
        .map(|s| s.split.as_deref().unwrap())
        .collect();
    assert_eq!(splits, ["calib", "test"]);
    assert_eq!(
        (contents.sets[0].rows, contents.sets[0].classes),
        (Some(23), 4)
    );
    assert!(contents.arrays.contains(&"`history` object (1)".to_owned()));
    let contents = inspect(&fixture("fine.csv"), &ReadOptions::default()).unwrap();
    assert_eq!(
        (contents.sets[0].rows, contents.sets[0].labels),
        (None, true)
    );
    let contents = inspect(&fixture("published_2.p"), &ReadOptions::default()).unwrap();
    assert_eq!(contents.sets.len(), 2);
}

#[test]
fn the_demo_data_are_what_their_note_says() {
    for (name, classes, accuracy) in [("fashion_mnist", 10, 0.8940), ("letters", 26, 0.9510)] {
        let path = format!(
            "{}/../ordercal-cli/demo/{name}.npz",
            env!("CARGO_MANIFEST_DIR")
        );
        for split in ["calib", "test"] {
            let data = load(&DataRef::new(&path).with_split(split), None).unwrap();
            assert_eq!((data.rows(), data.classes()), (5000, classes), "{name}");
            assert_eq!(data.class_names().unwrap().len(), classes);
            let dataset = data.dataset().unwrap();
            let right = (0..5000).filter(|&row| {
                let scores = dataset.scores().row(row);
                let label = scores[dataset.labels()[row] as usize];
                scores.iter().all(|&score| score <= label)
            });
            if split == "test" {
                assert_eq!(
                    right.count(),
                    (accuracy * 5000.0_f64).round() as usize,
                    "{name}"
                );
            }
        }
    }
}
