//! Classes are matched by name wherever both sides have names.

use crate::files::{csv, npy_labels, npy_raw};
use crate::harness::Folder;

/// The table of [`csv`] with classes as names, its columns in the order given.
fn named(rows: usize, order: [usize; 3], names: [&str; 3], numbers: bool) -> String {
    let text = csv(rows);
    let mut lines = text.lines();
    lines.next();
    let header = order.map(|class| format!("logit_{}", names[class]));
    let mut table = format!("label,{}\n", header.join(","));
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let label: usize = cells[0].parse().unwrap();
        let column = order.iter().position(|&class| class == label).unwrap();
        let label = if numbers {
            column.to_string()
        } else {
            names[label].to_owned()
        };
        let scores = order.map(|class| cells[1 + class]);
        table.push_str(&format!("{label},{}\n", scores.join(",")));
    }
    table
}

const NAMES: [&str; 3] = ["ape", "bee", "cat"];

#[test]
fn evaluate_and_apply_find_columns_by_name() {
    let place = Folder::new();
    place
        .write("a.csv", named(300, [0, 1, 2], NAMES, false))
        .write("b.csv", named(300, [2, 0, 1], NAMES, false))
        .write("c.csv", named(300, [1, 2, 0], NAMES, true));
    place.run("fit a.csv --method vs -o m.safetensors").ok();
    let evaluate = |file: &str| {
        let line = format!("evaluate {file} --model m.safetensors --metrics accuracy,nll --json");
        place.run(&line).ok().json()
    };
    let expected = evaluate("a.csv");
    assert!(expected["rows"][1]["metrics"]["accuracy"].as_f64() > Some(0.6));
    assert_eq!(evaluate("b.csv"), expected);
    assert_eq!(evaluate("c.csv"), expected);
    for figure in ["reliability", "weighted"] {
        let draw = |file: &str| {
            let line = format!("plot {figure} {file} --model m.safetensors -o f.svg --json");
            place.run(&line).ok().json()["series"].clone()
        };
        assert_eq!(draw("a.csv"), draw("c.csv"));
    }
    let simplex = |file: &str| {
        let line = format!("plot simplex m.safetensors --data {file} -o f.svg --json");
        place.run(&line).ok().json()["counts"].clone()
    };
    assert_eq!(simplex("a.csv"), simplex("b.csv"));

    for file in ["a", "b", "c"] {
        place
            .run(&format!("apply m.safetensors {file}.csv -o {file}.out.csv"))
            .ok();
    }
    let read = |name: &str| std::fs::read_to_string(place.path(name)).unwrap();
    let applied = read("a.out.csv");
    assert!(
        applied.starts_with("prob_ape,prob_bee,prob_cat\n"),
        "{applied}"
    );
    assert_eq!(read("b.out.csv"), applied);
    assert_eq!(read("c.out.csv"), applied);
    place
        .run("apply m.safetensors b.csv --as logits -o l.parquet")
        .ok();
    let words = place.run("inspect l.parquet --json").ok().json();
    assert_eq!(words["sets"][0]["class_names"][0], "ape");
}

#[test]
fn other_names_are_refused_with_both_lists() {
    let place = Folder::new();
    place
        .write("a.csv", named(120, [0, 1, 2], NAMES, false))
        .write("b.csv", named(120, [0, 1, 2], ["ape", "bee", "cow"], false));
    place.run("fit a.csv --method ts -o m.safetensors").ok();
    let before = place.names();
    for line in [
        "evaluate b.csv --model m.safetensors --state-out s.state",
        "apply m.safetensors b.csv -o p.csv",
        "plot reliability b.csv --model m.safetensors -o f.svg",
        "plot simplex m.safetensors --data b.csv -o f.svg",
    ] {
        let run = place.run(line);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{line}");
        for part in ["b.csv", "`ape`, `bee`, `cow`", "`ape`, `bee`, `cat`"] {
            assert!(run.stderr.contains(part), "{line}: {}", run.stderr);
        }
        assert_eq!(place.names(), before, "{line}");
    }
    // Two models whose classes are not in the same order cannot share the rows.
    place.write("c.csv", named(120, [2, 1, 0], NAMES, false));
    place.run("fit c.csv --method ts -o n.safetensors").ok();
    let run = place.run("evaluate a.csv --model m.safetensors --model n.safetensors");
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("m.safetensors and n.safetensors"),
        "{}",
        run.stderr
    );
    // A model for another number of classes is named as such, whatever the names.
    place.write("two.csv", "label,logit_ape,logit_bee\nape,1,2\n");
    let run = place.run("evaluate two.csv --model m.safetensors");
    assert!(
        run.stderr
            .contains("the model is for 3 classes, but two.csv has 2"),
        "{}",
        run.stderr
    );
}

