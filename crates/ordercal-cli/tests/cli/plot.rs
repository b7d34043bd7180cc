//! `plot`: figures with the right numbers, and errors that leave nothing behind.

use crate::files::{BUNDLE, csv, three_classes};
use crate::harness::Folder;

fn place() -> Folder {
    let place = Folder::new();
    place.write("b.npz", BUNDLE);
    place.run("fit b.npz --method ts -o ts.safetensors").ok();
    place
        .run("fit b.npz --method diag --hidden 5 -o diag.safetensors")
        .ok();
    place
}

#[test]
fn reliability_diagrams_agree_with_evaluate() {
    let place = place();
    let line = "plot reliability b.npz --model ts.safetensors -o f.svg --bins 10 --json";
    let found = place.run(line).ok().json();
    let metrics = place
        .run("evaluate b.npz --model ts.safetensors --metrics ece --bins 10 --json")
        .ok()
        .json();
    for series in [0, 1] {
        let ece = metrics["rows"][series]["metrics"]["ece"].as_f64().unwrap();
        let error = found["series"][series]["error"].as_f64().unwrap();
        assert!((ece - error).abs() < 1e-12, "{ece} {error}");
        let bins = found["series"][series]["bins"].as_array().unwrap();
        assert_eq!(bins.len(), 10);
        let rows: u64 = bins.iter().map(|b| b["count"].as_u64().unwrap()).sum();
        assert_eq!(rows, found["n"].as_u64().unwrap());
    }
    let svg = std::fs::read_to_string(place.path("f.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("overconfident") && svg.contains("rows"));

    // Every figure, theme and format.
    for (name, line) in [
        (
            "a.png",
            "plot reliability b.npz --form classic --theme dark --scale 1",
        ),
        (
            "b.svg",
            "plot weighted b.npz --model ts.safetensors --binning equal-mass",
        ),
        ("c.svg", "plot reliability b.npz --class 3 --title Three"),
        (
            "d.png",
            "plot transform diag.safetensors ts.safetensors --data b.npz",
        ),
    ] {
        place.run(&format!("{line} -o {name} --quiet")).ok();
        let bytes = std::fs::read(place.path(name)).unwrap();
        let starts: &[u8] = if name.ends_with("png") {
            b"\x89PNG"
        } else {
            b"<svg"
        };
        assert!(bytes.starts_with(starts), "{name}");
    }
    let titled = std::fs::read_to_string(place.path("c.svg")).unwrap();
    assert!(titled.contains("<title>Three</title>"));
}

#[test]
fn transforms_are_the_functions_of_the_models() {
    let place = place();
    let line = "plot transform ts.safetensors diag.safetensors --data b.npz -o f.svg --json";
    let found = place.run(line).ok().json();
    let curves = found["curves"].as_array().unwrap();
    let names: Vec<&str> = curves.iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["identity", "ts", "diag"]);
    let points = |curve: usize| -> Vec<(f64, f64)> {
        let points = curves[curve]["points"].as_array().unwrap().iter();
        points
            .map(|p| (p[0].as_f64().unwrap(), p[1].as_f64().unwrap()))
            .collect()
    };
    // A temperature is a line through 0; a diag function increases.
    let line = points(1);
    let slope = line[0].1 / line[0].0;
    assert!(line.iter().all(|(x, y)| (y - slope * x).abs() < 1e-9));
    assert!(points(2).windows(2).all(|w| w[1].1 > w[0].1));
    let counted: u64 = found["scores"]["counts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c.as_u64().unwrap())
        .sum();
    assert!(counted > 0);
}

#[test]
fn a_simplex_stays_within_the_orders() {
    let place = Folder::new();
    place.write("b.safetensors", three_classes(300));
    place
        .run("fit b.safetensors --method oi --hidden 5 -o oi.safetensors")
        .ok();
    let line = "plot simplex oi.safetensors --data b.safetensors -o f.svg --json";
    let found = place.run(line).ok().json();
    let counts = found["counts"].as_array().unwrap();
    assert_eq!(counts.iter().map(|c| c.as_u64().unwrap()).sum::<u64>(), 300);
    for arrow in found["arrows"].as_array().unwrap() {
        let values = |end: usize| [0, 1, 2].map(|c: usize| arrow[end][c].as_f64().unwrap());
        let order = |v: [f64; 3]| {
            let mut classes = [0, 1, 2];
            classes.sort_by(|a, b| v[*b].total_cmp(&v[*a]));
            classes
        };
        assert_eq!(order(values(0)), order(values(1)), "{arrow}");
    }
    place
        .run("plot simplex oi.safetensors -o f.png --theme dark")
        .ok();
}

#[test]
fn what_cannot_be_drawn_is_refused_in_a_sentence() {
    let place = place();
    place.write("d.csv", csv(30));
    place
        .run("fit d.csv --method oi --hidden 5 -o oi.safetensors")
        .ok();
    let before = place.names();
    for (line, names) in [
        ("plot reliability b.npz -o f.jpg", ["f.jpg", ".svg or .png"]),
        ("plot reliability b.npz -o f", ["f", ".svg or .png"]),
        ("plot reliability b.npz -o no/f.svg", ["no/f.svg", ""]),
        ("plot reliability b.npz", ["--output", ""]),
        (
            "plot reliability b.npz -o f.svg --scale 3",
            ["--scale", ".png"],
        ),
        ("plot reliability b.npz -o f.png --scale 0", ["scale", "0"]),
        (
            "plot reliability b.npz -o f.png --scale 1e9",
            ["scale", "1000000000"],
        ),
        ("plot reliability b.npz -o f.svg --bins 0", ["bins", "0"]),
        (
            "plot reliability b.npz -o f.svg --class 26",
            ["class", "26"],
        ),
        (
            "plot reliability b.npz --model oi.safetensors -o f.svg",
            ["oi.safetensors", "3 classes"],
        ),
        (
            "plot reliability none.npz -o f.svg",
            ["none.npz", "no such file"],
        ),
        (
            "plot transform oi.safetensors -o f.svg",
            ["oi.safetensors", "diag or ts"],
        ),
        ("plot transform -o f.svg", ["MODEL", ""]),
        (
            "plot simplex ts.safetensors -o f.svg",
            ["ts.safetensors", "26 classes"],
        ),
        (
            "plot simplex oi.safetensors --data b.npz -o f.svg",
            ["b.npz", "b.npz has 26"],
        ),
        ("plot histogram b.npz -o f.svg", ["histogram", ""]),
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
