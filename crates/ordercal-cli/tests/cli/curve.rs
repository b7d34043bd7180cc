//! `curve`: sweeps as data, tables and figures.

use crate::files::three_classes;
use crate::harness::Folder;

fn place() -> Folder {
    let place = Folder::new();
    place.write("b.safetensors", three_classes(300));
    place
}

#[test]
fn more_rows_are_swept_with_several_seeds() {
    let place = place();
    let line = "curve b.safetensors --over calib-size --methods ts,vs --seeds 2 --seed 7 --out r";
    let found = place.run(&format!("{line} --json")).ok().json();
    assert_eq!(
        (found["over"].as_str(), found["n_calib"].as_u64()),
        (Some("calib-size"), Some(300))
    );
    let points = found["points"].as_array().unwrap();
    // Three methods, ten sizes, two seeds.
    assert_eq!(points.len(), 3 * 10 * 2);
    let ts: Vec<_> = points.iter().filter(|p| p["method"] == "ts").collect();
    assert_eq!(
        (ts[0]["rows"].as_u64(), ts[19]["rows"].as_u64()),
        (Some(30), Some(300))
    );
    assert_eq!(
        (ts[0]["seed"].as_u64(), ts[1]["seed"].as_u64()),
        (Some(7), Some(8))
    );
    assert_ne!(ts[0]["metrics"]["nll"], ts[1]["metrics"]["nll"]);
    // All rows are the same rows, in whatever order they were drawn.
    let (a, b) = (&ts[18]["metrics"]["nll"], &ts[19]["metrics"]["nll"]);
    assert!((a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-9);
    let direct = place
        .run("compare b.safetensors --methods ts --metrics nll --bootstrap 0 --json")
        .ok()
        .json();
    let nll = direct["datasets"][0]["methods"][1]["metrics"]["nll"]
        .as_f64()
        .unwrap();
    assert!((a.as_f64().unwrap() - nll).abs() < 1e-9);

    let tree = place.tree("r");
    let names: Vec<&str> = tree.keys().map(String::as_str).collect();
    assert_eq!(names, ["curve.csv", "curve.json", "curve.png", "curve.svg"]);
    place.run(line).ok();
    assert!(tree == place.tree("r"), "the same command gave other bytes");
    let text = place.run(line).ok().stdout;
    assert!(
        text.contains("10% (30)") && text.lines().all(|l| l.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn penalties_are_swept() {
    let place = place();
    let line = "curve b.safetensors --over odir-lambda --metrics nll --json";
    let found = place.run(line).ok().json();
    let points = found["points"].as_array().unwrap();
    let nll = |method: &str| -> Vec<f64> {
        let own = points.iter().filter(|p| p["method"] == method);
        own.map(|p| p["metrics"]["nll"].as_f64().unwrap()).collect()
    };
    assert_eq!(nll("ms-odir").len(), nll("uncalibrated").len());
    let level = nll("uncalibrated");
    assert!(level.iter().all(|v| *v == level[0]));
    let swept = nll("dir-odir");
    assert!(swept.iter().any(|v| *v != swept[0]));
    // A point is what `fit` with that weight gives.
    place
        .run("fit b.safetensors --method ms-odir --lambda 100 -o m.safetensors")
        .ok();
    let direct = place
        .run("evaluate b.safetensors --model m.safetensors --metrics nll --json")
        .ok()
        .json();
    let at = points
        .iter()
        .find(|p| p["method"] == "ms-odir" && p["x"].as_f64() == Some(100.0))
        .unwrap();
    let expected = direct["rows"][1]["metrics"]["nll"].as_f64().unwrap();
    assert!((at["metrics"]["nll"].as_f64().unwrap() - expected).abs() < 1e-9);
}

#[test]
fn what_makes_no_sense_is_refused_in_a_sentence() {
    let place = place();
    let before = place.names();
    for (line, name) in [
        ("curve b.safetensors", "--over"),
        ("curve b.safetensors --over rows", "rows"),
        ("curve b.safetensors --over odir-lambda --methods ts", "ts"),
        (
            "curve b.safetensors --over odir-lambda --seeds 2",
            "--seeds",
        ),
        ("curve b.safetensors --over calib-size --seeds 0", "--seeds"),
        (
            "curve b.safetensors --over calib-size --metrics ecce",
            "ecce",
        ),
        ("curve b.safetensors#test --over calib-size", "whole file"),
        ("curve none.npz --over calib-size", "none.npz"),
    ] {
        let run = place.run(line);
        assert_eq!(run.code, 2, "{line}: {}", run.stderr);
        assert_eq!(
            run.stderr.trim_end().lines().count(),
            1,
            "{line}: {}",
            run.stderr
        );
        assert!(
            run.stderr.contains(name),
            "{line}: no `{name}` in {}",
            run.stderr
        );
        assert_eq!(place.names(), before, "{line}");
    }
}
