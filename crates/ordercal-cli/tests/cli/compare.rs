//! `compare`: tables, files, and runs that were interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::files::{BUNDLE, CLOTHES, csv, halves, three_classes};
use crate::harness::Folder;

const LINE: &str =
    "compare letters.npz clothes.npz --methods ts,vs,diag,svs+order --bootstrap 40 --seed 5";

fn place() -> Folder {
    let place = Folder::new();
    place
        .write("letters.npz", BUNDLE)
        .write("clothes.npz", CLOTHES);
    place
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

/// All that may not differ from run to run.
fn lasting(mut tree: BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    assert!(tree.remove("timings.json").is_some());
    tree
}

#[track_caller]
fn assert_same(a: &BTreeMap<String, Vec<u8>>, b: &BTreeMap<String, Vec<u8>>) {
    let names = |tree: &BTreeMap<String, Vec<u8>>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(a), names(b));
    for (name, bytes) in a {
        assert!(*bytes == b[name], "{name} differs");
    }
}

#[test]
fn the_object_has_the_promised_shape_and_agrees_with_evaluate() {
    let place = place();
    let found = place.run(&format!("{LINE} --json")).ok().json();
    assert_eq!(
        keys(&found),
        BTreeSet::from(["datasets", "average_relative_error", "ranks"])
    );
    let dataset = &found["datasets"][0];
    assert_eq!(
        keys(dataset),
        BTreeSet::from(["name", "n_calib", "n_test", "classes", "methods"])
    );
    assert_eq!(dataset["name"], "letters");
    let methods = dataset["methods"].as_array().unwrap();
    let order: Vec<&str> = methods
        .iter()
        .map(|m| m["method"].as_str().unwrap())
        .collect();
    assert_eq!(order, ["uncalibrated", "ts", "vs", "diag", "svs+order"]);
    for method in methods {
        let promised = [
            "method",
            "metrics",
            "order_preserving",
            "changed_predictions",
            "fit_seconds",
            "chosen",
        ];
        assert_eq!(keys(method), BTreeSet::from(promised));
        if method["order_preserving"].as_bool().unwrap() {
            assert_eq!(method["changed_predictions"], 0, "{method}");
        }
    }
    assert_eq!(methods[3]["chosen"]["method"], "diag");
    assert!(methods[2]["changed_predictions"].as_u64().unwrap() > 0);

    // The same numbers by the longer way.
    place
        .run("fit letters.npz --method ts --seed 5 -o ts.safetensors")
        .ok();
    let line = "evaluate letters.npz --model ts.safetensors --metrics nll,ece,brier --json";
    let direct = place.run(line).ok().json();
    for key in ["nll", "ece", "brier"] {
        for row in [0, 1] {
            assert_eq!(
                methods[row]["metrics"][key], direct["rows"][row]["metrics"][key],
                "{key}"
            );
        }
    }
    let nll = |set: usize, method: usize| {
        found["datasets"][set]["methods"][method]["metrics"]["nll"]
            .as_f64()
            .unwrap()
    };
    let expected = (nll(0, 1) / nll(0, 0) + nll(1, 1) / nll(1, 0)) / 2.0;
    let average = found["average_relative_error"]["nll"]["ts"]
        .as_f64()
        .unwrap();
    assert!((average - expected).abs() < 1e-12);
}

/// What the Python package is held to as well: the two give the same numbers.
const SMALL: &str = include_str!("../../../../tests/data/compare/small.json");

#[test]
fn the_numbers_are_those_that_python_gives() {
    let place = Folder::new();
    place
        .write("letters.npz", BUNDLE)
        .write("fashion_mnist.npz", CLOTHES);
    let line = "compare letters.npz fashion_mnist.npz --methods ts,vs,svs+order,svs \
                --metrics nll,ece,classwise_ece_sum,brier --bootstrap 0 --json";
    let mut found = place.run(line).ok().json();
    for dataset in found["datasets"].as_array_mut().unwrap() {
        for method in dataset["methods"].as_array_mut().unwrap() {
            assert!(
                method
                    .as_object_mut()
                    .unwrap()
                    .remove("fit_seconds")
                    .is_some()
            );
        }
    }
    assert_alike(&found, &serde_json::from_str(SMALL).unwrap(), "");
}

/// The same but for what other processors may round differently.
#[track_caller]
fn assert_alike(found: &Value, expected: &Value, place: &str) {
    match (found, expected) {
        (Value::Object(f), Value::Object(e)) => {
            assert_eq!(keys(found), keys(expected), "{place}");
            f.iter()
                .for_each(|(key, value)| assert_alike(value, &e[key], &format!("{place}/{key}")));
        }
        (Value::Array(f), Value::Array(e)) => {
            assert_eq!(f.len(), e.len(), "{place}");
            let pairs = f.iter().zip(e).enumerate();
            pairs.for_each(|(at, (f, e))| assert_alike(f, e, &format!("{place}/{at}")));
        }
        (Value::Number(f), Value::Number(e)) => {
            let (f, e) = (f.as_f64().unwrap(), e.as_f64().unwrap());
            let apart = (f - e).abs();
            let close = if place.ends_with("changed_predictions") {
                apart <= 2.0
            } else {
                apart <= 1e-9 + 1e-3 * e.abs()
            };
            assert!(close, "{place}: {f}, not {e}");
        }
        _ => assert_eq!(found, expected, "{place}"),
    }
}

