//! What comes out does not depend on the file format, nor on whether a model was stored in between.

use ndarray::Array2;
use ordercal::{Method, ScoreKind};
use ordercal_io::{DataRef, LoadedData, ReadOptions, SavedModel, ScoreMatrix, load};

use crate::files::BUNDLE;
use crate::harness::Folder;

/// A folder with the demo's letters and a model that leaves scores as they are.
fn letters() -> Folder {
    let place = Folder::new();
    place.write("b.npz", BUNDLE);
    place
        .run("fit b.npz#calib --method uncalibrated -o same.safetensors")
        .ok();
    place
}

/// The numbers of a file; text is read as 64-bit floats, which hold what the 32-bit ones were.
fn read(place: &Folder, name: &str) -> Array2<f32> {
    let options = ReadOptions::default().with_kind(ScoreKind::Probs);
    let loaded = LoadedData::read(&DataRef::new(place.path(name)), options).unwrap();
    match loaded.matrix() {
        ScoreMatrix::F32(values) => values.clone(),
        ScoreMatrix::F64(values) => values.mapv(|v| v as f32),
        other => panic!("{name}: {}", other.dtype()),
    }
}

#[test]
fn a_stored_model_gives_the_bits_of_the_fitted_one() {
    let place = letters();
    let path = place.path("b.npz");
    let calib = load(&DataRef::new(&path).with_split("calib"), None).unwrap();
    let test = load(&DataRef::new(&path).with_split("test"), None).unwrap();
    for key in ["ts", "diag", "op", "sms+order", "isotonic"] {
        let method = Method::from_key(key).unwrap();
        let model = method.fit(&calib.dataset().unwrap()).unwrap().model;
        let expected: Array2<f32> = model
            .apply(&test.scores().unwrap(), ScoreKind::LogProbs)
            .unwrap();
        place
            .run(&format!("fit b.npz#calib --method {key} -o m.safetensors"))
            .ok();
        place
            .run("apply m.safetensors b.npz#test --as log-probs -o out.npy")
            .ok();
        let loaded = load(
            &DataRef::new(place.path("out.npy")),
            ScoreKind::LogProbs.into(),
        )
        .unwrap();
        let ScoreMatrix::F32(found) = loaded.matrix() else {
            panic!("{key}: f32 was asked for");
        };
        let bits = |a: &Array2<f32>| a.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(found), bits(&expected), "{key}");
    }
}

#[test]
fn every_format_gives_the_same_model_and_the_same_result() {
    let place = letters();
    let path = place.path("b.npz");
    let calib = load(&DataRef::new(&path).with_split("calib"), None).unwrap();
    place.write("y.npy", crate::files::npy_labels(calib.labels().unwrap()));
    let mut first: Option<(SavedModel, Array2<f32>)> = None;
    for format in [
        "npy",
        "npz",
        "csv",
        "csv.gz",
        "tsv.zst",
        "jsonl",
        "parquet",
        "arrow",
        "safetensors",
    ] {
        // The identity: scores of one format become those of another.
        let line = format!("apply same.safetensors b.npz#calib --as logits -o x.{format}");
        place.run(&line).ok();
        let line = format!(
            "fit --logits x.{format} --labels y.npy --method diag -o m-{format}.safetensors"
        );
        place.run(&line).ok();
        let line = format!("apply m-{format}.safetensors x.{format} -o p-{format}.{format}");
        place.run(&line).ok();
        let model = place.path(&format!("m-{format}.safetensors"));
        let mut model = SavedModel::load(&model).unwrap();
        // Arrays have no names of columns.
        model.class_names = None;
        let probs = read(&place, &format!("p-{format}.{format}"));
        match &first {
            None => first = Some((model, probs)),
            Some((expected, numbers)) => {
                assert_eq!(&model, expected, "{format}");
                assert_eq!(&probs, numbers, "{format}");
            }
        }
    }
}