#[test]
fn text_labels_need_class_names() {
    let place = Folder::new();
    let plain = named(120, [0, 1, 2], NAMES, false);
    let plain = plain.replace("logit_ape,logit_bee,logit_cat", "logit_0,logit_1,logit_2");
    place
        .write("d.csv", &plain)
        .write("names.txt", "ape\nbee\n cat \n");
    for line in [
        "fit d.csv --method ts -o m.safetensors",
        "evaluate d.csv",
        "inspect d.csv",
    ] {
        let run = place.run(line);
        assert_eq!((run.code, run.stdout.contains("NLL")), (2, false), "{line}");
        assert!(
            run.stderr.contains("--class-names") && run.stderr.contains("d.csv"),
            "{}",
            run.stderr
        );
    }
    place.write("n.csv", csv(120));
    let wanted = place.run("evaluate n.csv --json").ok().json();
    for names in ["ape,bee,cat", "names.txt"] {
        let line = format!("evaluate d.csv --class-names {names} --json");
        assert_eq!(place.run(&line).ok().json(), wanted, "{names}");
    }
    place
        .run("fit d.csv --method ts --class-names names.txt -o m.safetensors")
        .ok();
    place.run("apply m.safetensors d.csv -o p.csv").ok();
    let applied = std::fs::read_to_string(place.path("p.csv")).unwrap();
    assert!(
        applied.starts_with("prob_ape,prob_bee,prob_cat\n"),
        "{applied}"
    );
    // The model knows the names now.
    place.run("evaluate d.csv --model m.safetensors").ok();
    for (names, part) in [
        ("ape,bee", "2 class names"),
        ("ape,bee,cow", "`cat`"),
        ("ape,,cat", "name 1"),
        ("none.txt", "no such file"),
    ] {
        let run = place.run(&format!("evaluate d.csv --class-names {names}"));
        assert_eq!(run.code, 2, "{names}");
        assert!(run.stderr.contains(part), "{names}: {}", run.stderr);
    }
}

#[test]
fn splits_of_a_bundle_are_matched_to_each_other() {
    use std::io::Write;
    let place = Folder::new();
    // The same rows twice, with the columns of the second split in another order.
    let bundle = |swapped: [usize; 2], names: &[u8; 2]| {
        let (mut logits, mut labels) = (Vec::new(), Vec::new());
        let (mut calib, mut calib_labels) = (Vec::new(), Vec::new());
        for row in 0..80_i64 {
            let label = row % 2;
            let sure = if row % 5 == 0 {
                -1.0
            } else {
                2.0 + row as f32 / 40.0
            };
            let scores = if label == 0 { [sure, 0.0] } else { [0.0, sure] };
            calib.extend(scores.iter().flat_map(|v| v.to_le_bytes()));
            calib_labels.push(label);
            logits.extend(swapped.iter().flat_map(|&c| scores[c].to_le_bytes()));
            labels.push(swapped.iter().position(|&c| c as i64 == label).unwrap() as i64);
        }
        let arrays = [
            ("calib_logits", npy_raw("<f4", "(80, 2)", &calib)),
            ("calib_labels", npy_labels(&calib_labels)),
            ("calib_class_names", npy_raw("|S1", "(2,)", b"ab")),
            ("test_logits", npy_raw("<f4", "(80, 2)", &logits)),
            ("test_labels", npy_labels(&labels)),
            ("test_classes", npy_raw("|S1", "(2,)", names)),
        ];
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, bytes) in arrays {
            let options = zip::write::SimpleFileOptions::default();
            zip.start_file(format!("{name}.npy"), options).unwrap();
            zip.write_all(&bytes).unwrap();
        }
        zip.finish().unwrap().into_inner()
    };
    place
        .write("a.npz", bundle([0, 1], b"ab"))
        .write("b.npz", bundle([1, 0], b"ba"))
        .write("c.npz", bundle([1, 0], b"bx"));
    let compare = |file: &str| {
        let line =
            format!("compare {file} --methods vs --metrics nll,accuracy --bootstrap 0 --json");
        place.run(&line)
    };
    let metrics = |file: &str| {
        let found = compare(file).ok().json();
        let methods = found["datasets"][0]["methods"].as_array().unwrap().clone();
        methods
            .iter()
            .map(|m| m["metrics"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(metrics("b.npz"), metrics("a.npz"));
    for line in [
        "compare c.npz --methods ts",
        "curve c.npz --over calib-size --methods ts",
    ] {
        let run = place.run(line);
        assert_eq!(run.code, 2);
        assert!(
            run.stderr.contains("the split calib are `a`, `b`"),
            "{}",
            run.stderr
        );
    }
}