#[test]
fn the_terminal_sees_tables_within_80_columns() {
    let place = place();
    let text = place.run(&format!("{LINE} --metrics nll,ece")).ok().stdout;
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    for part in [
        "Average relative error",
        "NLL",
        "ECE",
        "₁",
        "free: may change predictions",
        "is the best method",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let quiet = place
        .run("compare letters.npz --methods ts --metrics nll --bootstrap 0 --quiet")
        .ok()
        .stdout;
    assert!(!quiet.contains('*'), "{quiet}");
}

#[test]
fn a_run_leaves_everything_in_its_folder() {
    let place = Folder::new();
    place.write("b.safetensors", three_classes(200));
    let line =
        "compare b.safetensors --methods ts,diag,vs --metrics ece,nll --bootstrap 30 --out r";
    place.run(line).ok();
    let tree = place.tree("r");
    for name in [
        "report.html",
        "results.json",
        "results.csv",
        "tables.md",
        "tables.tex",
        "timings.json",
        "figures/b-reliability.svg",
        "figures/b-weighted.svg",
        "figures/b-transform.svg",
        "figures/b-simplex-vs.svg",
        "models/b-diag.safetensors",
        "parts/b-uncalibrated.json",
        "parts/b-vs.json",
    ] {
        assert!(tree.contains_key(name), "{name} in {:?}", tree.keys());
    }
    let text = |name: &str| String::from_utf8(tree[name].clone()).unwrap();
    let html = text("report.html");
    assert!(html.contains("--methods uncalibrated,ts,diag,vs") && html.contains("1357"));
    assert!(html.contains("<svg") && !html.contains("--out"));
    assert!(
        text("tables.tex").contains("\\toprule") && text("tables.md").contains("| `ts` | yes |")
    );
    // The models are those that `fit` gives.
    place
        .run("fit b.safetensors --method diag -o m.safetensors")
        .ok();
    assert_eq!(
        tree["models/b-diag.safetensors"],
        std::fs::read(place.path("m.safetensors")).unwrap()
    );
}

#[test]
fn searches_and_folds_are_those_of_fit() {
    let place = Folder::new();
    place.write("b.safetensors", three_classes(200));
    let line = "compare b.safetensors --methods ms-odir,ts --metrics accuracy --bootstrap 0";
    let found = place
        .run(&format!("{line} --search quick --json"))
        .ok()
        .json();
    let methods = &found["datasets"][0]["methods"];
    let chosen = &methods[1]["chosen"];
    assert!(chosen["held_out_nll"].is_number(), "{chosen}");
    assert!(!chosen["runners_up"].as_array().unwrap().is_empty());
    let fit = place
        .run("fit b.safetensors --method ms-odir --search quick -o m.safetensors --json")
        .ok()
        .json();
    assert_eq!(fit["ranking"][0]["method"]["lambda"], chosen["lambda"]);
    // ts has nothing to choose.
    assert!(methods[2]["chosen"].get("runners_up").is_none());
    // The folds' functions are drawn as their mean.
    let line = "compare b.safetensors --methods diag --folds 3 --metrics accuracy --bootstrap 0";
    let text = place.run(&format!("{line} --out r")).ok().stdout;
    assert!(text.contains("changed a single prediction"), "{text}");
    let svg = std::fs::read_to_string(place.path("r/figures/b-transform.svg")).unwrap();
    assert!(svg.contains(">diag<"), "{svg}");
    assert!(place.path("r/report.html").exists());
}

#[test]
fn a_killed_run_goes_on_and_ends_with_the_same_bytes() {
    let place = place();
    place.run(&format!("{LINE} --out whole --quiet")).ok();
    let whole = lasting(place.tree("whole"));

    let mut child = place.start(&format!("{LINE} --out killed"));
    let parts = place.path("killed/parts");
    let begin = Instant::now();
    // Somewhere after the second result; where exactly does not matter.
    loop {
        let count = std::fs::read_dir(&parts).map_or(0, |entries| {
            entries
                .filter(|e| {
                    e.as_ref()
                        .unwrap()
                        .path()
                        .extension()
                        .is_some_and(|x| x == "json")
                })
                .count()
        });
        if count >= 2 || child.try_wait().unwrap().is_some() {
            break;
        }
        assert!(
            begin.elapsed() < Duration::from_secs(300),
            "nothing was stored"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Temporary files of a killed run are removed.
    std::fs::write(parts.join(".letters-ts.json.1-0.tmp"), "half").unwrap();
    let modified = |name: &str| {
        std::fs::metadata(parts.join(name))
            .unwrap()
            .modified()
            .unwrap()
    };
    let first = modified("letters-uncalibrated.json");
    place
        .run(&format!("{LINE} --out killed --resume --quiet"))
        .ok();
    assert_same(&whole, &lasting(place.tree("killed")));
    assert_eq!(
        modified("letters-uncalibrated.json"),
        first,
        "a result was computed again"
    );

    // Once more: nothing is left to do, and seconds are kept.
    let timings = std::fs::read(place.path("killed/timings.json")).unwrap();
    let again = place
        .run(&format!("{LINE} --out killed --resume --json"))
        .ok()
        .json();
    assert_eq!(
        std::fs::read(place.path("killed/timings.json")).unwrap(),
        timings
    );
    assert!(again["datasets"][1]["methods"][1]["fit_seconds"].is_number());
    assert_same(&whole, &lasting(place.tree("killed")));
}

#[test]
fn results_about_something_else_are_not_taken() {
    let place = Folder::new();
    place.write("b.safetensors", three_classes(150));
    let line = "compare b.safetensors --methods ts,vs --metrics nll --bootstrap 0 --out r";
    place.run(line).ok();
    let before = place.tree("r");
    // Other data under the same name.
    place.write("b.safetensors", three_classes(140));
    place.run(&format!("{line} --resume")).ok();
    let after = place.tree("r");
    assert_ne!(before["parts/b-ts.json"], after["parts/b-ts.json"]);
    // Another metric.
    let more = line.replace("--metrics nll", "--metrics nll,ece");
    let found = place.run(&format!("{more} --resume --json")).ok().json();
    assert!(found["datasets"][0]["methods"][1]["metrics"]["ece"].is_number());
    // A stored result that is not JSON is computed again.
    std::fs::write(place.path("r/parts/b-ts.json"), "{").unwrap();
    place.run(&format!("{more} --resume")).ok();
}

#[test]
fn what_makes_no_sense_is_refused_in_a_sentence() {
    let place = place();
    place.write("d.csv", csv(30)).write("x.npz", "no zip");
    let before = place.names();
    for (line, names) in [
        ("compare", ["BUNDLE", ""]),
        ("compare none.npz", ["none.npz", "no such file"]),
        ("compare x.npz", ["x.npz", ""]),
        ("compare d.csv", ["d.csv", "calib"]),
        (
            "compare letters.npz#test",
            ["letters.npz#test", "whole file"],
        ),
        ("compare letters.npz letters.npz", ["letters.npz", "twice"]),
        ("compare letters.npz --methods tss", ["--methods", "`ts`"]),
        (
            "compare letters.npz --methods ts+order",
            ["--methods", "ts"],
        ),
        ("compare letters.npz --metrics ecce", ["--metrics", "`ece`"]),
        ("compare letters.npz --search grid", ["grid", "none"]),
        ("compare letters.npz --bins 0", ["bins", "0"]),
        ("compare letters.npz --resume", ["--out", ""]),
        (
            "compare letters.npz --out letters.npz/r",
            ["letters.npz/r", ""],
        ),
    ] {
        let run = place.run(line);
        assert_eq!(run.code, 2, "{line}: {}", run.stderr);
        assert_eq!(
            run.stderr.trim_end().lines().count(),
            1,
            "{line}: {}",
            run.stderr
        );
        for name in names {
            assert!(
                run.stderr.contains(name),
                "{line}: no `{name}` in {}",
                run.stderr
            );
        }
        assert_eq!(place.names(), before, "{line}");
    }
}

#[test]
fn a_metric_that_is_undefined_is_null_and_survives_a_resume() {
    let place = Folder::new();
    // Every prediction is right, so that nothing can be told by confidence.
    let text = csv(120);
    let right = text.lines().skip(1).map(|line| {
        let scores: Vec<f64> = line
            .split(',')
            .skip(1)
            .map(|v| v.parse().unwrap())
            .collect();
        let best = (0..3)
            .max_by(|&a, &b| scores[a].total_cmp(&scores[b]))
            .unwrap();
        format!("{best}{}\n", &line[1..])
    });
    let text: String = std::iter::once("label,logit_0,logit_1,logit_2\n".to_owned())
        .chain(right)
        .collect();
    place.write("b.safetensors", halves(&text));
    let line =
        "compare b.safetensors --methods ts --metrics nll,auroc --bootstrap 0 --out out --json";
    let metrics = |line: &str| {
        let mut found = place.run(line).ok().json();
        found["datasets"][0]["methods"][1]["metrics"].take()
    };
    let first = metrics(line);
    assert!(first["auroc"].is_null() && first["nll"].is_f64(), "{first}");
    assert_eq!(metrics(&format!("{line} --resume")), first);
}
